# SPDX-License-Identifier: Apache-2.0
"""The terms of a formula with their signs, as :mod:`account` tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from koord.controllers.manager.overcommit import batch as batch_columns
from koord.controllers.manager.overcommit import mid as mid_columns
from koord.controllers.manager.overcommit import pods
from koord.controllers.manager.overcommit.amounts import CPU, share
from koord.controllers.manager.overcommit.nodes import beside_pods, room, settled
from koord.controllers.manager.overcommit.pods import Flag
from koord.controllers.manager.overcommit.settings import Policy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from enum import IntEnum

    from numpy.typing import NDArray

    from koord.controllers.manager.overcommit.amounts import Amounts
    from koord.controllers.manager.overcommit.nodes import Nodes
    from koord.controllers.manager.overcommit.pods import Claims, PodTerms
    from koord.controllers.manager.overcommit.residents import Resident
    from koord.controllers.manager.overcommit.settings import Settings
    from koord.controllers.manager.overcommit.sums import Sums
    from koord.controllers.manager.overcommit.zones import Cells

GROUPS = {"prodPods": Flag.FIRM, "midPods": Flag.MID, "gonePods": Flag.DANGLING}
"""High rows, each in one group: pods of prod or no class, of mid, and metrics whose pod is gone."""

_SUM = {
    Policy.USAGE: "high_used",
    Policy.REQUEST: "high_request",
    Policy.MAX_USAGE_REQUEST: "high_max",
    Policy.REQUEST_RATIO: "firm_request",
}


class Line(msgspec.Struct, frozen=True, rename="camel"):
    """One term: what it is, and how much it adds."""

    what: str
    amount: int


class PodShare(msgspec.Struct, frozen=True, rename="camel"):
    """What one pod takes.

    Args:
        pod: namespace and name.
        group: prodPods, midPods or gonePods.
        by: usage, request, larger (of both); notMeasured: its request, for the report does not
            speak of it; notLent: its request, for LSE lends no CPU; gone: its usage, for the report
            speaks of it still.
        amount: how much, not negative.
    """

    pod: str
    group: str
    by: str
    amount: int


class Cell(NamedTuple):
    """What one sum comes from: a node or a zone, as columns of one row.

    Args:
        settings, capacity: of the node; capacity of the zone.
        beside: the lines of what is taken beside pods.
        groups: what pods take, by group.
        most: beside what all else is to have room, and what may then be offered at most.
        parts: how many parts there are of a unit.
    """

    settings: Settings
    capacity: Amounts
    beside: list[Line]
    groups: Mapping[str, Sums]
    most: tuple[str, int]
    parts: NDArray[np.int64] | int = 1


def batch(cell: Cell, policy: Policy, resource: int) -> list[Line]:
    """The formula of batch."""
    found = [Line("capacity", _at(cell.capacity * cell.parts, resource))]
    by_ratio = policy is Policy.REQUEST_RATIO
    if not by_ratio:
        margin = batch_columns.margin(cell.capacity, cell.settings)
        found += [Line("margin", -_at(margin * cell.parts, resource)), *cell.beside]
    found += [
        Line(group, -_at(getattr(totals, _SUM[policy]), resource))
        for group, totals in cell.groups.items()
    ]
    found.append(Line("belowZero", max(0, -total(found))))
    if by_ratio:
        left = np.array([[total(found)]])
        kept_back = total(found) - _at(batch_columns.ratio(left, cell.settings), 0)
        found.append(Line("notOvercommitted", -kept_back))
    percent = cell.settings.batch_cap_percent
    if percent[resource, 0] >= 0:
        cap = _at(share(cell.capacity, percent) * cell.parts, resource)
        found.append(Line("cap", -max(0, total(found) - cap)))
    name, most = cell.most
    found.append(Line(name, -max(0, total(found) - max(0, most))))
    return found


def system(nodes: Nodes, totals: Sums, policy: Policy, resource: int) -> list[Line]:
    """What is taken beside pods on a node."""
    reserved = _at(nodes.reserved, resource)
    if policy is Policy.REQUEST:
        return [Line("reserved", -reserved)]
    left = settled(nodes, totals)
    found = [
        Line("system", -_at(nodes.system, resource)),
        Line("waitingInSystem", _at(nodes.system - left, resource)),
        Line("hostApplications", -_at(nodes.host_high, resource)),
    ]
    all_taken = _at(beside_pods(nodes, left, nodes.host_high), resource)
    return [*found, Line("reserved", -all_taken - total(found))]


def zone_system(cells: Cells, policy: Policy, resource: int) -> list[Line]:
    """The same in a zone, with host applications in the system's line."""
    reserved, taken = _at(cells.reserved, resource), _at(cells.system, resource)
    if policy is Policy.REQUEST:
        return [Line("reserved", -reserved)]
    return [Line("system", -taken), Line("reserved", -max(0, reserved - taken))]


def mid(nodes: Nodes, totals: Sums, settings: Settings, resource: int) -> list[Line]:
    """The formula of mid."""
    cap = _at(share(nodes.capacity, settings.mid_cap_percent), resource)
    if settings.mid_static[0]:
        fixed = _at(share(nodes.capacity, settings.mid_static_percent), resource)
        found = [Line("static", fixed)]
    else:
        reclaimable = _at(nodes.reclaimable, resource)
        idle = _at(mid_columns.reclaimed(nodes), resource)
        free = share(mid_columns.unallocated(nodes, totals), settings.mid_unallocated_percent)
        found = [
            Line("reclaimable", reclaimable),
            Line("notIdle", idle - reclaimable),
            Line("unallocated", _at(free, resource)),
        ]
    found.append(Line("cap", -max(0, total(found) - cap)))
    found.append(Line("besideReserved", -max(0, total(found) - _at(room(nodes), resource))))
    return [*found, Line("belowZero", max(0, -total(found)))]


def shares(
    residents: Sequence[Resident], terms: PodTerms, policy: Policy, resource: int
) -> list[PodShare]:
    """What each high pod takes, in the order given."""
    claimed = _claimed(pods.claims(terms), policy)[resource].tolist()
    found = []
    for resident, amount in zip(residents, claimed, strict=True):
        flags = Flag(resident.term.flags)
        group = next((name for name, flag in GROUPS.items() if flag in flags), None)
        if group is not None and not (policy is Policy.REQUEST_RATIO and group != "prodPods"):
            found.append(PodShare(resident.key, group, _by(flags, policy, resource), amount))
    return found


def total(lines: Sequence[Line]) -> int:
    """What lines add up to."""
    return sum(line.amount for line in lines)


def kept(lines: Sequence[Line]) -> list[Line]:
    """The first line, and those that say something."""
    return [line for at, line in enumerate(lines) if line.amount or not at]


def camel(member: IntEnum) -> str:
    """The name of an enumeration's member as the wire spells names."""
    first, *rest = member.name.lower().split("_")
    return first + "".join(word.capitalize() for word in rest)


def _claimed(claims: Claims, policy: Policy) -> Amounts:
    return {
        Policy.USAGE: claims.used,
        Policy.REQUEST: claims.request,
        Policy.MAX_USAGE_REQUEST: claims.larger,
        Policy.REQUEST_RATIO: claims.firm,
    }[policy]


def _by(flags: Flag, policy: Policy, resource: int) -> str:
    if policy in (Policy.REQUEST, Policy.REQUEST_RATIO):
        return "request"
    if Flag.DANGLING in flags:
        return "gone"
    if Flag.MEASURED not in flags:
        return "notMeasured"
    if policy is Policy.MAX_USAGE_REQUEST:
        return "larger"
    return "notLent" if Flag.LSE in flags and resource == CPU else "usage"


def _at(amounts: Amounts, resource: int) -> int:
    return int(amounts[resource, 0])
