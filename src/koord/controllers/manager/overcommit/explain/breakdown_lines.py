# SPDX-License-Identifier: Apache-2.0
"""The terms of a formula with their signs, as :mod:`account` tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from koord.controllers.manager.overcommit.amounts import CPU, share
from koord.controllers.manager.overcommit.formulas import batch as batch_columns
from koord.controllers.manager.overcommit.formulas import mid as mid_columns
from koord.controllers.manager.overcommit.objects import pod_terms
from koord.controllers.manager.overcommit.objects.node_columns import (
    beside_pods,
    settled,
    unreserved,
)
from koord.controllers.manager.overcommit.objects.pod_terms import PodFlag
from koord.controllers.manager.overcommit.objects.strategy_columns import CalculatePolicy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from enum import IntEnum

    from numpy.typing import NDArray

    from koord.controllers.manager.overcommit.amounts import AmountColumns
    from koord.controllers.manager.overcommit.formulas.sums import PodSums
    from koord.controllers.manager.overcommit.formulas.zones import ZoneCells
    from koord.controllers.manager.overcommit.objects.node_columns import NodeColumns
    from koord.controllers.manager.overcommit.objects.pod_terms import PodClaims, PodTerms
    from koord.controllers.manager.overcommit.objects.strategy_columns import StrategyColumns
    from koord.controllers.manager.overcommit.state.node_pods import CountedTerm

GROUPS = {"prodPods": PodFlag.FIRM, "midPods": PodFlag.MID, "gonePods": PodFlag.DANGLING}
"""High rows, each in one group: pods of prod or no class, of mid, and metrics whose pod is gone."""

_SUM = {
    CalculatePolicy.USAGE: "high_used",
    CalculatePolicy.REQUEST: "high_request",
    CalculatePolicy.MAX_USAGE_REQUEST: "high_max",
    CalculatePolicy.REQUEST_RATIO: "firm_request",
}


class BreakdownLine(msgspec.Struct, frozen=True, rename="camel"):
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


class BreakdownInputs(NamedTuple):
    """What one sum comes from: a node or a zone, as columns of one row.

    Args:
        settings, capacity: of the node; capacity of the zone.
        beside: the lines of what is taken beside pods.
        groups: what pods take, by group.
        most: beside what all else is to have room, and what may then be offered at most.
        parts: how many parts there are of a unit.
    """

    settings: StrategyColumns
    capacity: AmountColumns
    beside: list[BreakdownLine]
    groups: Mapping[str, PodSums]
    most: tuple[str, int]
    parts: NDArray[np.int64] | int = 1


def batch(cell: BreakdownInputs, policy: CalculatePolicy, resource: int) -> list[BreakdownLine]:
    """The formula of batch."""
    found = [BreakdownLine("capacity", _at(cell.capacity * cell.parts, resource))]
    by_ratio = policy is CalculatePolicy.REQUEST_RATIO
    if not by_ratio:
        margin = batch_columns.margin(cell.capacity, cell.settings)
        found += [BreakdownLine("margin", -_at(margin * cell.parts, resource)), *cell.beside]
    found += [
        BreakdownLine(group, -_at(getattr(totals, _SUM[policy]), resource))
        for group, totals in cell.groups.items()
    ]
    found.append(BreakdownLine("belowZero", max(0, -total(found))))
    if by_ratio:
        left = np.array([[total(found)]])
        kept_back = total(found) - _at(batch_columns.ratio(left, cell.settings), 0)
        found.append(BreakdownLine("notOvercommitted", -kept_back))
    percent = cell.settings.batch_cap_percent
    if percent[resource, 0] >= 0:
        cap = _at(share(cell.capacity, percent) * cell.parts, resource)
        found.append(BreakdownLine("cap", -max(0, total(found) - cap)))
    name, most = cell.most
    found.append(BreakdownLine(name, -max(0, total(found) - max(0, most))))
    return found


def system(
    nodes: NodeColumns, totals: PodSums, policy: CalculatePolicy, resource: int
) -> list[BreakdownLine]:
    """What is taken beside pods on a node."""
    reserved = _at(nodes.reserved, resource)
    if policy is CalculatePolicy.REQUEST:
        return [BreakdownLine("reserved", -reserved)]
    left = settled(nodes, totals)
    found = [
        BreakdownLine("system", -_at(nodes.system, resource)),
        BreakdownLine("waitingInSystem", _at(nodes.system - left, resource)),
        BreakdownLine("hostApplications", -_at(nodes.host_high, resource)),
    ]
    all_taken = _at(beside_pods(nodes, left, nodes.host_high), resource)
    return [*found, BreakdownLine("reserved", -all_taken - total(found))]


def zone_system(cells: ZoneCells, policy: CalculatePolicy, resource: int) -> list[BreakdownLine]:
    """The same in a zone, with host applications in the system's line."""
    reserved, taken = _at(cells.reserved, resource), _at(cells.system, resource)
    if policy is CalculatePolicy.REQUEST:
        return [BreakdownLine("reserved", -reserved)]
    return [BreakdownLine("system", -taken), BreakdownLine("reserved", -max(0, reserved - taken))]


def mid(
    nodes: NodeColumns, totals: PodSums, settings: StrategyColumns, resource: int
) -> list[BreakdownLine]:
    """The formula of mid."""
    cap = _at(share(nodes.capacity, settings.mid_cap_percent), resource)
    if settings.mid_static[0]:
        fixed = _at(share(nodes.capacity, settings.mid_static_percent), resource)
        found = [BreakdownLine("static", fixed)]
    else:
        reclaimable = _at(nodes.reclaimable, resource)
        idle = _at(mid_columns.reclaimed(nodes), resource)
        free = share(mid_columns.unallocated(nodes, totals), settings.mid_unallocated_percent)
        found = [
            BreakdownLine("reclaimable", reclaimable),
            BreakdownLine("notIdle", idle - reclaimable),
            BreakdownLine("unallocated", _at(free, resource)),
        ]
    found.append(BreakdownLine("cap", -max(0, total(found) - cap)))
    found.append(
        BreakdownLine("besideReserved", -max(0, total(found) - _at(unreserved(nodes), resource)))
    )
    return [*found, BreakdownLine("belowZero", max(0, -total(found)))]


def shares(
    residents: Sequence[CountedTerm], terms: PodTerms, policy: CalculatePolicy, resource: int
) -> list[PodShare]:
    """What each high pod takes, in the order given."""
    claimed = _claimed(pod_terms.claims(terms), policy)[resource].tolist()
    found = []
    for resident, amount in zip(residents, claimed, strict=True):
        flags = PodFlag(resident.term.flags)
        group = next((name for name, flag in GROUPS.items() if flag in flags), None)
        if group is not None and not (
            policy is CalculatePolicy.REQUEST_RATIO and group != "prodPods"
        ):
            found.append(PodShare(resident.key, group, _by(flags, policy, resource), amount))
    return found


def total(lines: Sequence[BreakdownLine]) -> int:
    """What lines add up to."""
    return sum(line.amount for line in lines)


def kept(lines: Sequence[BreakdownLine]) -> list[BreakdownLine]:
    """The first line, and those that say something."""
    return [line for at, line in enumerate(lines) if line.amount or not at]


def camel(member: IntEnum) -> str:
    """The name of an enumeration's member as the wire spells names."""
    first, *rest = member.name.lower().split("_")
    return first + "".join(word.capitalize() for word in rest)


def _claimed(claims: PodClaims, policy: CalculatePolicy) -> AmountColumns:
    return {
        CalculatePolicy.USAGE: claims.used,
        CalculatePolicy.REQUEST: claims.request,
        CalculatePolicy.MAX_USAGE_REQUEST: claims.larger,
        CalculatePolicy.REQUEST_RATIO: claims.firm,
    }[policy]


def _by(flags: PodFlag, policy: CalculatePolicy, resource: int) -> str:
    if policy in (CalculatePolicy.REQUEST, CalculatePolicy.REQUEST_RATIO):
        return "request"
    if PodFlag.DANGLING in flags:
        return "gone"
    if PodFlag.MEASURED not in flags:
        return "notMeasured"
    if policy is CalculatePolicy.MAX_USAGE_REQUEST:
        return "larger"
    return "notLent" if PodFlag.LSE in flags and resource == CPU else "usage"


def _at(amounts: AmountColumns, resource: int) -> int:
    return int(amounts[resource, 0])
