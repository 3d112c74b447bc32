# SPDX-License-Identifier: Apache-2.0
"""Pods as a scheduler reads them: what it never looks at is skipped by the decoder.

The states of containers and their environments are half of a running pod's JSON. For an informer's
``project``; such a pod is a :class:`koord.api.kinds.pod.Pod`, with those fields empty. Of the
states is left what containers hold, which is the same for all pods of a workload.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import field

from koord.api.kinds.pod import Container, ContainerStatus, EnvVar, Pod, PodSpec, PodStatus
from koord.api.schema import FreeForm
from koord.kube.codec.projection import OmitIfPresent, ProjectItems

# No field of a JSON object is called so on the wire.
_NEVER = "-{}"


def skipped(name: str, empty: Any) -> Any:
    """A field that is not read and stays empty."""
    return field(default=empty, name=_NEVER.format(name))


class TrimmedContainer(Container):
    """A container without its environment."""

    env: list[EnvVar] = skipped("env", [])


_Containers: TypeAlias = Annotated[list[TrimmedContainer], ProjectItems()]


class TrimmedPodSpec(PodSpec):
    """What a pod asks for, by containers.

    Projected volumes say nothing of where a pod may go. Nearly every pod has one, with its service
    account's token, under a name that is drawn by lot.
    """

    containers: _Containers = field(default_factory=list)  # type: ignore[assignment]
    init_containers: _Containers = field(default_factory=list)  # type: ignore[assignment]
    volumes: Annotated[list[FreeForm], OmitIfPresent("projected")] = field(default_factory=list)


class TrimmedContainerStatus(ContainerStatus):
    """What a container holds."""

    container_id: str = skipped("containerID", "")
    ready: bool = skipped("ready", False)
    restart_count: int = skipped("restartCount", 0)
    state: dict[str, Any] = skipped("state", {})
    last_state: dict[str, Any] = skipped("lastState", {})


_Held = Annotated[list[TrimmedContainerStatus], ProjectItems()]


class TrimmedPodStatus(PodStatus):
    """The observed state of a pod, of its containers what they hold."""

    container_statuses: _Held = field(default_factory=list)  # type: ignore[assignment]
    init_container_statuses: _Held = field(default_factory=list)  # type: ignore[assignment]
    ephemeral_container_statuses: list[ContainerStatus] = skipped("ephemeralContainerStatuses", [])


class TrimmedPod(Pod):
    """A pod without what no scheduler reads."""

    spec: TrimmedPodSpec = field(default_factory=TrimmedPodSpec)
    status: TrimmedPodStatus = field(default_factory=TrimmedPodStatus)
