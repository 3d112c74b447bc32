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
from koord.controllers.cluster.node_table import ABSENT, PODS
from koord.controllers.scheduler.plugins.reservation.state.fit import UNLIMITED
from koord.kernels.placement_board import (
    ALONE,
    BESIDE,
    SHARES,
    WITHIN,
    reserved_fit,
    reserved_scores,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.scheduler.plugins.reservation.state.fit import IgnoredResources
    from koord.controllers.scheduler.plugins.reservation.state.reservation_info import (
        ReservationInfo,
    )

_PODS = 0
"""The column of places for pods, here."""


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

    A resource has a column here while any reservation holds some of it, whatever nodes offer.

    Args:
        table: the nodes.
    """

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._index = {requests.PODS: 0}
        # By name, how many reservations hold it; and columns that no name has any more.
        self._holders = {requests.PODS: 1}
        self._unused: list[int] = []
        self._names: dict[str, tuple[str, ...]] = {}
        self._places: tuple[object, NDArray[np.intp], NDArray[np.intp]] | None = None
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._dirty: dict[str, ReservationInfo] = {}
        shape = (1, 0)
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
            self._clear(slot)
            self._hold(uid, ())
            self._names.pop(uid, None)

    def slot(self, record: ReservationInfo) -> int:
        """Where a reservation stands from now on; what is there is true after :meth:`flush`."""
        found = self._slots.get(record.uid)
        if found is None:
            found = self._slots[record.uid] = self._free.pop() if self._free else self._grow()
            self._dirty[record.uid] = record
        return found

    def flush(self) -> None:
        """Writes what changed."""
        for record in self._dirty.values():
            self._write(record)
        self._dirty.clear()

    def given_back(self, slots: NDArray[np.intp]) -> NDArray[np.int64]:
        """``[resource of the table, place]``: what pods that match may see as free on the node."""
        kept, table = self._places, self._table
        if kept is None or kept[0] is not table.resources_key:
            offered = [(i, table.resource(name)) for name, i in self._index.items() if i]
            both = np.array([each for each in offered if each[1] != ABSENT], np.intp).reshape(-1, 2)
            kept = self._places = table.resources_key, both[:, 0], both[:, 1]
        _, here, there = kept
        found = np.zeros((len(table.resources), len(slots)), np.int64)
        at = np.ix_(here, slots)
        found[there] = np.maximum(self._held[at] - self._used[at], 0)
        found[PODS] = self._remaining[_PODS, slots]
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
        table, asked = self._table, self.amounts(request, skipped)
        reserved = self._held, self._used, self._remaining, self._limit
        bits = reserved_fit(table.allocatable, table.requested, reserved, rows, slots, asked)
        found = [(bits & bit) != 0 for bit in (ALONE, BESIDE, WITHIN, SHARES)]
        return ColumnFit(*found)

    def all(self) -> tuple[NDArray[np.int64], ...]:
        """What is held, used and remaining, and the most that one pod may use, up to date."""
        self.flush()
        return self._held, self._used, self._remaining, self._limit

    def amounts(
        self, request: Mapping[str, int], skipped: IgnoredResources
    ) -> list[tuple[int, int, int, bool, bool, bool]]:
        """What pods ask for, as :data:`reserved_fit` takes it; arguments as of :meth:`fits`."""
        table, index = self._table, self._index
        asked = [(PODS, index[requests.PODS], 1, True, True, False)]
        for name, amount in request.items():
            offered = table.resource(name)
            # Of what no node offers a reservation's part is not there either.
            given = offered != ABSENT
            checked = amount > 0 and name not in skipped
            asked.append((offered, index.get(name, -1), amount, checked, given, True))
        return asked

    def scores(self, slots: NDArray[np.intp], request: Mapping[str, int]) -> NDArray[np.int64]:
        """0..100, as :func:`.fit.score` says."""
        places = [(self._index.get(name, -1), amount) for name, amount in request.items()]
        asked = [(0, place, amount, True, True, True) for place, amount in places]
        reserved = self._held, self._used, self._remaining, self._limit
        return reserved_scores(reserved, slots, asked)

    def _write(self, record: ReservationInfo) -> None:
        slot = self.slot(record)
        remaining, limits = record.remaining(), record.limits()
        self._hold(record.uid, (*record.held, *(n for n in limits if n not in record.held)))
        self._clear(slot)
        for name in record.held:
            index = self._index[name]
            self._held[index, slot], self._used[index, slot] = record.held[name], record.used[name]
            self._remaining[index, slot] = remaining[name]
        self._held[_PODS, slot] = record.seats or 0  # scores count it
        self._remaining[_PODS, slot] = record.is_free
        for name, limit in limits.items():
            self._limit[self._index[name], slot] = limit

    def _clear(self, slot: int) -> None:
        self._held[:, slot] = self._used[:, slot] = self._remaining[:, slot] = 0
        self._limit[:, slot] = UNLIMITED

    def _hold(self, uid: str, names: tuple[str, ...]) -> None:
        """Gives a reservation's resources columns, and back those that nobody else holds."""
        before = self._names.get(uid, ())
        self._names[uid] = names
        if before == names:
            return
        self._places = None
        new = [name for name in names if name not in self._index]
        missing = len(new) - len(self._unused)
        if missing > 0:
            had = len(self._held)
            self._pad(max(missing, had), 0)
            self._unused += range(len(self._held) - 1, had - 1, -1)
        for name in new:
            self._index[name] = self._unused.pop()
        for name in names:
            self._holders[name] = self._holders.get(name, 0) + 1
        for name in before:
            self._holders[name] -= 1
            if not self._holders[name]:
                del self._holders[name]
                self._give_up(self._index.pop(name))

    def _give_up(self, index: int) -> None:
        self._held[index] = self._used[index] = self._remaining[index] = 0
        self._limit[index] = UNLIMITED
        self._unused.append(index)

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
