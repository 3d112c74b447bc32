# SPDX-License-Identifier: Apache-2.0
"""What to write on a node: whether it has moved far enough, and the patches that bring it there.

Rule: docs/reference/node-resources.md#when-a-write-is-due. A patch holds what differs and nothing
else, and the version of the node that it was made for: whoever was faster wins, and the patch is
made anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from koord.controllers.manager.noderesource.plugins.plugin import differing
from koord.controllers.manager.overcommit.formulas import threshold
from koord.kernels.quantity import Rounding
from koord.kube.patches import Patch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.node import Node
    from koord.controllers.manager.noderesource.plugins.plugin import DesiredNode
    from koord.kernels.quantity import Quantity

Document = dict[str, Any]
T = TypeVar("T")


def moved(old: Quantity | None, new: Quantity | None, share: float) -> bool:
    """Whether an amount has come, gone, or moved by more than a share of what it was.

    Args:
        old: what the node says; None for nothing.
        new: what it is to say.
        share: the strategy's ``resourceDiffThreshold``.
    """
    if old is None or new is None:
        return old is not new
    before, after = (float(each.milli(Rounding.UP)) for each in (old, new))
    return threshold.beyond(before, after, share)


def status_due(node: Node, wanted: DesiredNode, share: float) -> bool:
    """Whether any resource of a node has moved far enough to be written now."""
    have = node.status.allocatable
    return any(moved(have.get(name), amount, share) for name, amount in wanted.resources.items())


def status_patch(node: Node, wanted: DesiredNode) -> Patch | None:
    """The patch of a node's status; None where everything is as wanted, to the last unit."""
    status = {
        field: changed
        for field, have in (
            ("capacity", node.status.capacity),
            ("allocatable", node.status.allocatable),
        )
        if (changed := _amounts(have, wanted.resources))
    }
    beside = differing(node.metadata.annotations, wanted.beside)
    if not status and not beside:
        return None
    metadata: Document = {"resourceVersion": node.metadata.resource_version}
    if beside:
        metadata["annotations"] = beside
    return Patch.merge({"metadata": metadata, "status": status})


def meta_patch(node: Node, wanted: DesiredNode) -> Patch | None:
    """The patch of a node's labels and annotations; None where all are as wanted."""
    metadata: Document = {}
    for field in ("labels", "annotations"):
        changed = differing(getattr(node.metadata, field), getattr(wanted, field))
        if changed:
            metadata[field] = changed
    if not metadata:
        return None
    metadata["resourceVersion"] = node.metadata.resource_version
    return Patch.merge({"metadata": metadata})


def is_taken(before: Node, after: Node, wanted: DesiredNode) -> bool:
    """Whether a node is what it was with the resources that were wanted, and otherwise the same."""
    said, says = before.metadata, after.metadata
    return (
        says.uid == said.uid
        and says.labels == said.labels
        and says.annotations == _with(said.annotations, wanted.beside)
        and after.status.allocatable == _with(before.status.allocatable, wanted.resources)
        and after.status.capacity == _with(before.status.capacity, wanted.resources)
    )


def _with(have: Mapping[str, T], want: Mapping[str, T | None]) -> dict[str, T]:
    found = dict(have)
    for name, value in want.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = value
    return found


def _amounts(
    have: Mapping[str, Quantity], want: Mapping[str, Quantity | None]
) -> dict[str, str | None]:
    return {
        name: None if amount is None else str(amount)
        for name, amount in want.items()
        if have.get(name) != amount
    }
