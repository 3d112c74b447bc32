# SPDX-License-Identifier: Apache-2.0
"""One attempt to place one pod: what plugins share during it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.nodes import NodeTable
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.decider import Decider
    from koord.kernels.placement_board import Board


class Changes:
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
        overlay_stamp: changes with what :meth:`overlay` depends on; for plugins' ``stamp``.
        preferred: rows to try first, in this order; see :meth:`prefer`.
        reservations: by row, what the Reservation plugin offers there; its PreFilter sets it.
        members: pods of the same job that are planned in the same pass, this one included; empty
            outside of a job.
        own_rows: rows whose answers depend on more of this pod than its shape, such as a
            reservation that is held for a pod of this name: asked at every attempt, and again for
            the next pod of the shape. Set in PreFilter; ascending, None for none.
        decider: who makes the attempt; for PostFilter plugins and others that ask what-ifs.
    """

    __slots__ = (
        "_overlay",
        "allowed",
        "board",
        "decider",
        "members",
        "overlay_stamp",
        "own_rows",
        "pod",
        "preempting",
        "preferred",
        "reservations",
        "shape",
        "state",
        "table",
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
        self.decider: Decider | None = None
        self.overlay_stamp: Hashable = 0
        self._overlay: Callable[[int], NDArray[np.int64] | None] | None = None
        self.reservations: Callable[[int], Sequence[Any]] = _no_reservations

    @property
    def has_overlay(self) -> bool:
        """Whether some row's request may be less for this pod than for others."""
        return self._overlay is not None

    def copy(self) -> Cycle:
        """The same attempt; what is set in the copy does not reach this one."""
        copy = Cycle(self.pod, self.table)
        copy.state = dict(self.state)
        copy.allowed, copy.members = self.allowed, self.members
        copy.board, copy.own_rows = self.board, self.own_rows
        copy.preferred = self.preferred
        copy.preempting, copy.decider = self.preempting, self.decider
        copy._overlay, copy.reservations = self._overlay, self.reservations
        copy.overlay_stamp = self.overlay_stamp
        return copy

    def restrict(self, rows: NDArray[np.intp]) -> None:
        """Leaves only these nodes; several calls intersect."""
        mask = np.zeros(self.table.size, np.bool_)
        mask[rows] = True
        self.allowed = mask if self.allowed is None else self.allowed & mask

    def prefer(self, rows: Iterable[int]) -> None:
        """Has rows tried before all others, after those that another plugin preferred.

        The first of them that all filters pass is the node, whatever scores say. If none does, the
        choice is as free as without.
        """
        self.preferred += tuple(rows)

    def set_overlay(
        self, overlay: Callable[[int], NDArray[np.int64] | None], stamp: Hashable = 0
    ) -> None:
        """Sets what :meth:`overlay` answers; the Reservation plugin does, in PreFilter.

        Args:
            overlay: see :meth:`overlay`. What it says of a row may change when the row's
                ``Aspect.RESERVATIONS`` does.
            stamp: what it depends on beside shape and row: another for a pod that is offered other
                reservations than its equals are.
        """
        self._overlay = overlay
        self.overlay_stamp = (stamp,)

    def overlay(self, row: int) -> NDArray[np.int64] | None:
        """By resource column, what a row's request is less for this pod, or None.

        That is what reservations hold there for pods like this one.
        """
        return self._overlay(row) if self._overlay is not None else None


def _no_reservations(row: int) -> Sequence[Any]:
    return ()
