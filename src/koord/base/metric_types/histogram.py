# SPDX-License-Identifier: Apache-2.0
"""A Prometheus histogram that is cheap to add to: buckets are found by bisection.

prometheus-client's own takes a lock a bucket and several microseconds a sample, more than many of
the calls that are timed here. What is exposed is the same.
"""

from __future__ import annotations

from bisect import bisect_left
from threading import Lock
from typing import TYPE_CHECKING

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.utils import floatToGoString

from koord.base.metric_types.labelled import LabelledMetric, MetricChild

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class HistogramChild(MetricChild):
    """The samples of one set of label values.

    Args:
        bounds: the upper bounds of buckets, ascending; one more has no bound.
    """

    __slots__ = ("_bounds", "_lock", "_total", "counts")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._lock = Lock()
        self._total = 0.0
        self.counts = [0] * (len(bounds) + 1)

    def observe(self, amount: float) -> None:
        """Adds a sample."""
        place = bisect_left(self._bounds, amount)
        with self._lock:
            self.counts[place] += 1
            self._total += amount

    def read(self) -> tuple[list[tuple[str, int]], float]:
        """How many samples are within each bound, and the sum of all."""
        with self._lock:
            counts, total = list(self.counts), self._total
        found, within = [], 0
        for bound, count in zip((*self._bounds, float("inf")), counts, strict=True):
            within += count
            bounded: str = floatToGoString(bound)  # type: ignore[no-untyped-call]
            found.append((bounded, within))
        return found, total

    def inc(self, amount: float = 1) -> None:
        """Not of a histogram."""
        raise TypeError(f"a histogram takes samples, it is not increased by {amount}")

    def set(self, value: float) -> None:
        """Not of a histogram."""
        raise TypeError(f"a histogram takes samples, it is not set to {value}")

    def clear(self) -> None:
        """Forgets all samples."""
        with self._lock:
            self.counts = [0] * len(self.counts)
            self._total = 0.0


class HistogramMetric(LabelledMetric[HistogramChild], HistogramChild):
    """A histogram with its children; without labels it is its own only child.

    Args:
        name: of the metric.
        doc: what it is.
        labels: their names.
        bounds: the upper bounds of buckets, ascending.
    """

    __slots__ = ("_children", "_doc", "_labels", "_name")

    def __init__(
        self, name: str, doc: str, labels: tuple[str, ...], bounds: Sequence[float]
    ) -> None:
        super().__init__([bound for bound in bounds if bound != float("inf")])
        self._name, self._doc, self._labels = name, doc, labels
        self._children: dict[tuple[str, ...], HistogramChild] = {} if labels else {(): self}

    def _child(self) -> HistogramChild:
        return HistogramChild(self._bounds)

    def describe(self) -> list[HistogramMetricFamily]:
        """The name alone: what the registry looks at for doubles."""
        return [HistogramMetricFamily(self._name, self._doc, labels=self._labels)]

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """What is exposed."""
        family = HistogramMetricFamily(self._name, self._doc, labels=self._labels)
        for values, child in list(self._children.items()):
            buckets, total = child.read()
            family.add_metric(values, buckets, total)
        yield family
