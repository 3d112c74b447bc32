# SPDX-License-Identifier: Apache-2.0
"""What a runtime has: asked once it answers, so that a proxy that starts anew knows its pods.

Rule: docs/reference/delivery.md#pods-and-containers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import msgspec
from google.protobuf.message import DecodeError

from koord.delivery.cri.hook_requests import pod_request
from koord.delivery.cri.messages import CRI, RUNTIME_SERVICE, recast
from koord.delivery.hooks.messages import HOOKS

if TYPE_CHECKING:
    from koord.delivery.cri.pod_store import PodStore

SECONDS = 10.0
"""How long one answer of the runtime is waited for."""
_READY, _EXITED = 0, 2


class _LinuxConfig(msgspec.Struct):
    cgroup_parent: str = ""


class _SandboxConfig(msgspec.Struct):
    linux: _LinuxConfig = msgspec.field(default_factory=_LinuxConfig)


class _SandboxInfo(msgspec.Struct):
    config: _SandboxConfig = msgspec.field(default_factory=_SandboxConfig)


class RuntimeInventory:
    """One runtime's.

    Args:
        channel: to it.
        store: what is brought up to date.

    Attributes:
        runtime: name and version; empty before it was asked.
    """

    def __init__(self, channel: Any, store: PodStore) -> None:
        self._channel, self._store = channel, store
        self.runtime = ""

    async def take(self) -> None:
        """Asks for all, drops what is gone from the store and adds what it does not have.

        Raises:
            grpc.aio.AioRpcError: the runtime is not there, or has no CRI v1.
            DecodeError: what it answers is none.
        """
        version = await self._call("Version", CRI.VersionRequest(version="v1"))
        self.runtime = f"{version.runtime_name} {version.runtime_version}"
        # Of what is made meanwhile the lists may not tell.
        pods_before = self._store.pod_ids()
        containers_before = self._store.container_ids()
        pods = (await self._call("ListPodSandbox", CRI.ListPodSandboxRequest())).items
        containers = (await self._call("ListContainers", CRI.ListContainersRequest())).containers
        listed = {pod.id for pod in pods}
        for sandbox in pods_before:
            if sandbox not in listed:
                self._store.remove_pod(sandbox)
        for pod in pods:
            if pod.state == _READY and self._store.pod(pod.id) is None:
                await self._add_pod(pod)
        self._take_containers(containers, containers_before)

    def _take_containers(self, containers: Any, before: list[str]) -> None:
        listed = {container.id for container in containers}
        for container in before:
            if container not in listed:
                self._store.remove_container(container)
        for each in containers:
            if each.state != _EXITED and not self._store.sandbox_of(each.id):
                made = HOOKS.ContainerResourceHookRequest(container_annotations=each.annotations)
                made.container_meta.CopyFrom(recast(each.metadata, HOOKS.ContainerMetadata))
                self._store.add_container(each.pod_sandbox_id, each.id, made)

    async def _add_pod(self, pod: Any) -> None:
        config = CRI.PodSandboxConfig(labels=pod.labels, annotations=pod.annotations)
        config.metadata.CopyFrom(pod.metadata)
        config.linux.cgroup_parent = await self._cgroup_parent(pod.id)
        self._store.add_pod(pod.id, pod_request(config, pod.runtime_handler))

    async def _cgroup_parent(self, sandbox: str) -> str:
        """As containerd tells it beside the status; empty where a runtime does not."""
        asked = CRI.PodSandboxStatusRequest(pod_sandbox_id=sandbox, verbose=True)
        try:
            info = (await self._call("PodSandboxStatus", asked)).info.get("info", "")
            return msgspec.json.decode(info, type=_SandboxInfo).config.linux.cgroup_parent
        except (grpc.aio.AioRpcError, DecodeError, msgspec.DecodeError):
            return ""

    async def _call(self, method: str, request: Any) -> Any:
        call = self._channel.unary_unary(f"{RUNTIME_SERVICE}{method}")
        answer = await call(request.SerializeToString(), timeout=SECONDS)
        return getattr(CRI, f"{method}Response").FromString(answer)
