# SPDX-License-Identifier: Apache-2.0
"""What is to be done to a link so that its classes are those of a plan; nothing of others' is.

Rule: docs/reference/hooks.md#tcnetworkqos.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from koord.agent.host.traffic.plan import (
    BE,
    BE_GROUP,
    LAYOUT,
    LS,
    LS_GROUP,
    POD_MINORS,
    ROOT,
    SYSTEM,
    SYSTEM_GROUP,
    TrafficClass,
    TrafficPlan,
    handle,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_QDISC = "htb"


class RootQdisc(NamedTuple):
    """What sends the packets of a link.

    Attributes:
        kind: ``htb``, ``fq_codel``, ...
        handle: 0 for the kernel's own choice, which comes back when another is removed.
        default: minor of HTB's class for what belongs to none; 0 for another kind.
    """

    kind: str
    handle: int
    default: int = 0


class LinkState(NamedTuple):
    """A link as it is.

    Attributes:
        name: such as ``eth0``.
        root: its root qdisc.
        classes: of that qdisc, by minor, where it is like koord's.
        uplink: whether the node's default route goes through it.
    """

    name: str
    root: RootQdisc
    classes: dict[int, TrafficClass]
    uplink: bool = True


class QdiscOwner(Enum):
    """Whose a root qdisc is."""

    KERNEL = auto()
    KOORD = auto()
    ORIGINAL = auto()  #: the original's agent's, which koord takes the place of
    OTHER = auto()


class LinkAction(Enum):
    """What is done to a link."""

    DELETE_ROOT = auto()
    ADD_ROOT = auto()
    DELETE_CLASS = auto()
    ADD_CLASS = auto()
    CHANGE_CLASS = auto()


class LinkChange(NamedTuple):
    """One step; ``row`` is the class, of a step about one."""

    action: LinkAction
    row: TrafficClass | None = None


def owner_of(link: LinkState) -> QdiscOwner:
    """Whose the root qdisc is, told by its form: koord's and the original's are never alike."""
    root = link.root
    if root.handle == 0:
        return QdiscOwner.KERNEL
    if root != RootQdisc(_QDISC, handle(0), SYSTEM):
        return QdiscOwner.OTHER
    # One that was made a moment before a crash has a part of the classes, or none.
    if all(_is_koords(row) for row in link.classes.values()):
        return QdiscOwner.KOORD
    return QdiscOwner.ORIGINAL if _is_originals(link.classes) else QdiscOwner.OTHER


def _is_koords(row: TrafficClass) -> bool:
    if row.minor in POD_MINORS:
        return row.parent in (SYSTEM_GROUP, LS_GROUP, BE_GROUP)
    return LAYOUT.get(row.minor) == row.parent


def _is_originals(classes: Mapping[int, TrafficClass]) -> bool:
    """Flat, with its four classes and their priorities."""
    flat = all(row.parent == (0 if minor == ROOT else ROOT) for minor, row in classes.items())
    priorities = {minor: row.priority for minor, row in classes.items() if minor <= BE}
    return flat and priorities == {ROOT: 0, SYSTEM: 1, LS: 2, BE: 3}


def changes_of(link: LinkState, plan: TrafficPlan) -> list[LinkChange]:
    """The steps from what a link has to what a plan wants; without classes, back to the kernel's.

    The caller leaves a link alone whose root qdisc is another's.
    """
    owner = owner_of(link)
    if owner is QdiscOwner.OTHER or (owner is QdiscOwner.KERNEL and not plan.classes):
        return []
    if not plan.classes:
        return [LinkChange(LinkAction.DELETE_ROOT)]
    found = link.classes if owner is QdiscOwner.KOORD else {}
    steps = [] if owner is not QdiscOwner.ORIGINAL else [LinkChange(LinkAction.DELETE_ROOT)]
    if owner is not QdiscOwner.KOORD:
        steps.append(LinkChange(LinkAction.ADD_ROOT))
    wanted = {row.minor: row for row in plan.classes}
    # A class keeps the one above it for life.
    stay = {m for m, row in found.items() if m in wanted and wanted[m].parent == row.parent}
    steps += [LinkChange(LinkAction.DELETE_CLASS, found[m]) for m in sorted(found.keys() - stay)]
    for row in plan.classes:
        if row.minor not in stay:
            steps.append(LinkChange(LinkAction.ADD_CLASS, row))
        elif found[row.minor] != row:
            steps.append(LinkChange(LinkAction.CHANGE_CLASS, row))
    return steps
