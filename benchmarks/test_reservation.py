# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.conftest import Gate
from koord.controllers.scheduler.decision.decider import Decider
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
from koord.controllers.scheduler.plugins.noderesources.fit import NodeResourcesFit
from tests.controllers.scheduler.plugins.reservation.bench import Bench, available
from tests.controllers.scheduler.pods import node, pod
from tests.models.reservation import Cluster, Held

NODES, RESERVATIONS, PODS = 1000, 400, 100
FEW = 32


def _bench(app: str) -> tuple[Bench, Decider]:
    bench = Bench(*(node(f"n{i:04}", cpu="32") for i in range(NODES)))
    owners = [{"labelSelector": {"matchLabels": {"app": app}}}]
    for i in range(RESERVATIONS):
        where = f"n{i * 2:04}"
        bench.put(available(f"r{i}", where, cpu="4", owners=owners, allocateOnce=False))
    fit = NodeResourcesFit(None, bench.world)
    plugin = bench.plugin
    plugins = ProfilePlugins(
        pre_filter=[plugin],
        filter=[fit, plugin],
        score=[(fit, 1), (plugin, 5000)],
        reserve=[plugin],
    )
    return bench, Decider(bench.table, bench.world.accounts, plugins)


def _place(bench: Bench, decider: Decider, prefix: str) -> None:
    for i in range(PODS):
        asks = bench.info(pod(f"{prefix}{i}", cpu="1m", labels={"app": "x"}))
        decision = decider.decide(asks)
        assert decider.assume(decision) is None


def test_decisions_with_reservations(gate: Gate) -> None:
    """Pods that 400 reservations on 1,000 nodes are for, beside the plain model of two pods."""
    bench, decider = _bench("x")
    offered = {"cpu": 32_000, "memory": 128 * 2**30, "pods": 110}
    model = Cluster({f"n{i:04}": dict(offered) for i in range(NODES)})
    for i in range(RESERVATIONS):
        model.held[f"r{i}"] = Held(f"r{i}", f"n{i * 2:04}", {"cpu": 4000}, "x")
    _place(bench, decider, "first")
    rounds = iter(range(1000))

    def ours() -> None:
        _place(bench, decider, f"p{next(rounds)}-")

    def plain() -> None:
        for _ in range(2):
            model.feasible({"cpu": 1}, "x", required=False)

    gate("reservations: 100 decisions, beside 2 of a plain model", ours, plain, 2.0)


def test_the_first_look_is_by_columns(gate: Gate) -> None:
    """Filter and Score of all rows, beside the same functions asked about few rows at a time."""
    bench, _ = _bench("x")
    cycle = Cycle(bench.info(pod("p", cpu="1m", labels={"app": "x"})), bench.table)
    plugin, rows = bench.plugin, np.arange(NODES)

    def look(parts: list[NDArray[np.intp]]) -> None:
        assert plugin.pre_filter(cycle) is None
        for part in parts:
            assert plugin.filter(cycle, part).all()
            plugin.score(cycle, part)

    few = [rows[start : start + FEW] for start in range(0, NODES, FEW)]
    gate(
        "reservations: a shape's first look at 1,000 nodes, beside one row after the other",
        lambda: look([rows]), lambda: look(few), 8.0,
    )  # fmt: skip


def test_pods_without_reservations(gate: Gate) -> None:
    """What it costs pods that no reservation is for."""
    bench, decider = _bench("other")
    bare = Decider(
        bench.table, bench.world.accounts, ProfilePlugins(filter=decider.plugins.filter[:1],
                                                   score=decider.plugins.score[:1])
    )  # fmt: skip
    _place(bench, decider, "a")
    _place(bench, bare, "b")
    rounds = iter(range(10_000))

    def ours() -> None:
        _place(bench, decider, f"p{next(rounds)}-")

    def without() -> None:
        _place(bench, bare, f"q{next(rounds)}-")

    gate("reservations: pods that match none, beside no plugin", ours, without, 0.6)
