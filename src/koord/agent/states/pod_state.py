# SPDX-License-Identifier: Apache-2.0
"""A pod of this node as the agent sees it: its classes, its cgroup and its containers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from koord.api.protocol.priority import PriorityClass, class_with_default, priority_with_default
from koord.api.protocol.qos import QoSClass, kubernetes_qos, qos_with_default, raw_qos
from koord.api.protocol.resources import MEMORY
from koord.api.requests import amount
from koord.kernels.cgroup_path import KubeQos

if TYPE_CHECKING:
    from koord.agent.host.cgroup_layout import CgroupLayout
    from koord.api.kinds.pod import Container, ContainerStatus, Pod

_SERVED_SCORE, _BEST_EFFORT_SCORE = -997, 1000
_NODE_CRITICAL = "system-node-critical"


class ContainerKind(StrEnum):
    """What a container is within its pod."""

    REGULAR = "regular"
    INIT = "init"
    SIDECAR = "sidecar"  #: an init container with restartPolicy Always


@dataclass(frozen=True, slots=True)
class ContainerState:
    """A container that has a status.

    Attributes:
        name: within the pod.
        id: ``runtime://hash``; empty while the runtime has not made it.
        directory: relative to a hierarchy; empty while there is no id.
        kind: regular, init or sidecar.
        running: what the status says.
        spec: None where the pod's spec has no container of the name.
    """

    name: str
    id: str
    directory: str
    kind: ContainerKind
    running: bool
    spec: Container | None


@dataclass(frozen=True, slots=True)
class PodState:
    """A pod and what follows from it; rows that share a pod share this object.

    Attributes:
        pod: as read.
        qos: the label's class, NONE without one.
        qos_default: the label's class or what the Kubernetes class stands for.
        kube_qos: the Kubernetes class.
        priority_class, priority: with their defaults.
        directory: relative to a hierarchy.
        containers: regular ones in the order of their statuses, then init containers and sidecars.
    """

    pod: Pod
    qos: QoSClass
    qos_default: QoSClass
    kube_qos: KubeQos
    priority_class: PriorityClass
    priority: int
    directory: str
    containers: tuple[ContainerState, ...]

    @property
    def uid(self) -> str:
        """``metadata.uid``."""
        return self.pod.metadata.uid

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"

    @property
    def active(self) -> bool:
        """Whether the phase is Pending or Running."""
        return self.pod.status.phase in ("Pending", "Running")

    @property
    def terminated(self) -> bool:
        """Whether the phase is Succeeded or Failed."""
        return self.pod.status.phase in ("Succeeded", "Failed")


def least_oom_score(pod: PodState, container: ContainerState, memory_bytes: int) -> int:
    """The OOM score that the kubelet gives a container of the pod, as far as the spec tells.

    Requests of the whole pod are divided by rules that vary: then the least of the class.

    Args:
        pod: whose class counts.
        container: whose request counts.
        memory_bytes: of the machine.
    """
    critical = pod.pod.spec.priority_class_name == _NODE_CRITICAL
    if pod.kube_qos is KubeQos.GUARANTEED or critical:
        return _SERVED_SCORE
    if pod.kube_qos is KubeQos.BEST_EFFORT:
        return _BEST_EFFORT_SCORE
    if pod.pod.spec.resources is not None or container.spec is None:
        return 1000 + _SERVED_SCORE
    asked = container.spec.resources.requests.get(MEMORY)
    score = 1000 - 1000 * (amount(MEMORY, asked) if asked else 0) // memory_bytes
    return min(max(score, 1000 + _SERVED_SCORE), _BEST_EFFORT_SCORE - 1)


def pod_state(pod: Pod, layout: CgroupLayout) -> PodState:
    """What follows from a pod under a node's cgroup layout.

    Raises:
        ValueError: the UID, the QoS class or a container id cannot be the name of a directory.
    """
    directory = layout.pod(pod)
    return PodState(
        pod=pod,
        qos=raw_qos(pod.metadata.labels),
        qos_default=qos_with_default(pod),
        kube_qos=KubeQos(kubernetes_qos(pod)),
        priority_class=class_with_default(pod),
        priority=priority_with_default(pod),
        directory=directory,
        containers=tuple(_containers(pod, directory, layout)),
    )


def _containers(pod: Pod, directory: str, layout: CgroupLayout) -> list[ContainerState]:
    regular = {container.name: container for container in pod.spec.containers}
    init = {container.name: container for container in pod.spec.init_containers}
    found = [
        _container(status, regular.get(status.name), ContainerKind.REGULAR, directory, layout)
        for status in pod.status.container_statuses
    ]
    for status in pod.status.init_container_statuses:
        spec = init.get(status.name)
        sidecar = spec is not None and spec.restart_policy == "Always"
        kind = ContainerKind.SIDECAR if sidecar else ContainerKind.INIT
        found.append(_container(status, spec, kind, directory, layout))
    return found


def _container(
    status: ContainerStatus,
    spec: Container | None,
    kind: ContainerKind,
    pod_directory: str,
    layout: CgroupLayout,
) -> ContainerState:
    directory = layout.container(pod_directory, status.container_id) if status.container_id else ""
    return ContainerState(
        name=status.name,
        id=status.container_id,
        directory=directory,
        kind=kind,
        running="running" in status.state,
        spec=spec,
    )
