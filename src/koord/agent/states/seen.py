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
from koord.kube.cutting import Cut, Unless


def _skipped(name: str, empty: Any) -> Any:
    # No member of a JSON object is called so on the wire.
    return field(default=empty, name=f"-{name}")


class SeenContainer(Container):
    """A container without what it runs."""

    image: str = _skipped("image", "")
    ports: list[ContainerPort] = _skipped("ports", [])
    env: list[EnvVar] = _skipped("env", [])


class SeenContainerStatus(ContainerStatus):
    """The observed state of a container, without the one before."""

    last_state: dict[str, Any] = _skipped("lastState", {})


class SeenPodSpec(PodSpec):
    """What a pod asks for, but not where it may go."""

    containers: Annotated[list[SeenContainer], Cut()] = field(  # type: ignore[assignment]
        default_factory=list
    )
    init_containers: Annotated[list[SeenContainer], Cut()] = field(  # type: ignore[assignment]
        default_factory=list
    )
    affinity: Affinity | None = _skipped("affinity", None)
    tolerations: list[Toleration] = _skipped("tolerations", [])
    topology_spread_constraints: list[TopologySpreadConstraint] = _skipped(
        "topologySpreadConstraints", []
    )
    # Nearly every pod has one, with its service account's token; no limit of I/O is about it.
    volumes: Annotated[list[FreeForm], Unless("projected")] = field(default_factory=list)


class SeenPodStatus(PodStatus):
    """The observed state of a pod without its conditions."""

    conditions: list[PodCondition] = _skipped("conditions", [])
    container_statuses: list[SeenContainerStatus] = field(  # type: ignore[assignment]
        default_factory=list
    )
    init_container_statuses: list[SeenContainerStatus] = field(  # type: ignore[assignment]
        default_factory=list
    )


class SeenPod(Pod):
    """A pod without what no part of the agent reads."""

    spec: SeenPodSpec = field(default_factory=SeenPodSpec)
    status: SeenPodStatus = field(default_factory=SeenPodStatus)
