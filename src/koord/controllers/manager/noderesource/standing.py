# SPDX-License-Identifier: Apache-2.0
"""Nodes that stand as they should, as columns, and which of them new offers have to be written to.

A node that was brought to where it should be needs no plugins again until something of it changes,
or of the configuration that they read. Until then only its offers move, with reports, pods and
strategies; what that means for all nodes that stand is one pass over columns, by the same rules as
for a single node (docs/reference/node-resources.md#when-a-write-is-due).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.api.protocol import keys, nodes
from koord.api.protocol.priority import PriorityClass
from koord.api.protocol.resources import BATCH_CPU, BATCH_MEMORY
from koord.base.errors import KoordError
from koord.controllers.manager.noderesource.extended import (
    BATCH,
    MID,
    amplified_column,
    origin_text,
    speed,
)
from koord.controllers.manager.noderesource.result import Result, Wanted
from koord.controllers.manager.noderesource.zones import numbered
from koord.controllers.manager.overcommit import threshold
from koord.controllers.manager.overcommit.amounts import CPU
from koord.controllers.manager.overcommit.columns import joined, take
from koord.controllers.manager.overcommit.nodes import Degraded
from koord.controllers.manager.overcommit.pods import MOST_ZONES
from koord.controllers.manager.overcommit.threshold import ABSENT
from koord.kernels.quantity import Quantity, Rounding
from koord.kube.informer import is_newer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from koord.api.kinds.device import Device
    from koord.api.kinds.meta import Object
    from koord.api.kinds.node import Node
    from koord.api.kinds.topology import NodeResourceTopology, Zone, ZoneResource
    from koord.controllers.manager.overcommit.ledger import Ledger

Pair = tuple[int, int]
Moments = tuple[float, float]
State = tuple[str, str]
UNTOLD = -2
"""In place of an origin: the node has no annotation of it at all."""

_MOST = 2**52
"""Beyond, doubles are not whole; no machine comes near."""
_ZERO = Quantity()
# What is due after a pause is due once the pause is over.
_AFTER_SECONDS = 0.001
# Parts of thousandths in what zones show: milli-cores, and thousandths of a byte.
_PARTS = np.array([[[1000.0]], [[1.0]]])
_NEVER = float("inf")
_NOT_YET = 0


class Shown(NamedTuple):
    """What a node shows; pairs are CPU milli and memory, :data:`ABSENT` where it shows nothing.

    Attributes:
        batch, mid: its resources, memory in bytes.
        origin: batch as the annotation has it, before third parties took theirs; :data:`UNTOLD`
            without the annotation.
        held: what third parties hold of batch.
        zones: batch by NUMA number, memory in thousandths of a byte.
    """

    batch: Pair
    mid: Pair
    origin: Pair
    held: Pair
    zones: Mapping[int, Pair]


class Judged(NamedTuple):
    """What a node was judged by.

    Attributes:
        node, topology, device: its objects, after the last write.
        result: what plugins made of it.
        enabled: whether co-location is on.
    """

    node: Node
    topology: NodeResourceTopology | None
    device: Device | None
    result: Result
    enabled: bool


class _Known(NamedTuple):
    """What is remembered of that: no objects, for those of informers would then be there twice.

    Attributes:
        node, topology: which life and which state; None for none.
        device: the informer's own, which nobody writes here.
        result: of plugins, without amounts.
    """

    node: State | None = None
    topology: State | None = None
    device: Device | None = None
    result: Result = Result()


class Mark(NamedTuple):
    """A moment of a row: how often it has changed, and in which pass it was decided on."""

    changes: int
    asked: int


class Verdict(NamedTuple):
    """What is to become of some rows.

    Attributes:
        due: bool ``[rows]``, those that have to be written now.
        left_seconds: float64 ``[rows]``, after how long others have to be, that differ by too
            little; infinite where all is as it should be.
    """

    due: NDArray[np.bool_]
    left_seconds: NDArray[np.float64]


class _Columns(NamedTuple):
    """Rows are those of the ledger.

    Attributes:
        stands: whether the other columns are true of the row.
        enabled: whether co-location was on.
        held: ``[2, rows]``, what third parties hold of batch.
        speed: what batch CPU is multiplied by.
        at, zones_at: when the node and its zones were written, monotonic seconds.
        mark: goes up with every change, so that who waited meanwhile can tell.
        asked: in which pass the row was decided on last; 0 before the first.
    """

    stands: NDArray[np.bool_]
    enabled: NDArray[np.bool_]
    held: NDArray[np.int64]
    speed: NDArray[np.float64]
    at: NDArray[np.float64]
    zones_at: NDArray[np.float64]
    mark: NDArray[np.int64]
    asked: NDArray[np.int64]


class _Amounts(NamedTuple):
    """See :class:`Shown`: ``[2, rows]``, of zones ``[2, NUMA numbers, rows]``."""

    batch: NDArray[np.int64]
    mid: NDArray[np.int64]
    origin: NDArray[np.int64]
    zones: NDArray[np.int64]


class Standing:
    """See the head of this file."""

    def __init__(self) -> None:
        self._columns = _room(0)
        self._shown, self._asked = _nothing(0, 0), _nothing(0, 0)
        self._known: list[_Known] = []
        self._passes = 0

    def stands(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which of some rows stand."""
        self._reach(int(rows.max(initial=-1)) + 1)
        found: NDArray[np.bool_] = self._columns.stands[rows]
        return found

    def is_of(
        self,
        row: int,
        node: Node | None,
        topology: NodeResourceTopology | None,
        device: Device | None,
    ) -> bool:
        """Whether a row stands, and was judged by these states of its objects or later ones.

        Who wrote last has seen all states before: what informers tell of them is no news.
        """
        self._reach(row + 1)
        before = self._known[row]
        return (
            bool(self._columns.stands[row])
            and device is before.device
            and _is_known(node, before.node)
            and _is_known(topology, before.topology)
        )

    def result(self, row: int) -> Result | None:
        """What plugins calculated for a row that stands; None for one that does not."""
        self._reach(row + 1)
        return self._known[row].result if self._columns.stands[row] else None

    def wanted(self, row: int) -> Wanted | None:
        """What a row that stands was asked to show last; None where nothing was asked yet."""
        self._reach(row + 1)
        if not self._columns.stands[row] or self._columns.asked[row] == _NOT_YET:
            return None
        asked, shown = self._asked, self._shown
        amounts = (*asked.batch[:, row].tolist(), *asked.mid[:, row].tolist())
        resources = {
            name: None if amount == ABSENT else Quantity.from_value(amount)
            for name, amount in zip((*BATCH, *MID), amounts, strict=True)
        }
        origin = asked.origin[:, row].tolist()
        if origin == shown.origin[:, row].tolist():
            return Wanted(resources)
        return Wanted(resources, beside={keys.ORIGIN_EXTENDED_ALLOCATABLE: origin_text(origin)})

    def mark(self, row: int) -> Mark:
        """To be given to :meth:`put` and :meth:`follow`: a change in between makes it void."""
        self._reach(row + 1)
        return Mark(int(self._columns.mark[row]), int(self._columns.asked[row]))

    def put(self, row: int, mark: Mark, judged: Judged, at: Moments) -> None:
        """A row stands, unless it has changed since its mark was taken.

        Args:
            row: which.
            mark: of before it was looked at.
            judged: what it was judged by; all of it but offers is as it should be.
            at: when the node and its zones were written.
        """
        columns = self._columns
        if columns.mark[row] != mark.changes:
            return
        shown = read(judged.node, judged.topology)
        if shown is None:
            self.drop(row)
            return
        self._widen(max(shown.zones, default=-1) + 1)
        self._known[row] = _known(judged)
        columns.stands[row], columns.enabled[row] = True, judged.enabled
        columns.speed[row] = speed(judged.result)
        columns.held[:, row] = shown.held
        columns.at[row], columns.zones_at[row] = at
        columns.asked[row] = _NOT_YET
        here = self._shown
        here.batch[:, row], here.mid[:, row] = shown.batch, shown.mid
        here.origin[:, row] = shown.origin
        here.zones[:, :, row] = ABSENT
        for number, pair in shown.zones.items():
            here.zones[:, number, row] = pair

    def follow(self, row: int, mark: Mark, judged: Judged, at: Moments) -> bool:
        """A row that stands was brought to all that was asked of it in :meth:`decide`.

        Returns:
            Whether that is known to be so: not where more was asked meanwhile.
        """
        columns = self._columns
        if columns.mark[row] != mark.changes or not _NOT_YET != mark.asked == columns.asked[row]:
            return False
        result = self._known[row].result
        self._known[row] = _Known(
            _state(judged.node), _state(judged.topology), judged.device, result
        )
        columns.at[row], columns.zones_at[row] = at
        for shown, asked in zip(self._shown, self._asked, strict=True):
            shown[..., row] = asked[..., row]
        return True

    def drop(self, row: int) -> None:
        """Something else of a row has changed than its offers."""
        self._reach(row + 1)
        self._columns.stands[row] = False
        self._columns.mark[row] += 1

    def clear(self) -> None:
        """The configuration of plugins has changed."""
        self._columns.stands[:] = False
        self._columns.mark[:] += 1

    def decide(self, ledger: Ledger, rows: NDArray[np.intp], now: float) -> Verdict:
        """What new offers mean for rows that stand.

        Where co-location was switched on or off, a row is due and stands no more: that is more
        than offers.

        Args:
            ledger: has the offers, and the strategies.
            rows: which rows.
            now: monotonic seconds.
        """
        self._widen(len(ledger.zones.there))
        here, shown = take(self._columns, rows), take(self._shown, rows)
        said = take(ledger.settings, rows)
        asked = _asked(ledger, rows, here, shown)
        self._passes += 1
        self._columns.asked[rows] = self._passes
        for column, values in zip(self._asked, asked, strict=True):
            column[..., rows] = values
        share = said.diff_threshold
        moved = threshold.due(shown.batch, asked.batch, share)
        moved |= threshold.due(shown.mid, asked.mid, share)
        differs = (shown.batch != asked.batch) | (shown.mid != asked.mid)
        differs |= shown.origin != asked.origin
        switched = said.enable != here.enabled
        for row in rows[switched].tolist():
            self.drop(row)
        due, later = switched, np.full(len(rows), _NEVER)
        for part in (
            _Part(moved, differs.any(axis=0), here.at),
            _zones(shown.zones, asked.zones, share, here.zones_at),
        ):
            over = part.at + said.update_seconds - now
            due = due | part.moved | (part.differs & (over < 0))
            wait = np.maximum(over, 0.0) + _AFTER_SECONDS
            later = np.where(part.differs, np.minimum(later, wait), later)
        return Verdict(due, np.where(due, _NEVER, later))

    def _reach(self, rows: int) -> None:
        have = len(self._known)
        if rows <= have:
            return
        more, numbers = max(rows, 2 * have, 64) - have, self._shown.zones.shape[1]
        self._columns = joined(self._columns, _room(more))
        self._shown = joined(self._shown, _nothing(more, numbers))
        self._asked = joined(self._asked, _nothing(more, numbers))
        self._known += [_Known()] * more

    def _widen(self, numbers: int) -> None:
        _, have, rows = self._shown.zones.shape
        if numbers > have:
            more = np.full((2, numbers - have, rows), ABSENT)
            self._shown, self._asked = (
                group._replace(zones=np.concatenate([group.zones, more], axis=1))
                for group in (self._shown, self._asked)
            )


class _Part(NamedTuple):
    """A node or its zones: whether they moved far enough, differ at all, and when written."""

    moved: NDArray[np.bool_]
    differs: NDArray[np.bool_]
    at: NDArray[np.float64]


def _asked(ledger: Ledger, rows: NDArray[np.intp], here: _Columns, shown: _Amounts) -> _Amounts:
    """What rows are to show: as BatchResource, MidResource and zones have it."""
    offering = ledger.batch.degraded[rows] == Degraded.NO
    batch = ledger.batch.amounts[:, rows]
    batch[CPU] = amplified_column(batch[CPU], here.speed)
    zones, numbers = np.zeros_like(shown.zones), len(ledger.zones.there)
    zones[:, :numbers] = ledger.zone_amounts[:, :, rows]
    zones[CPU] = amplified_column(zones[CPU], here.speed)
    there = np.zeros(zones.shape[1:], np.bool_)
    there[:numbers] = ledger.zones.there[:, rows] & offering
    return _Amounts(
        np.where(offering, np.maximum(batch - here.held, 0), ABSENT),
        np.where(offering, ledger.mid.amounts[:, rows], ABSENT),
        np.where(offering, batch, np.where(shown.origin == UNTOLD, UNTOLD, 0)),
        np.where(there, zones, np.where(shown.zones == ABSENT, ABSENT, 0)),
    )


def _zones(
    shown: NDArray[np.int64],
    asked: NDArray[np.int64],
    share: NDArray[np.float64],
    at: NDArray[np.float64],
) -> _Part:
    """See :func:`koord.controllers.manager.noderesource.zones.patch`."""
    differs = shown != asked
    # What is gone is told of at once, however large the share that may go unnoticed.
    far = (shown == ABSENT) | (asked == 0)
    far |= threshold.beyond(shown * _PARTS, asked * _PARTS, share)
    return _Part((differs & far).any(axis=(0, 1)), differs.any(axis=(0, 1)), at)


def read(node: Node, topology: NodeResourceTopology | None) -> Shown | None:
    """What a node and its zones show; None where columns have no room for it.

    So it is with parts of a milli-core or byte, amounts that are not the same in all their fields,
    and annotations that cannot be read: such a node takes the plain way each time.
    """
    status = node.status
    if not status.capacity or not status.allocatable:
        return None
    try:
        before = nodes.origin_allocatable(node)
        held = nodes.third_party_total(node, PriorityClass.BATCH)
        cpu, memory, mid_cpu, mid_memory = (
            _same(_whole(status.allocatable.get(name)), _whole(status.capacity.get(name)))
            for name in (*BATCH, *MID)
        )
        origin = (UNTOLD, UNTOLD)
        if before is not None:
            if not before.resources.keys() <= set(BATCH):
                raise ValueError("an origin of other resources")
            origin = (
                _whole(before.resources.get(BATCH_CPU)),
                _whole(before.resources.get(BATCH_MEMORY)),
            )
        return Shown(
            (cpu, memory),
            (mid_cpu, mid_memory),
            origin,
            (_whole(held.get(BATCH_CPU, _ZERO)), _whole(held.get(BATCH_MEMORY, _ZERO))),
            _read_zones(topology) if topology is not None else {},
        )
    except (KoordError, ValueError):
        return None


def _read_zones(topology: NodeResourceTopology) -> dict[int, Pair]:
    number_of = numbered(topology)
    if len({zone.name for zone in topology.zones}) < len(topology.zones):
        raise ValueError("two zones of one name")
    found = {}
    for zone in topology.zones:
        pair, number = _read_zone(zone), number_of.get(zone.name)
        if number is not None and number < MOST_ZONES:
            found[number] = pair
        elif pair != (ABSENT, ABSENT):
            raise ValueError("a zone that is none shows batch")
    return found


def _read_zone(zone: Zone) -> Pair:
    cpu = memory = ABSENT
    for each in zone.resources:
        if each.name == BATCH_CPU:
            cpu = _whole(_agreed(each))
        elif each.name == BATCH_MEMORY:
            memory = _thousandths(_agreed(each))
    return cpu, memory


def _agreed(each: ZoneResource) -> Quantity:
    found = each.capacity
    if found is None or found != each.allocatable or found != each.available:
        raise ValueError("fields that differ")
    return found


def _whole(amount: Quantity | None) -> int:
    return ABSENT if amount is None else _sane(amount.value(Rounding.EXACT))


def _thousandths(amount: Quantity) -> int:
    return _sane(amount.milli(Rounding.EXACT))


def _sane(count: int) -> int:
    if not 0 <= count <= _MOST:
        raise ValueError("no amount that a machine has")
    return count


def _same(one: int, other: int) -> int:
    if one != other:
        raise ValueError("fields that differ")
    return one


def _known(judged: Judged) -> _Known:
    result = Result({}, judged.result.annotations, judged.result.labels)
    return _Known(_state(judged.node), _state(judged.topology), judged.device, result)


def _state(of: Object | None) -> State | None:
    return None if of is None else (of.metadata.uid, of.metadata.resource_version)


def _is_known(now: Object | None, before: State | None) -> bool:
    """Whether a state of an object is the one that is known, or one from before it."""
    here = _state(now)
    if here is None or before is None:
        return here is before
    (uid, version), (known_uid, known_version) = here, before
    return uid == known_uid and version != "" and not is_newer(version, known_version)


def _room(rows: int) -> _Columns:
    return _Columns(
        np.zeros(rows, np.bool_),
        np.zeros(rows, np.bool_),
        np.zeros((2, rows), np.int64),
        np.ones(rows),
        np.zeros(rows),
        np.zeros(rows),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
    )


def _nothing(rows: int, numbers: int) -> _Amounts:
    batch, mid, origin = (np.full((2, rows), ABSENT) for _ in range(3))
    return _Amounts(batch, mid, origin, np.full((2, numbers, rows), ABSENT))
