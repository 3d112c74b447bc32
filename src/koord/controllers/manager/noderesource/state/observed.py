# SPDX-License-Identifier: Apache-2.0
"""From which states of its objects a node was reconciled, and whether a state is news."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.controllers.manager.noderesource.plugins.plugin import CalculatedResources
from koord.kube.informers.informer import is_newer

if TYPE_CHECKING:
    from koord.api.kinds.device import Device
    from koord.api.kinds.meta import Object
    from koord.api.kinds.node import Node
    from koord.api.kinds.topology import NodeResourceTopology


class ReconcileInputs(NamedTuple):
    """What a node was reconciled from.

    Attributes:
        node, topology: as they are after the last write.
        device: the informer's.
        result: what plugins calculated.
        enabled: whether co-location is on.
    """

    node: Node
    topology: NodeResourceTopology | None
    device: Device | None
    result: CalculatedResources
    enabled: bool


class ObjectVersion(NamedTuple):
    """One state in one life of an object."""

    uid: str
    resource_version: str


class ObservedObjects(NamedTuple):
    """What is kept of :class:`ReconcileInputs`.

    Not the objects themselves: those of informers would then be there twice.

    Attributes:
        node, topology: their states; None where the object was not there.
        device: the informer's own, which nobody writes here.
        result: of plugins, without amounts.
    """

    node: ObjectVersion | None = None
    topology: ObjectVersion | None = None
    device: Device | None = None
    result: CalculatedResources = CalculatedResources()


def observed_objects(
    inputs: ReconcileInputs, result: CalculatedResources | None = None
) -> ObservedObjects:
    """What is to be kept of inputs; with another result in the place of theirs."""
    if result is None:
        result = CalculatedResources({}, inputs.result.annotations, inputs.result.labels)
    return ObservedObjects(_version(inputs.node), _version(inputs.topology), inputs.device, result)


def is_observed(
    observed: ObservedObjects, node: Node, topology: NodeResourceTopology | None
) -> bool:
    """Whether objects were observed in these very states."""
    return _version(node) == observed.node and _version(topology) == observed.topology


def covers(
    observed: ObservedObjects,
    node: Node | None,
    topology: NodeResourceTopology | None,
    device: Device | None,
) -> bool:
    """Whether objects were observed in these states or later ones.

    Who wrote last has seen all states before: what informers say of them is no news.
    """
    return (
        device is observed.device
        and _is_known(node, observed.node)
        and _is_known(topology, observed.topology)
    )


def _version(of: Object | None) -> ObjectVersion | None:
    if of is None:
        return None
    return ObjectVersion(of.metadata.uid, of.metadata.resource_version)


def _is_known(now: Object | None, observed: ObjectVersion | None) -> bool:
    """Whether a state of an object is the one that was observed, or one from before it."""
    version = _version(now)
    if version is None or observed is None:
        return version is observed
    if version.uid != observed.uid or version.resource_version == "":
        return False
    return not is_newer(version.resource_version, observed.resource_version)
