# SPDX-License-Identifier: Apache-2.0
"""What the hook service answers to a proxy, with hooks, reconciler and executor behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.hook import HookStage
from koord.agent.states.pod_state import PodState
from koord.agent.states.snapshot import SnapshotPart
from koord.delivery.hooks.messages import CONTAINER_STAGES, HOOKS, POD_STAGES
from koord.delivery.hooks.service import MOST_AT_A_TIME, HookService, HookServices
from koord.delivery.policy import DeliveryPolicy, HookFailureError
from tests.agent.hooks.build import STATUS, container, pod
from tests.delivery.nri.test_plugin import BATCH, Broken, Setting, batch
from tests.kube.harness import run_virtual

CREATE, UPDATE = "PreCreateContainer", "PreUpdateContainerResources"


class ServiceSetting(Setting):
    """A service, and all that it asks."""

    def __init__(self, folder: Path, *extra: BaseHook) -> None:
        super().__init__(folder, *extra)
        self.aside = False
        self.service = self.service_with(DeliveryPolicy())

    def service_with(self, policy: DeliveryPolicy) -> HookService:
        node = self.node
        return HookService(HookServices(
            node.creation, self.arrivals, node.reconciler.restate, self.calls,
            lambda: self.aside, policy,
        ))  # fmt: skip

    async def answer(self, stage: str, asked: Any) -> Any:
        kind = "PodSandbox" if stage in POD_STAGES else "ContainerResource"
        answer = getattr(HOOKS, f"{kind}HookResponse")
        return answer.FromString(await self.service.handle(stage, asked.SerializeToString(), None))


def told(folder: Path, story: Callable[[ServiceSetting], Awaitable[None]], *extra: Any) -> None:
    setting = ServiceSetting(folder, *extra)
    run_virtual(story(setting), setting.clock)  # type: ignore[arg-type]


def meta(state: PodState) -> Any:
    return HOOKS.PodSandboxMetadata(
        name=state.pod.metadata.name, namespace="default", uid=state.pod.metadata.uid
    )


def of_container(state: PodState, **more: Any) -> Any:
    """As a proxy asks: all that the kubelet said of the container."""
    resources = HOOKS.LinuxContainerResources(
        cpu_period=100_000, cpu_quota=70_000, cpu_shares=2, memory_limit_in_bytes=0,
        oom_score_adj=1000, cpuset_mems="0", unified={"memory.high": "1"},
        memory_swap_limit_in_bytes=5,
    )  # fmt: skip
    resources.hugepage_limits.add(page_size="2MB", limit=4)
    return HOOKS.ContainerResourceHookRequest(**{
        "pod_meta": meta(state), "container_meta": HOOKS.ContainerMetadata(name="main", attempt=1),
        "container_annotations": {"a": "b"}, "container_resources": resources,
        "pod_annotations": {"c": "d"}, "pod_labels": {"e": "f"}, "pod_cgroup_parent": "/kubepods/x",
        "container_envs": {"PATH": "/bin", "EMPTY": ""},
    } | more)  # fmt: skip


def of_pod(state: PodState) -> Any:
    return HOOKS.PodSandboxHookRequest(
        pod_meta=meta(state), runtime_handler="runc", labels={"e": "f"}, annotations={"c": "d"},
        cgroup_parent="/kubepods/x", resources=HOOKS.LinuxContainerResources(cpu_shares=7),
    )  # fmt: skip


def echo(asked: Any) -> Any:
    return HOOKS.ContainerResourceHookResponse(
        container_annotations=asked.container_annotations, container_envs=asked.container_envs,
        container_resources=asked.container_resources, pod_cgroup_parent=asked.pod_cgroup_parent,
    )  # fmt: skip


@pytest.mark.parametrize("stage", [CREATE, UPDATE])
def test_what_hooks_want_is_laid_over_what_was_told(tmp_path: Path, stage: str) -> None:
    """All else is answered as it was: Koordinator's proxy takes CPUs and score as they stand."""

    async def story(setting: ServiceSetting) -> None:
        await setting.knows(batch())
        asked = of_container(batch())
        wanted = echo(asked)
        resources = wanted.container_resources
        resources.cpu_shares, resources.cpu_quota = 512, 50_000
        resources.memory_limit_in_bytes = 1 << 30
        assert await setting.answer(stage, asked) == wanted
        assert wanted.container_resources.oom_score_adj == 1000

    told(tmp_path, story)


def test_bound_cpus_and_no_quota(tmp_path: Path) -> None:
    async def story(setting: ServiceSetting) -> None:
        bound = pod("LSR", "Guaranteed", [container("main", {"cpu": "2"}, {"cpu": "2"})],
                    {STATUS: {"cpuset": "2-3"}})  # fmt: skip
        await setting.knows(bound)
        resources = (await setting.answer(CREATE, of_container(bound))).container_resources
        assert (resources.cpuset_cpus, resources.cpu_quota) == ("2-3", -1)
        assert resources.cpu_shares == 2

    told(tmp_path, story)


@pytest.mark.parametrize("stage", ["PreStartContainer", "PostStartContainer", "PostStopContainer"])
def test_stages_without_hooks_change_nothing(tmp_path: Path, stage: str) -> None:
    async def story(setting: ServiceSetting) -> None:
        await setting.knows(batch())
        asked = of_container(batch())
        assert await setting.answer(stage, asked) == echo(asked)

    told(tmp_path, story)


@pytest.mark.parametrize("stage", POD_STAGES)
def test_a_pods_directory_is_written_when_it_begins(tmp_path: Path, stage: str) -> None:
    async def story(setting: ServiceSetting) -> None:
        young = pod("BE", "BestEffort", [BATCH], started=False)
        setting.store.put(SnapshotPart.PODS, (young,))
        await asyncio.sleep(0)
        setting.node.make(young.directory)
        asked = of_pod(young)
        assert await setting.answer(stage, asked) == HOOKS.PodSandboxHookResponse(
            labels=asked.labels, annotations=asked.annotations, resources=asked.resources,
            cgroup_parent=asked.cgroup_parent,
        )  # fmt: skip
        began = stage == "PreRunPodSandbox"
        wanted = ["512", "50000"] if began else ["1024", "-1"]
        assert setting.node.cpu(young.directory) == wanted

    told(tmp_path, story)


def test_what_was_not_told_of_is_not_answered(tmp_path: Path) -> None:
    """A proxy that was restarted knows neither resources nor environment of what runs."""

    async def story(setting: ServiceSetting) -> None:
        plain = pod("", "Burstable", [container("main")])
        await setting.knows(plain)
        asked = HOOKS.ContainerResourceHookRequest(
            pod_meta=meta(plain), container_meta=HOOKS.ContainerMetadata(name="main", id="c1")
        )
        assert await setting.answer(UPDATE, asked) == HOOKS.ContainerResourceHookResponse()

    told(tmp_path, story)


def test_a_pod_that_nobody_told_of_is_made_as_it_is_within_the_limit(tmp_path: Path) -> None:
    async def story(setting: ServiceSetting) -> None:
        began, asked = setting.clock.monotonic_seconds(), of_container(batch())
        assert await setting.answer(CREATE, asked) == echo(asked)
        assert 0 < setting.clock.monotonic_seconds() - began <= 1.0
        assert setting.calls.status()["lastUnknownPod"] == "default/pod-u1"

    told(tmp_path, story)


def test_a_proxy_that_waits_for_less_is_answered_sooner(tmp_path: Path) -> None:
    async def story(setting: ServiceSetting) -> None:
        for remaining, most in ((0.4, 0.1), (1e9, 0.5), (0.0, 0.0), (-1.0, 0.0)):
            began = setting.clock.monotonic_seconds()
            payload = of_container(batch()).SerializeToString()
            await setting.service.handle(CREATE, payload, remaining)
            assert setting.clock.monotonic_seconds() - began <= most + 1e-6

    told(tmp_path, story)


def test_a_pod_that_comes_in_time_is_waited_for(tmp_path: Path) -> None:
    async def story(setting: ServiceSetting) -> None:
        creating = asyncio.ensure_future(setting.answer(CREATE, of_container(batch())))
        await asyncio.sleep(0.1)
        assert setting.poked == 1
        await setting.knows(batch())
        assert (await creating).container_resources.cpu_shares == 512

    told(tmp_path, story)


def test_nri_serves_alone(tmp_path: Path) -> None:
    async def story(setting: ServiceSetting) -> None:
        await setting.knows(batch())
        setting.aside = True
        for stage in (*POD_STAGES, *CONTAINER_STAGES):
            asked = of_pod(batch()) if stage in POD_STAGES else of_container(batch())
            assert await setting.service.handle(stage, asked.SerializeToString(), None) == b""
        assert len(setting.calls.status()["calls"]) == 7

    told(tmp_path, story)


def test_one_call_too_many_is_answered_at_once(tmp_path: Path) -> None:
    async def story(setting: ServiceSetting) -> None:
        asked = of_container(batch()).SerializeToString()
        held = [
            asyncio.ensure_future(setting.service.handle(CREATE, asked, None))
            for _ in range(MOST_AT_A_TIME)
        ]
        await asyncio.sleep(0)
        began = setting.clock.monotonic_seconds()
        assert await setting.service.handle(CREATE, asked, None) == b""
        assert setting.clock.monotonic_seconds() == began
        assert not any(each.done() for each in held)
        (call,) = setting.calls.status()["calls"]
        assert call["error"] == "64 calls are being answered"
        await asyncio.gather(*held)
        await setting.knows(batch())
        assert await setting.service.handle(CREATE, asked, None) != b""

    told(tmp_path, story)


@pytest.mark.parametrize("stage", [*POD_STAGES, *CONTAINER_STAGES])
def test_noise_is_answered_with_nothing(tmp_path: Path, stage: str) -> None:
    async def story(setting: ServiceSetting) -> None:
        assert await setting.service.handle(stage, b"\xff\xff", None) == b""
        (call,) = setting.calls.status()["calls"]
        assert "got 2 bytes that are no " in call["error"]

    told(tmp_path, story)


@pytest.mark.parametrize("stage", ["PreRunPodSandbox", CREATE])
def test_a_hook_that_fails_is_the_containers_failure_only_where_flags_say_so(
    tmp_path: Path, stage: str
) -> None:
    async def story(setting: ServiceSetting) -> None:
        await setting.knows(batch())
        asked = of_pod(batch()) if stage in POD_STAGES else of_container(batch())
        payload = asked.SerializeToString()
        assert await setting.service.handle(stage, payload, None) != b""
        strict = setting.service_with(DeliveryPolicy(fails=True))
        with pytest.raises(HookFailureError, match="AAA: pod: annotation: got 1, expected 2"):
            await strict.handle(stage, payload, None)
        # What a pod that is not known gets is no hook's failure.
        other = of_container(batch("u9")).SerializeToString()
        assert await strict.handle(CREATE, other, None) != b""

    told(tmp_path, story, Broken())


def test_a_disabled_stage_changes_nothing(tmp_path: Path) -> None:
    async def story(setting: ServiceSetting) -> None:
        await setting.knows(batch())
        policy = DeliveryPolicy(disabled=frozenset({HookStage.PRE_CREATE_CONTAINER}))
        setting.service = setting.service_with(policy)
        asked = of_container(batch())
        assert await setting.answer(CREATE, asked) == echo(asked)
        assert (await setting.answer(UPDATE, asked)).container_resources.cpu_shares == 512

    told(tmp_path, story)
