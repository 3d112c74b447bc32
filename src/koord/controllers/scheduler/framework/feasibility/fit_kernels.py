# SPDX-License-Identifier: Apache-2.0
"""What a shape asks of the table's columns, compiled once: answered in one native call.

Pods that differ in labels alone ask for the same, so it is kept where containers are equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.framework.feasibility.participants import Participants
from koord.controllers.scheduler.framework.plugin import Plugin
from koord.kernels.placement_board import Rooms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.framework.changed_rows import ChangedRows, Rows
    from koord.controllers.scheduler.framework.feasibility.participants import (
        NumberedPlugin,
        ShapeParticipants,
    )
    from koord.kernels.placement_board import Board, RoomCheck, RoomScore


class FitKernels:
    """Plugins that look at the table's columns alone: their kernels answer together.

    See ``fit_kernel`` and ``score_kernel`` of
    :class:`koord.controllers.scheduler.framework.plugin.Plugin`.

    Args:
        checks: the kernels at Filter, by the plugin's number there.
        ratings: the kernels at Score, by the plugin's number there.
        depends: on which aspects of a row they all depend.
        filters, scores: who takes part besides.
        reads: the parts of a pod by which shapes with equal containers differ in what all of these
            answer, as bits of :class:`koord.controllers.cluster.pod_fields.PodField`.

    Attributes:
        checks, ratings, filters, scores, reads: the same.
    """

    __slots__ = ("_depends", "_native", "checks", "filters", "ratings", "reads", "scores")

    def __init__(
        self,
        checks: Mapping[int, RoomCheck],
        ratings: Mapping[int, RoomScore],
        depends: int,
        filters: Participants,
        scores: Participants,
        reads: int,
    ) -> None:
        self.reads = reads
        self.checks = checks
        self.ratings = ratings
        self._native = Rooms(list(checks.items()), list(ratings.items()))
        self._depends = depends
        self.filters = filters
        self.scores = scores

    def equals(self, other: FitKernels | None) -> bool:
        """Whether these are the same kernels, so that what those put on a board is theirs too."""
        if other is None:
            return False
        return self is other or (self.checks, self.ratings) == (other.checks, other.ratings)

    def put(self, board: Board, table: NodeTable, changed: ChangedRows, everywhere: bool) -> None:
        """Puts on the board what the kernels say of rows that changed, or of all."""
        rows: Rows | None = table.rows if everywhere else changed.rows(self._depends)
        if rows is not None:
            self._native.put(board, table.allocatable, table.requested, table.nonzero, rows)


class FitKernelTable:
    """Finds the kernels for shapes.

    Args:
        filters, scores: the plugins of the profile there.
    """

    def __init__(self, filters: Sequence[NumberedPlugin], scores: Sequence[NumberedPlugin]) -> None:
        plugins = [answers.plugin for answers in (*filters, *scores)]
        self._by_requests = all(
            getattr(plugin, "kernels_by_requests", False)
            for plugin in plugins
            if _may_have_kernels(plugin)
        )
        self._key = object()

    def of(self, shape: PodShape, participants: ShapeParticipants) -> FitKernels | None:
        """The kernels of those who take part; None where nobody has one."""
        if not self._by_requests:
            return _made(shape, participants)
        memo = shape.container_requests.memo
        kept: tuple[ShapeParticipants, FitKernels | None] | None = memo.get(self._key)
        if kept is None or kept[0] is not participants:
            kept = memo[self._key] = participants, _made(shape, participants, by_requests=True)
        return kept[1]


def _made(
    shape: PodShape, participants: ShapeParticipants, *, by_requests: bool = False
) -> FitKernels | None:
    filters, scores = participants.filter_answers, participants.score_answers
    checks, ratings = (
        _kernels(shape, filters, "fit_kernel"),
        _kernels(shape, scores, "score_kernel"),
    )
    if not checks and not ratings:
        return None
    depends = 0
    for plugins, kernels in ((filters, checks), (scores, ratings)):
        for plugin in plugins:
            depends |= plugin.depends if plugin.number in kernels else 0
    others = Participants.of(filters, checks), Participants.of(scores, ratings)
    reads = 0 if by_requests else int(PodField.ALL)
    for plugins, kernels in ((filters, checks), (scores, ratings)):
        for plugin in plugins:
            reads |= _answers_read(plugin.plugin, plugin.number in kernels)
    return FitKernels(checks, ratings, depends, *others, reads)


def _answers_read(plugin: Any, has_kernel: bool) -> int:
    """The parts of a pod that a plugin reads for what it answers, and how that is normalised."""
    if hasattr(plugin, "normalization_of"):
        return int(PodField.ALL)
    return 0 if has_kernel else int(getattr(plugin, "answers_read", PodField.ALL))


def _kernels(shape: PodShape, plugins: Sequence[NumberedPlugin], name: str) -> dict[int, Any]:
    """By number, the kernels of those plugins that have one for the shape."""
    kernels: dict[int, Any] = {}
    for answers in plugins:
        kernel_of = getattr(answers.plugin, name, None)
        kernel = kernel_of(shape) if kernel_of is not None else None
        if kernel is not None:
            kernels[answers.number] = kernel
    return kernels


def _may_have_kernels(plugin: Any) -> bool:
    for name in ("fit_kernel", "score_kernel"):
        own = getattr(type(plugin), name, None)
        if hasattr(plugin, name) and own is not getattr(Plugin, name):
            return True
    return False
