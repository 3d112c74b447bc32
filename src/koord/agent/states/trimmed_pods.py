# SPDX-License-Identifier: Apache-2.0
"""Pods as the agent reads them: what it never looks at is skipped by the decoder.

The environment of its containers is half of a pod, and none of the agent's business. Such a pod is
a :class:`koord.api.kinds.pod.Pod`, with those fields empty.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import field

from koord.api.kinds.constraints import Affinity, Toleration, TopologySpreadConstraint
from koord.api.kinds.pod import (
    Container,
    ContainerPort,
    ContainerStatus,
    EnvVar,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)
from koord.api.schema import FreeForm
from koord.kube.codec.projection import OmitIfPresent, ProjectItems


def _skipped(name: str, empty: Any) -> Any:
    # No member of a JSON object is called so on the wire.
    return field(default=empty, name=f"-{name}")


class AgentContainer(Container):
    """A container without what it runs."""

    image: str = _skipped("image", "")
    ports: list[ContainerPort] = _skipped("ports", [])
    env: list[EnvVar] = _skipped("env", [])


_AgentContainers = Annotated[list[AgentContainer], ProjectItems()]


class AgentContainerStatus(ContainerStatus):
    """The observed state of a container, without the one before."""

    last_state: dict[str, Any] = _skipped("lastState", {})


class AgentPodSpec(PodSpec):
    """What a pod asks for, but not where it may go."""

    containers: _AgentContainers = field(default_factory=list)  # type: ignore[assignment]
    init_containers: _AgentContainers = field(default_factory=list)  # type: ignore[assignment]
    affinity: Affinity | None = _skipped("affinity", None)
    tolerations: list[Toleration] = _skipped("tolerations", [])
    topology_spread_constraints: list[TopologySpreadConstraint] = _skipped(
        "topologySpreadConstraints", []
    )
    # Nearly every pod has one, with its service account's token; no limit of I/O is about it.
    volumes: Annotated[list[FreeForm], OmitIfPresent("projected")] = field(default_factory=list)


class AgentPodStatus(PodStatus):
    """The observed state of a pod without its conditions."""

    conditions: list[PodCondition] = _skipped("conditions", [])
    container_statuses: list[AgentContainerStatus] = field(  # type: ignore[assignment]
        default_factory=list
    )
    init_container_statuses: list[AgentContainerStatus] = field(  # type: ignore[assignment]
        default_factory=list
    )


class AgentPod(Pod):
    """A pod without what no part of the agent reads."""

    spec: AgentPodSpec = field(default_factory=AgentPodSpec)
    status: AgentPodStatus = field(default_factory=AgentPodStatus)
