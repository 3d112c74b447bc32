# SPDX-License-Identifier: Apache-2.0
"""What the proxy does with the calls that hook servers hear of, and with those that end something.

Whatever goes wrong here, the kubelet's own request goes on to the runtime; the one exception is a
hook server whose file says ``Fail``. Rule: docs/reference/delivery.md#hooked-calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from koord.base import log
from koord.base.errors import one_line
from koord.delivery.cri.hook_answers import (
    clamp,
    is_cgroup_parent,
    put_environment,
    put_resources,
    wanted_resources,
)
from koord.delivery.cri.hook_requests import add_pod, add_update, container_request, pod_request
from koord.delivery.cri.hook_servers import FailurePolicy
from koord.delivery.cri.messages import CRI, RUNTIME_SERVICE
from koord.delivery.hooks.messages import HOOKS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from koord.delivery.cri.cgroup_limits import CgroupLimitReader
    from koord.delivery.cri.hook_calls import HookCalls
    from koord.delivery.cri.pod_store import PodStore

_MOST_REMEMBERED = 1024
_LOG = log.get("runtime-proxy")


class RefusedCallError(Exception):
    """The kubelet's call fails, because a hook server did; the message is the status's."""


@dataclass
class InterceptedCall:
    """How a call goes on to the runtime.

    Attributes:
        request: as it is sent.
        answered: told of the runtime's answer when it has done it.
        failed: told when it has not.
        fallback: what is sent where the runtime refuses the request; None to let it be refused.
    """

    request: bytes
    answered: Callable[[bytes], None] | None = None
    failed: Callable[[], None] | None = None
    fallback: bytes | None = None


class Interception:
    """Of one proxy.

    Args:
        hooks: calls hook servers.
        store: pods and containers.
        limits: what a pod's cgroups let its containers have.
        skip_label: key and value of the label of pods that no hook server hears of.
    """

    def __init__(
        self,
        hooks: HookCalls,
        store: PodStore,
        limits: CgroupLimitReader,
        skip_label: tuple[str, str],
    ) -> None:
        self._hooks, self._store, self._limits = hooks, store, limits
        self._skip_label = skip_label
        # Pods and containers that the runtime did not take with a hook's values.
        self._refused: dict[tuple[str, str], None] = {}
        self._changed: dict[str, None] = {}
        self._handlers: dict[str, Callable[[bytes], Awaitable[InterceptedCall]]] = {
            f"{RUNTIME_SERVICE}{name}": handler
            for name, handler in {
                "RunPodSandbox": self._run_pod,
                "StopPodSandbox": self._stop_pod,
                "RemovePodSandbox": self._remove_pod,
                "CreateContainer": self._create,
                "StartContainer": self._start,
                "UpdateContainerResources": self._update,
                "StopContainer": self._stop,
                "RemoveContainer": self._remove,
            }.items()
        }

    def hears_of(self, method: str) -> bool:
        """Whether a method's calls are looked at; all others are none of its business."""
        return method in self._handlers

    async def before(self, method: str, request: bytes) -> InterceptedCall:
        """What becomes of a call.

        Raises:
            RefusedCallError: a hook server failed whose file says that calls fail then.
        """
        try:
            return await self._handlers[method](request)
        except DecodeError:
            # The runtime says what is wrong with it.
            return InterceptedCall(request)

    # -- pods ----------------------------------------------------------------------------------

    async def _run_pod(self, raw: bytes) -> InterceptedCall:
        request = CRI.RunPodSandboxRequest.FromString(raw)
        pod = pod_request(request.config, request.runtime_handler)
        key = (pod.pod_meta.uid, "")
        changed = False
        if self._is_hooked(pod.labels, key):
            answer = await self._call("PreRunPodSandbox", pod)
            changed = answer is not None and _put_pod(request.config, pod, answer)
        kept = pod_request(request.config, request.runtime_handler)

        def answered(reply: bytes) -> None:
            sandbox = _decoded(CRI.RunPodSandboxResponse, reply).pod_sandbox_id
            self._store.add_pod(sandbox, kept)

        sent = request.SerializeToString() if changed else raw
        failed = (lambda: self._refuse(key, pod)) if changed else None
        return InterceptedCall(sent, answered, failed)

    async def _stop_pod(self, raw: bytes) -> InterceptedCall:
        sandbox = CRI.StopPodSandboxRequest.FromString(raw).pod_sandbox_id

        def answered(_: bytes) -> None:
            pod = self._store.pod(sandbox)
            if pod is not None:
                self._store.remove_pod(sandbox)
                self._call_later("PostStopPodSandbox", pod.request)

        return InterceptedCall(raw, answered)

    async def _remove_pod(self, raw: bytes) -> InterceptedCall:
        sandbox = CRI.RemovePodSandboxRequest.FromString(raw).pod_sandbox_id
        return InterceptedCall(raw, lambda _: self._store.remove_pod(sandbox))

    # -- containers ----------------------------------------------------------------------------

    async def _create(self, raw: bytes) -> InterceptedCall:
        request = CRI.CreateContainerRequest.FromString(raw)
        sandbox = request.pod_sandbox_id
        if self._store.pod(sandbox) is None:
            # The kubelet says of each container whose it is.
            self._store.add_pod(sandbox, pod_request(request.sandbox_config))
        stored = self._store.pod(sandbox)
        pod = stored.request if stored else pod_request(request.sandbox_config)
        before = container_request(pod, request.config)
        key = (pod.pod_meta.uid, request.config.metadata.name)
        changed = False
        if self._is_hooked(pod.labels, key):
            answer = await self._call("PreCreateContainer", before)
            changed = answer is not None and self._put_container(request, before, answer)
        kept = container_request(pod, request.config)

        def answered(reply: bytes) -> None:
            container = _decoded(CRI.CreateContainerResponse, reply).container_id
            self._store.add_container(sandbox, container, kept)
            if changed:
                _remember(self._changed, container)

        sent = request.SerializeToString() if changed else raw
        failed = (lambda: self._refuse(key, before)) if changed else None
        return InterceptedCall(sent, answered, failed)

    def _put_container(self, request: Any, before: Any, answer: Any) -> bool:
        original = request.SerializeToString(deterministic=True)
        config = request.config
        config.annotations.update(answer.container_annotations)
        if answer.HasField("container_resources"):
            limits = self._limits.of(before.pod_cgroup_parent)
            resources = before.container_resources
            wanted = wanted_resources(resources, answer.container_resources)
            put_resources(config.linux.resources, clamp(wanted, resources, limits))
        put_environment(config, before.container_envs, answer.container_envs)
        parent = answer.pod_cgroup_parent
        if is_cgroup_parent(parent, before.pod_cgroup_parent):
            request.sandbox_config.linux.cgroup_parent = parent
        return bool(request.SerializeToString(deterministic=True) != original)

    async def _start(self, raw: bytes) -> InterceptedCall:
        container = CRI.StartContainerRequest.FromString(raw).container_id
        request = self._stored(container)
        if request is None:
            return InterceptedCall(raw)
        key = (request.pod_meta.uid, request.container_meta.name)
        await self._call("PreStartContainer", request)

        def answered(_: bytes) -> None:
            self._changed.pop(container, None)
            self._call_later("PostStartContainer", request)

        def failed() -> None:
            # What a hook wanted of it was tried only now.
            if container in self._changed:
                del self._changed[container]
                self._refuse(key, request)

        return InterceptedCall(raw, answered, failed)

    async def _update(self, raw: bytes) -> InterceptedCall:
        update = CRI.UpdateContainerResourcesRequest.FromString(raw)
        request = self._stored(update.container_id)
        if request is None:
            return InterceptedCall(raw)
        add_update(request.container_resources, update.linux)
        answer = await self._call("PreUpdateContainerResources", request)
        wanted: dict[str, Any] = {}
        before = request.container_resources
        if answer is not None:
            limits = self._limits.of(request.pod_cgroup_parent)
            if answer.HasField("container_resources"):
                wanted = clamp(wanted_resources(before, answer.container_resources), before, limits)
            put_resources(update.linux, wanted)
            update.annotations.update(answer.container_annotations)

        def answered(_: bytes) -> None:
            put_resources(before, wanted)
            sandbox = self._store.sandbox_of(update.container_id)
            self._store.add_container(sandbox, update.container_id, request)

        sent = update.SerializeToString() if answer is not None else raw
        return InterceptedCall(sent, answered, fallback=raw if sent != raw else None)

    async def _stop(self, raw: bytes) -> InterceptedCall:
        container = CRI.StopContainerRequest.FromString(raw).container_id
        request = self._stored(container)

        def answered(_: bytes) -> None:
            self._store.remove_container(container)
            if request is not None:
                self._call_later("PostStopContainer", request)

        return InterceptedCall(raw, answered)

    async def _remove(self, raw: bytes) -> InterceptedCall:
        container = CRI.RemoveContainerRequest.FromString(raw).container_id
        return InterceptedCall(raw, lambda _: self._store.remove_container(container))

    # -- of both -------------------------------------------------------------------------------

    def _stored(self, container: str) -> Any:
        """The request of a container that is known, with what is its pod's; else None."""
        pod = self._store.pod(self._store.sandbox_of(container))
        if pod is None:
            return None
        made = HOOKS.ContainerResourceHookRequest()
        made.CopyFrom(pod.containers[container])
        add_pod(made, pod.request)
        return made

    def _is_hooked(self, labels: Any, key: tuple[str, str]) -> bool:
        """Whether hook servers hear of a pod or container that is to be made."""
        if key in self._refused:
            del self._refused[key]
            return False
        return not self._skips(labels)

    def _skips(self, labels: Any) -> bool:
        key, value = self._skip_label
        return bool(key) and labels.get(key) == value

    async def _call(self, stage: str, request: Any) -> Any:
        """A hook server's answer; None where there is none, or none that counts."""
        labels = getattr(request, "labels", None)
        if self._skips(request.pod_labels if labels is None else labels):
            return None
        answer, failure = await self._hooks.call(stage, request, name_of(request))
        if failure is not None and failure.policy is FailurePolicy.FAIL:
            raise RefusedCallError(f"hook server err: {failure.text}")
        return answer

    def _call_later(self, stage: str, request: Any) -> None:
        labels = getattr(request, "labels", None)
        if not self._skips(request.pod_labels if labels is None else labels):
            self._hooks.call_later(stage, request, name_of(request))

    def _refuse(self, key: tuple[str, str], request: Any) -> None:
        """Makes it without hooks' values the next time, which may be why the runtime failed."""
        _remember(self._refused, key)
        fields = log.fields(what=name_of(request))
        _LOG.warning("the runtime failed; hooks are left out at the next try", extra=fields)


def _remember(keys: dict[Any, None], key: Any) -> None:
    """Adds a key to a bounded set; the oldest goes."""
    while len(keys) >= _MOST_REMEMBERED:
        del keys[next(iter(keys))]
    keys[key] = None


def _put_pod(config: Any, before: Any, answer: Any) -> bool:
    """Puts an answer into a ``PodSandboxConfig``; whether that is another then."""
    original = config.SerializeToString(deterministic=True)
    config.labels.update(answer.labels)
    config.annotations.update(answer.annotations)
    if is_cgroup_parent(answer.cgroup_parent, before.cgroup_parent):
        config.linux.cgroup_parent = answer.cgroup_parent
    return bool(config.SerializeToString(deterministic=True) != original)


def _decoded(kind: Any, raw: bytes) -> Any:
    """A runtime's answer; an empty one where it is none, which is the kubelet's to find out."""
    try:
        return kind.FromString(raw)
    except DecodeError:
        return kind()


def name_of(request: Any) -> str:
    """Pod and container of a hook request, for people."""
    name = f"pod {request.pod_meta.namespace}/{request.pod_meta.name}"
    container = getattr(getattr(request, "container_meta", None), "name", "")
    return one_line(f"{name} container {container}" if container else name)[:400]
