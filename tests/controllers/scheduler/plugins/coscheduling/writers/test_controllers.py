# SPDX-License-Identifier: Apache-2.0
"""What the leader writes about gangs and the network: phases, counts, the tree."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from koord.api.definitions import crds
from koord.api.kinds.network_topology import ClusterNetworkTopology
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import PodGroup
from koord.base import faults
from koord.base.clock import VirtualClock
from koord.controllers.scheduler.plugins.coscheduling.writers.network_topology_controller import (
    NetworkTopologyController,
)
from koord.controllers.scheduler.plugins.coscheduling.writers.pod_group_controller import (
    PodGroupController,
    change,
    settled,
)
from koord.controllers.scheduler.plugins.coscheduling.writers.waiting_gang_controller import (
    WaitingGangController,
)
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.client import Client
from koord.kube.crds import install
from tests.controllers.scheduler.plugins.coscheduling.gangs import (
    GangWorld,
    bound,
    grouped,
    layers,
    member,
    pod_group,
)
from tests.controllers.scheduler.pods import node
from tests.kube.harness import run_virtual

NOW = 1_700_000_000.0
NOW_TEXT = "2023-11-14T22:13:20Z"
WANTED = ("podgroups.scheduling.sigs.k8s.io", "clusternetworktopologies.scheduling.koordinator.sh")


def group_in(phase: str, least: int = 2, **status: Any) -> PodGroup:
    return pod_group(least=least, status={"phase": phase, **status})


def pods_in(*phases: str, **more: Any) -> list[Pod]:
    return [grouped(f"p{i}", status={"phase": p}, **more) for i, p in enumerate(phases)]


def counts(phase: str, scheduled: int = 0, **more: Any) -> dict[str, Any]:
    return {"phase": phase, **({"scheduled": scheduled} if scheduled else {}), **more}


START = {"scheduleStartTime": NOW_TEXT}


@pytest.mark.parametrize(
    ("before", "pods", "scheduled", "expected"),
    [
        (group_in(""), pods_in("Pending", "Pending"), 0, {"phase": "Pending"}),
        (group_in("Pending"), pods_in("Pending"), 0, {}),
        (group_in("Pending", 0), pods_in("Pending"), 0, {}),
        (group_in("Pending"), pods_in("Pending", "Pending"), 0, {"phase": "PreScheduling"}),
        (group_in("PreScheduling"), [], 0, {"phase": "Pending"}),
        (group_in("PreScheduling"), pods_in("Pending"), 1, counts("Scheduling", 1, **START)),
        (
            group_in("Scheduling", scheduled=1, **START),
            pods_in("Pending", "Pending"),
            2,
            counts("Scheduled", 2),
        ),
        (group_in("Scheduling", scheduled=1, **START), pods_in("Pending"), 1, {}),
        (
            group_in("Scheduled", scheduled=2),
            pods_in("Running", "Running"),
            2,
            counts("Running", running=2),
        ),
        (
            group_in("Running", scheduled=2, running=2),
            pods_in("Running", "Failed"),
            2,
            counts("Failed", running=1, failed=1),
        ),
        (
            group_in("Running", scheduled=3, running=2),
            pods_in("Succeeded", "Succeeded", "Failed"),
            3,
            counts("Finished", running=0, succeeded=2, failed=1),
        ),
    ],
)
def test_one_phase_after_the_other(
    before: PodGroup, pods: list[Pod], scheduled: int, expected: dict[str, Any]
) -> None:
    assert change(before, pods, scheduled, NOW) == expected


def test_who_occupies_a_group() -> None:
    owners = [{"apiVersion": "v1", "kind": "Job", "name": name, "uid": name} for name in ("z", "a")]
    pods = [*pods_in("Pending"), grouped("p1")]
    assert change(group_in("Pending"), pods, 0, NOW) == {"phase": "PreScheduling"}
    pods = pods_in("Pending", "Pending", owners=owners)
    assert change(group_in("Pending"), pods, 0, NOW) == {
        "phase": "PreScheduling",
        "occupiedBy": "default/a,default/z",
    }


def test_groups_of_which_nothing_more_is_to_be_said() -> None:
    created = datetime(2026, 1, 1, tzinfo=UTC)

    def aged(hours: int, **status: Any) -> PodGroup:
        start = (created + timedelta(hours=hours)).isoformat()
        made = group_in("Scheduled", **{"scheduled": 2, "scheduleStartTime": start, **status})
        made.metadata.creation_timestamp = created
        return made

    assert settled(group_in("Finished"))
    assert settled(group_in("Failed"))
    assert settled(aged(49))
    assert not settled(aged(47))
    assert not settled(aged(49, running=1))
    assert not settled(aged(49, scheduled=1))
    assert not settled(group_in("Scheduled", scheduled=2))


async def prepared(client: Client) -> None:
    wanted = [crd for crd in crds() if crd["metadata"]["name"] in WANTED]
    assert len(wanted) == len(WANTED)
    async for _ in install(client, wanted):
        pass


def test_pod_groups_are_written_as_they_change() -> None:
    clock = VirtualClock(NOW)

    async def work() -> None:
        async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as plane:
            client = Client(plane.transport(), field_manager="koord-scheduler")
            await prepared(client)
            world = GangWorld()
            pod_groups = world.views.view(PodGroup)
            made = PodGroupController(
                world.plugin.gangs, pod_groups, world.views.view(Pod), client, clock
            )

            async def phase() -> str:
                await asyncio.sleep(1.0)
                found = await client.get(PodGroup, "g", namespace="default")
                pod_groups.put(found)
                return found.status.phase

            created = pod_group()
            created.metadata.uid = ""
            pod_groups.put(await client.create(created))
            task = asyncio.create_task(made.run())
            assert await phase() == "Pending"
            world.put(grouped("p0"), grouped("p1"))
            assert await phase() == "PreScheduling"
            assert await phase() == "Scheduling"
            world.put(*(bound(each, "a") for each in pods_in("Running", "Running")))
            # Writes that fail are tried again.
            cut = faults.FaultRule(rate=1.0, error=OSError("cut"))
            with faults.inject(faults.FaultPlan(1, {"scheduler.podgroup": cut})) as plan:
                assert await phase() == "Scheduling"
            assert plan.failed["scheduler.podgroup"] > 1
            await asyncio.sleep(10.0)
            assert await phase() == "Running"
            world.put(*(bound(each, "a") for each in pods_in("Succeeded", "Succeeded")))
            assert await phase() == "Finished"
            last = await client.get(PodGroup, "g", namespace="default")
            assert (last.status.succeeded, last.status.scheduled) == (2, 2)
            world.put(*(bound(each, "a") for each in pods_in("Failed", "Succeeded")))
            await phase()
            again = await client.get(PodGroup, "g", namespace="default")
            assert again.metadata.resource_version == last.metadata.resource_version
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run_virtual(work(), clock)


def test_the_tree_is_written_when_it_changes() -> None:
    clock = VirtualClock(NOW)

    async def work() -> None:
        async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as plane:
            client = Client(plane.transport(), field_manager="koord-scheduler")
            await prepared(client)
            world = GangWorld([node("n1", labels={"spine": "s1"})])
            made = NetworkTopologyController(world.plugin.topology, client)
            assert not await made.write()
            created = layers("spine")
            created.metadata.uid = ""
            world.put(await client.create(created))
            assert await made.write()
            found = await client.get(ClusterNetworkTopology, "default")
            names = [each.topology_info.topology_name for each in found.status.detail_status]
            assert names == ["", "s1"]
            world.put(found)
            assert not await made.write()
            world.put(node("n2", labels={"spine": "s2"}))
            assert await made.write()

    run_virtual(work(), clock)


def test_pods_of_an_incomplete_gang_are_told_once_what_is_lacking() -> None:
    world = GangWorld()
    told: list[tuple[str, str]] = []
    made = WaitingGangController(
        world.plugin.gangs, world.clock, lambda pod, why: told.append((pod.metadata.name, why))
    )
    world.put(member("p0"), member("q0", gang="q", least=1))
    assert made.report() == 0
    world.clock.advance(11.0)
    assert made.report() == 1
    assert made.report() == 0
    assert told == [
        ("p0", "gangGroup [default/g] basic check: memberGangs [default/g] child pod not collect "
         "enough, current gang: default/g, podName: default/p0")
    ]  # fmt: skip
    world.put(grouped("r0", gang="r"))
    world.clock.advance(11.0)
    assert made.report() == 1
    world.put(member("p1"))
    assert made.report() == 0
    world.remove(member("p1"))
    assert made.report() == 1


def test_pods_that_hold_a_node_are_told_once_that_they_wait_for_others() -> None:
    world = GangWorld()
    told: list[tuple[str, str]] = []
    made = WaitingGangController(
        world.plugin.gangs, world.clock, lambda pod, why: told.append((pod.metadata.name, why))
    )
    world.put(member("p0", least=3), member("p1", least=3), member("p2", least=3))
    for uid in ("p0", "p1"):
        world.plugin.gangs.reserved(next(
            each.uid for each in world.plugin.gangs.gangs["default/g"].members.values()
            if each.key == f"default/{uid}"
        ))  # fmt: skip
    world.clock.advance(11.0)
    assert made.report() == 2
    line = 'GangGroup "default/g" waits for 1 more pods that can be scheduled'
    assert told == [("p0", line), ("p1", line)]
    world.plugin.gangs.unreserved("uid-of-nobody")
    assert made.report() == 0
