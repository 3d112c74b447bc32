# SPDX-License-Identifier: Apache-2.0
"""NodeResourcesFitPlus and ScarceResourceAvoidance: worked examples, and against plain models."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from koord.base.clock import VirtualClock
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.args_koord import (
    NodeResourcesFitPlusArgs,
    ScarceResourceAvoidanceArgs,
)
from koord.controllers.scheduler.config.field_path import FieldPath
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.plugins.noderesources.fit_plus import NodeResourcesFitPlus
from koord.controllers.scheduler.plugins.noderesources.scarce_resource_avoidance import (
    ScarceResourceAvoidance,
)
from tests.controllers.scheduler.pods import node, pod
from tests.models import small_plugins as model

GPU, RDMA = "nvidia.com/gpu", "example.com/rdma"


def fresh() -> ClusterState:
    return ClusterState(LocalViews(), VirtualClock(0.0))


def fit_plus(world: ClusterState, resources: dict[str, Any]) -> NodeResourcesFitPlus:
    args = NodeResourcesFitPlusArgs.read({"resources": resources}, FieldPath("args"))
    return NodeResourcesFitPlus(args, world)


def scarce(world: ClusterState, *resources: str) -> ScarceResourceAvoidance:
    args = ScarceResourceAvoidanceArgs.read({"resources": list(resources)}, FieldPath("args"))
    return ScarceResourceAvoidance(args, world)


def place(world: ClusterState, name: str, row: int, requests: dict[str, str]) -> None:
    world.accounts.add(row, world.shapes.info(pod(name, requests=requests)))


def scores(plugin: Any, world: ClusterState, requests: dict[str, str], **more: Any) -> list[int]:
    cycle = Cycle(world.shapes.info(pod("asks", requests=requests, **more)), world.table)
    together = plugin.score(cycle, world.table.rows).tolist()
    alone = [int(plugin.score(cycle, np.array([row]))[0]) for row in range(world.table.size)]
    assert together == alone
    return alone


def test_gpus_are_packed_while_cpus_are_spread() -> None:
    world = fresh()
    plugin = fit_plus(
        world,
        {
            GPU: {"type": "MostAllocated", "weight": 2},
            "cpu": {"type": "LeastAllocated", "weight": 1},
            "memory": {"type": "LeastAllocated", "weight": 1},
        },
    )
    for name in ("busy", "empty"):
        world.table.put(node(name, cpu="96", memory="512Gi", allocatable={GPU: "8"}))
    place(world, "there", 0, {"cpu": "16", "memory": "32Gi", GPU: "4"})
    asked = {"cpu": "16", "memory": "32Gi", GPU: "2"}
    assert scores(plugin, world, asked) == [75, 56]
    assert scores(plugin, world, {RDMA: "1"}) == [100, 100], "nothing in common"


def test_overhead_counts_in_milli() -> None:
    world = fresh()
    plugin = fit_plus(world, {"cpu": {"type": "MostAllocated", "weight": 1}})
    world.table.put(node("a", cpu="1"))
    assert scores(plugin, world, {"cpu": "250m"}, overhead={"cpu": "250m"}) == [50]


def test_nothing_is_asked_without_configuration() -> None:
    world = fresh()
    cycle = Cycle(world.shapes.info(pod("p")), world.table)
    assert not fit_plus(world, {}).applies(cycle)
    packed = {GPU: {"type": "MostAllocated", "weight": 1}}
    assert not fit_plus(world, packed).applies(cycle), "the pod asks for no card"
    wants = Cycle(world.shapes.info(pod("q", requests={GPU: "1"})), world.table)
    assert fit_plus(world, packed).applies(wants)
    assert not scarce(world).applies(cycle)
    assert scarce(world, GPU).applies(cycle)


def test_nodes_with_what_is_scarce_are_for_those_who_ask() -> None:
    world = fresh()
    plugin = scarce(world, GPU)
    world.table.put(node("plain"))
    world.table.put(node("gpus", allocatable={GPU: "8"}))
    world.table.put(node("both", allocatable={GPU: "8", RDMA: "1"}))
    assert scores(plugin, world, {"cpu": "1", "memory": "1Gi"}) == [100, 0, 50]
    assert scores(plugin, world, {"cpu": "1", GPU: "1"}) == [100, 100, 100]
    assert scores(plugin, world, {}) == [100, 66, 75]


amounts = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.integers(0, 9),
        "memory": st.integers(0, 2**31),
        "ephemeral-storage": st.integers(0, 9),
        GPU: st.integers(0, 9),
        RDMA: st.integers(0, 9),
    },
)
names = st.sampled_from(["cpu", "memory", "ephemeral-storage", GPU, RDMA])
strategies = st.dictionaries(
    names, st.tuples(st.sampled_from(["MostAllocated", "LeastAllocated"]), st.integers(1, 5))
)


def text(found: dict[str, int]) -> dict[str, str]:
    return {name: str(amount) for name, amount in found.items()}


def milli(found: dict[str, int], *, counted: bool = False) -> dict[str, int]:
    """CPU in milli; with ``counted`` containers without a request count as a little."""
    least = {"cpu": 100, "memory": 200 * 1024**2} if counted else {}
    return least | {k: v * 1000 if k == "cpu" else v for k, v in found.items()}


@given(chosen=strategies, capacity=amounts, used=amounts, asked=amounts, rare=st.sets(names))
def test_scores_are_the_models(
    chosen: dict[str, tuple[str, int]],
    capacity: dict[str, int],
    used: dict[str, int],
    asked: dict[str, int],
    rare: set[str],
) -> None:
    world = fresh()
    plus = fit_plus(world, {k: {"type": t, "weight": w} for k, (t, w) in chosen.items()})
    avoid = scarce(world, *sorted(rare))
    have = {"cpu": 0, "memory": 0} | capacity
    world.table.put(node("a", allocatable=text(have)))
    place(world, "there", 0, text(used))
    expected = model.fit_plus(
        chosen, milli(asked), milli(asked, counted=True), milli(used, counted=True), milli(have)
    )
    assert scores(plus, world, text(asked)) == [expected]
    assert scores(avoid, world, text(asked)) == [model.scarce(rare, asked, have)]
