# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics: a registry of its own for every component, since many share one process.

``prometheus-client`` comes with the extras. Where it is missing, and for code that is embedded
without it, :func:`registry` gives a registry whose metrics accept everything and keep nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class Metric(Protocol):
    """What a component does to a metric; the methods that fit its kind have an effect."""

    def labels(self, *values: str) -> Metric:
        """The child with these label values, in the order of the declaration."""
        ...

    def inc(self, amount: float = 1) -> None:
        """Adds to a counter or gauge."""
        ...

    def set(self, value: float) -> None:
        """Sets a gauge."""
        ...

    def observe(self, amount: float) -> None:
        """Adds a sample to a histogram."""
        ...

    def clear(self) -> None:
        """Forgets all children, such as those of objects that are gone."""
        ...

    def remove(self, *values: str) -> None:
        """Forgets the child with these label values; a KeyError if there is none."""
        ...


class MetricDescription(NamedTuple):
    """A metric as it was declared.

    Attributes:
        name: as it is exposed; a counter's ends in ``_total``.
        kind: ``counter``, ``gauge`` or ``histogram``.
        doc: what it is.
        labels: their names.
    """

    name: str
    kind: str
    doc: str
    labels: tuple[str, ...]


class MetricRegistry(Protocol):
    """The metrics of one component. Names are given whole, in the original's form or as
    ``koord_<component>_...``.
    """

    def counter(self, name: str, doc: str, labels: Sequence[str] = ()) -> Metric:
        """A number that only grows."""
        ...

    def gauge(self, name: str, doc: str, labels: Sequence[str] = ()) -> Metric:
        """A number that goes both ways."""
        ...

    def histogram(
        self, name: str, doc: str, labels: Sequence[str] = (), buckets: Sequence[float] = ()
    ) -> Metric:
        """Samples in buckets, for durations in seconds."""
        ...

    def expose(self, chosen: Callable[[str], bool] = bool) -> bytes:
        """All, or the metrics whose names are chosen, in Prometheus' text format."""
        ...

    def descriptions(self) -> list[MetricDescription]:
        """What was declared, in that order; nothing where ``prometheus-client`` is missing."""
        ...


def registry() -> MetricRegistry:
    """A new registry: Prometheus' own where the package is there, else one that keeps nothing."""
    try:
        import prometheus_client
    except ModuleNotFoundError:
        return _NullRegistry()
    return _PrometheusRegistry(prometheus_client)


class _PrometheusRegistry:
    def __init__(self, client: Any) -> None:
        self._client = client
        self._registry = client.CollectorRegistry()
        self._described: list[MetricDescription] = []

    def counter(self, name: str, doc: str, labels: Sequence[str] = ()) -> Metric:
        from koord.base.metric_types.counter import Counter

        metric = Counter(name, doc, tuple(labels))
        self._register(metric, f"{name.removesuffix('_total')}_total", "counter", doc, labels)
        return metric

    def gauge(self, name: str, doc: str, labels: Sequence[str] = ()) -> Metric:
        from koord.base.metric_types.gauge import Gauge

        metric = Gauge(name, doc, tuple(labels))
        self._register(metric, name, "gauge", doc, labels)
        return metric

    def histogram(
        self, name: str, doc: str, labels: Sequence[str] = (), buckets: Sequence[float] = ()
    ) -> Metric:
        from koord.base.metric_types.histogram import HistogramMetric

        chosen = tuple(buckets) or self._client.Histogram.DEFAULT_BUCKETS
        metric = HistogramMetric(name, doc, tuple(labels), chosen)
        self._register(metric, name, "histogram", doc, labels)
        return metric

    def _register(self, metric: Any, name: str, kind: str, doc: str, labels: Sequence[str]) -> None:
        """Registers it; a ValueError where the name is taken."""
        self._registry.register(metric)
        self._described.append(MetricDescription(name, kind, doc, tuple(labels)))

    def expose(self, chosen: Callable[[str], bool] = bool) -> bytes:
        families = (one for one in self._registry.collect() if chosen(one.name))
        # One at a time: the lines of all together take several times the text that they become,
        # which a process that is small keeps forever.
        return b"".join(self._client.generate_latest(_Alone(one)) for one in families)

    def descriptions(self) -> list[MetricDescription]:
        return list(self._described)


class _Alone:
    """A registry of one family."""

    def __init__(self, family: Any) -> None:
        self._family = family

    def collect(self) -> Iterator[Any]:
        """That one."""
        yield self._family


class _NullMetric:
    def labels(self, *values: str) -> Metric:
        del values
        return self

    def inc(self, amount: float = 1) -> None:
        del amount

    def set(self, value: float) -> None:
        del value

    def observe(self, amount: float) -> None:
        del amount

    def clear(self) -> None:
        """Nothing is kept."""

    def remove(self, *values: str) -> None:
        del values


class _NullRegistry:
    def counter(self, name: str, doc: str, labels: Sequence[str] = ()) -> Metric:
        del name, doc, labels
        return _NullMetric()

    gauge = counter

    def histogram(
        self, name: str, doc: str, labels: Sequence[str] = (), buckets: Sequence[float] = ()
    ) -> Metric:
        del name, doc, labels, buckets
        return _NullMetric()

    def expose(self, chosen: Callable[[str], bool] = bool) -> bytes:
        del chosen
        return b""

    def descriptions(self) -> list[MetricDescription]:
        return []
