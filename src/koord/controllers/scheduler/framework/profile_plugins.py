# SPDX-License-Identifier: Apache-2.0
"""The plugins of a profile by extension point, and those of them that pods of a shape concern."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodShape

# Points at which plugins that have nothing to do are left out.
_LEFT_OUT = ("pre_filter", "reserve", "permit", "pre_bind", "post_bind")


class ProfilePlugins(NamedTuple):
    """The plugins of one profile by extension point, in order; scores with their weights."""

    pre_enqueue: Sequence[Any] = ()
    pre_filter: Sequence[Any] = ()
    filter: Sequence[Any] = ()
    post_filter: Sequence[Any] = ()
    pre_score: Sequence[Any] = ()
    score: Sequence[tuple[Any, int]] = ()
    reserve: Sequence[Any] = ()
    permit: Sequence[Any] = ()
    pre_bind: Sequence[Any] = ()
    bind: Sequence[Any] = ()
    post_bind: Sequence[Any] = ()

    def participants(self, shape: PodShape, points: IdlePoints) -> ProfilePlugins:
        """The same without those that have nothing to do for pods of a shape for now.

        Filter and Score stay whole: the feasibility cache finds out by itself.
        """
        idle = {id(plugin): points.of(plugin, shape) for plugin in self._of_points(_LEFT_OUT)}
        return self._replace(
            **{
                point: tuple(p for p in getattr(self, point) if point not in idle[id(p)])
                for point in _LEFT_OUT
            }
        )

    def _of_points(self, points: Sequence[str]) -> list[Any]:
        return [plugin for point in points for plugin in getattr(self, point)]


class IdlePoints:
    """Where plugins have nothing to do for pods of the shape that was asked about last.

    A new shape's plugins are asked at the start of an attempt, and again at Filter and at Score.

    Args:
        table: the nodes; answers hold as long as its generation.
    """

    __slots__ = ("_by_plugin", "_generation", "_shape", "_table")

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._shape: PodShape | None = None
        self._generation = -1
        self._by_plugin: dict[int, Collection[str]] = {}

    def of(self, plugin: Any, shape: PodShape) -> Collection[str]:
        """The points at which one has nothing to do."""
        generation = self._table.generation
        if shape is not self._shape or generation != self._generation:
            self._shape, self._generation = shape, generation
            self._by_plugin.clear()
        found = self._by_plugin.get(id(plugin))
        if found is None:
            found = self._by_plugin[id(plugin)] = idle_points(plugin, shape)
        return found


def idle_points(plugin: Any, shape: PodShape) -> Collection[str]:
    """Where a plugin has nothing to do; one that is no ``Plugin`` takes part everywhere."""
    method = getattr(plugin, "idle_points", None)
    idle: Collection[str] = method(shape) if method is not None else ()
    return idle
