# SPDX-License-Identifier: Apache-2.0
"""A kubelet and a runtime that keep to no order, and a hook server that answers anything."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

from google.protobuf.message import DecodeError

from koord.base.metrics import registry
from koord.delivery.cri.cgroup_limits import CgroupLimitReader
from koord.delivery.cri.hook_calls import HookFailure
from koord.delivery.cri.hook_servers import FailurePolicy
from koord.delivery.cri.interception import InterceptedCall, Interception, RefusedCallError
from koord.delivery.cri.messages import CRI, RUNTIME_SERVICE
from koord.delivery.cri.pod_store import PodStore
from koord.delivery.cri.store_files import StoreFiles
from koord.delivery.hooks.messages import HOOKS
from tests.delivery.cri.world import create_request, sandbox_config
from tests.delivery.histories import noise

_METHODS = (
    "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "CreateContainer", "StartContainer",
    "UpdateContainerResources", "StopContainer", "RemoveContainer",
)  # fmt: skip
_SANDBOXES = ("s1", "s2", "s3", "", "../s", "s" * 200)
_CONTAINERS = ("c1", "c2", "c3", "c4", "", "../c")
# What a message says of whose it is, which no hook server changes.
_IDENTITY = ("pod_sandbox_id", "container_id")


class _HookServer:
    """Answers nothing, noise or anything, or fails; in the place of ``HookCalls``.

    Attributes:
        policy: of its failures.
        silent: whether it answers nothing.
    """

    def __init__(self, draw: Random) -> None:
        self._draw = draw
        self.policy, self.silent = FailurePolicy.IGNORE, True

    async def call(self, stage: str, request: Any, name: str) -> tuple[Any, HookFailure | None]:
        assert "\n" not in name
        if self.silent:
            return None, None
        if self._draw.random() < 0.3:
            return None, HookFailure(self.policy, f"{stage} of {name}: failed")
        pod = request.DESCRIPTOR.name.startswith("Pod")
        kind = HOOKS.PodSandboxHookResponse if pod else HOOKS.ContainerResourceHookResponse
        return noise.filled(self._draw, kind), None

    def call_later(self, stage: str, request: Any, name: str) -> None:
        request.SerializeToString()


class _Model:
    """What the store holds: containers by sandbox; written down anew."""

    def __init__(self) -> None:
        self.pods: dict[str, set[str]] = {}

    def forget(self, container: str) -> None:
        for containers in self.pods.values():
            containers.discard(container)

    def sent(self, method: str, asked: Any) -> None:
        """A call that is in order goes on."""
        if method == "CreateContainer" and asked.pod_sandbox_id:
            self.pods.setdefault(asked.pod_sandbox_id, set())

    def answered(self, method: str, asked: Any, reply: Any) -> None:
        """The runtime has done it."""
        if method == "RunPodSandbox" and reply.pod_sandbox_id:
            self.pods.pop(reply.pod_sandbox_id, None)
            self.pods[reply.pod_sandbox_id] = set()
        elif method in ("StopPodSandbox", "RemovePodSandbox"):
            self.pods.pop(asked.pod_sandbox_id, None)
        elif method == "CreateContainer" and reply.container_id:
            if asked.pod_sandbox_id in self.pods:
                self.forget(reply.container_id)
                self.pods[asked.pod_sandbox_id].add(reply.container_id)
        elif method in ("StopContainer", "RemoveContainer"):
            self.forget(asked.container_id)


class _Proxy:
    """A proxy without its sockets, and what is on its disk."""

    def __init__(self, folder: Path, draw: Random) -> None:
        self._folder, self.draw = folder, draw
        self.hooks, self.model = _HookServer(draw), _Model()
        self.start()

    def start(self) -> None:
        """As after a restart: with what the disk has."""
        self.store = PodStore()
        self._files = StoreFiles(self._folder / "pods", self.store, registry())
        self._files.load()
        hooks: Any = self.hooks
        self._interception = Interception(
            hooks, self.store, CgroupLimitReader(self._folder), ("k", "v")
        )

    def save(self) -> None:
        """Puts all on disk, where every pod is that has a name for a file."""
        rows = [(each, self._files._content(each)) for each in _SANDBOXES]
        assert self._files._write_all(rows) == {}
        self.model.pods = {
            name: containers
            for name, containers in self.model.pods.items()
            if name in ("s1", "s2", "s3")
        }

    async def call(self, method: str, raw: bytes) -> InterceptedCall | None:
        try:
            return await self._interception.before(f"{RUNTIME_SERVICE}{method}", raw)
        except RefusedCallError:
            assert self.hooks.policy is FailurePolicy.FAIL
            return None

    def check(self) -> None:
        found = {each: self.store.pod(each) for each in self.store.pod_ids()}
        assert {name: set(pod.containers) for name, pod in found.items() if pod} == self.model.pods
        owners = {each: name for name, own in self.model.pods.items() for each in own}
        assert {each: self.store.sandbox_of(each) for each in self.store.container_ids()} == owners


def play(folder: Path, draw: Random, messages: int) -> None:
    """So many calls of a kubelet."""
    asyncio.run(_play(_Proxy(folder, draw), draw, messages))


async def _play(proxy: _Proxy, draw: Random, messages: int) -> None:
    for number in range(messages):
        proxy.hooks.silent = draw.random() < 0.5
        proxy.hooks.policy = draw.choice((FailurePolicy.IGNORE, FailurePolicy.FAIL))
        await _one(proxy, draw)
        if number % 20 == 0:
            proxy.check()
        if draw.random() < 0.005:
            proxy.save()
            proxy.start()
            proxy.check()
    proxy.check()


async def _one(proxy: _Proxy, draw: Random) -> None:
    method = draw.choice(_METHODS)
    asked = _request(draw, method)
    raw = asked.SerializeToString() + noise.UNKNOWN
    if in_order := draw.random() < 0.8:
        proxy.model.sent(method, asked)
    else:
        raw = noise.mangled(draw, raw)
        try:
            # What can be read is in order, whatever it says.
            asked = type(asked).FromString(raw)
            proxy.model.sent(method, asked)
        except DecodeError:
            asked = None
    plan = await proxy.call(method, raw)
    if plan is None:
        return
    if proxy.hooks.silent or asked is None:
        assert plan.request == raw
    elif in_order:
        _check_sent(asked, plan.request)
    _answer(proxy, draw, method, asked, plan)


def _check_sent(asked: Any, sent: bytes) -> None:
    assert noise.UNKNOWN in sent
    whole = type(asked).FromString(sent)
    for name in _IDENTITY:
        assert getattr(whole, name, None) == getattr(asked, name, None)
    if hasattr(asked, "config"):
        assert whole.config.metadata == asked.config.metadata


def _answer(proxy: _Proxy, draw: Random, method: str, asked: Any, plan: InterceptedCall) -> None:
    """The runtime does it, or does not; its answer may be none."""
    if draw.random() < 0.2:
        if plan.failed is not None:
            plan.failed()
        return
    kind = getattr(CRI, f"{method}Response", CRI.RunPodSandboxResponse)
    reply = kind()
    if method == "RunPodSandbox":
        reply.pod_sandbox_id = draw.choice(_SANDBOXES)
    elif method == "CreateContainer":
        reply.container_id = draw.choice(_CONTAINERS)
    answer = reply.SerializeToString()
    if draw.random() < 0.1:
        answer = noise.mangled(draw, answer)
        try:
            reply = kind.FromString(answer)
        except DecodeError:
            reply = kind()
    if plan.answered is not None:
        plan.answered(answer)
        if asked is not None:
            proxy.model.answered(method, asked, reply)


def _request(draw: Random, method: str) -> Any:
    if method == "CreateContainer":
        made = create_request(draw.choice(_SANDBOXES))
        made.config.metadata.name = noise.text(draw)
        made.config.annotations.update(noise.texts(draw))
    elif method == "RunPodSandbox":
        made = CRI.RunPodSandboxRequest(config=sandbox_config(noise.text(draw)))
        made.config.labels.update(draw.choice(({"k": "v"}, noise.texts(draw))))
    else:
        made = noise.filled(draw, getattr(CRI, f"{method}Request"))
    if method != "CreateContainer" and hasattr(made, "pod_sandbox_id"):
        made.pod_sandbox_id = draw.choice(_SANDBOXES)
    if hasattr(made, "container_id"):
        made.container_id = draw.choice(_CONTAINERS)
    return made
