# SPDX-License-Identifier: Apache-2.0
"""What a shape asks of the table's columns, compiled once: answered in one native call.

Pods that differ in labels alone ask for the same, so it is kept where containers are equal.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.api import requests
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.framework.feasibility.participants import Participants
from koord.controllers.scheduler.framework.plugin import SCORED_CPU, SCORED_MEMORY, Plugin
from koord.kernels.placement_board import Rooms, RoomsTemplate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import ContainerRequests, PodShape
    from koord.controllers.scheduler.framework.changed_rows import ChangedRows, Rows
    from koord.controllers.scheduler.framework.cycle import Cycle, ViewedColumns
    from koord.controllers.scheduler.framework.feasibility.participants import (
        NumberedPlugin,
        ShapeParticipants,
    )
    from koord.kernels.placement_board import Board


_SERIAL = count(1)
# Of so many lists of resources the kernels are kept.
_KINDS = 256
# The amounts beside those of resources, in order.
_BESIDES = requests.PODS, SCORED_CPU, SCORED_MEMORY


class KernelPlugins(NamedTuple):
    """Who has kernels for pods of a shape; the same for many shapes.

    Attributes:
        checks, ratings: the numbers of plugins with a kernel at Filter, and at Score.
        filters, scores: who takes part besides.
        depends: aspects of a row on which those with kernels depend.
        reads: the parts of a pod by which shapes with equal containers differ in what all of these
            answer, as bits of :class:`koord.controllers.cluster.pod_fields.PodField`.
        readers: those that read more where they apply: what tells whether they do.
        unread: the numbers of those that take part besides, without these, at Filter and at Score.
    """

    checks: tuple[int, ...]
    ratings: tuple[int, ...]
    filters: Participants
    scores: Participants
    depends: int
    reads: int
    readers: Sequence[Callable[[Cycle], bool]]
    unread: tuple[tuple[int, ...], tuple[int, ...]]


class FitKernels:
    """Plugins that look at the table's columns alone: their kernels answer together.

    See ``fit_kernel`` and ``score_kernel`` of
    :class:`koord.controllers.scheduler.framework.plugin.Plugin`.

    Args:
        of: whose kernels these are, and who takes part besides.
        rooms: all kernels as one.

    Attributes:
        of, rooms: the same.
    """

    __slots__ = ("of", "rooms")

    def __init__(self, of: KernelPlugins, rooms: Rooms) -> None:
        self.of = of
        self.rooms = rooms

    def equals(self, other: FitKernels | None) -> bool:
        """Whether these are the same kernels, so that what those put on a board is theirs too."""
        if other is None:
            return False
        if self is other:
            return True
        return bool(self.rooms == other.rooms)

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
        rows: Rows | None = table.rows if everywhere else changed.rows(self.of.depends)
        if rows is not None:
            seen = columns.allocatable, columns.requested, columns.nonzero
            self.rooms.put(board, *seen, rows)


class _KernelTemplate(NamedTuple):
    """The kernels of all pods that request the same resources.

    Attributes:
        of: whose they are.
        names: of the resources whose amounts come first; then the pod itself, and CPU and memory as
            scores count them.
        rooms: takes these amounts.
    """

    of: KernelPlugins
    names: tuple[str, ...]
    rooms: RoomsTemplate

    def kernels(self, containers: ContainerRequests) -> FitKernels:
        """Those for some amounts."""
        get = containers.request.get
        amounts = [get(name, 0) for name in self.names]
        return FitKernels(self.of, self.rooms.of([*amounts, 1, *containers.scored]))


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
        # By the names of what is requested; None where a plugin doesn't tell.
        self._templates: dict[tuple[str, ...], _KernelTemplate | None] = {}
        self._checks = _sources(participants.filter_answers, "fit_kernel")
        self._ratings = _sources(participants.score_answers, "score_kernel")
        # By who has a kernel, what is the same for all shapes.
        self._others: dict[tuple[tuple[int, ...], tuple[int, ...]], KernelPlugins] = {}

    def made(self, shape: PodShape, by_requests: bool) -> FitKernels | None:
        """The kernels for a shape; None where nobody has one."""
        names = shape.container_requests.names
        template = self._templates.get(names) if by_requests else None
        if template is not None:
            return template.kernels(shape.container_requests)
        checks = {n: kernel for n, of in self._checks if (kernel := of(shape)) is not None}
        ratings = {n: kernel for n, of in self._ratings if (kernel := of(shape)) is not None}
        if not checks and not ratings:
            return None
        key = tuple(checks), tuple(ratings)
        of = self._others.get(key)
        if of is None:
            of = self._others[key] = self._find(*key, by_requests)
        found = FitKernels(of, Rooms([*checks.items()], [*ratings.items()]))
        if by_requests and names not in self._templates:
            if len(self._templates) >= _KINDS:
                self._templates.clear()
            self._templates[names] = self._template(found, names)
        return found

    def _template(self, made: FitKernels, names: tuple[str, ...]) -> _KernelTemplate | None:
        """The same for all who request these resources; None where a plugin doesn't tell."""
        filters, scores = ({each.number: each.plugin for each in of} for of in self._plugins)
        checks = [_amounts(filters[n], "fit_kernel_amounts", names) for n in made.of.checks]
        ratings = [_amounts(scores[n], "score_kernel_amounts", names) for n in made.of.ratings]
        if None in checks or None in ratings:
            return None
        # What is scored of resources that are not requested is 0.
        told = dict.fromkeys(name for of in (*checks, *ratings) for name in of or ())
        known = tuple(name for name in told if name not in _BESIDES)
        place = {name: index for index, name in enumerate((*known, *_BESIDES))}
        of_checks, of_ratings = (
            [[place[name] for name in of or ()] for of in each] for each in (checks, ratings)
        )
        return _KernelTemplate(made.of, known, RoomsTemplate(made.rooms, of_checks, of_ratings))

    def _find(
        self, checks: tuple[int, ...], ratings: tuple[int, ...], by_requests: bool
    ) -> KernelPlugins:
        filters, scores = self._plugins
        depends = reads = 0
        readers = []
        unread: list[list[int]] = []
        for plugins, kernels in ((filters, checks), (scores, ratings)):
            unread.append([])
            for plugin in plugins:
                has_kernel = plugin.number in kernels
                depends |= plugin.depends if has_kernel else 0
                its = _answers_read(plugin.plugin, has_kernel)
                if its is None or plugin.applies is None:
                    reads |= int(PodField.ALL) if its is None else its
                elif its:
                    readers.append(plugin.applies)
                    continue
                if not has_kernel:
                    unread[-1].append(plugin.number)
        left = Participants.of(filters, checks), Participants.of(scores, ratings)
        reads = reads if by_requests else int(PodField.ALL)
        without = tuple(unread[0]), tuple(unread[1])
        return KernelPlugins(checks, ratings, *left, depends, reads, readers, without)


def _amounts(plugin: Any, name: str, names: Sequence[str]) -> Sequence[str] | None:
    tell = getattr(plugin, name, None)
    return None if tell is None else tell(names)


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
