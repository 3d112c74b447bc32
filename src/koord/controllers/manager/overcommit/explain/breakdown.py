# SPDX-License-Identifier: Apache-2.0
"""The sum behind what a node offers, term by term, for ``koord explain node``.

Every line is an amount with its sign, and the lines of a sum add up to the offer in force, to the
unit. CPU is in milli-cores, memory in bytes, in zones in thousandths of a byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koord.controllers.manager.overcommit.amounts import CPU, MEMORY
from koord.controllers.manager.overcommit.column_groups import take
from koord.controllers.manager.overcommit.explain import breakdown_lines as lines
from koord.controllers.manager.overcommit.explain.breakdown_lines import BreakdownLine, PodShare
from koord.controllers.manager.overcommit.formulas import sums, zones
from koord.controllers.manager.overcommit.objects import node_columns, pod_terms
from koord.controllers.manager.overcommit.objects.node_columns import DegradeReason
from koord.controllers.manager.overcommit.objects.strategy_columns import CalculatePolicy

if TYPE_CHECKING:
    from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache

_REASONS = {
    DegradeReason.NO: "",
    DegradeReason.DISABLED: "co-location is not enabled for the node",
    DegradeReason.NO_METRIC: "the node has no NodeMetric",
    DegradeReason.NO_TIME: "the NodeMetric has no updateTime: no agent has reported yet",
    DegradeReason.NO_BODY: "the NodeMetric has no nodeMetric: the agent has measured nothing yet",
    DegradeReason.EXPIRED: "the NodeMetric is older than degradeTimeMinutes",
    DegradeReason.UNREAD: "colocation-config has been wrong since the manager started: what the "
    "node shows stays while its report counts",
}


class OfferSum(msgspec.Struct, frozen=True, rename="camel"):
    """One amount and where it comes from.

    Args:
        offered: what is in force; the lines add up to it.
        policy: by what pods are counted; for mid, static or dynamic.
        lines: the terms, in the order of the formula; those of 0 are left out, but for capacity.
        pods: what each pod takes, by the same policy; they add up to the lines of pods. Not for
            zones.
    """

    offered: int
    policy: str
    lines: list[BreakdownLine]
    pods: list[PodShare] = []


class OfferSums(msgspec.Struct, frozen=True, rename="camel"):
    """The same for both resources."""

    cpu: OfferSum
    memory: OfferSum


class ZoneBreakdown(msgspec.Struct, frozen=True, rename="camel"):
    """Batch of one NUMA zone; memory in thousandths of a byte."""

    number: int
    cpu: OfferSum
    memory: OfferSum


class ReservedAmount(msgspec.Struct, frozen=True, rename="camel"):
    """What is held back of one resource; the larger counts.

    Args:
        kubelet: capacity that is not allocatable, before any amplification.
        annotation: what the node's reservation annotation holds back.
    """

    kubelet: int
    annotation: int


class ReservedAmounts(msgspec.Struct, frozen=True, rename="camel"):
    """The same for both resources."""

    cpu: ReservedAmount
    memory: ReservedAmount


class OfferBreakdown(msgspec.Struct, frozen=True, rename="camel"):
    """Why a node offers what it offers.

    Args:
        node: its name.
        reason: why nothing is offered, by name; empty where something is.
        message: the same as a sentence.
        reported_seconds: wall time of the report; None without one.
        expires_seconds: wall time after which that counts no more; None without one.
        reserved: what the kubelet and the annotation hold back.
        batch: None where nothing is offered; likewise:
        mid: the sum of mid resources.
        zones: by NUMA number.
    """

    node: str
    reason: str
    message: str
    reported_seconds: float | None
    expires_seconds: float | None
    reserved: ReservedAmounts
    batch: OfferSums | None
    mid: OfferSums | None
    zones: list[ZoneBreakdown]


def account(ledger: OvercommitCache, row: int) -> OfferBreakdown:
    """The sum behind a row, as of the ledger's last recompute.

    What has changed since stands in lines of its own, ``sinceThen``.
    """
    here = _RowBreakdown(ledger, row)
    updated, expires = float(here.nodes.updated[0]), float(here.expires)
    offered = here.reason is DegradeReason.NO
    return OfferBreakdown(
        node=ledger.name(row),
        reason="" if offered else lines.camel(here.reason),
        message=_REASONS[here.reason],
        reported_seconds=updated if np.isfinite(updated) else None,
        expires_seconds=expires if np.isfinite(expires) else None,
        reserved=ReservedAmounts(here.reserved(CPU), here.reserved(MEMORY)),
        batch=OfferSums(here.batch(CPU), here.batch(MEMORY)) if offered else None,
        mid=OfferSums(here.mid(CPU), here.mid(MEMORY)) if offered else None,
        zones=here.zones() if offered else [],
    )


class _RowBreakdown:
    """The columns of one row, and what is worked out from them."""

    def __init__(self, ledger: OvercommitCache, row: int) -> None:
        rows = np.array([row], np.intp)
        self._ledger, self._row = ledger, row
        self.nodes = take(ledger.nodes, rows)
        self.settings = take(ledger.settings, rows)
        self._zones = take(ledger.zones, rows)
        self.reason = DegradeReason(int(ledger.batch.degraded[row]))
        self.expires = node_columns.expiry(self.nodes, self.settings)[0]
        self._residents = list(ledger.residents.of(row))
        self._terms = pod_terms.columns([(0, each.term) for each in self._residents])
        self._totals = sums.of(self._terms, 1)
        self._by_group = {
            group: take(self._terms, np.flatnonzero(self._terms.has(flag)))
            for group, flag in lines.GROUPS.items()
        }

    def reserved(self, resource: int) -> ReservedAmount:
        held_back = self.nodes.kubelet_reserved, self.nodes.annotation_reserved
        return ReservedAmount(*(int(each[resource, 0]) for each in held_back))

    def batch(self, resource: int) -> OfferSum:
        policy = CalculatePolicy(int(self.settings.policy[resource, 0]))
        found = lines.batch(
            lines.BreakdownInputs(
                self.settings,
                self.nodes.capacity,
                lines.system(self.nodes, self._totals, policy, resource),
                {name: sums.of(terms, 1) for name, terms in self._by_group.items()},
                ("besideMid", self._unreserved(resource)),
            ),
            policy,
            resource,
        )
        formula = int(self._ledger.formula[resource, self._row])
        in_force = int(self._ledger.batch.amounts[resource, self._row])
        found += [
            BreakdownLine("sinceThen", formula - lines.total(found)),
            BreakdownLine("riseBound", in_force - formula),
        ]
        shares = lines.shares(self._residents, self._terms, policy, resource)
        return OfferSum(in_force, lines.camel(policy), lines.kept(found), shares)

    def _unreserved(self, resource: int) -> int:
        """What there is for batch beside mid."""
        whole = int(node_columns.unreserved(self.nodes)[resource, 0])
        return whole - int(self._ledger.mid.amounts[resource, self._row])

    def mid(self, resource: int) -> OfferSum:
        found = lines.mid(self.nodes, self._totals, self.settings, resource)
        in_force = int(self._ledger.mid.amounts[resource, self._row])
        found.append(BreakdownLine("sinceThen", in_force - lines.total(found)))
        policy = "static" if self.settings.mid_static[0] else "dynamic"
        return OfferSum(in_force, policy, lines.kept(found))

    def zones(self) -> list[ZoneBreakdown]:
        return [
            ZoneBreakdown(int(number), *(self._zone(at, int(number), r) for r in (CPU, MEMORY)))
            for at, number in enumerate(np.flatnonzero(self._zones.present[:, 0]))
        ]

    def _zone(self, at: int, number: int, resource: int) -> OfferSum:
        policy = CalculatePolicy(int(self.settings.policy[resource, 0]))
        cells = zones.cells(self._zones, self.nodes, self._totals)
        one = slice(at, at + 1)
        groups = {name: self._in_zone(number, terms) for name, terms in self._by_group.items()}
        cell = lines.BreakdownInputs(
            self.settings,
            cells.capacity[:, one],
            lines.zone_system(take(cells, one), policy, resource),
            groups,
            ("besideReserved", int(zones.most(cells)[resource, at])),
            zones.PARTS,
        )
        found = lines.batch(cell, policy, resource)
        in_force = int(self._ledger.zone_amounts[resource, number, self._row])
        found.append(BreakdownLine("sinceThen", in_force - lines.total(found)))
        return OfferSum(in_force, lines.camel(policy), lines.kept(found))

    def _in_zone(self, number: int, terms: pod_terms.PodTerms) -> sums.PodSums:
        every = zones.sums_by_zone(self._zones, terms)
        return sums.PodSums(*(each[:, number] for each in every))
