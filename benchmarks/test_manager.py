# SPDX-License-Identifier: Apache-2.0
"""The manager's arithmetic against the plain model, a node each, and against itself.

The model takes seconds for what the columns do in milliseconds, so it is timed on some of the
nodes; both sides count by node.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

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
from benchmarks.ratio import Ratio
from koord.controllers.manager.overcommit.ledger import Ledger
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


def test_cost_is_that_of_what_changed(record: Record) -> None:
    """One node in a hundred has reported, against every node."""
    ledger, _ = filled(SMALL)
    ledger.recompute(NOW)
    everyone, turns = Turn(ledger, SMALL), Turn(ledger, SMALL // 100)
    record("overcommit: recompute, 1 % of nodes changed", _least(turns, everyone), 4)


class Turn:
    """Reports of some nodes, then the recompute that is timed."""

    seconds = 0

    def __init__(self, ledger: Ledger, nodes: int) -> None:
        self.ledger, self.nodes = ledger, nodes

    def __call__(self) -> float:
        Turn.seconds += 1
        for number in range(self.nodes):
            self.ledger.put_metric(a_metric(number, PODS_A_NODE, Turn.seconds))
        return cpu_seconds(lambda: self.ledger.recompute(NOW))
