# SPDX-License-Identifier: Apache-2.0
"""What a shape asks of the table's columns, compiled once: answered in one native call.

Pods that differ in labels alone ask for the same, so it is kept where containers are equal.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.framework.feasibility.participants import Participants
from koord.controllers.scheduler.framework.plugin import Plugin
from koord.kernels.placement_board import Rooms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.framework.changed_rows import ChangedRows, Rows
    from koord.controllers.scheduler.framework.cycle import Cycle, ViewedColumns
    from koord.controllers.scheduler.framework.feasibility.participants import (
        NumberedPlugin,
        ShapeParticipants,
    )
    from koord.kernels.placement_board import Board, RoomCheck, RoomScore


_SERIAL = count(1)


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
        readers: those that read more where they apply: what tells whether they do.

    Attributes:
        checks, ratings, filters, scores, reads, readers: the same.
    """

    __slots__ = (
        "_depends", "_native", "checks", "filters", "ratings", "readers", "reads", "scores",
    )  # fmt: skip

    def __init__(
        self,
        checks: Mapping[int, RoomCheck],
        ratings: Mapping[int, RoomScore],
        depends: int,
        filters: Participants,
        scores: Participants,
        reads: int,
        readers: Sequence[Callable[[Cycle], bool]] = (),
    ) -> None:
        self.reads = reads
        self.readers = readers
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

    def put(
        self,
        board: Board,
        columns: NodeTable | ViewedColumns,
        table: NodeTable,
        changed: ChangedRows,
        everywhere: bool,
    ) -> None:
        """Puts on the board what the kernels say of rows that changed, or of all.

        Args:
            board: of the entry.
            columns: the table's, or as the pod sees them.
            table: the nodes.
            changed: the rows.
            everywhere: all rows.
        """
        rows: Rows | None = table.rows if everywhere else changed.rows(self._depends)
        if rows is not None:
            seen = columns.allocatable, columns.requested, columns.nonzero
            self._native.put(board, *seen, rows)


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
        self._key = f"{type(self).__name__}#{next(_SERIAL)}"

    def of(self, shape: PodShape, participants: ShapeParticipants) -> FitKernels | None:
        """The kernels of those who take part; None where nobody has one."""
        sources = participants.kernel_sources
        if sources is None:
            sources = participants.kernel_sources = _KernelSources(participants)
        memo = shape.container_requests.memo if self._by_requests else shape.memo
        kept: tuple[ShapeParticipants, FitKernels | None] | None = memo.get(self._key)
        if kept is None or kept[0] is not participants:
            kept = memo[self._key] = participants, sources.made(shape, self._by_requests)
        return kept[1]


class _KernelSources:
    """Where kernels come from, among those who take part: the same for all shapes of which these
    are the same.

    Args:
        participants: who takes part.
    """

    def __init__(self, participants: ShapeParticipants) -> None:
        self._plugins = participants.filter_answers, participants.score_answers
        self._checks = _sources(participants.filter_answers, "fit_kernel")
        self._ratings = _sources(participants.score_answers, "score_kernel")
        # By who has a kernel, the others and what all of them read.
        self._others: dict[tuple[tuple[int, ...], tuple[int, ...]], _Others] = {}

    def made(self, shape: PodShape, by_requests: bool) -> FitKernels | None:
        """The kernels for a shape; None where nobody has one."""
        checks = {n: kernel for n, of in self._checks if (kernel := of(shape)) is not None}
        ratings = {n: kernel for n, of in self._ratings if (kernel := of(shape)) is not None}
        if not checks and not ratings:
            return None
        key = tuple(checks), tuple(ratings)
        others = self._others.get(key)
        if others is None:
            others = self._others[key] = self._find(*key)
        reads = others.reads if by_requests else int(PodField.ALL)
        return FitKernels(
            checks, ratings, others.depends, others.filters, others.scores, reads, others.readers
        )

    def _find(self, checks: tuple[int, ...], ratings: tuple[int, ...]) -> _Others:
        filters, scores = self._plugins
        depends = reads = 0
        readers = []
        for plugins, kernels in ((filters, checks), (scores, ratings)):
            for plugin in plugins:
                has_kernel = plugin.number in kernels
                depends |= plugin.depends if has_kernel else 0
                its = _answers_read(plugin.plugin, has_kernel)
                if its is None or plugin.applies is None:
                    reads |= int(PodField.ALL) if its is None else its
                elif its:
                    readers.append(plugin.applies)
        left = Participants.of(filters, checks), Participants.of(scores, ratings)
        return _Others(*left, depends, reads, readers)


class _Others(NamedTuple):
    """Who takes part beside those with kernels, and what is read.

    Attributes:
        filters, scores: the others.
        depends: aspects of a row on which those with kernels depend.
        reads: parts of a pod that any of all of them reads.
        readers: see :class:`FitKernels`.
    """

    filters: Participants
    scores: Participants
    depends: int
    reads: int
    readers: Sequence[Callable[[Cycle], bool]]


def _answers_read(plugin: Any, has_kernel: bool) -> int | None:
    """The parts of a pod that a plugin reads for what it answers; None where that is not known."""
    if hasattr(plugin, "normalization_of"):
        return None
    answers_read = getattr(plugin, "answers_read", None)
    return 0 if has_kernel else answers_read


def _sources(
    plugins: Sequence[NumberedPlugin], name: str
) -> list[tuple[int, Callable[[PodShape], Any]]]:
    """By number, who may have a kernel."""
    found = []
    for answers in plugins:
        kernel_of = getattr(answers.plugin, name, None)
        if kernel_of is not None and getattr(kernel_of, "__func__", None) is not getattr(
            Plugin, name
        ):
            found.append((answers.number, kernel_of))
    return found


def _may_have_kernels(plugin: Any) -> bool:
    for name in ("fit_kernel", "score_kernel"):
        own = getattr(type(plugin), name, None)
        if hasattr(plugin, name) and own is not getattr(Plugin, name):
            return True
    return False
