# SPDX-License-Identifier: Apache-2.0
"""The agent on an embedded API server: what it serves, reports, claims by itself and gives back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koord.agent.app import Agent, AgentServices
from koord.agent.endpoints import AgentEndpoints
from koord.agent.executor.claim import Claim
from koord.agent.executor.target import Target
from koord.agent.host.roots import IN_CONTAINER, HostRoots, default_roots
from koord.agent.options import AgentOptions
from koord.agent.status import agent_status
from koord.api import definitions
from koord.api.kinds.cluster import Event
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Container, Pod
from koord.api.kinds.storage import PersistentVolumeClaim
from koord.api.objects import decode_as
from koord.api.protocol import keys
from koord.api.protocol.topology import shared_pools
from koord.base.clock import VirtualClock, VirtualLoop
from koord.base.errors import KoordError
from koord.base.metrics import registry
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.errors import ApiError, TransportError
from koord.kube.events import EventRecorder
from koord.kube.patches import Patch
from koord.kube.transport.messages import Request, Response, Stream, Transport
from tests.agent.machine_tree import Group, MachineTree

NODE = "n1"
KEYS = {
    "node", "time", "ready", "dryRun", "machine", "states", "collectors", "usage", "pods",
    "strategies", "files", "failures", "unsupported", "hookProblems", "writes", "memory", "parts",
    "ignoredAnnotations", "runtime",
}  # fmt: skip


class Stage:
    """An agent and what it talks to."""

    def __init__(self, plane: EmbeddedControlPlane, folder: Path, gates: str) -> None:
        self.clock = plane.options.clock
        self.admin = Client(plane.transport(), "admin", requests_per_second=None)
        self.tree = MachineTree(folder / "machine")
        self.way = Hanging(plane.transport())
        client = Client(self.way, "koordlet", requests_per_second=None)
        self.events = EventRecorder(client, "koordlet", host=NODE, clock=self.clock)
        self.options = replace(
            AgentOptions(), node_name=NODE, pods_from="apiserver", feature_gates=gates,
            disable_query_kubelet_config=True, audit_log_dir=str(folder / "audit"),
            prediction_checkpoint_filepath=str(folder / "checkpoints"),
        )  # fmt: skip
        self.client = client

    async def prepare(self) -> None:
        names = [name async for name, _ in installing.install(self.admin, definitions.crds())]
        await installing.wait_established(self.admin, names, 60)
        await self.admin.create(Node(metadata=ObjectMeta(name=NODE)))

    def agent(self) -> Agent:
        around = AgentServices(self.client, self.events, None, registry(), self.clock)
        return Agent(self.options, self.tree.machine(), around)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Agent]:
        """An agent that is ready; stopped at the end."""
        agent = self.agent()
        tasks = [asyncio.create_task(agent.run()), asyncio.create_task(self.events.run())]
        try:
            await agent.ready()
            yield agent
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def on_stage(folder: Path, story: Callable[[Stage], Awaitable[None]], gates: str = "") -> None:
    clock = VirtualClock(1_900_000_000.0)

    async def whole() -> None:
        async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as plane:
            stage = Stage(plane, folder, gates)
            await stage.prepare()
            await story(stage)

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        runner.run(whole())


class Asked:
    """What a handler looks at of a request."""

    def __init__(self, accept: str = "", **query: str) -> None:
        self.query, self.headers = query, {"Accept": accept}


def test_roots_in_a_container_unless_told_otherwise() -> None:
    assert default_roots({}) == IN_CONTAINER
    assert default_roots({"agent_mode": "hostMode"}) == HostRoots()
    told = replace(AgentOptions(), sys_fs_root_dir="/other/", state_dir="/")
    found = told.roots(default_roots({}))
    assert (found.cgroup, found.sys_fs, found.state) == ("/host-cgroup", "/other", "/")
    assert found.resctrl == "/other/resctrl"


def test_without_a_kubelet_pods_have_to_come_from_elsewhere(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        stage.options = replace(stage.options, pods_from="kubelet")
        with pytest.raises(KoordError, match="--pods-from: got 'kubelet', expected apiserver"):
            stage.agent()

    on_stage(tmp_path, story)


def test_what_is_served_before_and_after(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        endpoints = AgentEndpoints(registry(), stage.clock, "127.0.0.1", 0)
        asked: Any = Asked()
        assert endpoints._check() == "strategies and hooks do not run yet"
        assert (await endpoints._status(asked)).status == 503
        async with stage.running() as agent:
            endpoints.attach(agent)
            assert endpoints._check() is None
            answer = await endpoints._status(asked)
            assert isinstance(answer.body, bytes)
            document = json.loads(answer.body)
            assert set(document) == KEYS
            assert (document["node"], document["ready"]) == (NODE, True)
            assert document["states"]["node"]["seen"]
            assert (await endpoints._events(asked)).status == 404

    on_stage(tmp_path, story)


def test_a_pod_that_binds_itself_to_cpus_gets_an_event_and_a_line_in_status(tmp_path: Path) -> None:
    key = "scheduling.koordinator.sh/resource-status"

    async def story(stage: Stage) -> None:
        async with stage.running() as agent:
            made = Pod(metadata=ObjectMeta(name="p", namespace="default"))
            made.metadata.labels["koordinator.sh/qosClass"] = "LS"
            made.metadata.annotations[key] = '{"cpuset":"2-3"}'
            made.spec.node_name = NODE
            made.spec.containers = [Container(name="main", image="i")]
            await stage.admin.create(made)
            await _live(stage, 30)
            (seen,) = agent.store.snapshot().pods.value
            assert key not in seen.pod.metadata.annotations
            (line,) = agent_status(agent, stage.clock)["ignoredAnnotations"]
            assert (line["pod"], line["key"]) == ("default/p", key)
            reported = agent.store.snapshot().topology.value
            assert reported is not None
            pools = shared_pools(reported)
            assert [pool.cpuset for pool in pools] == ["0-1", "2-3"]
        (event,) = (await stage.admin.list(Event, namespace="default")).items
        assert event.reason == "AnnotationIgnored"
        assert "the node's policy binds no others" in event.message

    on_stage(tmp_path, story)


def test_series_are_served_whole_and_in_two_halves(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        told = registry()
        endpoints = AgentEndpoints(told, stage.clock, "127.0.0.1", 0)
        await stage.admin.create(NodeMetric(metadata=ObjectMeta(name=NODE)))
        around = AgentServices(stage.client, stage.events, None, told, stage.clock)
        agent = Agent(stage.options, stage.tree.machine(), around)
        endpoints.attach(agent)
        task = asyncio.create_task(agent.run())
        await agent.ready()
        await _live(stage, 65)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        asked: Any = Asked()
        inside = (await endpoints._internal(asked)).body
        outside = (await endpoints._external(asked)).body
        whole = (await endpoints._metrics(asked)).body
        assert sorted((inside + outside).splitlines()) == sorted(whole.splitlines())
        assert b"koordlet_pod_psi" in outside
        assert b"koordlet_start_time{" in inside
        name = b'koordlet_node_metric_node_usage{node="n1",resource="cpu",unit="core"} '
        assert name in inside
        assert b'koordlet_node_metric_numa_node_usage{node="n1",numa_node_id="1",' in inside

    on_stage(tmp_path, story, "NodeMetricPromMetrics=true")


def test_events_are_paged_newest_first(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        endpoints = AgentEndpoints(registry(), stage.clock, "127.0.0.1", 0)
        agent = stage.agent()
        endpoints.attach(agent)
        for number in range(5):
            agent.audit.record(
                1, agent.owners.subject(Target("cpu.shares", "")), "Written", f"m{number}"
            )
        seen: list[str] = []
        token = ""
        for _ in range(3):
            query = {"size": "2"} | ({"pageToken": token} if token else {})
            asked: Any = Asked("application/json", **query)
            page = await endpoints._events(asked)
            assert isinstance(page.body, bytes)
            document = json.loads(page.body)
            seen += [event["message"] for event in document["Events"]]
            token = document["NextPageToken"]
        assert (seen, token) == (["m4", "m3", "m2", "m1", "m0"], "")
        unknown: Any = Asked(pageToken="none")
        assert (await endpoints._events(unknown)).status == 409

    on_stage(tmp_path, story, "AuditEventsHTTPHandler=true,AuditEvents=true")


def test_a_node_metric_is_reported_into_and_never_made(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        async with stage.running() as agent:
            await _live(stage, 70)
            with pytest.raises(ApiError, match="not found"):
                await stage.admin.get(NodeMetric, NODE)
            assert agent.metric.last is not None
            await stage.admin.create(NodeMetric(metadata=ObjectMeta(name=NODE)))
            await _live(stage, 130)
            first = (await stage.admin.get(NodeMetric, NODE)).status.update_time
            assert first is not None
            left = {"metadata": {"annotations": {keys.MANAGED: "false"}}}
            await stage.admin.patch(NodeMetric, NODE, Patch.merge(left))
            await _live(stage, 190)
            assert (await stage.admin.get(NodeMetric, NODE)).status.update_time == first
            told = await stage.admin.request(Request("GET", "/api/v1/events"))
            reasons = [each["reason"] for each in json.loads(told.body)["items"]]
            assert reasons.count("LeftToAuthor") == 1

    on_stage(tmp_path, story)


async def _live(stage: Stage, seconds: int) -> None:
    """Counters move while time passes."""
    for _ in range(seconds // 5):
        ticks = int(stage.clock.wall_seconds() - 1_900_000_000) * 40 + 100
        stage.tree.stat([ticks] * 4)
        await asyncio.sleep(5)


def test_the_scan_for_cold_pages_is_on_while_they_are_collected(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        scan = [
            stage.tree.write(f"sys/kernel/mm/kidled/{name}", "0\n")
            for name in ("scan_period_in_seconds", "use_hierarchy")
        ]
        for directory in ("", "kubepods.slice"):
            stage.tree.group(directory, Group())
            stage.tree.write(f"sys/fs/cgroup/memory/{directory}/memory.idle_page_stats", "x\n")
        async with stage.running():
            await asyncio.sleep(1)
            assert [place.read_text().strip() for place in scan] == ["5", "1"]
        assert [place.read_text().strip() for place in scan] == ["0", "0"]

    on_stage(tmp_path, story, "ColdPageCollector=true")


def test_intervals_of_0_switch_off(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        stage.options = replace(
            stage.options, node_topology_sync_interval=0.0, collect_node_cpu_info_interval=0.0
        )
        async with stage.running() as agent:
            await asyncio.sleep(10)
            assert not {"topology", "Device"} & set(agent.supervisor.parts)
            assert "cpu-info" not in agent.advisor.collector_states
            assert agent.advisor.collector_states["node"].good_rounds > 5

    on_stage(tmp_path, story, "Accelerators=true")


def test_an_upgrade_leaves_files_to_the_next_agent(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        scan = stage.tree.write("sys/kernel/mm/kidled/scan_period_in_seconds", "0\n")
        stage.tree.write("sys/kernel/mm/kidled/use_hierarchy", "0\n")
        for directory in ("", "kubepods.slice"):
            stage.tree.group(directory, Group())
            stage.tree.write(f"sys/fs/cgroup/memory/{directory}/memory.idle_page_stats", "x\n")
        stage.options = replace(stage.options, restore_on_exit=False)
        async with stage.running():
            await asyncio.sleep(1)
        assert scan.read_text().strip() == "5"
        stage.options = replace(stage.options, restore_on_exit=True)
        async with stage.running():
            # What nobody claims is given back after two minutes; this is claimed again.
            await asyncio.sleep(130)
            assert scan.read_text().strip() == "5"
        assert scan.read_text().strip() == "0"

    on_stage(tmp_path, story, "ColdPageCollector=true")


def test_the_agent_gives_back_what_the_kernel_starts_with(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        place = stage.tree.write("sys/fs/cgroup/memory/kubepods.slice/memory.min", "8192\n")
        executor = stage.agent().executor
        for claims in ([Claim("memory.min", "kubepods.slice", 4096, "r")], []):
            executor.state("someone", "node", claims)
            executor.settle()
        assert place.read_text().strip() == "0"

    on_stage(tmp_path, story)


class Hanging:
    """A way to the API server on which writes get no answer for a while.

    Attributes:
        hangs: whether they do; the connection says nothing, as one does behind a dead router.
    """

    def __init__(self, inner: Transport) -> None:
        self._inner, self.hangs = inner, False

    async def send(self, request: Request) -> Response:
        if self.hangs and request.method != "GET":
            await asyncio.sleep(request.timeout_seconds or 0)
            raise TransportError("no answer in time")
        return await self._inner.send(request)

    async def open(self, request: Request) -> Stream:
        return await self._inner.open(request)

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.parametrize("outage", [20, 70, 150])
def test_a_report_is_fresh_soon_after_an_outage(tmp_path: Path, outage: int) -> None:
    async def story(stage: Stage) -> None:
        await stage.admin.create(NodeMetric(metadata=ObjectMeta(name=NODE)))
        async with stage.running():
            await _live(stage, 130)
            stage.way.hangs = True
            await _live(stage, outage)
            stage.way.hangs = False
            # One try that still hangs, and ten seconds to the next; or a whole interval.
            await _live(stage, 25 if outage >= 70 else 85)
            status = (await stage.admin.get(NodeMetric, NODE)).status
            assert status.update_time is not None
            age = stage.clock.wall_seconds() - status.update_time.timestamp()
            assert age <= (25 if outage >= 70 else 85)

    on_stage(tmp_path, story)


def test_claims_are_watched_only_for_limits_on_their_volumes(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        assert stage.agent().volumes is not None
        document = {
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "pv-7",
                     "resources": {"requests": {"storage": "1Gi"}}},
        }  # fmt: skip
        await stage.admin.create(decode_as(document, PersistentVolumeClaim))
        async with stage.running() as agent:
            await asyncio.sleep(1)
            assert agent.volumes is not None
            assert agent.volumes.volume_of("default", "data") == "pv-7"
            assert agent.volumes.volume_of("default", "other") == ""
            stage.options = replace(stage.options, feature_gates="")
        assert stage.agent().volumes is None

    on_stage(tmp_path, story, "BlkIOReconcile=true")
