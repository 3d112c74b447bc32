# SPDX-License-Identifier: Apache-2.0
"""What strategies read from a tick: last usage, averages of a window, and whether they are fresh.

All limits on age are here. Nothing is evicted or suppressed on older data: the round is given up
and what was stated before stays. Rule: docs/reference/measuring.md#old-data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.reader import SeriesRows, Window
from koord.base.errors import Code, KoordError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.agent.strategies.strategy import Tick
    from koord.api.kinds.node import Node
    from koord.api.kinds.nodeslo import NodeSLOSpec
    from koord.api.kinds.slo_strategies import ResourceThresholdStrategy


class NotMeasuredYetError(KoordError):
    """Nothing was ever measured of a kind, as in the first seconds after a start."""


class AgeLimits(NamedTuple):
    """How old parts of a snapshot may be, in seconds."""

    pods: float
    node: float


TO_EVICT = AgeLimits(pods=30.0, node=600.0)
"""Three polls of the kubelet; a node's capacity and allocatable change seldom, and its watch may be
quiet for minutes."""
TO_SUPPRESS = AgeLimits(pods=600.0, node=float("inf"))
"""Usage of pods that are not in the list counts as the system's, so that an old list
leaves best-effort pods less, never services; and services need protection most while the API server
or the kubelet is away."""


def thresholds(tick: Tick) -> ResourceThresholdStrategy:
    """The strategy that suppression and evictions are switched and set by.

    Raises:
        KoordError: it, or its switch, was never seen.
    """
    slo = slo_spec(tick)
    found = slo.resource_used_threshold_with_be
    if found is None or found.enable is None:
        raise _missing("NodeSLO", "resourceUsedThresholdWithBE.enable", "true or false")
    return found


def slo_spec(tick: Tick) -> NodeSLOSpec:
    """The NodeSLO.

    Raises:
        KoordError: never seen.
    """
    if tick.snapshot.slo.value is None:
        raise _missing("NodeSLO", "", "the NodeSLO of this node")
    return tick.snapshot.slo.value


def node(tick: Tick) -> Node:
    """The Node.

    Raises:
        KoordError: never seen.
    """
    if tick.snapshot.node.value is None:
        raise _missing("Node", "", "the Node object")
    return tick.snapshot.node.value


def check_fresh(tick: Tick, most: AgeLimits) -> None:
    """Whether pods and node are young enough to act upon; configuration stays valid.

    Raises:
        KoordError: which is not, as too old; or was never seen.
    """
    parts = (
        ("pods", tick.snapshot.pods, most.pods),
        ("Node", tick.snapshot.node, most.node),
    )
    for name, part, limit in parts:
        age = part.age_seconds(tick.now_seconds)
        if age == float("inf") and limit < age:
            raise _missing(name, "", f"{name} of this node")
        if age > limit:
            raise _too_old(name, limit)


def last(tick: Tick, kind: MetricKind, match: tuple[str | None, ...] = ()) -> SeriesRows:
    """The newest values of a kind within the window of "last" reads; no row is no value."""
    return tick.metrics.read(kind, tick.metrics.last_window(tick.now_ms), match=match)


def over(
    tick: Tick, kind: MetricKind, seconds: float, match: tuple[str | None, ...] = ()
) -> SeriesRows:
    """A window of a kind up to now."""
    window = Window(tick.now_ms - int(seconds * 1000), tick.now_ms)
    return tick.metrics.read(kind, window, match=match)


def last_by_label(tick: Tick, kind: MetricKind) -> dict[str, float]:
    """The newest values by pod UID, container id or host application."""
    rows = last(tick, kind)
    return rows.by_label(rows.last)


def node_last(tick: Tick, kind: MetricKind) -> float:
    """The newest value of a kind that has no labels.

    Raises:
        KoordError: none; or none in the window of "last" reads, as too old.
    """
    rows = last(tick, kind)
    if not rows.labels:
        raise _not_measured(tick, kind)
    return float(rows.last[0])


def node_average(tick: Tick, kind: MetricKind, seconds: float) -> float:
    """The average of a kind without labels over a window that reaches up to now.

    Raises:
        KoordError: none; or none in the window of "last" reads, as too old.
    """
    rows = over(tick, kind, seconds)
    if not rows.labels or int(rows.newest_ms[0]) < tick.metrics.last_window(tick.now_ms).start_ms:
        raise _not_measured(tick, kind)
    return float(rows.avg[0])


class AlignedRows:
    """Figures by pod UID, container id or host application, in an order of one's own.

    Args:
        keys: that order.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys
        self._labels: list[tuple[str, ...]] | None = None
        self._rows: NDArray[np.intp] = np.empty(0, np.intp)
        self._missing: NDArray[np.bool_] | None = None

    def of(self, labels: list[tuple[str, ...]], values: NDArray[np.float64]) -> NDArray[np.float64]:
        """A column of a reading, a row a key; NaN where there is none.

        Args:
            labels: of the reading; rows are looked up anew when this is another object.
            values: one of its columns.
        """
        if labels is not self._labels:
            row_of = {label[0]: row for row, label in enumerate(labels)}
            rows = np.array([row_of.get(key, -1) for key in self._keys], np.intp)
            missing = rows < 0
            self._labels, self._rows = labels, rows
            self._missing = missing if missing.any() else None
        if self._missing is None:
            return values[self._rows]
        if not len(values):
            return np.full(len(self._keys), np.nan)
        return np.where(self._missing, np.nan, values[self._rows])


def _not_measured(tick: Tick, kind: MetricKind) -> KoordError:
    """Why there is no newest value: nobody measured, or not for too long."""
    if not tick.metrics.read(kind, Window(0, tick.now_ms)).labels:
        expected = "a sample in the window of last values"
        return NotMeasuredYetError(f"metric {kind}", "", None, expected, Code.NOT_FOUND)
    window = tick.metrics.last_window(tick.now_ms)
    return _too_old(f"metric {kind}", (window.end_ms - window.start_ms) / 1000)


def _too_old(name: str, limit_seconds: float) -> KoordError:
    # Without the age, which is another in every round: it is one cause, and told of once.
    expected = f"at most {limit_seconds:g} s, to act upon"
    return KoordError(name, "age", "more", expected, Code.TOO_OLD)


def _missing(name: str, field: str, expected: str) -> KoordError:
    return KoordError(name, field, None, expected, Code.NOT_FOUND)
