# SPDX-License-Identifier: Apache-2.0
"""The sum behind what a node offers, term by term, for ``koord explain node``.

Every line is an amount with its sign, and the lines of a sum add up to the offer in force, to the
unit. CPU is in milli-cores, memory in bytes, in zones in thousandths of a byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koord.controllers.manager.overcommit import account_lines as lines
from koord.controllers.manager.overcommit import nodes as node_columns
from koord.controllers.manager.overcommit import pods, sums, zones
from koord.controllers.manager.overcommit.account_lines import Line, PodShare
from koord.controllers.manager.overcommit.amounts import CPU, MEMORY
from koord.controllers.manager.overcommit.columns import take
from koord.controllers.manager.overcommit.nodes import Degraded
from koord.controllers.manager.overcommit.settings import Policy

if TYPE_CHECKING:
    from koord.controllers.manager.overcommit.ledger import Ledger

_REASONS = {
    Degraded.NO: "",
    Degraded.DISABLED: "co-location is not enabled for the node",
    Degraded.NO_METRIC: "the node has no NodeMetric",
    Degraded.NO_TIME: "the NodeMetric has no updateTime: no agent has reported yet",
    Degraded.NO_BODY: "the NodeMetric has no nodeMetric: the agent has measured nothing yet",
    Degraded.EXPIRED: "the NodeMetric is older than degradeTimeMinutes",
    Degraded.UNREAD: "colocation-config has been wrong since the manager started: what the node "
    "shows stays while its report counts",
}


class Sum(msgspec.Struct, frozen=True, rename="camel"):
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
    lines: list[Line]
    pods: list[PodShare] = []


class Pair(msgspec.Struct, frozen=True, rename="camel"):
    """The same for both resources."""

    cpu: Sum
    memory: Sum


class ZoneAccount(msgspec.Struct, frozen=True, rename="camel"):
    """Batch of one NUMA zone; memory in thousandths of a byte."""

    number: int
    cpu: Sum
    memory: Sum


class Reserved(msgspec.Struct, frozen=True, rename="camel"):
    """What is held back of one resource; the larger counts.

    Args:
        kubelet: capacity that is not allocatable, before any amplification.
        annotation: what the node's reservation annotation holds back.
    """

    kubelet: int
    annotation: int


class Reservation(msgspec.Struct, frozen=True, rename="camel"):
    """The same for both resources."""

    cpu: Reserved
    memory: Reserved


class Account(msgspec.Struct, frozen=True, rename="camel"):
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
    reserved: Reservation
    batch: Pair | None
    mid: Pair | None
    zones: list[ZoneAccount]


def account(ledger: Ledger, row: int) -> Account:
    """The sum behind a row, as of the ledger's last recompute.

    What has changed since stands in lines of its own, ``sinceThen``.
    """
    here = _Row(ledger, row)
    updated, expires = float(here.nodes.updated[0]), float(here.expires)
    offered = here.reason is Degraded.NO
    return Account(
        node=ledger.name(row),
        reason="" if offered else lines.camel(here.reason),
        message=_REASONS[here.reason],
        reported_seconds=updated if np.isfinite(updated) else None,
        expires_seconds=expires if np.isfinite(expires) else None,
        reserved=Reservation(here.reserved(CPU), here.reserved(MEMORY)),
        batch=Pair(here.batch(CPU), here.batch(MEMORY)) if offered else None,
        mid=Pair(here.mid(CPU), here.mid(MEMORY)) if offered else None,
        zones=here.zones() if offered else [],
    )


class _Row:
    """The columns of one row, and what is worked out from them."""

    def __init__(self, ledger: Ledger, row: int) -> None:
        rows = np.array([row], np.intp)
        self._ledger, self._row = ledger, row
        self.nodes = take(ledger.nodes, rows)
        self.settings = take(ledger.settings, rows)
        self._zones = take(ledger.zones, rows)
        self.reason = Degraded(int(ledger.batch.degraded[row]))
        self.expires = node_columns.expiry(self.nodes, self.settings)[0]
        self._residents = list(ledger.residents.of(row))
        self._terms = pods.columns([(0, each.term) for each in self._residents])
        self._totals = sums.of(self._terms, 1)
        self._by_group = {
            group: take(self._terms, np.flatnonzero(self._terms.has(flag)))
            for group, flag in lines.GROUPS.items()
        }

    def reserved(self, resource: int) -> Reserved:
        held_back = self.nodes.kubelet_reserved, self.nodes.annotation_reserved
        return Reserved(*(int(each[resource, 0]) for each in held_back))

    def batch(self, resource: int) -> Sum:
        policy = Policy(int(self.settings.policy[resource, 0]))
        found = lines.batch(
            lines.Cell(
                self.settings,
                self.nodes.capacity,
                lines.system(self.nodes, self._totals, policy, resource),
                {name: sums.of(terms, 1) for name, terms in self._by_group.items()},
                ("besideMid", self._room(resource)),
            ),
            policy,
            resource,
        )
        formula = int(self._ledger.formula[resource, self._row])
        in_force = int(self._ledger.batch.amounts[resource, self._row])
        found += [
            Line("sinceThen", formula - lines.total(found)),
            Line("riseBound", in_force - formula),
        ]
        shares = lines.shares(self._residents, self._terms, policy, resource)
        return Sum(in_force, lines.camel(policy), lines.kept(found), shares)

    def _room(self, resource: int) -> int:
        """What there is for batch beside mid."""
        whole = int(node_columns.room(self.nodes)[resource, 0])
        return whole - int(self._ledger.mid.amounts[resource, self._row])

    def mid(self, resource: int) -> Sum:
        found = lines.mid(self.nodes, self._totals, self.settings, resource)
        in_force = int(self._ledger.mid.amounts[resource, self._row])
        found.append(Line("sinceThen", in_force - lines.total(found)))
        policy = "static" if self.settings.mid_static[0] else "dynamic"
        return Sum(in_force, policy, lines.kept(found))

    def zones(self) -> list[ZoneAccount]:
        return [
            ZoneAccount(int(number), *(self._zone(at, int(number), r) for r in (CPU, MEMORY)))
            for at, number in enumerate(np.flatnonzero(self._zones.there[:, 0]))
        ]

    def _zone(self, at: int, number: int, resource: int) -> Sum:
        policy = Policy(int(self.settings.policy[resource, 0]))
        cells = zones.cells(self._zones, self.nodes, self._totals)
        one = slice(at, at + 1)
        groups = {
            name: take(zones.sums_of(self._zones, cells, terms), one)
            for name, terms in self._by_group.items()
        }
        cell = lines.Cell(
            self.settings,
            cells.capacity[:, one],
            lines.zone_system(take(cells, one), policy, resource),
            groups,
            ("besideReserved", int(zones.most(cells)[resource, at])),
            zones.PARTS,
        )
        found = lines.batch(cell, policy, resource)
        in_force = int(self._ledger.zone_amounts[resource, number, self._row])
        found.append(Line("sinceThen", in_force - lines.total(found)))
        return Sum(in_force, lines.camel(policy), lines.kept(found))
