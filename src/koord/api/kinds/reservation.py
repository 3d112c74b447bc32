# SPDX-License-Identifier: Apache-2.0
"""Reservation: resources of a node held for pods that come later."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from koord.api.duration import Duration
from koord.api.kinds.constraints import Taint
from koord.api.kinds.meta import (
    LabelSelector,
    Object,
    ObjectReference,
    OwnerReference,
    ResourceList,
)
from koord.api.kinds.pod import PodTemplateSpec
from koord.api.schema import REQUIRED, Schema, Time
from koord.api.wirestruct import WireStruct, emitted

PENDING, AVAILABLE, WAITING = "Pending", "Available", "Waiting"
SUCCEEDED, FAILED = "Succeeded", "Failed"

SCHEDULED, READY = "Scheduled", "Ready"
VALID = "Valid"
"""Condition of koord's own: False where a node is held for what cannot be used as written."""
UNSCHEDULABLE, EXPIRED = "Unschedulable", "Expired"


class ControllerReference(OwnerReference):
    """The controller of pods that own a reservation."""

    namespace: str = ""


class ReservationOwner(WireStruct):
    """Pods that may use a reservation; what is set of the three must all match."""

    object: ObjectReference | None = None
    controller: ControllerReference | None = None
    label_selector: LabelSelector | None = None


class PreAllocationPolicy(WireStruct):
    """Which running pods a pre-allocating reservation may count on.

    Attributes:
        mode: Default looks at the owners, Cluster at labelled pods of the whole cluster.
        enableMultiple: whether more than one pod may be counted on.
    """

    mode: Annotated[str, Schema(default="Default", enum=("Default", "Cluster"))] = "Default"
    enable_multiple: Annotated[bool, Schema(default=False)] = False


class ReservationSpec(WireStruct):
    """What is held, for whom and for how long.

    Attributes:
        template: the pod whose requests are held and whose constraints choose the node.
        owners: pods that may use the reservation; one match suffices.
        ttl: how long it lives; 0 for ever.
        expires: when it ends; counts before ttl.
        preAllocation: schedule it although resources are not yet free.
        allocateOnce: the first pod takes all of it.
        allocatePolicy: Aligned may add free resources of the node, Restricted may not.
        unschedulable: no new pods.
    """

    template: Annotated[PodTemplateSpec | None, REQUIRED] = None
    owners: Annotated[list[ReservationOwner], Schema(min_items=1, required=True)] = emitted(list)
    ttl: Annotated[Duration | None, Schema(default="24h")] = None
    expires: Time | None = None
    pre_allocation: bool = False
    pre_allocation_policy: PreAllocationPolicy | None = None
    allocate_once: Annotated[bool, Schema(default=True)] = True
    allocate_policy: Annotated[str, Schema(enum=("Aligned", "Restricted"))] = ""
    unschedulable: bool = False
    taints: list[Taint] = []


class ReservationCondition(WireStruct):
    """``Scheduled``, ``Ready`` or ``Valid``, with the reason."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_probe_time: Time | None = None
    last_transition_time: Time | None = None


class ReservationStatus(WireStruct):
    """Where the reservation is and who uses it.

    Attributes:
        phase: Pending, Available, Waiting, Succeeded or Failed.
        nodeName: the node that holds it.
        allocatable: what is held.
        allocated: what pods use of it.
        currentOwners: the pods.
    """

    phase: Annotated[str, Schema(default=PENDING)] = PENDING
    conditions: list[ReservationCondition] = []
    current_owners: list[ObjectReference] = []
    node_name: str = ""
    allocatable: ResourceList = {}
    allocated: ResourceList = {}


class Reservation(Object):
    """Resources of a node held for pods that come later."""

    spec: ReservationSpec = field(default_factory=ReservationSpec)
    status: ReservationStatus = field(default_factory=ReservationStatus)
