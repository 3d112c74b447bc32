# SPDX-License-Identifier: Apache-2.0
"""Room for a whole job at the cost of lesser pods."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from koord.api.codec import convert
from koord.api.kinds.pod import Pod
from koord.api.kinds.workloads import PodDisruptionBudget
from koord.controllers.scheduler.plugins.coscheduling.allocation.job_preemption import (
    JobPreemption,
)
from koord.controllers.scheduler.plugins.coscheduling.state.gangs import MemberState
from tests.controllers.scheduler.plugins.coscheduling.allocation.test_network_placement import (
    MUST,
    TWO,
    racks,
)
from tests.controllers.scheduler.plugins.coscheduling.gangs import (
    GangWorld,
    bound,
    layers,
    member,
    running,
    settle,
)
from tests.controllers.scheduler.pods import pod

ON = {"enable_preemption": True}


def victim(name: str, node: str, cpu: str = "2", priority: int = 0, **more: Any) -> Pod:
    return bound(pod(name, cpu=cpu, priority=priority, **more), node)


def gang(count: int, cpu: str = "2", **more: Any) -> list[Pod]:
    more = {"least": count, "priority": 10, **more}
    return [member(f"p{i}", cpu=cpu, **more) for i in range(count)]


def preempted(world: GangWorld) -> list[str]:
    return sorted(name for name, reason, _ in world.told.events if reason == "Preempted")


def promised(world: GangWorld) -> dict[str, str]:
    nominator = world.scheduler.queue.nominator
    pods = [f"p{i}" for i in range(9)]
    return {name: node for name in pods if (node := nominator.node_of(f"uid-{name}"))}


@running
async def test_all_members_get_room_and_nobody_goes_in_vain() -> None:
    world = GangWorld({"a": "4", "b": "4", "c": "4"}, ON)
    world.put(*(victim(f"v{node}{i}", node) for node in "abc" for i in range(2)))
    world.put(*gang(3))
    await world.schedule()
    assert preempted(world) == ["va0", "va1", "vb1"]
    assert promised(world) == {"p0": "a", "p1": "a", "p2": "b"}
    said = (
        "0/3 nodes are available: 3 Insufficient cpu. preempt success, alreadyWaitingForBound: 0/3"
    )
    assert world.said("p0") == [said]
    for name in ("va0", "va1", "vb1"):
        world.remove(victim(name, "a"))
    world.clock.advance(2.0)
    await world.schedule()
    assert {k: v for k, v in world.where().items() if k.startswith("p")} == promised_nodes()


def promised_nodes() -> dict[str, str]:
    return {"p0": "a", "p1": "a", "p2": "b"}


@running
async def test_members_that_fit_are_counted_in_and_keep_their_place() -> None:
    world = GangWorld({"a": "4", "b": "4"}, ON)
    world.put(*(victim(f"v{i}", "a") for i in range(2)), victim("w", "b"))
    world.put(*gang(3))
    await world.schedule()
    assert promised(world) == {"p0": "b", "p1": "a", "p2": "a"}
    assert preempted(world) == ["v0", "v1"]
    assert "alreadyWaitingForBound: 1/3" in world.said("p1")[0]


@running
async def test_a_plan_does_not_overfill_a_node() -> None:
    # One node after its victims are gone takes one member, not two.
    world = GangWorld({"a": "3", "b": "3"}, ON)
    world.put(victim("va", "a"), victim("vb", "b"))
    world.put(*gang(2))
    await world.schedule()
    assert promised(world) == {"p0": "a", "p1": "b"}
    tight = GangWorld({"a": "3"}, ON)
    tight.put(victim("va", "a"))
    tight.put(*gang(2))
    await tight.schedule()
    assert preempted(tight) == []
    assert tight.said("p0")[0].endswith("preemption: preemption not helpful")
    assert promised(tight) == {}


@running
async def test_who_must_not_go() -> None:
    for protected in (
        {"labels": {"scheduling.koordinator.sh/disable-preemptible": "true"}},
        {"labels": {"quota.scheduling.koordinator.sh/preemptible": "false"}},
        {"priority": 10},
    ):
        world = GangWorld({"a": "4"}, ON)
        world.put(victim("v", "a", cpu="4", **protected))
        world.put(*gang(2))
        await world.schedule()
        assert preempted(world) == []
        assert world.said("p0")[0].endswith("preemption: no potential victims")


@running
async def test_a_job_that_never_preempts() -> None:
    world = GangWorld({"a": "4"}, ON)
    world.put(victim("v", "a", cpu="4"))
    world.put(*gang(2, preemptionPolicy="Never"))
    await world.schedule()
    text = "preemption: not eligible due to preemptionPolicy=Never."
    assert world.said("p0")[0].endswith(text)


@running
async def test_a_job_waits_for_victims_that_are_going() -> None:
    world = GangWorld({"a": "4"}, ON)
    world.put(victim("v", "a", cpu="4"))
    world.put(*gang(2))
    await world.schedule()
    assert preempted(world) == ["v"]
    going = victim(
        "v",
        "a",
        cpu="4",
        status={
            "conditions": [
                {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
            ]
        },
    )
    from datetime import UTC, datetime

    meta = structs.replace(going.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    world.put(structs.replace(going, metadata=meta))
    world.clock.advance(400.0)
    await world.schedule()
    assert world.said("p0")[-1].endswith(
        "preemption: not eligible due to terminating pod on the nominated node."
    )
    assert preempted(world) == ["v"]


@running
async def test_budgets_are_kept_where_there_is_a_choice() -> None:
    document = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "dear"}}},
        "status": {"disruptionsAllowed": 0},
    }
    world = GangWorld({"a": "4", "b": "4"}, ON)
    world.put(convert(document, PodDisruptionBudget, "b"))
    world.put(victim("va", "a", cpu="4", labels={"app": "dear"}), victim("vb", "b", cpu="4"))
    world.put(*gang(2))
    await world.schedule()
    assert preempted(world) == ["vb"]


@running
async def test_the_cheapest_node_goes_first() -> None:
    world = GangWorld({"a": "4", "b": "4", "c": "4"}, ON)
    world.put(
        victim("va", "a", cpu="4", priority=5),
        victim("vb", "b", cpu="4", priority=3),
        victim("vc", "c", cpu="4", priority=4),
    )
    world.put(*gang(3))
    await world.schedule()
    assert preempted(world) == ["vb", "vc"]


@running
async def test_a_gang_that_must_gather_preempts_in_one_place() -> None:
    world = GangWorld(racks(TWO), {**ON, "aware_network_topology": True})
    world.put(layers("rack"))
    world.put(
        victim("va", "a1", cpu="4", priority=1),
        victim("vb", "b1", cpu="4", priority=2),
        victim("vc", "b2", cpu="4", priority=3),
    )
    world.put(*gang(4, notes=MUST))
    await world.schedule()
    assert promised(world) == {"p0": "a2", "p1": "a2", "p2": "a1", "p3": "a1"}
    assert preempted(world) == ["va"]


@running
async def test_a_bare_pod_is_a_job_of_one() -> None:
    world = GangWorld({"a": "4"}, ON)
    world.put(victim("v", "a", cpu="4"))
    world.put(pod("p0", cpu="1", priority=1))
    await world.schedule()
    assert preempted(world) == ["v"]
    assert promised(world) == {"p0": "a"}


@running
async def test_without_the_switch_nobody_goes() -> None:
    world = GangWorld({"a": "4"})
    world.put(victim("v", "a", cpu="4"))
    world.put(*gang(2))
    await world.schedule()
    assert preempted(world) == []


@given(
    st.lists(
        st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), max_size=3),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 5),
    st.integers(1, 3),
)
def test_a_plan_is_real_and_minimal_and_leaves_nothing_behind(
    nodes: list[list[tuple[int, int]]], count: int, cpu: int
) -> None:
    import asyncio

    async def run() -> None:
        world = GangWorld({f"n{i}": "6" for i in range(len(nodes))}, ON)
        sizes: dict[str, tuple[int, int, str]] = {}
        for i, pods in enumerate(nodes):
            for j, (size, priority) in enumerate(pods):
                if size + sum(s for s, _, n in sizes.values() if n == f"n{i}") <= 6:
                    sizes[f"v{i}{j}"] = (size, priority, f"n{i}")
                    world.put(victim(f"v{i}{j}", f"n{i}", str(size), priority))
        before = world.world.table.requested.copy()
        world.put(*gang(count, str(cpu), priority=2))
        await world.schedule()
        await settle()
        placed = {k: v for k, v in world.where().items() if k.startswith("p")}
        if placed:
            assert len(placed) == count
            return
        assert np.array_equal(world.world.table.requested, before)
        assert isinstance(world.plugin._preemption, JobPreemption)
        assert world.plugin.gangs.gangs["default/g"].count(MemberState.PENDING) == count
        going, plan = preempted(world), promised(world)
        room = {
            f"n{i}": sum(s for s, p, n in sizes.values() if n == f"n{i}" and p >= 2)
            for i in range(len(nodes))
        }
        possible = sum((6 - taken) // cpu for taken in room.values()) >= count
        assert bool(plan) == possible
        assert len(plan) in (0, count)
        for i in range(len(nodes)):
            name = f"n{i}"
            stay = [s for v, (s, _, n) in sizes.items() if n == name and v not in going]
            members = sum(1 for node in plan.values() if node == name)
            free = 6 - sum(stay) - members * cpu
            assert free >= 0
            spared = [s for v, (s, _, n) in sizes.items() if n == name and v in going]
            assert all(size > free for size in spared)

    asyncio.run(run())
