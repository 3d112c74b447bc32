# SPDX-License-Identifier: Apache-2.0
"""Pods, cut to the fields that koord uses."""

from __future__ import annotations

from typing import Any

from msgspec import field

from koord.api.kinds.constraints import (
    Affinity,
    SchedulingGate,
    Toleration,
    TopologySpreadConstraint,
)
from koord.api.kinds.meta import Object, ObjectMeta, ResourceList
from koord.api.schema import FreeForm, Int32, Time
from koord.api.wirestruct import WireStruct


class ResourceRequirements(WireStruct):
    """What a container asks for and may use at most."""

    requests: ResourceList = {}
    limits: ResourceList = {}


class EnvVar(WireStruct):
    """An environment variable; only literal values are looked at."""

    name: str = ""
    value: str = ""


class ContainerPort(WireStruct):
    """A port of a container; those with a host port are taken on the node."""

    name: str = ""
    container_port: int = 0
    host_port: int = 0
    host_ip: str = ""
    protocol: str = ""


class Container(WireStruct):
    """A container of a pod, init containers included."""

    name: str = ""
    image: str = ""
    ports: list[ContainerPort] = []
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    env: list[EnvVar] = []
    restart_policy: str = ""


class PodSpec(WireStruct):
    """What a pod asks for."""

    node_name: str = ""
    scheduler_name: str = ""
    containers: list[Container] = []
    init_containers: list[Container] = []
    overhead: ResourceList = {}
    resources: ResourceRequirements | None = None
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    topology_spread_constraints: list[TopologySpreadConstraint] = []
    scheduling_gates: list[SchedulingGate] = []
    resource_claims: list[FreeForm] = []
    host_network: bool = False
    restart_policy: str = ""
    runtime_class_name: str | None = None
    termination_grace_period_seconds: int | None = None
    # Kept whole: which kinds of volume exist is for the descheduler's filters to know.
    volumes: list[FreeForm] = []


class PodCondition(WireStruct):
    """A condition of a pod, such as ``PodScheduled`` or ``Ready``."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None


class ContainerStatus(WireStruct):
    """The observed state of one container."""

    name: str = ""
    container_id: str = field(default="", name="containerID")
    ready: bool = False
    restart_count: int = 0
    state: dict[str, Any] = {}
    last_state: dict[str, Any] = {}
    # What the node has set aside for it, and what it runs with: other than its spec while it is
    # resized in place.
    allocated_resources: ResourceList = {}
    resources: ResourceRequirements | None = None


class PodStatus(WireStruct):
    """The observed state of a pod."""

    phase: str = ""
    qos_class: str = field(default="", name="qosClass")
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    host_ip: str = ""
    pod_ip: str = ""
    start_time: Time | None = None
    conditions: list[PodCondition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    ephemeral_container_statuses: list[ContainerStatus] = []


class Pod(Object):
    """A group of containers that run on one node."""

    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


class PodTemplateSpec(WireStruct):
    """A pod to be made: in workloads, Reservations and migration jobs."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
