# SPDX-License-Identifier: Apache-2.0
"""The manager's arithmetic against the plain model, a node each, and against itself.

The model takes seconds for what the columns do in milliseconds, so it is timed on some of the
nodes; both sides count by node.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import cycle

from benchmarks.conftest import Record
from benchmarks.manager import (
    NODES,
    NOW,
    PODS_A_NODE,
    a_metric,
    columns,
    configured,
    cpu_seconds,
    filled,
    plain,
    work_out,
)
from benchmarks.manager_path import Cluster
from benchmarks.ratio import Ratio
from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache
from tests.models import overcommit as model

ROUNDS = 3
SAMPLE = 40
SMALL = 1_000


def _least(ours: Callable[[], float], reference: Callable[[], float]) -> Ratio:
    gc.collect()
    pairs = [(ours(), reference()) for _ in range(ROUNDS)]
    return Ratio(min(mine for mine, _ in pairs), min(theirs for _, theirs in pairs))


def _model(nodes: list[model.Node]) -> None:
    for node in nodes:
        model.batch(node)
        model.mid(node)
        model.zone_batch(node)


def test_all_offers_from_cold_columns(record: Record) -> None:
    cluster = columns(NODES)
    some = plain(columns(SAMPLE))
    ratio = _least(
        lambda: cpu_seconds(lambda: work_out(cluster)) / NODES,
        lambda: cpu_seconds(lambda: _model(some)) / SAMPLE,
    )
    record(f"overcommit: {NODES} nodes, {NODES * PODS_A_NODE} pods from columns", ratio, 40)


def test_a_strategy_for_every_node(record: Record) -> None:
    """With what it takes to find each node's strategy."""
    ledger, _ = filled(SMALL)
    ledger.recompute(NOW)
    some = plain(columns(SAMPLE))
    turns = iter(range(40, 60))

    def ours() -> float:
        news = configured(next(turns))

        def work() -> None:
            ledger.set_strategies(news.colocation)
            assert len(ledger.recompute(NOW)) == SMALL

        return cpu_seconds(work) / SMALL

    ratio = _least(ours, lambda: cpu_seconds(lambda: _model(some)) / SAMPLE)
    record("overcommit: a strategy change on every node", ratio, 15)


def test_a_change_that_moves_every_node_too_little_to_be_written(record: Record) -> None:
    """From the ConfigMap's event to the decision that nothing is due, through the controllers."""
    ratio = _path([{"reclaim": 61}, {"reclaim": 62}], {})
    record("manager: a ConfigMap change, no node due", ratio, 40)


def test_a_change_that_every_node_and_node_slo_is_written_for(record: Record) -> None:
    """The same, to the last patch of node, zones and NodeSLO, without what the API does."""
    changes = [{"reclaim": 30, "burst": 400}, {"reclaim": 60, "burst": 500}]
    every = dict.fromkeys(("Node", "NodeResourceTopology", "NodeSLO"), SMALL)
    record("manager: a ConfigMap change, three patches a node", _path(changes, every), 10)


def _path(changes: list[dict[str, int]], writes: dict[str, int]) -> Ratio:
    """The whole path a node, against the plain model of offers alone."""
    cluster, turns = Cluster(SMALL), cycle(changes)
    some = plain(columns(SAMPLE))

    def ours() -> float:
        took = sum(cluster.configure(**next(turns)))
        assert cluster.api.writes == writes
        cluster.echo()
        return took / SMALL

    try:
        return _least(ours, lambda: cpu_seconds(lambda: _model(some)) / SAMPLE)
    finally:
        cluster.close()


def test_cost_is_that_of_what_changed(record: Record) -> None:
    """One node in a hundred has reported, against every node."""
    ledger, _ = filled(SMALL)
    ledger.recompute(NOW)
    everyone, turns = Turn(ledger, SMALL), Turn(ledger, SMALL // 100)
    record("overcommit: recompute, 1 % of nodes changed", _least(turns, everyone), 4)


class Turn:
    """Reports of some nodes, then the recompute that is timed."""

    seconds = 0

    def __init__(self, ledger: OvercommitCache, nodes: int) -> None:
        self.ledger, self.nodes = ledger, nodes

    def __call__(self) -> float:
        Turn.seconds += 1
        for number in range(self.nodes):
            self.ledger.put_metric(a_metric(number, PODS_A_NODE, Turn.seconds))
        return cpu_seconds(lambda: self.ledger.recompute(NOW))
