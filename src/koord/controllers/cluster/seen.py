# SPDX-License-Identifier: Apache-2.0
"""Pods as a scheduler reads them: what it never looks at is skipped by the decoder.

The states of containers and their environments are half of a running pod's JSON. For an informer's
``project``; such a pod is a :class:`koord.api.kinds.pod.Pod`, with those fields empty. Of the
states is left what containers hold, which is the same for all pods of a workload.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import field

from koord.api.kinds.pod import Container, ContainerStatus, EnvVar, Pod, PodSpec, PodStatus
from koord.api.schema import FreeForm
from koord.kube.cutting import Cut, Unless

# No field of a JSON object is called so on the wire.
_NEVER = "-{}"


def _skipped(name: str, empty: Any) -> Any:
    return field(default=empty, name=_NEVER.format(name))


class SeenContainer(Container):
    """A container without its environment."""

    env: list[EnvVar] = _skipped("env", [])


class SeenPodSpec(PodSpec):
    """What a pod asks for, by containers.

    Projected volumes say nothing of where a pod may go. Nearly every pod has one, with its service
    account's token, under a name that is drawn by lot.
    """

    containers: Annotated[list[SeenContainer], Cut()] = field(  # type: ignore[assignment]
        default_factory=list
    )
    init_containers: Annotated[list[SeenContainer], Cut()] = field(  # type: ignore[assignment]
        default_factory=list
    )
    volumes: Annotated[list[FreeForm], Unless("projected")] = field(default_factory=list)


class SeenContainerStatus(ContainerStatus):
    """What a container holds."""

    container_id: str = _skipped("containerID", "")
    ready: bool = _skipped("ready", False)
    restart_count: int = _skipped("restartCount", 0)
    state: dict[str, Any] = _skipped("state", {})
    last_state: dict[str, Any] = _skipped("lastState", {})


_Held = Annotated[list[SeenContainerStatus], Cut()]


class SeenPodStatus(PodStatus):
    """The observed state of a pod, of its containers what they hold."""

    container_statuses: _Held = field(default_factory=list)  # type: ignore[assignment]
    init_container_statuses: _Held = field(default_factory=list)  # type: ignore[assignment]


class SeenPod(Pod):
    """A pod without what no scheduler reads."""

    spec: SeenPodSpec = field(default_factory=SeenPodSpec)
    status: SeenPodStatus = field(default_factory=SeenPodStatus)
