# SPDX-License-Identifier: Apache-2.0
"""The manager's metrics, under the original's names.

Rule: docs/reference/manager.md#metrics.

Three registries: what only concerns the manager itself, what others may rely on, and what
controllers in general measure (queues, requests).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.metrics import registry
from koord.kube.controller import ControllerMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.base.metrics import Metric

_STATUS = ("status", "reason")


class ManagerMetrics:
    """The manager's registries and counters.

    Attributes:
        internal: series about the manager itself, ``/internal-metrics``.
        external: series that others may rely on, ``/external-metrics``.
        controllers: queues, reconciles, requests, ``/metrics``.
        queues: for controllers on a work queue.
        before_read: what brings series up to date, called before anybody reads them.
    """

    def __init__(self) -> None:
        self.internal = registry()
        self.external = registry()
        self.controllers = registry()
        self.queues = ControllerMetrics(self.controllers)
        self.before_read: list[Callable[[], None]] = [self.queues.queues.refresh]
        self._leader = self.internal.gauge(
            "koordinator_manager_is_leader", "1 while this process leads, else 0."
        )
        self._leader.set(0)

    def refresh(self) -> None:
        """Brings all series up to date; call before they are read."""
        for bring in self.before_read:
            bring()

    def counted(self, name: str, doc: str) -> OutcomeCounts:
        """Successes and failures under a name of the reference, one of each name."""
        return OutcomeCounts(self.counter(name, doc, _STATUS))

    def counter(self, name: str, doc: str, labels: Sequence[str]) -> Metric:
        """What only grows, for others to rely on, under its very name.

        A gauge: the text format would give a counter the suffix ``_total``.
        """
        return self.external.gauge(name, doc, labels)

    def leads(self, leading: bool) -> None:
        """Whether this process leads."""
        self._leader.set(1 if leading else 0)


class OutcomeCounts:
    """Successes and failures, each with a reason."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        # Looking up a child by its labels costs more than counting.
        self._children: dict[tuple[str, str], Metric] = {}

    def succeeded(self, reason: str = "") -> None:
        """One more that went well."""
        self._count("succeeded", reason)

    def failed(self, reason: str) -> None:
        """One more that did not.

        Args:
            reason: one word or so; it is a label.
        """
        self._count("failed", reason)

    def _count(self, status: str, reason: str) -> None:
        child = self._children.get((status, reason))
        if child is None:
            child = self._children[status, reason] = self._metric.labels(status, reason)
        child.inc()
