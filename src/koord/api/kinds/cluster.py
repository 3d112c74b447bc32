# SPDX-License-Identifier: Apache-2.0
"""Namespaces, ConfigMaps, priority classes, events and leases."""

from __future__ import annotations

from msgspec import field

from koord.api.kinds.meta import Object, ObjectReference
from koord.api.schema import Int32, MicroTime, Time
from koord.api.wirestruct import WireStruct


class NamespaceStatus(WireStruct):
    """Whether a namespace is in use or going away."""

    phase: str = ""


class Namespace(Object):
    """A namespace; koord reads its labels."""

    status: NamespaceStatus = field(default_factory=NamespaceStatus)


class ConfigMap(Object):
    """Text documents by name."""

    data: dict[str, str] = {}


class PriorityClass(Object):
    """A named priority."""

    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None
    description: str = ""


class EventSource(WireStruct):
    """Who reported an event."""

    component: str = ""
    host: str = ""


class Event(Object):
    """Something that happened to an object, for people to read."""

    involved_object: ObjectReference = field(default_factory=ObjectReference)
    type: str = ""
    reason: str = ""
    message: str = ""
    action: str = ""
    count: int = 0
    source: EventSource = field(default_factory=EventSource)
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None


class LeaseSpec(WireStruct):
    """Who holds a lease and until when."""

    holder_identity: str = ""
    lease_duration_seconds: int | None = None
    acquire_time: MicroTime = ""
    renew_time: MicroTime = ""
    lease_transitions: int | None = None


class Lease(Object):
    """A claim that must be renewed: leader election."""

    spec: LeaseSpec = field(default_factory=LeaseSpec)
