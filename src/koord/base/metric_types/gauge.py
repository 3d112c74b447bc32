# SPDX-License-Identifier: Apache-2.0
"""A Prometheus gauge whose children cost a number each.

A node agent has thousands of series, one a pod, container and kind of pressure; prometheus-client
keeps two kilobytes for each. What is exposed is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, overload

from prometheus_client.core import GaugeMetricFamily, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator


class Gauge:
    """A gauge with its children; without labels it is its own only child.

    Args:
        name: of the metric.
        doc: what it is.
        labels: their names.
    """

    __slots__ = ("_doc", "_labels", "_lock", "_name", "_values")

    def __init__(self, name: str, doc: str, labels: tuple[str, ...]) -> None:
        self._name, self._doc, self._labels = name, doc, labels
        self._lock = Lock()
        self._values: dict[tuple[str, ...], float] = {} if labels else {(): 0.0}

    def labels(self, *values: str) -> GaugeChild:
        """The child with these label values.

        Raises:
            ValueError: there are more or fewer labels than declared.
        """
        texts = tuple(map(str, values))
        if not self._labels:
            raise ValueError(f"{self._name}: {values} for no labels")
        self._check(texts)
        with self._lock:
            self._values.setdefault(texts, 0.0)
        return GaugeChild(self, texts)

    def inc(self, amount: float = 1) -> None:
        """Adds; without labels."""
        self.add((), amount)

    def set(self, value: float) -> None:
        """Sets; without labels."""
        self.put((), value)

    def put(self, values: tuple[str, ...], value: float) -> None:
        """Sets a child.

        Raises:
            ValueError: labels were declared and none are given.
        """
        self._check(values)
        with self._lock:
            self._values[values] = float(value)

    def add(self, values: tuple[str, ...], amount: float) -> None:
        """Adds to a child; raises as :meth:`put`."""
        self._check(values)
        with self._lock:
            self._values[values] = self._values.get(values, 0.0) + float(amount)

    def _check(self, values: tuple[str, ...]) -> None:
        if len(values) != len(self._labels):
            raise ValueError(f"{self._name}: {values} for labels {self._labels}")

    def observe(self, amount: float) -> None:
        """Not of a gauge."""
        raise TypeError(f"a gauge is set, it takes no sample of {amount}")

    def clear(self) -> None:
        """Forgets all children; without labels it is zero again."""
        with self._lock:
            self._values = {} if self._labels else {(): 0.0}

    def remove(self, *values: str) -> None:
        """Forgets the child with these label values; a KeyError if there is none."""
        with self._lock:
            del self._values[tuple(map(str, values))]

    def describe(self) -> list[GaugeMetricFamily]:
        """The name alone: what the registry looks at for doubles."""
        return [GaugeMetricFamily(self._name, self._doc, labels=self._labels)]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """What is exposed."""
        family = GaugeMetricFamily(self._name, self._doc, labels=self._labels)
        with self._lock:
            held = list(self._values.items())
        samples: Any = GaugeSamples(self._name, self._labels, held)
        family.samples = samples
        yield family


class GaugeSamples(Sequence[Sample]):
    """The samples of a gauge, each made when it is looked at: one is larger than its line of text.

    Args:
        name: of the gauge.
        labels: their names.
        held: label values and the value of each child.
    """

    def __init__(
        self, name: str, labels: tuple[str, ...], held: list[tuple[tuple[str, ...], float]]
    ) -> None:
        self._name, self._labels, self._held = name, labels, held

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Sample]:
        name, labels = self._name, self._labels
        for values, value in self._held:
            yield Sample(name, dict(zip(labels, values, strict=True)), value)

    @overload
    def __getitem__(self, at: int) -> Sample: ...

    @overload
    def __getitem__(self, at: slice) -> list[Sample]: ...

    def __getitem__(self, at: int | slice) -> Sample | list[Sample]:
        if isinstance(at, slice):
            return list(GaugeSamples(self._name, self._labels, self._held[at]))
        return self[at : at + 1 or None][0]


class GaugeChild:
    """A gauge at its label values, to be set and let go."""

    __slots__ = ("_gauge", "_values")

    def __init__(self, gauge: Gauge, values: tuple[str, ...]) -> None:
        self._gauge, self._values = gauge, values

    def labels(self, *values: str) -> GaugeChild:
        """A child has no children."""
        raise ValueError(f"labels are given already, and {values} again")

    # The labels were checked when the child was made.

    def inc(self, amount: float = 1) -> None:
        """Adds."""
        gauge = self._gauge
        with gauge._lock:
            gauge._values[self._values] = gauge._values.get(self._values, 0.0) + float(amount)

    def set(self, value: float) -> None:
        """Sets."""
        gauge = self._gauge
        with gauge._lock:
            gauge._values[self._values] = float(value)

    def observe(self, amount: float) -> None:
        """Not of a gauge."""
        self._gauge.observe(amount)

    def clear(self) -> None:
        """Zero again."""
        self._gauge.put(self._values, 0.0)

    def remove(self, *values: str) -> None:
        """A child has no children."""
        raise KeyError(values)
