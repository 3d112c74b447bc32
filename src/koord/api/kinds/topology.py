# SPDX-License-Identifier: Apache-2.0
"""NodeResourceTopology: the NUMA zones of a node.

koord writes ``v1alpha1`` with ``topologyPolicies`` set, and reads it and ``v1alpha2``; one type
serves both.
"""

from __future__ import annotations

from typing import Annotated

from koord.api.kinds.meta import Object
from koord.api.schema import REQUIRED
from koord.api.wirestruct import WireStruct, emitted
from koord.kernels.quantity import Quantity

ZONE_TYPE_NODE = "Node"


class Attribute(WireStruct):
    """A named text."""

    name: Annotated[str, REQUIRED] = emitted(str)
    value: Annotated[str, REQUIRED] = emitted(str)


class Cost(WireStruct):
    """The distance to another zone."""

    name: Annotated[str, REQUIRED] = emitted(str)
    value: Annotated[int, REQUIRED] = emitted(int)


class ZoneResource(WireStruct):
    """How much of one resource a zone has, offers and has left."""

    name: Annotated[str, REQUIRED] = emitted(str)
    capacity: Annotated[Quantity | None, REQUIRED] = None
    allocatable: Annotated[Quantity | None, REQUIRED] = None
    available: Annotated[Quantity | None, REQUIRED] = None


class Zone(WireStruct):
    """A part of the machine; a NUMA node has type ``Node``."""

    name: Annotated[str, REQUIRED] = emitted(str)
    type: Annotated[str, REQUIRED] = emitted(str)
    parent: str = ""
    costs: list[Cost] = []
    attributes: list[Attribute] = []
    resources: list[ZoneResource] = []


class NodeResourceTopology(Object):
    """The NUMA zones of the node of the same name."""

    topology_policies: list[str] = []
    attributes: list[Attribute] = []
    zones: Annotated[list[Zone], REQUIRED] = emitted(list)
