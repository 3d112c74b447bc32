# SPDX-License-Identifier: Apache-2.0
"""Jobs as wholes: all or nothing, NonStrict, groups, order, failed bindings."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.codec import convert
from koord.api.kinds.reservation import Reservation
from koord.controllers.scheduler.framework.cycle import Cycle, PendingPatch
from koord.controllers.scheduler.framework.rejection import Rejection, Wait
from tests.controllers.scheduler.plugins.coscheduling.gangs import (
    GangWorld,
    grouped,
    member,
    pod_group,
    running,
    settle,
)
from tests.controllers.scheduler.pods import node, pod

HEAD = "0/1 nodes are available: "


@running
async def test_a_gang_goes_when_all_are_there_and_fit() -> None:
    world = GangWorld({"a": "4", "b": "4"})
    world.put(member("p0", least=3))
    await world.schedule()
    assert world.where() == {}
    world.put(member("p1", least=3))
    await world.schedule()
    assert world.where() == {}
    world.put(member("p2", least=3))
    await world.schedule()
    assert world.where() == {"p0": "a", "p1": "b", "p2": "a"}
    assert len(world.said("p1", "Scheduled")) == 1
    assert not world.scheduler.queue.in_flight()


@running
async def test_one_that_fits_nowhere_keeps_the_others_from_going() -> None:
    world = GangWorld({"a": "5"})
    world.put(*(member(f"p{i}", least=3) for i in range(3)))
    await world.schedule()
    assert world.where() == {}
    assert (world.world.table.requested == 0).all()
    why = HEAD + "1 Insufficient cpu."
    assert world.said("p2") == [why]
    told = (
        f'GangGroup "default/g" gets rejected due to member Pod "default/p2" is unschedulable with'
        f' reason "{why}", alreadyWaitForBound: 2'
    )
    assert world.said("p0") == world.said("p1") == [f"{HEAD}{told}."]
    gang = world.plugin.gangs.gangs["default/g"]
    assert [m.state.name for m in gang.members.values()] == ["PENDING"] * 3


@running
async def test_a_gang_that_failed_goes_once_there_is_room() -> None:
    world = GangWorld({"a": "5"})
    world.put(*(member(f"p{i}", least=3) for i in range(3)))
    await world.schedule()
    world.put(node("b", cpu="2"))
    world.clock.advance(1.5)
    await world.schedule()
    assert world.where() == {"p0": "a", "p1": "a", "p2": "b"}


@running
async def test_more_pods_than_needed_go_as_far_as_there_is_room() -> None:
    world = GangWorld({"a": "5"})
    world.put(*(member(f"p{i}", least=2) for i in range(4)))
    await world.schedule()
    assert world.where() == {"p0": "a", "p1": "a"}
    assert world.said("p2") == world.said("p3") == [HEAD + "1 Insufficient cpu."]
    world.confirm()
    world.put(node("b", cpu="2"))
    world.clock.advance(1.5)
    await world.schedule()
    assert world.where() == {"p0": "a", "p1": "a", "p2": "b"}


@running
async def test_what_is_needed_goes_before_what_is_not() -> None:
    groups = {"groups": '["default/g","default/h"]'}
    world = GangWorld({"a": "8"})
    world.put(*(member(f"g{i}", least=1, notes=groups) for i in range(4)))
    await world.schedule()
    assert world.where() == {}
    world.put(*(member(f"h{i}", gang="h", least=2, notes=groups) for i in range(2)))
    await world.schedule()
    assert world.where() == {"g0": "a", "g1": "a", "h0": "a", "h1": "a"}


@running
async def test_a_group_goes_together_or_not_at_all() -> None:
    groups = {"groups": '["default/h","default/g"]'}
    world = GangWorld({"a": "5"})
    world.put(*(member(f"g{i}", least=2, notes=groups) for i in range(2)))
    world.put(member("h0", gang="h", least=1, notes=groups))
    await world.schedule()
    assert world.where() == {}
    assert 'GangGroup "default/g,default/h" gets rejected' in world.said("g0")[0]


@running
async def test_non_strict_keeps_what_it_found_and_tries_only_the_rest() -> None:
    world = GangWorld({"a": "5"})
    world.put(*(member(f"p{i}", least=3, notes={"mode": "NonStrict"}) for i in range(3)))
    await world.schedule()
    assert world.where() == {"p0": "a", "p1": "a"}
    assert sorted(world.scheduler.loop.binder.waiting) == ["uid-p0", "uid-p1"]
    assert world.said("p2") == [HEAD + "1 Insufficient cpu."]
    assert world.said("p0") == []
    world.put(node("b", cpu="2"))
    world.clock.advance(1.5)
    await world.schedule()
    assert world.where() == {"p0": "a", "p1": "a", "p2": "b"}
    assert not world.scheduler.loop.binder.waiting
    assert [len(world.said(f"p{i}", "Scheduled")) for i in range(3)] == [1, 1, 1]


@running
async def test_order_is_by_index_then_by_name() -> None:
    world = GangWorld({"a": "2", "b": "2", "c": "2"})
    index = "network-topology-index"
    world.put(
        member("p0", least=3),
        member("p1", least=3, notes={index: "7"}),
        member("p2", least=3, notes={index: "-4"}),
        member("p3", least=3, notes={index: "0"}),
    )
    await world.schedule()
    # Four pods, room for three: p3 and p1 have a place, of the others p0 is the first by name.
    assert world.where() == {"p0": "c", "p1": "b", "p3": "a"}


@running
async def test_a_gang_of_a_pod_group_waits_for_it() -> None:
    world = GangWorld({"a": "8"})
    world.put(grouped("p0"), grouped("p1"))
    await world.schedule()
    assert world.where() == {}
    gate = world.scheduler.queue.get("uid-p0")
    assert gate is not None
    reason: Any = gate.gate_reason
    assert reason.text == (
        "gang has not init, gangName: default/g, podName: default/p0: "
        "there is no PodGroup default/g"
    )
    world.put(pod_group(least=2))
    await world.schedule()
    assert world.where() == {"p0": "a", "p1": "a"}


TOGETHER = {"groups": '["default/g","default/h"]'}
SHORT = (
    "gangGroup [default/g default/h] basic check: memberGangs [default/g default/h] child pod not"
    " collect enough, current gang: default/g, podName: default/g0"
)


@pytest.mark.parametrize("restarted", [False, True])
def test_gangs_that_are_grouped_later_wait_for_each_other(restarted: bool) -> None:
    """Two PodGroups, first without groups; then both name both, and only then pods come."""

    @running
    async def run() -> None:
        world = GangWorld({"a": "8"})
        world.put(pod_group("g"), pod_group("h"))
        world.put(pod_group("g", notes=TOGETHER), pod_group("h", notes=TOGETHER))
        world.put(grouped("g0"), grouped("g1"))
        if restarted:
            world = GangWorld({"a": "8"})
            world.put(pod_group("g", notes=TOGETHER), pod_group("h", notes=TOGETHER))
            world.put(grouped("g0"), grouped("g1"))
        await world.schedule()
        assert world.where() == {}
        gate = world.scheduler.queue.get("uid-g0")
        assert gate is not None
        reason: Any = gate.gate_reason
        assert reason.text == SHORT
        world.put(grouped("h0", "h"), grouped("h1", "h"))
        await world.schedule()
        assert world.where() == {"g0": "a", "g1": "a", "h0": "a", "h1": "a"}

    run()


@running
async def test_gangs_that_are_parted_need_not_wait_any_more() -> None:
    world = GangWorld({"a": "8"})
    world.put(pod_group("g", notes=TOGETHER), pod_group("h", notes=TOGETHER))
    world.put(grouped("g0"), grouped("g1"), grouped("h0", "h"))
    await world.schedule()
    assert world.where() == {}
    world.put(pod_group("g"))
    await world.schedule()
    assert world.where() == {"g0": "a", "g1": "a"}


@running
async def test_pods_that_hold_nodes_for_a_group_go_once_they_are_parted_from_it() -> None:
    """They wait on Permit, NonStrict, for a pod of the other gang that fits nowhere."""
    world = GangWorld({"a": "4"})
    notes = {**TOGETHER, "mode": "NonStrict"}
    world.put(pod_group("g", notes=notes), pod_group("h", least=1, notes=notes))
    world.put(grouped("g0"), grouped("g1"), grouped("h0", "h", cpu="9"))
    await world.schedule()
    assert sorted(world.scheduler.loop.binder.waiting) == ["uid-g0", "uid-g1"]
    world.put(pod_group("g", notes={"mode": "NonStrict"}))
    await settle()
    assert not world.scheduler.loop.binder.waiting
    assert [len(world.said(name, "Scheduled")) for name in ("g0", "g1", "h0")] == [1, 1, 0]


@running
async def test_pods_that_hold_nodes_go_once_fewer_are_asked_for() -> None:
    world = GangWorld({"a": "4"})
    world.put(pod_group("g", least=3, notes={"mode": "NonStrict"}))
    world.put(*(grouped(f"g{i}") for i in range(3)))
    await world.schedule()
    assert sorted(world.scheduler.loop.binder.waiting) == ["uid-g0", "uid-g1"]
    world.put(pod_group("g", least=2, notes={"mode": "NonStrict"}))
    await settle()
    assert not world.scheduler.loop.binder.waiting


async def held_back(door: Door | None = None) -> GangWorld:
    """y0 of tenant b waits on Permit for z0 of b, which fits nowhere."""
    world = GangWorld({"a": "8"}, more={"permit": [door]} if door else None)
    b = {"namespace": "b"}
    notes = {"groups": '["b/y","b/z"]', "mode": "NonStrict"}
    world.put(*(pod_group(name, 1, metadata=b, notes=notes) for name in ("y", "z")))
    world.put(grouped("y0", "y", **b), grouped("z0", "z", cpu="9", **b))
    await world.schedule()
    assert list(world.scheduler.loop.binder.waiting) == ["uid-y0"]
    return world


@running
async def test_a_gang_that_lists_another_does_not_let_its_pods_go() -> None:
    world = await held_back()
    world.put(pod_group("x", 1, metadata={"namespace": "a"}, notes={"groups": '["b/y"]'}))
    world.put(grouped("x0", "x", namespace="a"))
    await world.schedule()
    assert list(world.scheduler.loop.binder.waiting) == ["uid-y0"]
    assert [len(world.said(name, "Scheduled")) for name in ("x0", "y0")] == [1, 0]


@running
async def test_a_gang_that_lists_another_does_not_take_its_nodes_away() -> None:
    world = await held_back(Door(None, Wait("Door", 100.0)))
    world.put(pod_group("x", 1, metadata={"namespace": "a"}, notes={"groups": '["b/y"]'}))
    world.put(grouped("x0", "x", namespace="a"))
    await world.schedule()
    assert list(world.scheduler.loop.binder.waiting) == ["uid-y0", "uid-x0"]
    world.world.reject("uid-x0", Rejection("Door", ("no",)))
    await settle()
    assert list(world.scheduler.loop.binder.waiting) == ["uid-y0"]


class Door:
    """A Permit plugin of somebody else's."""

    name = "Door"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def permit(self, cycle: Any, row: int) -> Any:
        return self.answers.pop(0) if self.answers else None

    def events(self) -> list[Any]:
        return []


@running
async def test_another_plugins_permit_counts_for_the_whole_gang() -> None:
    door = Door(None, Rejection("Door", ("closed",)))
    world = GangWorld({"a": "8"}, more={"permit": [door]})
    world.put(member("p0"), member("p1"))
    await world.schedule()
    assert world.where() == {}
    assert world.said("p1") == [HEAD + "1 closed."]
    assert "1 closed." in world.said("p0")[0]


@running
async def test_a_pod_that_waits_for_another_plugin_takes_the_waiting_with_it() -> None:
    door = Door(Wait("Door", 100.0), Wait("Door", 100.0))
    world = GangWorld({"a": "8"}, more={"permit": [door]})
    world.put(member("p0"), member("p1"))
    await world.schedule()
    assert world.where() == {"p0": "a", "p1": "a"}
    world.world.reject("uid-p0", Rejection("Door", ("no",)))
    for _ in range(3):
        await world.schedule()
    assert world.said("p1") == ['Gang "default/g" gets rejected due to Pod "p0" in Unreserve']


@running
async def test_a_plain_pod_is_no_affair_of_gangs() -> None:
    world = GangWorld({"a": "8"})
    world.put(pod("p", cpu="2"))
    await world.schedule()
    assert world.where() == {"p": "a"}


class Gate:
    """Scheduling gates."""

    name = "Gate"

    def pre_enqueue(self, pod: Any) -> Rejection | None:
        gated = pod.pod.spec.scheduling_gates
        return Rejection("Gate", ("gated",), unresolvable=True) if gated else None

    def events(self) -> list[Any]:
        return []


@running
async def test_gated_pods_are_not_dragged_along() -> None:
    world = GangWorld({"a": "8"}, more={"preEnqueue": [Gate()]})
    gated = member("p1", schedulingGates=[{"name": "later"}])
    world.put(member("p0"), gated)
    await world.schedule()
    assert world.where() == {}
    text = 'GangGroup "default/g" waits for 1 more pods that can be scheduled'
    assert world.said("p0") == [f"{HEAD}{text}."]


class Cut:
    """A Bind plugin that fails for some pods, once."""

    name = "Cut"

    def __init__(self, *names: str) -> None:
        self.names = set(names)
        self.bound: list[str] = []

    async def bind(self, cycle: Any, node: str) -> bool:
        name = cycle.pod.pod.metadata.name
        if name in self.names:
            self.names.discard(name)
            raise OSError("cut")
        self.bound.append(name)
        return True

    def events(self) -> list[Any]:
        return []


@running
async def test_if_a_binding_fails_the_rest_is_released_and_planned_again() -> None:
    cut = Cut("p1")
    world = GangWorld({"a": "8"}, more={"bind": [cut]})
    world.put(*(member(f"p{i}", least=3, notes={"match-policy": "only-waiting"}) for i in range(3)))
    await world.schedule()
    assert cut.bound == ["p0"]
    assert world.where() == {"p0": "a"}
    assert world.said("p1") == ["cut"]
    assert world.said("p2") == ["another pod of the job failed: cut"]
    world.confirm()
    world.clock.advance(2.0)
    await world.schedule()
    assert cut.bound == ["p0", "p1", "p2"]
    world.confirm()
    group = world.plugin.gangs.gangs["default/g"].group
    assert group is not None
    assert not group.round


@running
async def test_what_is_missing_of_a_broken_round_goes_together_too() -> None:
    cut = Cut("p1")
    world = GangWorld({"a": "6"}, more={"bind": [cut]})
    world.put(*(member(f"p{i}", least=3, notes={"match-policy": "only-waiting"}) for i in range(3)))
    await world.schedule()
    assert world.where() == {"p0": "a"}
    world.put(pod("thief", cpu="2"))
    await world.schedule()
    world.confirm()
    world.clock.advance(2.0)
    await world.schedule()
    assert world.where() == {"p0": "a", "thief": "a"}


@running
async def test_once_satisfied_means_a_whole_round() -> None:
    cut = Cut("p1")
    world = GangWorld({"a": "6"}, more={"bind": [cut]})
    world.put(*(member(f"p{i}", least=3) for i in range(3)))
    await world.schedule()
    world.put(pod("thief", cpu="2"))
    await world.schedule()
    world.confirm()
    world.clock.advance(2.0)
    await world.schedule()
    assert world.where() == {"p0": "a", "thief": "a"}
    # One that goes for good is not waited for.
    world.remove(member("p2"))
    world.clock.advance(400.0)
    await world.schedule()
    assert world.where() == {"p0": "a", "p1": "a", "thief": "a"}


@running
async def test_what_is_bound_together_is_marked() -> None:
    cut = Cut()
    world = GangWorld({"a": "8"}, more={"bind": [cut]})
    world.put(*(member(f"p{i}", least=2) for i in range(3)))
    world.scheduler.loop.schedule(5.0)
    marked = PendingPatch()
    info = world.world.pod("uid-p0")
    assert info is not None
    await world.plugin.pre_bind(Cycle(info, world.world.table), 0, marked)
    prefixes = ("internal.scheduling.koordinator.sh/", "scheduling.koordinator.sh/")
    assert marked.annotations == {
        f"{prefix}{key}": value
        for prefix in prefixes
        for key, value in (("bind-gang-group-id", "default/g"), ("bind-gang-member-count", "3"))
    }
    await settle()
    world.confirm()
    world.put(member("p9"))
    world.scheduler.loop.schedule(5.0)
    alone = PendingPatch()
    info = world.world.pod("uid-p9")
    assert info is not None
    await world.plugin.pre_bind(Cycle(info, world.world.table), 0, alone)
    assert not alone
    await settle()


class Quota:
    """Lets nobody run."""

    name = "Quota"

    def __init__(self, unresolvable: bool) -> None:
        self.unresolvable = unresolvable
        self.asked: list[int] = []

    def admit(self, pods: Any) -> Rejection | None:
        self.asked.append(len(pods))
        return Rejection(self.name, ("no such quota",), unresolvable=self.unresolvable)

    def pre_filter(self, cycle: Any) -> Rejection | None:
        return None

    def events(self) -> list[Any]:
        return []


@running
async def test_quotas_are_asked_for_those_that_need_each_other() -> None:
    quota = Quota(unresolvable=True)
    world = GangWorld({"a": "8"}, more={"preFilter": [quota]})
    world.put(*(member(f"p{i}", least=2) for i in range(3)))
    await world.schedule()
    assert quota.asked == [2]
    assert world.said("p0") == [HEAD + "no such quota."]
    assert world.where() == {}
    # What a quota has too little of is found pod by pod.
    other = GangWorld({"a": "8"}, more={"preFilter": [Quota(unresolvable=False)]})
    other.put(*(member(f"p{i}", least=2) for i in range(3)))
    await other.schedule()
    assert len(other.where()) == 3


class Broken:
    """A plugin with a fault."""

    name = "Broken"

    def reserve(self, cycle: Any, row: int) -> Rejection | None:
        if cycle.pod.pod.metadata.name == "p1":
            raise RuntimeError("boom")
        return None

    def unreserve(self, cycle: Any, row: int) -> None:
        pass

    def events(self) -> list[Any]:
        return []


@running
async def test_a_plugin_with_a_fault_leaves_nothing_held_and_nobody_lost() -> None:
    world = GangWorld({"a": "8"}, more={"reserve": [Broken()]})
    world.put(*(member(f"p{i}", least=3) for i in range(3)))
    await world.schedule()
    assert world.where() == {}
    assert (world.world.table.requested == 0).all()
    assert not world.scheduler.queue.in_flight()
    assert len(world.scheduler.queue) == 3
    assert not world.plugin.planning


@running
async def test_a_pod_that_goes_lets_another_be_tried_in_its_place() -> None:
    world = GangWorld({"a": "4"})
    pods = [member(f"p{i}", least=2, cpu="3" if i == 1 else "2") for i in range(2)]
    world.put(*pods, member("p2", least=2))
    world.put(member("big", least=2, cpu="9"))
    await world.schedule()
    assert world.where() == {"p0": "a", "p2": "a"}
    assert world.said("big") == world.said("p1") == [HEAD + "1 Insufficient cpu."]


@running
async def test_a_worker_may_want_company_that_comes_later_in_the_order() -> None:
    world = GangWorld({"a": "8"}, more={"filter": [Company()]})
    world.put(member("a-worker", labels={"role": "worker"}), member("b-master"))
    await world.schedule()
    assert world.where() == {"a-worker": "a", "b-master": "a"}


class Company:
    """Workers go where a master is."""

    name = "Company"
    depends = 127

    def applies(self, cycle: Any) -> bool:
        return True

    def generation(self, cycle: Any) -> int:
        return 0

    def filter_node(self, cycle: Any, row: int) -> Rejection | None:
        there = [each.pod.metadata.name for each in cycle.table.pods[row].values()]
        alone = "role" in cycle.shape.labels and "b-master" not in there
        return Rejection(self.name, ("lonely",)) if alone else None

    def events(self) -> list[Any]:
        return []


@running
async def test_reservations_are_members_too() -> None:
    world = GangWorld({"a": "8"})
    world.put(member("p0", least=2))
    await world.schedule()
    assert world.where() == {}
    document = {
        "metadata": {"name": "r", "uid": "uid-r"},
        "spec": {
            "template": {
                "metadata": {
                    "namespace": "default",
                    "annotations": member("x").metadata.annotations,
                },
                "spec": {"schedulerName": "koord-scheduler"},
            }
        },
    }
    reservation = convert(document, Reservation, "Reservation r")
    world.put(reservation)
    assert sorted(world.plugin.gangs.gangs["default/g"].members) == ["uid-p0", "uid-r"]
    world.remove(reservation)
    assert sorted(world.plugin.gangs.gangs["default/g"].members) == ["uid-p0"]
