# SPDX-License-Identifier: Apache-2.0
"""What pods on nodes mean to one shape, by topology domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.controllers.scheduler.plugins.domains import Domains, RowLog, Sum
from koord.controllers.scheduler.plugins.interpodaffinity.carriers import Role

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from numpy.typing import NDArray

    from koord.controllers.cluster.nodes import NodeTable
    from koord.controllers.scheduler.plugins.interpodaffinity.carriers import Carrier
    from koord.controllers.scheduler.plugins.tallies import Tally

    Rows = NDArray[np.intp] | slice


class Presence:
    """Whether there are any pods, by domain.

    Attributes:
        some: bool by domain; the last, for rows without a domain, is False.
        number: in how many domains there are.
    """

    def __init__(self, table: NodeTable, key: str) -> None:
        self.domains = Domains(table.labels.column(key), len(table.open))
        self._sum = Sum(self.domains, ())
        self._read()

    def add(self, tally: Tally) -> None:
        """Counts another tally too."""
        self._sum.add(tally, 1)
        self._read()

    def sync(self, log: RowLog) -> None:
        """Takes over which pods came and went; logs domains that emptied or ceased to be empty."""
        before = self._sum.sync()
        if before is None:
            self._read()
            log.add_all()
            return
        for domain in before:
            now = bool(self._sum.counts[domain] > 0)
            if now != self.some[domain]:
                self.some[domain] = now
                self.number += 1 if now else -1
                log.add(self.domains, domain)

    def at(self, rows: Rows) -> NDArray[np.bool_]:
        """By row, whether there are any in its domain."""
        found: NDArray[np.bool_] = self.some[self.domains.ids[rows]]
        return found

    def _read(self) -> None:
        self.some = self._sum.counts > 0
        self.number = int(np.count_nonzero(self.some))


class State:
    """Kept while no node's labels change.

    Args:
        table: the nodes.
        serial: of this state among all.
        key: what it depends on.
        alone_ok: the pod matches all its own required terms: it may be the first.

    Attributes:
        near: by topology key, pods that all required terms match.
        far: pods that a required anti-affinity term matches.
        kept_out: pods whose required anti-affinity matches this one.
        scores: weighted pods.
        filter_log, score_log: which rows' answers have changed.
        seen: how many of the listed carriers have been looked at.
        tallies: keys to give back.
    """

    def __init__(
        self, table: NodeTable, serial: int, key: tuple[Hashable, ...], alone_ok: bool
    ) -> None:
        self._table = table
        self.serial = serial
        self.key = key
        self._alone_ok = alone_ok
        self.near: dict[str, Presence] = {}
        self.far: dict[str, Presence] = {}
        self.kept_out: dict[str, Presence] = {}
        self.scores: dict[str, Sum] = {}
        self.filter_log = RowLog()
        self.score_log = RowLog()
        self.seen = 0
        self.tallies: list[Hashable] = []
        self._synced = -1

    @property
    def filters(self) -> bool:
        """Whether any node may be refused."""
        return bool(self.near or self.far or self.kept_out)

    def watch(self, found: dict[str, Presence], key: str, tally: Tally | None) -> None:
        """Has one of the three look at a tally, or at none yet."""
        presence = found.get(key)
        if presence is None:
            presence = found[key] = Presence(self._table, key)
        if tally is not None:
            presence.add(tally)

    def weigh(self, key: str, tally: Tally, weight: int) -> None:
        """Adds a tally to the scores."""
        if key not in self.scores:
            domains = Domains(self._table.labels.column(key), len(self._table.open))
            self.scores[key] = Sum(domains, ())
        self.scores[key].add(tally, weight)

    def carry(self, carriers: Iterable[Carrier]) -> None:
        """Takes in carriers whose term matches the shape."""
        for carrier in carriers:
            if carrier.role is Role.KEEPS_OUT:
                self.watch(self.kept_out, carrier.term.key, carrier.tally)
                self.filter_log.add_all()
            else:
                self.weigh(carrier.term.key, carrier.tally, carrier.weight)
                self.score_log.add_all()

    def sync(self, moves: int) -> None:
        """Takes over which pods came and went, unless it has at this number of moves."""
        if moves == self._synced:
            return
        self._synced = moves
        alone = self._is_alone()
        for found in (self.near, self.far, self.kept_out):
            for presence in found.values():
                presence.sync(self.filter_log)
        if self._is_alone() != alone:
            self.filter_log.add_all()
        for each in self.scores.values():
            before = each.sync()
            if before is None:
                self.score_log.add_all()
            else:
                for domain in before:
                    self.score_log.add(each.domains, domain)

    def near_ok(self, rows: Rows) -> NDArray[np.bool_]:
        """By row, whether required affinity lets the pod in.

        The first of pods that want to be near each other may go to any node that has the labels.
        """
        found = np.ones(self._table.size, np.bool_)[rows]
        first = self._alone_ok and self._is_alone()
        for presence in self.near.values():
            found &= presence.domains.ids[rows] >= 0 if first else presence.at(rows)
        return found

    def passes(self, rows: Rows) -> NDArray[np.bool_]:
        """By row, whether the pod may go there."""
        found = self.near_ok(rows)
        for refusing in (self.far, self.kept_out):
            for presence in refusing.values():
                found &= ~presence.at(rows)
        return found

    def raw(self, rows: Rows) -> NDArray[np.int64]:
        """By row, the weights of pods in its domains."""
        total = np.zeros(self._table.size, np.int64)[rows]
        for each in self.scores.values():
            total += each.counts[each.domains.ids[rows]]
        return total

    def _is_alone(self) -> bool:
        return not any(presence.number for presence in self.near.values())
