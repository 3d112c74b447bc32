# SPDX-License-Identifier: Apache-2.0
"""PodMigrationJob: the move of one pod to another node."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from koord.api.duration import Duration
from koord.api.kinds.meta import Object, ObjectReference
from koord.api.kinds.pod import PodTemplateSpec
from koord.api.schema import ATOMIC, REQUIRED, Schema, Time
from koord.api.wirestruct import WireStruct, emitted

RESERVATION_FIRST, EVICT_DIRECTLY = "ReservationFirst", "EvictDirectly"
PENDING, RUNNING, SUCCEEDED, FAILED, ABORTED = (
    "Pending", "Running", "Succeeded", "Failed", "Aborted",
)  # fmt: skip


class PreemptionOptions(WireStruct):
    """Reserved for how pods may be preempted for the reservation."""


class ReservationOptions(WireStruct):
    """The reservation that holds the pod's new place.

    Attributes:
        reservationRef: one that exists, or the one that was made.
        template: what to make it from.
    """

    reservation_ref: ObjectReference | None = None
    template: PodTemplateSpec | None = None
    preemption_options: PreemptionOptions | None = None


class Preconditions(WireStruct):
    """What must hold for a deletion."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(WireStruct):
    """How the pod is evicted."""

    api_version: str = ""
    kind: str = ""
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    dry_run: Annotated[list[str], ATOMIC] = []
    ignore_store_read_error_with_cluster_breaking_potential: bool | None = None


class PodMigrationJobSpec(WireStruct):
    """What to move and how.

    Attributes:
        paused: do not start.
        ttl: how long the job may take; 0 for ever.
        mode: ReservationFirst (default) secures the new place before evicting, EvictDirectly not.
        podRef: the pod.
    """

    paused: bool = False
    ttl: Duration | None = None
    mode: str = ""
    pod_ref: Annotated[ObjectReference | None, REQUIRED] = None
    reservation_options: ReservationOptions | None = None
    delete_options: DeleteOptions | None = None


class PodMigrationJobCondition(WireStruct):
    """One step of a migration, with the reason."""

    type: Annotated[str, REQUIRED] = emitted(str)
    status: Annotated[str, REQUIRED] = emitted(str)
    reason: str = ""
    message: str = ""
    last_probe_time: Annotated[Time | None, Schema(nullable=True)] = None
    last_transition_time: Annotated[Time | None, Schema(nullable=True)] = None


class PreemptedReservation(WireStruct):
    """A reservation that holds the place of pods that were preempted."""

    namespace: str = ""
    name: str = ""
    node_name: str = ""
    phase: str = ""
    preempted_pod_ref: ObjectReference | None = None
    pods_ref: list[ObjectReference] = []


class PodMigrationJobStatus(WireStruct):
    """How far the migration is.

    Attributes:
        phase: Pending, Running, Succeeded, Failed or Aborted.
        status: the step that counts, such as a condition type.
        nodeName: where the pod goes.
        podRef: the pod that took its place.
    """

    phase: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[PodMigrationJobCondition] = []
    node_name: str = ""
    pod_ref: ObjectReference | None = None
    preempted_pods_ref: list[ObjectReference] = []
    preempted_pods_reservation: list[PreemptedReservation] = []


class PodMigrationJob(Object):
    """The move of one pod to another node."""

    spec: PodMigrationJobSpec = field(default_factory=PodMigrationJobSpec)
    status: PodMigrationJobStatus = field(default_factory=PodMigrationJobStatus)
