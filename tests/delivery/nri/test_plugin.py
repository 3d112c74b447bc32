# SPDX-License-Identifier: Apache-2.0
"""What the plugin answers to each call, with hooks, reconciler and executor behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.hook import ContainerContext, DeviceFile, HookResponse, HookStage
from koord.agent.states.pod_arrivals import PodArrivals
from koord.agent.states.pod_state import PodState
from koord.agent.states.snapshot import SnapshotPart
from koord.agent.states.state_store import StateStore
from koord.base.errors import KoordError
from koord.delivery.nri.call_log import CallLog
from koord.delivery.nri.messages import NRI
from koord.delivery.nri.plugin import PLUGIN_SERVICE, NriPlugin, PluginServices
from koord.delivery.nri.ttrpc import UNIMPLEMENTED, CallError
from koord.delivery.policy import DeliveryPolicy
from tests.agent.hooks.build import BATCH_CPU, BATCH_MEMORY, STATUS, container, pod
from tests.agent.hooks.tree_node import TreeNode
from tests.kube.harness import run_virtual

BATCH = container("main", {BATCH_CPU: "500"}, {BATCH_CPU: "500", BATCH_MEMORY: "1Gi"})


class Setting:
    """A plugin, and all that it asks."""

    def __init__(self, folder: Path, *extra: BaseHook) -> None:
        self.node = TreeNode(folder, *extra)
        self.clock = self.node.clock
        self.store = StateStore(self.clock)
        self.store.subscribe(SnapshotPart.PODS, self.node.reconciler.changed)
        self.poked = self.rechecked = 0
        self.calls = CallLog(self.clock)
        self.arrivals = PodArrivals(self.store, self._poke)
        self.plugin = self.with_policy(DeliveryPolicy())

    def with_policy(self, policy: DeliveryPolicy) -> Any:
        return NriPlugin(PluginServices(
            self.node.creation, self.arrivals, self.node.reconciler.restate, self._recheck,
            self.calls, policy,
        ))  # fmt: skip

    def _poke(self) -> None:
        self.poked += 1

    def _recheck(self) -> None:
        self.rechecked += 1

    async def knows(self, *states: PodState) -> None:
        for state in states:
            self.node.start(state)
        self.store.put(SnapshotPart.PODS, states)
        await asyncio.sleep(0)

    async def call(self, method: str, asked: Any, answer: Any) -> Any:
        payload = asked.SerializeToString()
        return answer.FromString(await self.plugin.handle(PLUGIN_SERVICE, method, payload))

    async def create(self, state: PodState, **more: Any) -> Any:
        asked = NRI.CreateContainerRequest(pod=sandbox(state), container=made(**more))
        return (await self.call("CreateContainer", asked, NRI.CreateContainerResponse)).adjust


def sandbox(state: PodState) -> Any:
    metadata = state.pod.metadata
    return NRI.PodSandbox(
        id=f"s-{metadata.uid}", name=metadata.name, namespace="default", uid=metadata.uid
    )


def made(**more: Any) -> Any:
    return NRI.Container(**{"id": "c1", "pod_sandbox_id": "s-u1", "name": "main", **more})


def batch(uid: str = "u1") -> PodState:
    return pod("BE", "BestEffort", [BATCH], uid=uid)


def told(folder: Path, story: Callable[[Setting], Awaitable[None]]) -> None:
    setting = Setting(folder)
    run_virtual(story(setting), setting.clock)  # type: ignore[arg-type]


def resources(shares: int, quota: int, memory: int) -> Any:
    found = NRI.LinuxResources()
    found.cpu.shares.value, found.cpu.quota.value = shares, quota
    found.memory.limit.value = memory
    return found


LIMITS = resources(512, 50_000, 1 << 30)


def test_events_that_are_followed_are_asked_for(tmp_path: Path) -> None:
    async def story(setting: Setting) -> None:
        asked = NRI.ConfigureRequest(runtime_name="containerd", runtime_version="2.4")
        answer = await setting.call("Configure", asked, NRI.ConfigureResponse)
        # RunPodSandbox 1, RemovePodSandbox 3, CreateContainer 4, UpdateContainer 8, Stop 10.
        assert answer.events == 0b10_1000_1101
        assert setting.plugin.runtime == "containerd 2.4"

    told(tmp_path, story)


def test_a_container_is_made_with_what_hooks_want(tmp_path: Path) -> None:
    async def story(setting: Setting) -> None:
        bound = pod("LSR", "Guaranteed", [container("main", {"cpu": "2"}, {"cpu": "2"})],
                    {STATUS: {"cpuset": "2-3"}}, uid="u2")  # fmt: skip
        await setting.knows(batch(), bound)
        assert (await setting.create(batch())).linux.resources == LIMITS
        cpu = (await setting.create(bound)).linux.resources.cpu
        assert (cpu.cpus, cpu.quota.value, cpu.HasField("shares")) == ("2-3", -1, False)

    told(tmp_path, story)


def test_an_update_names_its_container_or_says_nothing(tmp_path: Path) -> None:
    async def story(setting: Setting) -> None:
        plain = pod("", "Burstable", [container("main")], uid="u2")
        await setting.knows(batch(), plain)
        for state, wanted in ((batch(), [("c1", LIMITS)]), (plain, [])):
            asked = NRI.UpdateContainerRequest(pod=sandbox(state), container=made())
            answer = await setting.call("UpdateContainer", asked, NRI.UpdateContainerResponse)
            assert [(u.container_id, u.linux.resources) for u in answer.update] == wanted

    told(tmp_path, story)


@pytest.mark.parametrize("way", ["RunPodSandbox", "StateChange"])
def test_both_forms_of_the_protocol_write_a_pods_directory(tmp_path: Path, way: str) -> None:
    async def story(setting: Setting) -> None:
        young = pod("BE", "BestEffort", [BATCH], started=False)
        setting.store.put(SnapshotPart.PODS, (young,))
        await asyncio.sleep(0)
        setting.node.make(young.directory)
        forms = {
            "RunPodSandbox": NRI.RunPodSandboxRequest(pod=sandbox(young)),
            "StateChange": NRI.StateChangeEvent(event=1, pod=sandbox(young)),
        }
        await setting.call(way, forms[way], NRI.Empty)
        assert setting.node.cpu(young.directory) == ["512", "50000"]

    told(tmp_path, story)


def test_synchronize_brings_up_to_date_only_what_differs(tmp_path: Path) -> None:
    async def story(setting: Setting) -> None:
        await setting.knows(batch("u1"), batch("u2"))
        ends = [("s-u1", "c1", LIMITS), ("s-u2", "c2", resources(2, -1, 0)), ("s-u9", "c9", LIMITS)]
        chunks = [
            NRI.SynchronizeRequest(pods=[sandbox(batch("u1"))], more=True),
            NRI.SynchronizeRequest(pods=[sandbox(batch("u2"))], more=False),
        ]
        for sandbox_id, name, has in ends:
            one = made(id=name, pod_sandbox_id=sandbox_id)
            one.linux.resources.CopyFrom(has)
            chunks[1].containers.append(one)
        first = await setting.call("Synchronize", chunks[0], NRI.SynchronizeResponse)
        assert first == NRI.SynchronizeResponse(more=True)
        assert not setting.plugin.synchronized
        last = await setting.call("Synchronize", chunks[1], NRI.SynchronizeResponse)
        assert not last.more
        (update,) = last.update
        assert (update.container_id, update.ignore_failure) == ("c2", True)
        assert update.linux.resources == LIMITS
        assert setting.plugin.synchronized
        assert setting.rechecked == 1

    told(tmp_path, story)


class Equipping(BaseHook):
    """Answers what has no file of a cgroup."""

    name = "equip"
    stages = frozenset({HookStage.PRE_CREATE_CONTAINER})
    device = DeviceFile("/dev/infiniband/rdma_cm", 10, 58)

    def container(self, context: ContainerContext) -> HookResponse | None:
        return HookResponse(
            environment={"A": "b"}, devices=[self.device], resctrl_group="koordlet-u1",
            mounts=[("/there", "/a"), ("/lacking", "/b")],
        )  # fmt: skip


@pytest.mark.parametrize("group", ["1", "0", None])
def test_devices_mounts_and_a_group_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str | None
) -> None:
    """Of a group that is not there runc would make no container."""

    async def story(setting: Setting) -> None:
        node = setting.node
        real = node.executor.current
        monkeypatch.setattr(
            node.executor, "current",
            lambda name, where: group if name == "resctrl.group" else real(name, where),
        )  # fmt: skip
        node.creation._host_has = lambda path: path == "/there"
        await setting.knows(batch())
        wanted = NRI.ContainerAdjustment()
        wanted.env.add(key="A", value="b")
        wanted.mounts.add(source="/there", destination="/a", type="bind", options=["rbind"])
        row = wanted.linux.devices.add(path="/dev/infiniband/rdma_cm", type="c", major=10, minor=58)
        row.file_mode.value = 0o666
        wanted.linux.resources.CopyFrom(LIMITS)
        if group == "1":
            wanted.linux.resources.rdt_class.value = "koordlet-u1"
        assert await setting.create(batch()) == wanted
        assert await setting.create(batch()) == wanted
        assert node.creation.missing.status() == {
            "missingOnHost": 2, "lastMissingOnHost": "/lacking",
        }  # fmt: skip
        # What runs has its devices and its mounts, and its threads their group.
        asked = NRI.UpdateContainerRequest(pod=sandbox(batch()), container=made())
        answer = await setting.call("UpdateContainer", asked, NRI.UpdateContainerResponse)
        assert [update.linux.resources for update in answer.update] == [LIMITS]

    setting = Setting(tmp_path, Equipping())
    run_virtual(story(setting), setting.clock)


class Broken(BaseHook):
    name = "AAA"
    stages = frozenset({HookStage.PRE_RUN_POD_SANDBOX, HookStage.PRE_CREATE_CONTAINER,
                        HookStage.PRE_UPDATE_CONTAINER_RESOURCES})  # fmt: skip

    def pod(self, context: Any) -> HookResponse | None:
        raise KoordError("pod", "annotation", 1, "2")

    def container(self, context: ContainerContext) -> HookResponse | None:
        raise KoordError("pod", "annotation", 1, "2")


@pytest.mark.parametrize("method", ["RunPodSandbox", "CreateContainer", "UpdateContainer"])
def test_a_hook_that_fails_is_the_containers_failure_only_where_flags_say_so(
    tmp_path: Path, method: str
) -> None:
    async def story(setting: Setting) -> None:
        await setting.knows(batch())
        pods = {"pod": sandbox(batch())}
        more = {} if method == "RunPodSandbox" else {"container": made()}
        payload = getattr(NRI, f"{method}Request")(**pods, **more).SerializeToString()
        await setting.plugin.handle(PLUGIN_SERVICE, method, payload)
        strict = setting.with_policy(DeliveryPolicy(fails=True))
        with pytest.raises(CallError, match="AAA: pod: annotation: got 1, expected 2") as caught:
            await strict.handle(PLUGIN_SERVICE, method, payload)
        assert caught.value.code == 2
        # Noise and pods that nobody knows are no hook's failure.
        assert await strict.handle(PLUGIN_SERVICE, method, b"\xff") == b""

    setting = Setting(tmp_path, Broken())
    run_virtual(story(setting), setting.clock)


def test_disabled_stages_are_not_asked_for_and_change_nothing(tmp_path: Path) -> None:
    async def story(setting: Setting) -> None:
        await setting.knows(batch())
        disabled = frozenset(HookStage)
        setting.plugin = setting.with_policy(DeliveryPolicy(disabled=disabled))
        asked = NRI.ConfigureRequest(runtime_name="containerd")
        answer = await setting.call("Configure", asked, NRI.ConfigureResponse)
        # None is all to a runtime.
        assert answer.events == 0
        assert await setting.create(batch()) == NRI.ContainerAdjustment()
        only = disabled - {HookStage.PRE_CREATE_CONTAINER}
        setting.plugin = setting.with_policy(DeliveryPolicy(disabled=only))
        answer = await setting.call("Configure", asked, NRI.ConfigureResponse)
        assert answer.events == 0b1000
        assert (await setting.create(batch())).linux.resources == LIMITS

    told(tmp_path, story)


def test_a_pod_that_comes_in_time_is_waited_for(tmp_path: Path) -> None:
    async def story(setting: Setting) -> None:
        creating = asyncio.ensure_future(setting.create(batch()))
        await asyncio.sleep(0.1)
        assert setting.poked == 1
        await setting.knows(pod("", uid="u9"))
        await setting.knows(batch())
        assert (await creating).linux.resources == LIMITS

    told(tmp_path, story)


def test_a_pod_that_nobody_told_of_is_made_as_it_is_within_the_limit(tmp_path: Path) -> None:
    """What a runtime says of a pod is no ground: its annotations have not been looked at."""

    async def story(setting: Setting) -> None:
        began = setting.clock.monotonic_seconds()
        assert await setting.create(batch()) == NRI.ContainerAdjustment()
        assert setting.clock.monotonic_seconds() - began <= 1.0
        status = setting.calls.status()
        assert (status["unknownPods"], status["lastUnknownPod"]) == (1, "default/pod-u1")

    told(tmp_path, story)


def test_a_runtime_that_would_wait_for_an_hour_is_not_kept_so_long(tmp_path: Path) -> None:
    async def story(setting: Setting) -> None:
        asked = NRI.ConfigureRequest(runtime_name="slow", request_timeout=3_600_000)
        await setting.call("Configure", asked, NRI.ConfigureResponse)
        began = setting.clock.monotonic_seconds()
        assert await setting.create(batch()) == NRI.ContainerAdjustment()
        assert setting.clock.monotonic_seconds() - began == 2.5

    told(tmp_path, story)


def test_what_fails_or_hangs_here_holds_up_no_container(tmp_path: Path) -> None:
    async def story(setting: Setting) -> None:
        async def hangs(asked: Any) -> Any:
            await asyncio.Event().wait()

        async def breaks(asked: Any) -> Any:
            raise RuntimeError("bug")

        for answer in (hangs, breaks):
            setting.plugin._answers["CreateContainer"] = (NRI.CreateContainerRequest, answer)
            began = setting.clock.monotonic_seconds()
            assert await setting.plugin.handle(PLUGIN_SERVICE, "CreateContainer", b"") == b""
            assert setting.clock.monotonic_seconds() - began < 2.0
        (call,) = setting.calls.status()["calls"]
        assert (call["count"], call["failures"]) == (2, 2)
        assert call["error"] == "RuntimeError: bug"

    told(tmp_path, story)


def test_noise_in_a_known_call_holds_up_no_container(tmp_path: Path) -> None:
    async def story(setting: Setting) -> None:
        noise = b"\xff\xff"
        assert await setting.plugin.handle(PLUGIN_SERVICE, "CreateContainer", noise) == b""
        (call,) = setting.calls.status()["calls"]
        assert call["error"] == "got 2 bytes that are no CreateContainerRequest"

    told(tmp_path, story)


def test_calls_that_are_not_known_are_answered_with_an_error(tmp_path: Path) -> None:
    async def story(setting: Setting) -> None:
        for service, method in (
            (PLUGIN_SERVICE, "ValidateContainerAdjustment"),
            ("other.Service", "Configure"),
        ):
            with pytest.raises(CallError) as caught:
                await setting.plugin.handle(service, method, b"")
            assert caught.value.code == UNIMPLEMENTED
        # Names are the runtime's to check; whatever they are, nothing is written for them.
        hostile = NRI.PodSandbox(uid="../../x", name="\x1b[31m\n", namespace="\0")
        asked = NRI.CreateContainerRequest(pod=hostile, container=made(name="../a"))
        answer = await setting.call("CreateContainer", asked, NRI.CreateContainerResponse)
        assert answer == NRI.CreateContainerResponse()

    told(tmp_path, story)
