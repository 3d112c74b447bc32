# SPDX-License-Identifier: Apache-2.0
"""What users write wrong ends in a condition and an event, never in an exception or a storm."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from koord.api import requests
from koord.api.codec import convert
from koord.api.kinds.device import Device
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import ElasticQuota, PodGroup
from koord.api.kinds.reservation import Reservation
from koord.api.kinds.topology import NodeResourceTopology
from koord.api.protocol import keys
from koord.base.clock import VirtualClock
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from koord.controllers.scheduler.scheduler import Scheduler
from koord.kube.events import EventRecorder
from tests.controllers.scheduler.histories import documents
from tests.controllers.scheduler.histories.cluster import History, live
from tests.controllers.scheduler.pods import node, pod
from tests.controllers.scheduler.world import Told

# Annotations and labels that some plugin of the shipped profile reads of a pod.
READ_OF_PODS = (
    keys.RESOURCE_SPEC, keys.RESOURCE_STATUS, keys.NUMA_TOPOLOGY_SPEC,
    keys.DEVICE_ALLOCATED, keys.DEVICE_ALLOCATE_HINT, keys.DEVICE_JOINT_ALLOCATE,
    keys.GPU_PARTITION_SPEC, keys.GPU_ISOLATION_PROVIDER, keys.GPU_MINORS,
    keys.LOAD_ESTIMATED_SCALING_FACTORS, keys.LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED,
    keys.RESERVATION_AFFINITY, keys.RESERVATION_ALLOCATED, keys.EXACT_MATCH_RESERVATION,
    keys.RESERVATION_IGNORED, keys.RESERVE_POD, keys.RESERVATION_NAME, keys.OPERATING_MODE,
    keys.GANG_NAME, keys.GANG_MIN_AVAILABLE, keys.GANG_GROUPS, keys.GANG_WAITING_TIME,
    keys.GANG_NETWORK_TOPOLOGY_SPEC, keys.NETWORK_TOPOLOGY_SELECTOR, keys.QUOTA_NAME,
    keys.QUOTA_TREE_ID, keys.QUOTA_PREEMPTIBLE, keys.PREEMPTION_POLICY, keys.POD_GROUP,
    keys.SCHEDULING_HINT, keys.PRIORITY,
)  # fmt: skip
EVIL = ("", "{", "[]", "-1", "1e400", '{"cpu":"1e30"}', '{"resources":{"cpu":"1e30"}}',
        '{"gpu":[{"minor":-1,"resources":{"koordinator.sh/gpu-core":"-5"}}]}',
        '{"cpuset":"99999999999-1"}', "x" * 300, "99999999999999999999")  # fmt: skip

# What must be refused by name, and not merely survived.
REFUSED = (
    keys.RESOURCE_SPEC, keys.NUMA_TOPOLOGY_SPEC, keys.DEVICE_ALLOCATE_HINT,
    keys.DEVICE_JOINT_ALLOCATE, keys.RESERVATION_AFFINITY, keys.EXACT_MATCH_RESERVATION,
    keys.SCHEDULING_HINT,
)  # fmt: skip
GPU = {"koordinator.sh/gpu": "100"}

TOO_MUCH, TOO_LITTLE = "1e30", "-1"


class Rig:
    """The shipped profile over views fed by hand, and what was logged of it."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        registry = Registry(outside=[])
        self.views, self.clock, self.told = LocalViews(), VirtualClock(1_700_000_000.0), Told()
        world = ClusterState(self.views, self.clock, None, self.told)
        self.scheduler = Scheduler(world, shipped(registry).profiles, registry)
        self.accounts, self.table = world.accounts, world.table
        self._log = caplog
        caplog.set_level(logging.WARNING)
        for name in ("a", "b"):
            self.put(node(name, allocatable={"koordinator.sh/gpu": "800"}))

    def put(self, made: Any) -> None:
        self.views.view(type(made)).put(made)

    def clear(self) -> None:
        """Deletes all pods."""
        for name in list(dict(self.views.view(Pod).items())):
            self.views.view(Pod).remove(name)

    async def go(self, seconds: float = 0.0) -> int:
        """Lets time pass second by second; how many attempts there were."""
        taken = 0
        for step in range(int(seconds) + 1):
            self.clock.advance(1.0 if step else 0.0)
            self.scheduler.queue.tick()
            taken += self.scheduler.loop.schedule(1.0, most=50)
            await asyncio.sleep(0)
        return taken

    def messages(self, name: str) -> list[str]:
        return [text for about, why, text in self.told.events
                if about == name and why == "FailedScheduling"]  # fmt: skip

    def placed(self, name: str) -> bool:
        return self.accounts.get(f"uid-{name}") is not None

    async def still_works(self) -> None:
        """Whatever came before: a plain pod is placed, and nothing was logged as a fault."""
        self.put(pod("plain", cpu="1", memory="1Gi"))
        await self.go()
        assert self.placed("plain")
        faults = [record for record in self._log.records if record.exc_info]
        assert not faults, faults[0].getMessage()


def container(quantity: str, resource: str = "cpu") -> dict[str, Any]:
    return {"name": "main", "resources": {"requests": {resource: quantity}}}


@pytest.mark.parametrize("quantity", [TOO_MUCH, TOO_LITTLE])
@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": [container("1"), {}]}, "spec.containers[1].resources.requests[cpu]"),
        ({"initContainers": [{}]}, "spec.initContainers[0].resources.requests[cpu]"),
        ({"overhead": {}}, "spec.overhead[cpu]"),
        ({"resources": {}}, "spec.resources.requests[cpu]"),
    ],
)
def test_a_request_that_cannot_be_meant_is_named(caplog, spec, field: str, quantity: str) -> None:
    def filled(value: Any) -> Any:
        return value or container(quantity)

    given = {key: [filled(each) for each in value] if isinstance(value, list) else value
             for key, value in spec.items()}  # fmt: skip
    if "overhead" in given:
        given["overhead"] = {"cpu": quantity}
    if "resources" in given:
        given["resources"] = {"requests": {"cpu": quantity}}
    expected = "0 or more" if quantity == TOO_LITTLE else "thousandths within 64 bits"

    async def run() -> None:
        rig = Rig(caplog)
        rig.put(pod("bad", **given))
        await rig.go()
        (message,) = rig.messages("bad")
        assert message.startswith(
            f"0/2 nodes are available: {field}: got {quantity}, expected {expected}."
        )
        assert "\n" not in message
        assert not rig.placed("bad")
        await rig.still_works()

    asyncio.run(run())


@pytest.mark.parametrize("resource", ["memory", "pods", "koordinator.sh/gpu-core", "x.io/y"])
def test_other_resources_are_named_too(caplog, resource: str) -> None:
    async def run() -> None:
        rig = Rig(caplog)
        rig.put(pod("bad", requests={resource: TOO_MUCH}))
        await rig.go()
        assert f"requests[{resource}]: got 1e30, expected a number" in rig.messages("bad")[0]
        await rig.still_works()

    asyncio.run(run())


def test_such_a_pod_is_not_tried_over_and_over(caplog) -> None:
    async def run() -> None:
        rig = Rig(caplog)
        for number, quantity in enumerate((TOO_MUCH, TOO_LITTLE)):
            rig.put(pod(f"bad-{number}", cpu=quantity))
        assert await rig.go() == 2
        # Nothing happens that could help: not before the five minutes after which all are tried.
        assert await rig.go(240) == 0
        assert await rig.go(120) <= 4
        # And nodes that come wake it no oftener than its backoff allows.
        taken = 0
        for number in range(60):
            rig.put(node(f"more-{number}"))
            taken += await rig.go(1)
        assert taken <= 2 * 60 / 2
        await rig.still_works()

    asyncio.run(run())


def test_a_pod_is_placed_once_its_request_is_mended(caplog) -> None:
    async def run() -> None:
        rig = Rig(caplog)
        rig.put(pod("p", cpu=TOO_MUCH))
        await rig.go()
        mended = pod("p", cpu="1")
        mended.metadata.resource_version = "2"
        rig.put(mended)
        await rig.go(330)
        assert rig.placed("p")
        await rig.still_works()

    asyncio.run(run())


def test_a_bound_pod_with_such_a_request_counts_within_bounds(caplog) -> None:
    async def run() -> None:
        rig = Rig(caplog)
        for number, quantity in enumerate((TOO_MUCH, TOO_LITTLE, "8Ei", "8Ei", "8Ei")):
            rig.put(pod(f"there-{number}", memory=quantity, nodeName="a"))
        row = rig.table.row("a")
        assert row is not None
        # 64 bits do not hold three times 8Ei: the sum must not turn round and the node look empty.
        assert rig.table.requested[1, row] == 4 * requests.MOST
        await rig.still_works()
        for number in range(5):
            rig.views.view(Pod).remove(f"default/there-{number}")
        assert rig.table.requested[1, row] in (0, 1 << 30)

    asyncio.run(run())


@pytest.mark.parametrize("key", READ_OF_PODS)
def test_malformed_annotations_and_labels_of_pods(caplog, key: str) -> None:
    async def run() -> None:
        rig = Rig(caplog)
        for number, value in enumerate(EVIL):
            for kind in ("annotations", "labels"):
                name = f"{kind}-{number}"
                meta: dict[str, Any] = {kind: {key: value}}
                rig.put(pod(name, cpu="10m", requests=GPU if number % 2 else {}, **meta))
                rig.put(pod(f"{name}-there", cpu="10m", nodeName="b", **meta))
        await rig.go(2)
        for number in range(len(EVIL)):
            for message in rig.messages(f"annotations-{number}"):
                assert "\n" not in message
        rig.clear()
        await rig.still_works()

    asyncio.run(run())


@pytest.mark.parametrize("key", REFUSED)
def test_what_cannot_be_read_is_refused_by_name(caplog, key: str) -> None:
    async def run() -> None:
        rig = Rig(caplog)
        rig.put(pod("bad", cpu="1", requests=GPU, annotations={key: "{"}))
        await rig.go()
        (message,) = rig.messages("bad")
        assert f"annotations[{key}]: got '{{', expected JSON" in message
        assert not rig.placed("bad")
        # After 1, 2, 4 and 8 seconds, then every 10.
        assert await rig.go(120) <= 15
        await rig.still_works()

    asyncio.run(run())


@pytest.mark.parametrize("key", REFUSED)
def test_on_a_server_condition_and_event_name_what_cannot_be_read(key: str) -> None:
    async def run(history: History) -> None:
        history.recorder = EventRecorder(history.client, "koord-scheduler", clock=history.clock)
        await history.restart()
        writing = asyncio.create_task(history.recorder.run())
        await history.add_node(gpus=True)
        made = documents.pod("bad", "gpus", 1, {})
        made["metadata"]["annotations"][key] = "{"
        await history.client.create(made)
        await asyncio.sleep(5.0)
        loop, field = history.app.scheduler.loop, f"annotations[{key}]: got '{{', expected JSON"
        (bad,) = await history.list("Pod")
        assert not bad["spec"].get("nodeName")
        (said,) = bad["status"]["conditions"]
        assert (said["type"], said["status"]) == ("PodScheduled", "False")
        assert field in said["message"]
        (told,) = [each for each in await history.list("Event")
                   if each["reason"] == "FailedScheduling"]  # fmt: skip
        assert told["involvedObject"]["name"] == "bad"
        assert field in told["message"]
        # Others are placed, and nothing that happens to them has it tried over and over.
        before = loop.decided
        for number in range(20):
            await history.add_pod("plain" if number % 2 else "share", 1)
            await asyncio.sleep(3.0)
            await history.delete("Pod", 1)
        await history.lose_cards(0)
        await asyncio.sleep(60.0)
        assert loop.decided - before <= 20 + 15
        others = [each for each in await history.list("Pod") if each["metadata"]["name"] != "bad"]
        assert all(each["spec"].get("nodeName") for each in others)
        assert len(await history.list("Event")) <= 20 + 2
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)

    live(run)


def objects(quantity: str) -> list[Any]:
    """Objects of other kinds with amounts that cannot be meant."""
    amounts = dict.fromkeys(
        ("cpu", "memory", "pods", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio"),
        quantity,
    )
    template = {"spec": {"containers": [{"name": "m", "resources": {"requests": amounts}}]}}
    owners = [{"labelSelector": {"matchLabels": {"a": "b"}}}]
    usage = {"nodeUsage": {"resources": amounts}}
    zone = {"name": "node-0", "type": "Node",
            "resources": [{"name": "cpu", "capacity": quantity, "allocatable": quantity,
                           "available": quantity}]}  # fmt: skip
    card = {"type": "gpu", "minor": 0, "id": "g", "health": True, "resources": amounts}
    documents: list[tuple[type, dict[str, Any]]] = [
        (Node, {"metadata": {"name": "odd"}, "status": {"allocatable": amounts}}),
        (Device, {"metadata": {"name": "a"}, "spec": {"devices": [card]}}),
        (Reservation, {"spec": {"template": template, "owners": owners, "ttl": "1h"}}),
        (Reservation, {"spec": {"template": template, "owners": owners},
                       "status": {"phase": "Available", "nodeName": "b", "allocatable": amounts,
                                  "allocated": amounts}}),
        (ElasticQuota, {"metadata": {"namespace": "default"},
                        "spec": {"min": amounts, "max": amounts}}),
        (NodeMetric, {"metadata": {"name": "b"},
                      "status": {"updateTime": "2023-11-14T22:13:20Z", "nodeMetric": usage}}),
        (NodeResourceTopology, {"metadata": {"name": "b"}, "zones": [zone],
                                "topologyPolicies": ["SingleNUMANodeContainerLevel"]}),
        (PodGroup, {"metadata": {"namespace": "default"},
                    "spec": {"minMember": -1, "scheduleTimeoutSeconds": -5}}),
    ]  # fmt: skip
    made = []
    for number, (kind, document) in enumerate(documents):
        meta = {"name": f"odd-{number}", "uid": f"odd-{number}", **document.get("metadata", {})}
        made.append(convert(document | {"metadata": meta}, kind, kind.__name__))
    return made


@pytest.mark.parametrize("quantity", [TOO_MUCH, TOO_LITTLE, "-1e30", "8Ei"])
def test_amounts_of_other_objects(caplog, quantity: str) -> None:
    async def run() -> None:
        rig = Rig(caplog)
        for made in objects(quantity):
            rig.put(made)
            rig.put(pod(f"with-{made.metadata.name}", cpu="10m", requests=GPU,
                        labels={"a": "b", keys.QUOTA_NAME: made.metadata.name}))  # fmt: skip
            await rig.go()
        for made in reversed(objects(quantity)):
            meta = made.metadata
            name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
            rig.views.view(type(made)).remove(name)
        rig.clear()
        await rig.go()
        await rig.still_works()

    asyncio.run(run())


# The amounts themselves.


@pytest.mark.parametrize(
    ("quantity", "milli", "units"),
    [("1e30", requests.MOST, requests.MOST), ("-1e30", 0, 0), ("-1", 0, 0), ("2", 2000, 2),
     ("8Ei", requests.MOST, requests.MOST)],
)  # fmt: skip
def test_amounts_stay_within_bounds(quantity: str, milli: int, units: int) -> None:
    made = pod("p", cpu=quantity, memory=quantity)
    asked = requests.requested(made)
    assert (asked.get("cpu", 0), asked.get("memory", 0)) == (milli, units)
    offered = requests.offered(node("n", cpu=quantity, memory=quantity))
    if milli == requests.MOST:
        assert offered["cpu"] < asked["cpu"]
        assert offered["memory"] < asked["memory"]


def test_many_containers_add_up_to_the_bound() -> None:
    containers = [{"name": f"c{i}", "resources": {"requests": {"memory": "8Ei"}}}
                  for i in range(3000)]  # fmt: skip
    assert requests.requested(pod("p", containers=containers))["memory"] == requests.MOST
