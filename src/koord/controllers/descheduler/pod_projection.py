# SPDX-License-Identifier: Apache-2.0
"""Pods as the descheduler keeps them: what no plugin reads is skipped by the decoder.

Of a container's state plugins ask why it waits, why it ended and with which code. What is its own
of each container (its id, when it started) is nearly all of the rest, so that without it the pods
of a workload share their statuses, as long as they restarted as often. For an informer's
``project``; such a pod is a :class:`koord.api.kinds.pod.Pod`, with those fields empty.
Rule: docs/reference/descheduling.md#what-is-kept-of-pods.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, TypedDict

from msgspec import field

from koord.api.kinds.pod import ContainerStatus, PodStatus
from koord.controllers.cluster.trimmed_pods import TrimmedPod, skipped
from koord.kube.codec.projection import ProjectItems


class StateReason(TypedDict, total=False):
    """Why a container waits or has ended; a code where it has ended. Names as on the wire."""

    reason: str
    exitCode: int


class ContainerReasons(TypedDict, total=False):
    """What plugins ask of a container's state: nothing of one that runs."""

    waiting: StateReason
    terminated: StateReason


class DeschedulerContainerStatus(ContainerStatus):
    """How often a container restarted, and its state; what it holds, for the scheduler's part."""

    container_id: str = skipped("containerID", "")
    ready: bool = skipped("ready", False)
    state: ContainerReasons = {}  # type: ignore[assignment]
    last_state: dict[str, Any] = skipped("lastState", {})


_Statuses: TypeAlias = Annotated[list[DeschedulerContainerStatus], ProjectItems()]


class DeschedulerPodStatus(PodStatus):
    """The observed state of a pod, but for its addresses."""

    host_ip: str = skipped("hostIP", "")
    pod_ip: str = skipped("podIP", "")
    container_statuses: _Statuses = field(default_factory=list)  # type: ignore[assignment]
    init_container_statuses: _Statuses = field(default_factory=list)  # type: ignore[assignment]
    ephemeral_container_statuses: _Statuses = field(  # type: ignore[assignment]
        default_factory=list
    )


class DeschedulerPod(TrimmedPod):
    """A pod with what the scheduler reads of it, for plans, and what the plugins do."""

    status: DeschedulerPodStatus = field(  # type: ignore[assignment]
        default_factory=DeschedulerPodStatus
    )
