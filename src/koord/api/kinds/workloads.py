# SPDX-License-Identifier: Apache-2.0
"""Owners of pods, as far as koord asks how many there should be and which pods are theirs."""

from __future__ import annotations

from msgspec import field

from koord.api.kinds.meta import LabelSelector, Object
from koord.api.kinds.pod import PodTemplateSpec
from koord.api.schema import IntOrString, Time
from koord.api.wirestruct import WireStruct


class WorkloadSpec(WireStruct):
    """The common part of Deployment, ReplicaSet, StatefulSet and DaemonSet specs.

    ``replicas`` absent means 1, except for a DaemonSet, which has none.
    """

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)


class WorkloadStatus(WireStruct):
    """How many pods there are; a DaemonSet counts nodes instead."""

    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0


class Workload(Object):
    """What owners of pods share."""

    spec: WorkloadSpec = field(default_factory=WorkloadSpec)
    status: WorkloadStatus = field(default_factory=WorkloadStatus)


class Deployment(Workload):
    """Replaceable pods behind ReplicaSets."""


class ReplicaSet(Workload):
    """A number of interchangeable pods."""


class StatefulSet(Workload):
    """Pods with an identity."""


class DaemonSet(Workload):
    """One pod a node."""


class JobSpec(WireStruct):
    """How many pods of a job run at once and have to finish."""

    parallelism: int | None = None
    completions: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)


class JobStatus(WireStruct):
    """How far a job is."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0


class Job(Object):
    """Pods that run to completion."""

    spec: JobSpec = field(default_factory=JobSpec)
    status: JobStatus = field(default_factory=JobStatus)


class PodDisruptionBudgetSpec(WireStruct):
    """How many matching pods must stay, or may go; a number or a percentage."""

    selector: LabelSelector | None = None
    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None


class PodDisruptionBudgetStatus(WireStruct):
    """How many evictions the budget still has."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0
    disrupted_pods: dict[str, Time] = {}


class PodDisruptionBudget(Object):
    """A limit on voluntary evictions."""

    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = field(default_factory=PodDisruptionBudgetStatus)
