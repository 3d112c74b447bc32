# SPDX-License-Identifier: Apache-2.0
"""What hook servers are told, and what the runtime gets of their answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest

from koord.delivery.cri.messages import CRI
from koord.delivery.hooks.messages import HOOKS
from tests.delivery.cri.world import (
    STAGES,
    World,
    create_request,
    echo,
    echo_with,
    make_pod_cgroup,
    sandbox_config,
    world,
)

_SKIP = {"runtimeproxy.koordinator.sh/skip-hookserver": "true"}


async def make_pod(here: World, **more: Any) -> None:
    here.runtime.answers["RunPodSandbox"] = CRI.RunPodSandboxResponse(pod_sandbox_id="s1")
    here.runtime.answers["CreateContainer"] = CRI.CreateContainerResponse(container_id="c1")
    await here.call("RunPodSandbox", CRI.RunPodSandboxRequest(config=sandbox_config(**more)))


def sent(here: World, method: str = "CreateContainer") -> Any:
    return getattr(CRI, f"{method}Request").FromString(here.runtime.of(method)[-1])


def test_each_stage_is_called_with_what_is_known(tmp_path: Path) -> None:
    async def run() -> list[tuple[str, Any]]:
        async with world(tmp_path) as here:
            here.register()
            await make_pod(here, labels={"l": "1"}, annotations={"a": "2"})
            request = create_request(cpu_shares=100, cpu_quota=5000)
            request.config.envs.add(key="E", value=b"3")
            await here.call("CreateContainer", request)
            await here.call("StartContainer", CRI.StartContainerRequest(container_id="c1"))
            update = CRI.UpdateContainerResourcesRequest(container_id="c1")
            update.linux.cpu_quota = 7000
            await here.call("UpdateContainerResources", update)
            await here.call("StopContainer", CRI.StopContainerRequest(container_id="c1"))
            await here.call("StopPodSandbox", CRI.StopPodSandboxRequest(pod_sandbox_id="s1"))
            later = asyncio.create_task(here.proxy.hooks.run())
            await here.proxy.hooks.drain()
            later.cancel()
            assert (len(here.proxy.store), here.proxy.store.container_ids()) == (0, [])
            return here.hooks.requests

    calls = asyncio.run(run())
    assert [name for name, _ in calls] == [
        "PreRunPodSandboxHook", "PreCreateContainerHook", "PreStartContainerHook",
        "PreUpdateContainerResourcesHook", "PostStartContainerHook", "PostStopContainerHook",
        "PostStopPodSandboxHook",
    ]  # fmt: skip
    pod = HOOKS.PodSandboxHookRequest.FromString(calls[0][1])
    assert (pod.pod_meta.name, pod.pod_meta.uid, pod.pod_meta.namespace) == (
        "p",
        "uid-p",
        "default",
    )
    assert dict(pod.labels) | dict(pod.annotations) == {"l": "1", "a": "2"}
    created, started, updated = (
        HOOKS.ContainerResourceHookRequest.FromString(raw) for _, raw in calls[1:4]
    )
    assert (created.container_meta.name, created.container_meta.id) == ("main", "")
    assert dict(created.container_envs) == {"E": "3"}
    assert created.pod_cgroup_parent == "/kubepods/besteffort/podx"
    assert dict(created.pod_labels) == {"l": "1"}
    assert started.container_meta.id == "c1"
    assert started.container_resources.cpu_shares == 100
    # Secrets of the environment are not remembered.
    assert dict(started.container_envs) == {}
    quota = updated.container_resources.cpu_quota
    assert (quota, updated.container_resources.cpu_shares) == (7000, 100)


def test_an_answer_is_put_into_the_request_and_what_is_not_known_stays(tmp_path: Path) -> None:
    async def run() -> Any:
        make_pod_cgroup(tmp_path)
        async with world(tmp_path) as here:
            here.register()
            await make_pod(here)

            def answer(raw: bytes) -> Any:
                made = echo_with(cpu_shares=512, cpu_quota=50_000, cpuset_cpus="1-2")(raw)
                made.container_envs.update({"OLD": "changed", "NEW": "y"})
                made.container_annotations["n"] = "1"
                return made

            here.hooks.answers["PreCreateContainerHook"] = answer
            request = create_request(cpu_shares=2, memory_limit_in_bytes=1 << 20)
            for key, value in (("B", b"b"), ("OLD", b"x"), ("RAW", b"\xff")):
                request.config.envs.add(key=key, value=value)
            # Field 1000 of the request, and field 2 of its configuration: an image.
            raw = request.SerializeToString() + b"\xc2\x3e\x01u" + b"\x12\x05\x12\x03\x0a\x01i"
            await here.call("CreateContainer", raw)
            return here.runtime.of("CreateContainer")[0]

    got = asyncio.run(run())
    made = CRI.CreateContainerRequest.FromString(got)
    resources = made.config.linux.resources
    assert (resources.cpu_shares, resources.cpu_quota, resources.cpuset_cpus) == (
        512,
        50_000,
        "1-2",
    )
    assert resources.memory_limit_in_bytes == 1 << 20
    pairs = [(pair.key, pair.value) for pair in made.config.envs]
    assert pairs == [("B", b"b"), ("OLD", b"changed"), ("RAW", b"\xff"), ("NEW", b"y")]
    assert dict(made.config.annotations) == {"n": "1"}
    assert b"\xc2\x3e\x01u" in got
    assert b"\x12\x03\x0a\x01i" in got


@pytest.mark.parametrize("answer", [b"", "echo"])
def test_a_hook_server_that_changes_nothing_leaves_the_bytes_alone(
    tmp_path: Path, answer: Any
) -> None:
    """An empty answer too: so a hook server says that others serve, such as NRI."""

    async def run() -> None:
        async with world(tmp_path) as here:
            here.register()
            here.hooks.answers["PreCreateContainerHook"] = echo if answer == "echo" else answer
            # Not in the order of numbers, as no library writes it.
            raw = b"\x1a\x00" + create_request(cpuset_cpus="1").SerializeToString()
            await here.call("CreateContainer", raw)
            assert here.runtime.of("CreateContainer") == [raw]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("pod_quota", "wanted", "expected"),
    [
        (20_000, {"cpu_quota": 50_000}, {"cpu_quota": 20_000}),
        (20_000, {"cpu_quota": 50_000, "cpu_period": 50_000}, {"cpu_quota": 10_000}),
        (-1, {"cpu_quota": 50_000}, {"cpu_quota": 50_000}),
        (20_000, {"cpu_quota": -7}, {"cpu_quota": -1}),
        (20_000, {"cpu_quota": 5}, {"cpu_quota": 1000}),
        (500, {"cpu_quota": 50_000}, {"cpu_quota": -1}),
        (-1, {"cpu_period": 7}, {"cpu_period": 0}),
        (-1, {"cpu_shares": 1 << 40}, {"cpu_shares": 262_144}),
        (-1, {"cpuset_cpus": "2-9"}, {"cpuset_cpus": "2-3"}),
        (-1, {"cpuset_cpus": "9"}, {"cpuset_cpus": "0"}),
        (-1, {"cpuset_cpus": "nonsense"}, {"cpuset_cpus": "0"}),
        (-1, {"cpuset_cpus": ""}, {"cpuset_cpus": ""}),
        (-1, {"cpuset_mems": "7"}, {"cpuset_mems": ""}),
        (-1, {"oom_score_adj": 5000}, {"oom_score_adj": 100}),
        (-1, {"memory_limit_in_bytes": 5}, {"memory_limit_in_bytes": 8192}),
        (
            -1,
            {"memory_limit_in_bytes": 1 << 20},
            {"memory_limit_in_bytes": 1 << 20, "memory_swap_limit_in_bytes": 1 << 20},
        ),
    ],
)
def test_what_would_keep_a_container_from_starting_is_not_passed_on(
    tmp_path: Path, pod_quota: int, wanted: dict[str, Any], expected: dict[str, Any]
) -> None:
    """The directory of the pod has CPUs 0 to 3; the container is asked for with CPU 0."""

    async def run() -> None:
        make_pod_cgroup(tmp_path, quota=pod_quota, cpus="0-3")
        async with world(tmp_path) as here:
            here.register()
            here.hooks.answers["PreCreateContainerHook"] = echo_with(**wanted)
            request = create_request(
                cpuset_cpus="0", oom_score_adj=100, memory_limit_in_bytes=8192,
                memory_swap_limit_in_bytes=8192,
            )  # fmt: skip
            await here.call("CreateContainer", request)
            resources = sent(here).config.linux.resources
            assert {name: getattr(resources, name) for name in expected} == expected

    asyncio.run(run())


def test_a_pod_whose_cgroup_cannot_be_read_gets_no_more_than_it_has(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path) as here:
            here.register()
            for quota, expected in ((90_000, 50_000), (20_000, 20_000)):
                answer = echo_with(cpu_quota=quota, cpuset_cpus="1", cpu_shares=512)
                here.hooks.answers["PreCreateContainerHook"] = answer
                await here.call("CreateContainer", create_request(cpu_quota=50_000))
                resources = sent(here).config.linux.resources
                assert (resources.cpu_quota, resources.cpuset_cpus) == (expected, "")
                assert resources.cpu_shares == 512

    asyncio.run(run())


@pytest.mark.parametrize("parent", ["", "/", "/a/../b"])
def test_a_pod_without_a_cgroup_parent_gets_no_more_than_it_has(
    tmp_path: Path, parent: str
) -> None:
    """As a person makes one: nothing keeps a hook's other values from it."""

    async def run() -> None:
        make_pod_cgroup(tmp_path)
        async with world(tmp_path) as here:
            here.register()
            answer = echo_with(cpu_quota=90_000, cpuset_cpus="1", cpu_shares=512)
            here.hooks.answers["PreCreateContainerHook"] = answer
            asked = create_request(cpu_quota=50_000)
            asked.sandbox_config.linux.cgroup_parent = parent
            await here.call("CreateContainer", asked)
            resources = sent(here).config.linux.resources
            assert (resources.cpu_quota, resources.cpuset_cpus) == (50_000, "")
            assert resources.cpu_shares == 512

    asyncio.run(run())


def test_a_pod_with_the_skip_label_is_nobodys_business(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path) as here:
            here.register("Fail")
            await make_pod(here, labels=_SKIP)
            await here.call("CreateContainer", create_request())
            await here.call("StartContainer", CRI.StartContainerRequest(container_id="c1"))
            assert here.hooks.requests == []
            # It is known all the same.
            assert here.proxy.store.container_ids() == ["c1"]

    asyncio.run(run())


def test_a_container_that_fails_to_start_is_made_without_hooks_once(tmp_path: Path) -> None:
    async def fail(context: Any) -> None:
        await context.read()
        await context.abort(grpc.StatusCode.UNKNOWN, "runc did not like it")

    async def run() -> list[int]:
        async with world(tmp_path) as here:
            here.register(stages=["PreCreateContainer"])
            await make_pod(here)
            here.hooks.answers["PreCreateContainerHook"] = echo_with(cpu_shares=512)
            here.runtime.handlers["StartContainer"] = fail
            shares = []
            for _ in range(3):
                await here.call("CreateContainer", create_request(cpu_shares=2))
                shares.append(sent(here).config.linux.resources.cpu_shares)
                start = CRI.StartContainerRequest(container_id="c1")
                with pytest.raises(grpc.aio.AioRpcError, match="runc did not like it"):
                    await here.call("StartContainer", start)
            return shares

    assert asyncio.run(run()) == [512, 2, 512]


def test_an_update_that_the_runtime_refuses_is_made_as_the_kubelet_wants_it(
    tmp_path: Path,
) -> None:
    async def run() -> list[bytes]:
        got: list[bytes] = []

        async def refuse_first(context: Any) -> None:
            got.append(await context.read())
            if len(got) == 1:
                await context.abort(grpc.StatusCode.UNKNOWN, "no")
            await context.write(b"")

        async with world(tmp_path) as here:
            here.register()
            await make_pod(here)
            await here.call("CreateContainer", create_request())
            here.hooks.answers["PreUpdateContainerResourcesHook"] = echo_with(cpu_shares=512)
            here.runtime.handlers["UpdateContainerResources"] = refuse_first
            update = CRI.UpdateContainerResourcesRequest(container_id="c1")
            update.linux.cpu_shares = 77
            await here.call("UpdateContainerResources", update)
            return got

    shares = [
        CRI.UpdateContainerResourcesRequest.FromString(raw).linux.cpu_shares
        for raw in asyncio.run(run())
    ]
    assert shares == [512, 77]


def test_what_is_no_message_is_the_runtimes_to_judge(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path) as here:
            here.register("Fail")
            for method in ("RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer"):
                await here.call(method, b"\xff\xff\xff")
                assert here.runtime.of(method) == [b"\xff\xff\xff"]
            assert here.hooks.requests == []

    asyncio.run(run())


def test_stages_that_a_file_does_not_list_are_not_called(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path) as here:
            here.register(stages=[stage for stage in STAGES if stage != "PreCreateContainer"])
            await make_pod(here)
            await here.call("CreateContainer", create_request())
            assert [name for name, _ in here.hooks.requests] == ["PreRunPodSandboxHook"]

    asyncio.run(run())
