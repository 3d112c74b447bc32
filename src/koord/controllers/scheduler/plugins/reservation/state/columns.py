# SPDX-License-Identifier: Apache-2.0
"""What reservations have left as columns, so that many rows are answered at once.

Only for rows on which a pod has one reservation to choose from; :mod:`.choosing` says the same of
them one by one, by the same rule. A reservation that changed is written again when a
column is read next, so that a single placement pays nothing here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.api import requests
from koord.controllers.cluster.node_table import PODS
from koord.controllers.scheduler.plugins.reservation.state.fit import UNLIMITED, shortages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.scheduler.plugins.reservation.state.fit import IgnoredResources
    from koord.controllers.scheduler.plugins.reservation.state.reservation_info import (
        ReservationInfo,
    )


class ColumnFit(NamedTuple):
    """By place asked about; see :meth:`ReservationColumns.fits`.

    Attributes:
        alone: the node has room without any reservation.
        beside: it has room together with the reservation.
        within: the reservation has enough left, as far as its policy asks.
        shares: it holds anything that the pod asks for.
    """

    alone: NDArray[np.bool_]
    beside: NDArray[np.bool_]
    within: NDArray[np.bool_]
    shares: NDArray[np.bool_]


class ReservationColumns:
    """The reservations of one ledger: ``[resource, slot]`` and by slot.

    Args:
        table: the nodes, whose resource columns these follow.
    """

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._dirty: dict[str, ReservationInfo] = {}
        shape = (len(table.resources), 0)
        self._held = np.zeros(shape, np.int64)
        self._used = np.zeros(shape, np.int64)
        self._remaining = np.zeros(shape, np.int64)
        self._limit = np.full(shape, UNLIMITED, np.int64)

    def changed(self, record: ReservationInfo) -> None:
        """A reservation is another than before."""
        self._dirty[record.uid] = record

    def drop(self, uid: str) -> None:
        """A reservation is no more."""
        self._dirty.pop(uid, None)
        slot = self._slots.pop(uid, None)
        if slot is not None:
            self._free.append(slot)

    def slots(self, records: Sequence[ReservationInfo]) -> NDArray[np.intp]:
        """Where reservations stand, brought up to date."""
        if self._dirty:
            for record in self._dirty.values():
                self._write(record)
            self._dirty.clear()
        return np.array([self._slots[record.uid] for record in records], np.intp)

    def given_back(self, slots: NDArray[np.intp]) -> NDArray[np.int64]:
        """``[resource, place]``: what pods that match may see as free on the node."""
        found: NDArray[np.int64] = np.maximum(self._held[:, slots] - self._used[:, slots], 0)
        found[PODS] = self._remaining[PODS, slots]
        return found

    def fits(
        self,
        slots: NDArray[np.intp],
        rows: NDArray[np.intp],
        request: Mapping[str, int],
        skipped: IgnoredResources,
    ) -> ColumnFit:
        """Whether pods fit, by the rule of :mod:`.fit`.

        Args:
            slots: of reservations.
            rows: where each of them is.
            request: of the pods.
            skipped: resources that are left to others.
        """
        table = self._table
        at = {name: table.resource(name) for name in (requests.PODS, *request)}
        self._widen()
        free = {
            name: table.allocatable[index, rows] - table.requested[index, rows]
            for name, index in at.items()
        }

        def all_fit(left: Callable[[str], NDArray[np.int64]]) -> NDArray[np.bool_]:
            found = np.ones(len(slots), np.bool_)
            for _, short in shortages(left, request, skipped):
                found &= np.logical_not(short)
            return found

        shares = np.zeros(len(slots), np.bool_)
        for name in request:
            shares |= self._held[at[name], slots] > 0
        return ColumnFit(
            all_fit(lambda name: free[name]),
            all_fit(lambda name: free[name] + self._remaining[at[name], slots]),
            all_fit(lambda name: self._limit[at[name], slots]),
            shares,
        )

    def scores(self, slots: NDArray[np.intp], request: Mapping[str, int]) -> NDArray[np.int64]:
        """0..100, as :func:`.fit.score` says."""
        held = self._held[:, slots]
        wanted = self._used[:, slots]
        for name, amount in request.items():
            index = self._table.resource(name)
            if index < len(wanted):
                wanted[index] += amount
        counted = held > 0
        parts = np.where(counted & (wanted <= held), 100 * wanted // np.maximum(held, 1), 0)
        found: NDArray[np.int64] = parts.sum(0) // np.maximum(counted.sum(0), 1)
        return found

    def _write(self, record: ReservationInfo) -> None:
        slot = self._slots.get(record.uid)
        if slot is None:
            slot = self._slots[record.uid] = self._free.pop() if self._free else self._grow()
        at = {name: self._table.resource(name) for name in record.held}
        self._widen()
        self._held[:, slot] = self._used[:, slot] = self._remaining[:, slot] = 0
        self._limit[:, slot] = UNLIMITED
        remaining, limits = record.remaining(), record.limits()
        for name, index in at.items():
            self._held[index, slot], self._used[index, slot] = record.held[name], record.used[name]
            self._remaining[index, slot] = remaining[name]
        self._held[PODS, slot] = record.seats or 0  # scores count it
        self._remaining[PODS, slot] = record.is_free
        for name, limit in limits.items():
            self._limit[self._table.resource(name), slot] = limit

    def _widen(self) -> None:
        """Gives each resource that the nodes know its place."""
        missing = len(self._table.resources) - len(self._held)
        if missing > 0:
            self._pad(missing, 0)

    def _grow(self) -> int:
        slot = len(self._slots)
        if slot >= self._held.shape[1]:
            self._pad(0, max(64, slot))
        return slot

    def _pad(self, resources: int, slots: int) -> None:
        wider = ((0, resources), (0, slots))
        self._held, self._used = np.pad(self._held, wider), np.pad(self._used, wider)
        self._remaining = np.pad(self._remaining, wider)
        self._limit = np.pad(self._limit, wider, constant_values=UNLIMITED)
