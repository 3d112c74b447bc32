# SPDX-License-Identifier: Apache-2.0
"""What-ifs on the table's columns: for filters that read of pods nothing but what they request.

Moving a pod really tells every plugin of it. Where all filters that pods matter to look at the
request columns alone, it is enough to move the columns, of many rows at once.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from koord.controllers.cluster.node_table import Aspect
from koord.controllers.scheduler.framework.plugin import Plugin
from koord.controllers.scheduler.framework.profile_plugins import idle_points

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle

_OF_NODES = Aspect.NODE | Aspect.LOAD


def is_fixed(plugin: Any) -> bool:
    """Whether pods that come and go cannot change what a filter says."""
    if not hasattr(plugin, "filter") or plugin.depends & ~_OF_NODES:
        return False
    return not any(_has_own(plugin, name) for name in ("generation", "filter_generation"))


def has_filter_generation(plugin: Any) -> bool:
    """Whether a filter says when its answers turn, rather than all that they depend on."""
    return _has_own(plugin, "filter_generation")


def takes_part(plugin: Any, cycle: Cycle) -> bool:
    """Whether a filter has anything to say of the pod, as the cluster is now."""
    return "filter" not in idle_points(plugin, cycle.shape) and plugin.applies(cycle)


def of_columns(live: Iterable[Any], cycle: Cycle) -> list[Any] | None:
    """Those of the filters that pods matter to that take part, where all read columns alone.

    None where others take part too, or the pod sees other columns than the table's.
    """
    if cycle.has_overlay:
        return None
    asked = [each for each in live if takes_part(each, cycle)]
    return asked if all(getattr(each, "by_columns", False) for each in asked) else None


def is_plain(shape: PodShape) -> bool:
    """Whether a pod that joins others on a node takes from them only what it requests.

    Required anti-affinity is the one thing by which it keeps out pods that themselves do not care.
    """
    affinity = shape.pod.spec.affinity
    return affinity is None or affinity.pod_anti_affinity is None


@contextmanager
def moved(table: NodeTable, rows: NDArray[np.intp]) -> Iterator[None]:
    """Puts the request columns of rows back as they were, at the end."""
    saved = table.requested[:, rows]
    try:
        yield
    finally:
        table.requested[:, rows] = saved


def shift(
    table: NodeTable, rows: NDArray[np.intp], pods: Sequence[Iterable[PodInfo]], sign: int
) -> None:
    """Adds what pods request to their rows' columns (1), or takes it off (-1)."""
    counts: dict[Any, dict[int, int]] = {}
    for place, those in enumerate(pods):
        for pod in those:
            of_equals = counts.setdefault(pod.counted, {})
            of_equals[place] = of_equals.get(place, 0) + sign
    for counted, by_place in counts.items():
        index, amounts = table.columns_of(counted).counted
        at = rows[np.fromiter(by_place, np.intp, len(by_place))]
        times = np.fromiter(by_place.values(), np.int64, len(by_place))
        table.requested[np.ix_(index, at)] += amounts[:, None] * times


def _has_own(plugin: Any, name: str) -> bool:
    given = getattr(plugin, name, None)
    if given is None:
        return False
    return getattr(given, "__func__", given) is not getattr(Plugin, name, None)
