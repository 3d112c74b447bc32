# SPDX-License-Identifier: Apache-2.0
"""What groups pods by plain labels: Services and ReplicationControllers."""

from __future__ import annotations

from msgspec import field

from koord.api.kinds.meta import Object
from koord.api.wirestruct import WireStruct


class ServiceSpec(WireStruct):
    """Which pods a service stands for; none where there is no selector."""

    selector: dict[str, str] = {}


class Service(Object):
    """A name for some pods of a namespace."""

    spec: ServiceSpec = field(default_factory=ServiceSpec)


class ReplicationControllerSpec(WireStruct):
    """Which pods are its own, and how many there should be; absent means 1."""

    replicas: int | None = None
    selector: dict[str, str] = {}


class ReplicationController(Object):
    """What ReplicaSets took the place of."""

    spec: ReplicationControllerSpec = field(default_factory=ReplicationControllerSpec)
