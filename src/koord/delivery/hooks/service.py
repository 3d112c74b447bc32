# SPDX-License-Identifier: Apache-2.0
"""The agent's side of the hook service: answers a proxy's calls with what hooks want.

As over NRI a pod is judged as the agent knows it, and nothing here is an error to the proxy unless
the flags say so. Rule: docs/reference/delivery.md#hook-server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from koord.agent.hooks.hook import HookStage
from koord.base import log
from koord.base.errors import one_line
from koord.delivery.answering import NOTHING, WAIT_SHARE, answered
from koord.delivery.hooks.answers import container_answer, pod_answer
from koord.delivery.hooks.messages import CONTAINER_STAGES, HOOKS, POD_STAGES
from koord.delivery.policy import DeliveryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.agent.hooks.creation import CreationHooks
    from koord.agent.states.pod_arrivals import PodArrivals
    from koord.agent.states.pod_state import PodState
    from koord.delivery.answering import Answer
    from koord.delivery.nri.call_log import CallLog

LIMIT_SECONDS = 2.0
"""How long a proxy is taken to wait, where it doesn't say: as long as a runtime for NRI."""

MOST_AT_A_TIME = 64
"""Calls that are answered at a time; one more is answered with nothing, at once."""

MOST_ANSWER_BYTES = 4 << 20
"""A proxy reads no larger message, as gRPC's clients do unless they are told."""

STAGES = (*POD_STAGES, *CONTAINER_STAGES)
"""Stages that have a method."""

_WITH_VALUES = frozenset({HookStage.PRE_CREATE_CONTAINER, HookStage.PRE_UPDATE_CONTAINER_RESOURCES})
_LOG = log.get("agent.hookserver")


class HookServices(NamedTuple):
    """What the service asks.

    Attributes:
        hooks: what they want of a container.
        pods: those of the node.
        restate: has hooks' values of a pod's own directory written now, by the pod's UID, and says
            what failed.
        calls: remembers what was asked.
        steps_aside: whether hooks come another way, so that each answer changes nothing.
        policy: which stages are served, and what failures are.
    """

    hooks: CreationHooks
    pods: PodArrivals
    restate: Callable[[str], list[str]]
    calls: CallLog
    steps_aside: Callable[[], bool]
    policy: DeliveryPolicy = DeliveryPolicy()


class HookService:
    """Of one agent.

    Args:
        services: what it asks.
    """

    def __init__(self, services: HookServices) -> None:
        self._services = services
        self._answering = 0

    async def handle(self, stage: str, payload: bytes, remaining_seconds: float | None) -> bytes:
        """The answer to a stage's call: an empty one where nothing is ready in time.

        Args:
            stage: one of :data:`STAGES`.
            payload: the request.
            remaining_seconds: until the proxy gives up; None where it doesn't say.

        Raises:
            HookFailureError: a hook failed, and that is to be the container's failure.
        """
        calls = self._services.calls
        if self._services.steps_aside():
            with calls.call(stage):
                return NOTHING
        if self._answering >= MOST_AT_A_TIME:
            with calls.call(stage) as call:
                call.fail(f"{MOST_AT_A_TIME} calls are being answered")
                return NOTHING
        told = LIMIT_SECONDS if remaining_seconds is None else remaining_seconds
        limit = max(0.0, min(told, LIMIT_SECONDS))
        kind, answer = self._answer_of(HookStage(stage), limit)
        self._answering += 1
        try:
            made = await answered(calls, stage, kind, payload, answer, limit, _LOG)
        finally:
            self._answering -= 1
        if len(made) > MOST_ANSWER_BYTES:
            _LOG.warning("too large to answer", extra=log.fields(stage=stage, bytes=len(made)))
            return NOTHING
        return made

    def _answer_of(self, stage: HookStage, limit: float) -> tuple[Any, Answer]:
        async def of_pod(request: Any) -> Any:
            if stage is HookStage.PRE_RUN_POD_SANDBOX and await self._pod(request, stage, limit):
                self._services.policy.judge(self._services.restate(request.pod_meta.uid))
            return pod_answer(request)

        async def of_container(request: Any) -> Any:
            pod = await self._pod(request, stage, limit) if stage in _WITH_VALUES else None
            if pod is None:
                return container_answer(request)
            # The runtime names the container later: its directory is not there yet.
            meta, environment = request.container_meta, dict(request.container_envs)
            values = self._services.hooks.values(
                pod, meta.name, f"containerd://{meta.id}", stage, environment
            )
            self._services.policy.judge(values.failed)
            return container_answer(request, values)

        if stage in POD_STAGES:
            return HOOKS.PodSandboxHookRequest, of_pod
        return HOOKS.ContainerResourceHookRequest, of_container

    async def _pod(self, request: Any, stage: HookStage, limit: float) -> PodState | None:
        if not self._services.policy.serves(stage):
            return None
        meta = request.pod_meta
        found = await self._services.pods.find(meta.uid, limit * WAIT_SHARE)
        if found is None:
            name = one_line(f"{meta.namespace}/{meta.name}")
            self._services.calls.unknown_pod(name)
            _LOG.warning("pod is not known yet", extra=log.fields(pod=name))
        return found
