# SPDX-License-Identifier: Apache-2.0
"""Pods and containers over restarts, on a full disk, and no more of them than may be."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from koord.base.faults import FaultPlan, FaultRule, inject
from koord.base.metrics import registry
from koord.delivery.cri import pod_store
from koord.delivery.cri.hook_requests import container_request, pod_request
from koord.delivery.cri.messages import CRI
from koord.delivery.cri.pod_store import PodStore
from koord.delivery.cri.store_files import StoreFiles
from koord.delivery.hooks.messages import HOOKS
from tests.delivery.cri.world import World, create_request, sandbox_config, world

_INFO = '{"config":{"linux":{"cgroup_parent":"/kubepods/podold"}},"pid":1}'


def _request(name: str = "p") -> Any:
    return pod_request(sandbox_config(name, labels={"l": name}), "kata")


def _container(name: str = "main") -> Any:
    made = create_request(cpu_shares=3)
    made.config.metadata.name = name
    made.config.envs.add(key="SECRET", value=b"s3cr3t")
    return container_request(_request(), made.config)


def _files(folder: Path, store: PodStore) -> StoreFiles:
    return StoreFiles(folder / "pods", store, registry())


def test_what_was_known_is_known_after_a_restart(tmp_path: Path) -> None:
    async def run() -> PodStore:
        store = PodStore()
        files = _files(tmp_path, store)
        store.add_pod("s1", _request())
        store.add_container("s1", "c1", _container())
        store.add_pod("s2", _request("gone"))
        await files.write()
        store.remove_pod("s2")
        await files.write()
        again = PodStore()
        _files(tmp_path, again).load()
        return again

    again = asyncio.run(run())
    assert again.pod_ids() == ["s1"]
    pod = again.pod("s1")
    assert pod is not None
    assert pod.request == _request()
    assert pod.containers["c1"].container_resources.cpu_shares == 3
    assert again.sandbox_of("c1") == "s1"
    (file,) = (tmp_path / "pods").iterdir()
    assert b"s3cr3t" not in file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", [b"", b"koord-runtime-proxy 1 00000000\nxx", b"\xff" * 100])
def test_a_damaged_file_is_removed(tmp_path: Path, damage: bytes) -> None:
    store = PodStore()
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "s1.pod").write_bytes(damage)
    (tmp_path / "pods" / "link.pod").symlink_to("/etc/passwd")
    asyncio.run(_load(tmp_path, store))
    assert store.pod_ids() == []
    assert list((tmp_path / "pods").iterdir()) == []


async def _load(folder: Path, store: PodStore) -> None:
    _files(folder, store).load()


def test_a_full_disk_holds_up_nothing_and_is_told_of_once(tmp_path: Path) -> None:
    full = FaultRule(1.0, OSError(errno.ENOSPC, "No space left on device"))

    async def run() -> None:
        async with world(tmp_path) as here:
            here.runtime.answers["CreateContainer"] = CRI.CreateContainerResponse(container_id="c")
            with inject(FaultPlan(1, {"cri.store.write": full})):
                for _ in range(3):
                    await here.call("CreateContainer", create_request())
                    await here.proxy._files.write()
            assert here.proxy.status()["storeError"] == "No space left on device"
            assert here.proxy.store.container_ids() == ["c"]
            assert b"store_failures_total 3.0" in here.metrics.expose()
            # Once there is space what was not kept is, with what changes next.
            here.proxy.store.add_pod("s2", _request())
            await here.proxy._files.write()
            assert here.proxy.status()["storeError"] == ""
            assert {path.name for path in (tmp_path / "pods").iterdir()} == {"s1.pod", "s2.pod"}

    asyncio.run(run())


@pytest.mark.parametrize("sandbox", ["../../etc/cron.d/x", "", "a/b", "x" * 300, "a\0b"])
def test_hostile_ids_write_nowhere(tmp_path: Path, sandbox: str) -> None:
    async def run() -> None:
        store = PodStore()
        files = _files(tmp_path, store)
        store.add_pod(sandbox, _request())
        await files.write()
        assert files.error == ""

    asyncio.run(run())
    assert list(tmp_path.rglob("*")) == []


def test_the_oldest_go_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_store, "MOST_PODS", 3)
    monkeypatch.setattr(pod_store, "MOST_CONTAINERS_OF_POD", 2)
    store = PodStore()
    for number in range(5):
        store.add_pod(f"s{number}", _request())
        for each in range(4):
            store.add_container(f"s{number}", f"c{number}.{each}", _container())
    assert store.pod_ids() == ["s2", "s3", "s4"]
    assert len(store.container_ids()) == 6
    assert store.dropped == 2 + 5 * 2


def test_a_container_is_of_one_sandbox() -> None:
    """A runtime that gives an id twice: the later sandbox has it, and nothing is left behind."""
    store = PodStore()
    for sandbox in ("s1", "s2"):
        store.add_pod(sandbox, _request())
        store.add_container(sandbox, "c", _container())
    first = store.pod("s1")
    assert (first and first.containers, store.sandbox_of("c")) == ({}, "s2")
    store.remove_pod("s1")
    assert (store.sandbox_of("c"), store.container_ids()) == ("s2", ["c"])
    store.remove_container("c")
    second = store.pod("s2")
    assert (second and second.containers, store.container_ids()) == ({}, [])


def test_a_request_of_a_megabyte_is_not_kept() -> None:
    store = PodStore()
    store.add_pod("s", pod_request(sandbox_config(annotations={"a": "x" * (1 << 20)})))
    assert (store.pod_ids(), store.dropped) == ([], 1)


async def _inventory(here: World) -> None:
    metadata = {"name": "old", "uid": "u", "namespace": "n"}
    pods = CRI.ListPodSandboxResponse()
    pods.items.add(id="old", state=0, metadata=metadata, labels={"l": "1"}, runtime_handler="h")
    pods.items.add(id="ended", state=1, metadata=metadata)
    containers = CRI.ListContainersResponse()
    containers.containers.add(
        id="c-old", pod_sandbox_id="old", metadata={"name": "main"}, annotations={"a": "2"}, state=1
    )
    containers.containers.add(id="c-ended", pod_sandbox_id="old", state=2)
    here.runtime.answers |= {
        "Version": CRI.VersionResponse(runtime_name="r", runtime_version="1"),
        "ListPodSandbox": pods, "ListContainers": containers,
        "PodSandboxStatus": CRI.PodSandboxStatusResponse(info={"info": _INFO}),
    }  # fmt: skip
    await here.proxy._inventory.take()


def test_the_runtime_is_asked_for_what_runs(tmp_path: Path) -> None:
    async def run() -> Any:
        async with world(tmp_path) as here:
            here.proxy.store.add_pod("vanished", _request())
            here.proxy.store.add_container("vanished", "c-vanished", _container())
            await _inventory(here)
            assert here.proxy.store.pod_ids() == ["old"]
            assert here.proxy.store.container_ids() == ["c-old"]
            here.register(stages=["PreStartContainer"])
            await here.call("StartContainer", CRI.StartContainerRequest(container_id="c-old"))
            return HOOKS.ContainerResourceHookRequest.FromString(here.hooks.requests[0][1])

    request = asyncio.run(run())
    assert (request.pod_meta.name, request.container_meta.name) == ("old", "main")
    assert request.pod_cgroup_parent == "/kubepods/podold"
    assert dict(request.pod_labels) | dict(request.container_annotations) == {"l": "1", "a": "2"}


def test_what_the_runtime_confirms_stays_as_it_was_told(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path) as here:
            here.proxy.store.add_pod("old", _request("mine"))
            here.proxy.store.add_container("old", "c-old", _container("mine"))
            await _inventory(here)
            pod = here.proxy.store.pod("old")
            assert pod is not None
            assert pod.request.pod_meta.name == "mine"
            assert pod.containers["c-old"].container_meta.name == "mine"

    asyncio.run(run())


def test_two_hundred_containers_leave_nothing(tmp_path: Path) -> None:
    """Exited ones too, which a kubelet removes without stopping them."""

    async def run() -> None:
        async with world(tmp_path) as here:
            for number in range(200):
                sandbox, container = f"s{number}", f"c{number}"
                here.runtime.answers["RunPodSandbox"] = CRI.RunPodSandboxResponse(
                    pod_sandbox_id=sandbox
                )
                here.runtime.answers["CreateContainer"] = CRI.CreateContainerResponse(
                    container_id=container
                )
                run_pod = CRI.RunPodSandboxRequest(config=sandbox_config())
                await here.call("RunPodSandbox", run_pod)
                await here.call("CreateContainer", create_request(sandbox))
            await here.proxy._files.write()
            assert len(list((tmp_path / "pods").iterdir())) == 200
            for number in range(200):
                remove = CRI.RemoveContainerRequest(container_id=f"c{number}")
                await here.call("RemoveContainer", remove)
                ended = CRI.StopPodSandboxRequest(pod_sandbox_id=f"s{number}")
                await here.call("StopPodSandbox", ended)
            await here.proxy._files.write()
            assert here.proxy.store.pod_ids() == here.proxy.store.container_ids() == []
            assert list((tmp_path / "pods").iterdir()) == []

    asyncio.run(run())
