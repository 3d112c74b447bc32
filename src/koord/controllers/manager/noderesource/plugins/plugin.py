# SPDX-License-Identifier: Apache-2.0
"""What plugins see of a node, what they make of it, and what is wanted on the node for it.

A plugin works in two steps (docs/reference/node-resources.md#plugins): what a node is to have is
calculated once, from everything but the node's own state; what that means for the node as it is now
is prepared anew for each attempt to write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct

from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.device import Device
    from koord.api.kinds.node import Node
    from koord.api.kinds.topology import NodeResourceTopology
    from koord.api.sloconfig.config import SLOConfig
    from koord.api.sloconfig.strategies import ColocationStrategy
    from koord.kernels.quantity import Quantity


class OfferedResources(NamedTuple):
    """What a node offers to one class of pods.

    Attributes:
        cpu_milli: milli-cores.
        memory_bytes: bytes.
    """

    cpu_milli: int
    memory_bytes: int


class NodeInputs(NamedTuple):
    """Everything that is known about a node.

    Attributes:
        node: as the API server has it.
        config: the configuration in force.
        strategy: the co-location strategy of this node.
        batch: None where nothing may be offered, for the node's report is missing or too old.
        mid: likewise.
        topology: its zones, if the agent reports them.
        device: its cards, if the agent reports any.
        had_gpus: whether its Device had GPUs, as far as this process remembers.
        missing: sections of the configuration that have never been readable.
    """

    node: Node
    config: SLOConfig
    strategy: ColocationStrategy
    batch: OfferedResources | None = None
    mid: OfferedResources | None = None
    topology: NodeResourceTopology | None = None
    device: Device | None = None
    had_gpus: bool = False
    missing: frozenset[str] = frozenset()

    def need(self, section: str) -> None:
        """Refuses to go by a section that nobody could read yet.

        Raises:
            KoordError: it has never been readable.
        """
        if section in self.missing:
            raise KoordError(section, "", None, "a section that can be read")


class CalculatedResources(Struct):
    """What all plugins calculated for a node, before anything is known of the attempt to write it.

    Attributes:
        amounts: by resource; None takes the resource off the node.
        annotations: None takes one away.
        labels: None takes one away.
    """

    amounts: dict[str, Quantity | None] = {}
    annotations: dict[str, str | None] = {}
    labels: dict[str, str | None] = {}


class DesiredNode(Struct):
    """How a node is to be, in what the plugins manage.

    Attributes:
        resources: in capacity and allocatable both; None for none.
        annotations, labels: None for none; written as metadata.
        beside: annotations that go with the resources, in the same write.
    """

    resources: dict[str, Quantity | None] = {}
    annotations: dict[str, str | None] = {}
    labels: dict[str, str | None] = {}
    beside: dict[str, str | None] = {}


class DecidedNode(NamedTuple):
    """What was decided of a node whose offers alone are new.

    Attributes:
        desired: how the node is to be.
        node_due, zones_due: whether the node, and its zones, have to be written now.
    """

    desired: DesiredNode
    node_due: bool
    zones_due: bool


class NodeResourcePlugin(Protocol):
    """One concern. Whatever a step raises as KoordError is counted and stops no other plugin."""

    name: str

    def calculate(self, seen: NodeInputs, result: CalculatedResources) -> None:
        """Adds what the node is to have."""
        ...

    def reset(self, seen: NodeInputs, result: CalculatedResources) -> None:
        """Adds what is to be taken away where co-location is off."""
        ...

    def prepare(self, node: Node, result: CalculatedResources, wanted: DesiredNode) -> None:
        """Says what the result means for this state of the node; the same however often."""
        ...

    def meta_due(self, node: Node, wanted: DesiredNode) -> bool:
        """Whether labels or annotations of this plugin have to be written."""
        ...


def differing(have: Mapping[str, str], want: Mapping[str, str | None]) -> dict[str, str | None]:
    """The entries of a map of labels or annotations that are not as wanted, as a merge patch."""
    return {key: text for key, text in want.items() if have.get(key) != text}
