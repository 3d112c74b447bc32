# SPDX-License-Identifier: Apache-2.0
"""koord's NRI plugin: answers a runtime's calls with what the agent's hooks want.

A pod is judged as the agent knows it, from its kubelet or API server, not by what the runtime
tells: so a container gets the very values that the executor states afterwards. One that is not
known in time is made without them. Rule: docs/reference/delivery.md#events.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.agent.hooks.hook import HookStage
from koord.base import log
from koord.base.errors import one_line
from koord.delivery.answering import WAIT_SHARE, answered
from koord.delivery.nri.adjustments import adjustment, environment_of, is_met, update
from koord.delivery.nri.messages import NRI
from koord.delivery.nri.ttrpc import UNIMPLEMENTED, UNKNOWN, CallError
from koord.delivery.policy import DeliveryPolicy, HookFailureError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koord.agent.hooks.container_values import ContainerValues
    from koord.agent.hooks.creation import CreationHooks
    from koord.agent.states.pod_arrivals import PodArrivals
    from koord.agent.states.pod_state import PodState
    from koord.delivery.answering import Answer
    from koord.delivery.nri.call_log import CallLog

PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_SERVICE = "nri.pkg.api.v1alpha1.Runtime"

REQUEST_SECONDS = 2.0
"""How long a runtime waits for an answer, where it doesn't say."""

MOST_REQUEST_SECONDS = 10.0
"""However long a runtime waits: a container is held up no longer than a share of this."""

MOST_SYNCHRONIZED = 4096
"""Containers that one round of Synchronize is answered for; the executor looks after the rest."""

_MILLI = 1000
_LOG = log.get("agent.nri")


class NriEvent(IntEnum):
    """Events that are followed, by NRI's numbers; an event's bit is one less."""

    RUN_POD_SANDBOX = 1
    REMOVE_POD_SANDBOX = 3
    CREATE_CONTAINER = 4
    UPDATE_CONTAINER = 8
    STOP_CONTAINER = 10


_STAGES = {
    NriEvent.RUN_POD_SANDBOX: HookStage.PRE_RUN_POD_SANDBOX,
    NriEvent.CREATE_CONTAINER: HookStage.PRE_CREATE_CONTAINER,
    NriEvent.UPDATE_CONTAINER: HookStage.PRE_UPDATE_CONTAINER_RESOURCES,
    NriEvent.REMOVE_POD_SANDBOX: HookStage.PRE_REMOVE_RUN_POD_SANDBOX,
    NriEvent.STOP_CONTAINER: HookStage.POST_STOP_CONTAINER,
}


def mask_of(policy: DeliveryPolicy) -> int:
    """The events that a runtime is to tell of: those whose stages are served."""
    return sum(1 << (event - 1) for event in NriEvent if policy.serves(_STAGES[event]))


class PluginServices(NamedTuple):
    """What a plugin asks.

    Attributes:
        hooks: what they want of a container.
        pods: those of the node.
        restate: has hooks' values of a pod's own directory written now, by the pod's UID, and says
            what failed.
        recheck: has the files of all pods compared: a runtime may have written them.
        calls: remembers what was asked.
        policy: which stages are served, and what failures are.
    """

    hooks: CreationHooks
    pods: PodArrivals
    restate: Callable[[str], list[str]]
    recheck: Callable[[], None]
    calls: CallLog
    policy: DeliveryPolicy = DeliveryPolicy()


class NriPlugin:
    """Answers the calls of one connection.

    Args:
        services: what it asks.

    Attributes:
        runtime: name and version of the runtime; empty until it configures the plugin.
        synchronized: whether it has told of all that runs.
    """

    def __init__(self, services: PluginServices) -> None:
        self._services = services
        self.runtime = self._runtime_name = ""
        self.synchronized = False
        self._request_seconds = REQUEST_SECONDS
        # Of the chunks of one Synchronize: UIDs by sandbox, and updates.
        self._uids: dict[str, str] = {}
        self._updates: list[Any] = []
        nothing = NRI.Empty
        self._answers: dict[str, tuple[Any, Answer]] = {
            "Configure": (NRI.ConfigureRequest, self._configure),
            "Synchronize": (NRI.SynchronizeRequest, self._synchronize),
            "RunPodSandbox": (NRI.RunPodSandboxRequest, self._run_pod),
            "RemovePodSandbox": (nothing, self._nothing),
            "CreateContainer": (NRI.CreateContainerRequest, self._create),
            "UpdateContainer": (NRI.UpdateContainerRequest, self._update),
            "StopContainer": (nothing, self._nothing),
            "StateChange": (NRI.StateChangeEvent, self._state_change),
            "Shutdown": (nothing, self._nothing),
        }

    async def handle(self, service: str, method: str, payload: bytes) -> bytes:
        """The answer to a call, within the runtime's limit: an empty one where nothing is ready.

        Raises:
            CallError: a call that koord does not know, or a hook that failed where that is to be
                the container's failure. A runtime makes no container then, so there is no other.
        """
        if service != PLUGIN_SERVICE or method not in self._answers:
            raise CallError(UNIMPLEMENTED, f"{service}/{method} is not implemented")
        kind, answer = self._answers[method]
        calls, limit = self._services.calls, self._request_seconds
        try:
            return await answered(calls, method, kind, payload, answer, limit, _LOG)
        except HookFailureError as error:
            raise CallError(UNKNOWN, one_line(str(error))) from None

    # -- the connection ------------------------------------------------------------------------

    async def _configure(self, request: Any) -> Any:
        self._runtime_name = request.runtime_name
        self.runtime = one_line(f"{request.runtime_name} {request.runtime_version}".strip())
        if request.request_timeout > 0:
            told = request.request_timeout / _MILLI
            self._request_seconds = min(told, MOST_REQUEST_SECONDS)
        fields = log.fields(runtime=self.runtime, timeout=self._request_seconds)
        _LOG.info("configured", extra=fields)
        return NRI.ConfigureResponse(events=mask_of(self._services.policy))

    async def _synchronize(self, request: Any) -> Any:
        """Values for what runs already and was made without koord, or before it knew better."""
        self._uids |= {pod.id: pod.uid for pod in request.pods}
        for container in request.containers:
            if len(self._updates) < MOST_SYNCHRONIZED:
                self._bring_up_to_date(container)
        if request.more:
            return NRI.SynchronizeResponse(more=True)
        made = NRI.SynchronizeResponse(update=self._updates)
        fields = log.fields(pods=len(self._uids), updates=len(self._updates))
        _LOG.info("synchronized", extra=fields)
        self._uids, self._updates, self.synchronized = {}, [], True
        self._services.recheck()
        return made

    def _bring_up_to_date(self, container: Any) -> None:
        pod = self._services.pods.known(self._uids.get(container.pod_sandbox_id, ""))
        if pod is None:
            return
        stage = HookStage.PRE_UPDATE_CONTAINER_RESOURCES
        values = self._services.hooks.values(pod, container.name, self._id(container), stage)
        if not is_met(container.linux.resources, values):
            found = update(container.id, values, may_fail=True)
            self._updates += [] if found is None else [found]

    # -- events --------------------------------------------------------------------------------

    async def _run_pod(self, request: Any) -> Any:
        if await self._pod(request.pod, HookStage.PRE_RUN_POD_SANDBOX) is not None:
            self._services.policy.judge(self._services.restate(request.pod.uid))
        return NRI.Empty()

    async def _create(self, request: Any) -> Any:
        stage, container = HookStage.PRE_CREATE_CONTAINER, request.container
        made = NRI.CreateContainerResponse()
        values = await self._values(stage, request.pod, container, environment_of(container))
        if values is not None:
            made.adjust.CopyFrom(adjustment(values))
        return made

    async def _update(self, request: Any) -> Any:
        stage, container = HookStage.PRE_UPDATE_CONTAINER_RESOURCES, request.container
        made = NRI.UpdateContainerResponse()
        values = await self._values(stage, request.pod, container)
        found = None if values is None else update(container.id, values)
        made.update.extend([] if found is None else [found])
        return made

    async def _state_change(self, request: Any) -> Any:
        """Up to NRI 0.11 events without an answer come in this form."""
        if request.event == NriEvent.RUN_POD_SANDBOX:
            return await self._run_pod(request)
        return NRI.Empty()

    async def _nothing(self, request: Any) -> Any:
        """The agent hears of the end from its pods' source, and the executor from the kernel."""
        del request
        return NRI.Empty()

    async def _values(
        self,
        stage: HookStage,
        sandbox: Any,
        container: Any,
        environment: Mapping[str, str] | None = None,
    ) -> ContainerValues | None:
        """What hooks want of a container; None where they are not asked."""
        pod = await self._pod(sandbox, stage)
        if pod is None:
            return None
        identity, hooks = self._id(container), self._services.hooks
        values = hooks.values(pod, container.name, identity, stage, environment)
        self._services.policy.judge(values.failed)
        return values

    async def _pod(self, sandbox: Any, stage: HookStage) -> PodState | None:
        # A runtime that is asked for no events at all tells of all of them.
        if not self._services.policy.serves(stage):
            return None
        found = await self._services.pods.find(sandbox.uid, self._request_seconds * WAIT_SHARE)
        if found is None:
            name = one_line(f"{sandbox.namespace}/{sandbox.name}")
            self._services.calls.unknown_pod(name)
            _LOG.warning("pod is not known yet", extra=log.fields(pod=name))
        return found

    def _id(self, container: Any) -> str:
        return f"{self._runtime_name or 'containerd'}://{container.id}"
