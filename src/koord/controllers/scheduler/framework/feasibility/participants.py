# SPDX-License-Identifier: Apache-2.0
"""The plugins that have anything to do for pods of a shape: looked up by what parts such pods have.

Nearly all pods lack nearly all parts that plugins have rules for. So plugins say which parts they
read (:attr:`~koord.controllers.scheduler.framework.plugin.Plugin.reads`), and all shapes that have
the same parts and request the same resources are one *kind*: what a plugin answers for one of them
holds for all that have nothing it reads. Of a new shape only the others are asked. Answers hold
while the table's generation stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from koord.controllers.cluster.bounded_table import BoundedTable
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.plugin import Plugin
from koord.controllers.scheduler.framework.profile_plugins import LEFT_OUT, idle_points

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins

# How many shapes, and how many kinds of them, it is remembered of who takes part.
_SHAPES, _KINDS = 4096, 1024
# How many names of requested resources all kinds may have together: a pod may have thousands.
_NAMES = 16_384
_FILTER_AND_SCORE = frozenset(("filter", "score"))


class NumberedPlugin(Protocol):
    """A plugin at Filter or Score, as :mod:`plugin_answers` has it.

    Attributes:
        number: its place in the profile.
        plugin: the plugin.
        depends: on which aspects of a row its answers depend.
        static: on nothing but shape and rows.
        applies: whether it applies to an attempt; None where the shape tells.
    """

    number: int
    plugin: Any
    depends: int
    static: bool
    applies: Callable[[Cycle], bool] | None


class Participants(NamedTuple):
    """The plugins that take part at Filter, or at Score, by number.

    Attributes:
        numbers: all of them.
        at_every_attempt: those that are asked at every attempt.
        depends: aspects of a row; unless it changed in one of these, the others say what they said.
    """

    numbers: tuple[int, ...] = ()
    at_every_attempt: tuple[int, ...] = ()
    depends: int = 0

    @staticmethod
    def of(answers: Sequence[NumberedPlugin], without: Collection[int] = ()) -> Participants:
        """Some plugins as those that take part, those of some numbers left out."""
        left = [plugin for plugin in answers if plugin.number not in without]
        depends = 0
        for plugin in left:
            depends |= plugin.depends if plugin.static else 0
        numbers = tuple(plugin.number for plugin in left)
        every = tuple(plugin.number for plugin in left if not plugin.static)
        return Participants(numbers, every, depends)

    def to_ask(self, changed: int) -> tuple[int, ...]:
        """Whom to ask when rows have changed in these aspects."""
        return self.numbers if changed & self.depends else self.at_every_attempt


class ShapeParticipants:
    """Who has anything to do for pods of a shape; one for all shapes of which this is the same.

    Attributes:
        plugins: the profile's, less who has nothing to do. Filter and Score stay whole.
        filter_answers, score_answers: who takes part there.
        filters, scores: the same as numbers.
        kernel_sources: which of them may have kernels, as :mod:`fit_kernels` keeps it.
    """

    __slots__ = (
        "filter_answers", "filters", "kernel_sources", "plugins", "score_answers", "scores",
    )  # fmt: skip

    def __init__(
        self,
        plugins: ProfilePlugins,
        filter_answers: Sequence[NumberedPlugin],
        score_answers: Sequence[NumberedPlugin],
    ) -> None:
        self.plugins = plugins
        self.filter_answers, self.score_answers = filter_answers, score_answers
        self.kernel_sources: Any = None
        self.filters, self.scores = Participants.of(filter_answers), Participants.of(score_answers)


class _ShapeKind(NamedTuple):
    """Shapes with the same parts.

    Attributes:
        idle: by the identity of each plugin that has nothing to read of them, where it has nothing
            to do.
        readers: the others, which are asked about each shape.
        by_answers: who takes part, by what these say.
    """

    idle: dict[int, frozenset[str]]
    readers: tuple[Any, ...]
    by_answers: dict[tuple[frozenset[str], ...], ShapeParticipants]


class ParticipantTable:
    """Finds who takes part.

    Args:
        table: the nodes.
        plugins: of the profile.
        filters, scores: those of Filter and Score.
    """

    def __init__(
        self,
        table: NodeTable,
        plugins: ProfilePlugins,
        filters: Sequence[NumberedPlugin],
        scores: Sequence[NumberedPlugin],
    ) -> None:
        self._table = table
        self._plugins = plugins
        self._filters, self._scores = filters, scores
        points = [each for point in LEFT_OUT for each in getattr(plugins, point)]
        points += [answers.plugin for answers in (*filters, *scores)]
        self._distinct = list({id(plugin): plugin for plugin in points}.values())
        self._generation = -1
        self._by_shape: dict[int, ShapeParticipants] = {}
        self._kinds: BoundedTable[tuple[int, tuple[str, ...]], _ShapeKind]
        self._kinds = BoundedTable(_KINDS, _NAMES)

    def of(self, shape: PodShape) -> ShapeParticipants:
        """Who has anything to do for pods of a shape as the cluster is now."""
        if self._generation == self._table.generation:
            # Asked three times a pod.
            found = self._by_shape.get(shape.id)
            if found is not None:
                return found
        else:
            self._kinds = BoundedTable(_KINDS, _NAMES)
            self._by_shape.clear()
            self._generation = self._table.generation
        if len(self._by_shape) >= _SHAPES:
            self._by_shape.clear()
        found = self._by_shape[shape.id] = self._find(shape)
        return found

    def _find(self, shape: PodShape) -> ShapeParticipants:
        key = shape.fields, shape.container_requests.names
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kind(shape)
            self._kinds.put(key, kind, len(key[1]))
        answers = self._answers(kind.readers, shape)
        found = kind.by_answers.get(answers)
        if found is None:
            of_readers = dict(zip(map(id, kind.readers), answers, strict=True))
            found = kind.by_answers[answers] = self._without({**kind.idle, **of_readers})
        return found

    def _kind(self, shape: PodShape) -> _ShapeKind:
        """The kind of a shape that is its first."""
        readers = tuple(plugin for plugin in self._distinct if _reads(plugin) & shape.fields)
        others = [plugin for plugin in self._distinct if plugin not in readers]
        idle = zip(map(id, others), self._answers(others, shape), strict=True)
        return _ShapeKind(dict(idle), readers, {})

    def _answers(self, plugins: Sequence[Any], shape: PodShape) -> tuple[frozenset[str], ...]:
        """By plugin, the points at which it is left out for pods of a shape.

        At Filter and Score that is also where it does not apply, if the shape tells.
        """
        if not plugins:
            return ()
        # It looks at the shape alone, so any pod of it will do.
        cycle = Cycle(PodInfo(shape.pod, shape), self._table)
        return tuple([_left_out(plugin, cycle) for plugin in plugins])

    def _without(self, idle: dict[int, frozenset[str]]) -> ShapeParticipants:
        """The plugins, less those that are idle at a point."""
        points = {
            point: tuple(p for p in getattr(self._plugins, point) if point not in idle[id(p)])
            for point in LEFT_OUT
        }
        return ShapeParticipants(
            self._plugins._replace(**points),
            [each for each in self._filters if "filter" not in idle[id(each.plugin)]],
            [each for each in self._scores if "score" not in idle[id(each.plugin)]],
        )


def _left_out(plugin: Any, cycle: Cycle) -> frozenset[str]:
    idle = frozenset(idle_points(plugin, cycle.shape))
    if idle >= _FILTER_AND_SCORE or not _applies_by_shape(plugin) or plugin.applies(cycle):
        return idle
    return idle | _FILTER_AND_SCORE


def _reads(plugin: Any) -> int:
    """The parts of a pod that decide where a plugin has nothing to do."""
    if _is_inherited(plugin, "idle_points") and not _applies_by_shape(plugin):
        return 0
    return int(getattr(plugin, "reads", PodField.ALL))


def _applies_by_shape(plugin: Any) -> bool:
    by_shape = getattr(plugin, "applies_by_shape", False)
    return bool(by_shape) and not _is_inherited(plugin, "applies")


def _is_inherited(plugin: Any, name: str) -> bool:
    """Whether a plugin has no method of that name, or the one that all plugins have."""
    method = getattr(plugin, name, None)
    return method is None or getattr(method, "__func__", None) is getattr(Plugin, name)
