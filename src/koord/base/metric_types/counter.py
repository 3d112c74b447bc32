# SPDX-License-Identifier: Apache-2.0
"""A Prometheus counter that is cheap to add to: one lock and a sum.

prometheus-client's own goes through four calls, which is felt where thousands of calls a second
are counted, some of them several times. What is exposed is the same, but for the times of creation.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily

from koord.base.metric_types.labelled import LabelledMetric, MetricChild

if TYPE_CHECKING:
    from collections.abc import Iterator


class CounterChild(MetricChild):
    """The sum of one set of label values."""

    __slots__ = ("_lock", "total")

    def __init__(self) -> None:
        self._lock = Lock()
        self.total = 0.0

    def inc(self, amount: float = 1) -> None:
        """Adds.

        Raises:
            ValueError: a counter only grows.
        """
        if amount < 0:
            raise ValueError(f"a counter only grows, and was to grow by {amount}")
        with self._lock:
            self.total += amount

    def set(self, value: float) -> None:
        """Not of a counter."""
        raise TypeError(f"a counter only grows, it is not set to {value}")

    def observe(self, amount: float) -> None:
        """Not of a counter."""
        raise TypeError(f"a counter only grows, it takes no sample of {amount}")

    def clear(self) -> None:
        """Counts from zero again."""
        with self._lock:
            self.total = 0.0


class Counter(LabelledMetric[CounterChild], CounterChild):
    """A counter with its children; without labels it is its own only child.

    Args:
        name: of the metric, with or without ``_total``, which is exposed in any case.
        doc: what it is.
        labels: their names.
    """

    __slots__ = ("_children", "_doc", "_labels", "_name")

    def __init__(self, name: str, doc: str, labels: tuple[str, ...]) -> None:
        super().__init__()
        self._name, self._doc, self._labels = name, doc, labels
        self._children: dict[tuple[str, ...], CounterChild] = {} if labels else {(): self}

    def _child(self) -> CounterChild:
        return CounterChild()

    def inc(self, amount: float = 1) -> None:
        """Adds; without labels.

        Raises:
            ValueError: labels were declared, or the amount is negative.
        """
        if self._labels:
            raise ValueError(f"{self._name}: no values for labels {self._labels}")
        super().inc(amount)

    def describe(self) -> list[CounterMetricFamily]:
        """The name alone: what the registry looks at for doubles."""
        return [CounterMetricFamily(self._name, self._doc, labels=self._labels)]

    def collect(self) -> Iterator[CounterMetricFamily]:
        """What is exposed."""
        family = CounterMetricFamily(self._name, self._doc, labels=self._labels)
        for values, child in list(self._children.items()):
            family.add_metric(values, child.total)
        yield family
