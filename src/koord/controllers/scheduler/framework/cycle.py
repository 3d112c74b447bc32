# SPDX-License-Identifier: Apache-2.0
"""One attempt to place one pod: what plugins share during it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
    from koord.kernels.placement_board import Board

    Overlay = Callable[[int], NDArray[np.int64] | None]


class Overlays(NamedTuple):
    """What requests of several rows are less for a pod; see :meth:`Cycle.overlays`.

    Attributes:
        places: among the rows asked about, where there is something.
        given: ``[resource, place]``; may lack the columns of the latest resources.
    """

    places: NDArray[np.intp]
    given: NDArray[np.int64]

    def joined(self, other: Overlays) -> Overlays:
        """Those of this one and of another, of as many resources as the longer knows."""
        size = max(len(self.given), len(other.given))
        parts = [
            np.pad(each, ((0, size - len(each)), (0, 0))) for each in (self.given, other.given)
        ]
        return Overlays(np.concatenate([self.places, other.places]), np.concatenate(parts, 1))


def stacked(rows: NDArray[np.intp], overlay: Overlay) -> Overlays | None:
    """The overlays of rows that are looked at one after the other; None for none."""
    found = [(place, given) for place, row in enumerate(rows.tolist())
             if (given := overlay(row)) is not None]  # fmt: skip
    if not found:
        return None
    size = max(len(given) for _, given in found)
    columns = np.zeros((size, len(found)), np.int64)
    for at, (_, given) in enumerate(found):
        columns[: len(given), at] = given
    return Overlays(np.array([place for place, _ in found], np.intp), columns)


class ViewedColumns(Protocol):
    """Columns of nodes as somebody sees them, ``[resource, row]``.

    Attributes:
        viewer: who does; the same object for all that see the same.
    """

    @property
    def allocatable(self) -> NDArray[np.int64]:
        """What nodes offer."""

    @property
    def requested(self) -> NDArray[np.int64]:
        """What is taken of it."""

    @property
    def nonzero(self) -> NDArray[np.int64]:
        """CPU and memory taken, as scores count them."""

    @property
    def viewer(self) -> object:
        """Who sees them so."""

    @property
    def bounds(self) -> Any:
        """Theirs by block of rows (``ColumnBounds``), as they were when these were read last."""

    def read_bounds(self) -> None:
        """Brings :attr:`bounds` up to date, and with them what bounds those who see the columns."""


_NO_NAMES: frozenset[str] = frozenset()


class PendingPatch:
    """What PreBind plugins want written on the pod (or Reservation): one patch for all."""

    __slots__ = ("annotations", "labels")

    def __init__(self) -> None:
        self.annotations: dict[str, str | None] = {}
        self.labels: dict[str, str | None] = {}

    def __bool__(self) -> bool:
        return bool(self.annotations or self.labels)


class Cycle:
    """What is known during one attempt.

    Attributes:
        pod: the pod.
        shape: what it shares with its equals.
        table: the node table.
        state: by plugin name, whatever the plugin keeps from one point to the next. Thrown away
            with the attempt; what belongs to the shape goes to ``pod.shape.memo``.
        allowed: bool by row, or None for all: the nodes that PreFilter left over.
        board: what filters say of every row, from the moment that Score plugins are asked;
            ``board.refused == 0`` where the pod may go. ``allowed`` is not in it.
        preempting: a PostFilter's dry run is asking.
        overlay_generation: changes with what :meth:`overlay` depends on; a part of plugins'
            ``generation``.
        preferred: rows to try first, in this order; see :meth:`prefer`.
        reservations: by row, what the Reservation plugin offers there; its PreFilter sets it.
        reserved_at: bool by row asked about: whether anything is offered there. None for "ask
            ``reservations``".
        seen_columns: gives the table's columns as the pod sees them where it has an overlay, true
            for all rows until anything changes; None where nobody keeps these.
        members: pods of the same job that are planned in the same pass, this one included; empty
            outside of a job.
        own_rows: rows whose answers depend on more of this pod than its shape, such as a
            reservation that is held for a pod of this name: asked at every attempt, and again for
            the next pod of the shape. Set in PreFilter; ascending, None for none.
        narrowed: the plugins whose PreFilter left nodes out, by name.
        unknown: names of nodes that PreFilter left over and that no node has.
        participants: the plugins that the pod was reserved with; None before.
        decider: who makes the attempt; ``decider_of`` of ``decision.decider`` gives it with its
            type.
    """

    __slots__ = (
        "_overlay",
        "_overlays",
        "allowed",
        "board",
        "decider",
        "members",
        "narrowed",
        "overlay_generation",
        "own_rows",
        "participants",
        "pod",
        "preempting",
        "preferred",
        "reservations",
        "reserved_at",
        "seen_columns",
        "shape",
        "state",
        "table",
        "unknown",
    )

    def __init__(self, pod: PodInfo, table: NodeTable) -> None:
        self.pod = pod
        self.shape: PodShape = pod.shape
        self.table = table
        self.state: dict[str, Any] = {}
        self.allowed: NDArray[np.bool_] | None = None
        self.board: Board | None = None
        self.preempting = False
        self.preferred: tuple[int, ...] = ()
        self.members: tuple[PodInfo, ...] = ()
        self.own_rows: NDArray[np.intp] | None = None
        self.narrowed: tuple[str, ...] = ()
        self.unknown = _NO_NAMES
        self.decider: object = None
        self.participants: ProfilePlugins | None = None
        self.overlay_generation: Hashable = 0
        self._overlay: Overlay | None = None
        self._overlays: Callable[[NDArray[np.intp]], Overlays | None] | None = None
        self.seen_columns: Callable[[], ViewedColumns] | None = None
        self.reserved_at: Callable[[NDArray[np.intp]], NDArray[np.bool_]] | None = None
        self.reservations: Callable[[int], Sequence[Any]] = _no_reservations

    @property
    def has_overlay(self) -> bool:
        """Whether some row's request may be less for this pod than for others."""
        return self._overlay is not None

    @property
    def has_reservations(self) -> bool:
        """Whether reservations are offered at all."""
        return self.reservations is not _no_reservations

    def copy(self) -> Cycle:
        """The same attempt; what is set in the copy does not reach this one."""
        copy = Cycle(self.pod, self.table)
        copy.state = dict(self.state)
        copy.allowed, copy.members = self.allowed, self.members
        copy.board, copy.own_rows = self.board, self.own_rows
        copy.preferred, copy.narrowed = self.preferred, self.narrowed
        copy.unknown = self.unknown
        copy.preempting, copy.decider = self.preempting, self.decider
        copy._overlay, copy.reservations = self._overlay, self.reservations
        copy._overlays, copy.reserved_at = self._overlays, self.reserved_at
        copy.seen_columns = self.seen_columns
        copy.overlay_generation = self.overlay_generation
        return copy

    def restrict(self, rows: NDArray[np.intp], unknown: Iterable[str] = ()) -> None:
        """Leaves only these nodes; several calls intersect.

        Args:
            rows: which.
            unknown: names that were meant too, and that no node has.
        """
        mask = np.zeros(self.table.size, np.bool_)
        mask[rows] = True
        names = frozenset(unknown)
        self.unknown = names if self.allowed is None else self.unknown & names
        self.allowed = mask if self.allowed is None else self.allowed & mask

    def restrict_to(self, names: Iterable[str]) -> None:
        """The same by the names of nodes."""
        rows = {name: self.table.row(name) for name in sorted(names)}
        known = [row for row in rows.values() if row is not None]
        self.restrict(np.array(known, np.intp), [n for n, row in rows.items() if row is None])

    def prefer(self, rows: Iterable[int]) -> None:
        """Has rows tried before all others, after those that another plugin preferred.

        The first of them that all filters pass is the node, whatever scores say. If none does, the
        choice is as free as without.
        """
        self.preferred += tuple(rows)

    def set_overlay(
        self,
        overlay: Overlay,
        generation: Hashable = 0,
        many: Callable[[NDArray[np.intp]], Overlays | None] | None = None,
        seen: Callable[[], ViewedColumns] | None = None,
    ) -> None:
        """Sets what :meth:`overlay` answers; the Reservation plugin does, in PreFilter.

        Args:
            overlay: see :meth:`overlay`. What it says of a row may change when the row's
                ``Aspect.RESERVATIONS`` does.
            generation: what it depends on beside shape and row: another for a pod that is offered
                other reservations than its equals are.
            many: says the same of many rows at once; None for "one after the other".
            seen: gives the table's columns less that of all rows; None where nobody keeps these.
        """
        self._overlay, self._overlays, self.seen_columns = overlay, many, seen
        self.overlay_generation = (generation,)

    def overlay(self, row: int) -> NDArray[np.int64] | None:
        """By resource column, what a row's request is less for this pod, or None.

        That is what reservations hold there for pods like this one.
        """
        return self._overlay(row) if self._overlay is not None else None

    def overlays(self, rows: NDArray[np.intp]) -> Overlays | None:
        """The same for several rows; None where nothing is held for the pod on any of them."""
        if self._overlays is not None:
            return self._overlays(rows)
        return stacked(rows, self._overlay) if self._overlay is not None else None

    def reserved(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Bool by row asked about: whether a reservation is offered there."""
        if self.reserved_at is not None:
            return self.reserved_at(rows)
        if not self.has_reservations:
            return np.zeros(len(rows), np.bool_)
        found = (bool(self.reservations(row)) for row in rows.tolist())
        return np.fromiter(found, np.bool_, len(rows))


def _no_reservations(row: int) -> Sequence[Any]:
    return ()
