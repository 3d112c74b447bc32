# SPDX-License-Identifier: Apache-2.0
"""The plugins of a profile by extension point, and those of them that pods of a shape concern."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from koord.controllers.cluster.pods import PodShape

LEFT_OUT = ("pre_filter", "reserve", "permit", "pre_bind", "post_bind")
"""Points, beside Filter and Score, at which plugins that have nothing to do are left out."""


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


def idle_points(plugin: Any, shape: PodShape) -> Collection[str]:
    """Where a plugin has nothing to do; one that is no ``Plugin`` takes part everywhere."""
    method = getattr(plugin, "idle_points", None)
    idle: Collection[str] = method(shape) if method is not None else ()
    return idle
