# SPDX-License-Identifier: Apache-2.0
"""For how many rounds in a row nodes have been too loaded.

Rule: docs/reference/descheduling-plugins.md#anomaly-detector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.controllers.descheduler.plugins.loadaware.low_node_load_args import (
        AnomalyCondition,
    )


@dataclass
class AnomalyDetector:
    """One node.

    Attributes:
        is_anomalous: whether it has been abnormal for long enough.
        abnormal: marks in a row since the last normal one.
        normal: marks in a row since the last abnormal one.
        expires: monotonic time at which the anomaly is over.
        kept_until: monotonic time after which nobody remembers the detector.
    """

    condition: AnomalyCondition
    is_anomalous: bool = False
    abnormal: int = 0
    normal: int = 0
    expires: float = 0.0
    kept_until: float = 0.0

    def mark_abnormal(self, now: float) -> bool:
        """Counts a round in which the node was too loaded; whether it is anomalous now."""
        self._expire(now)
        self.abnormal, self.normal = self.abnormal + 1, 0
        if not self.is_anomalous and self.abnormal > self.condition.consecutive_abnormalities:
            self._change(anomalous=True)
            self.expires = now + self.condition.timeout.nanoseconds / 1e9
        return self.is_anomalous

    def mark_normal(self, now: float) -> None:
        """Counts a round in which pods were taken off the node."""
        self._expire(now)
        self.normal, self.abnormal = self.normal + 1, 0
        if self.is_anomalous and self.normal > self.condition.consecutive_normalities:
            self._change(anomalous=False)

    def reset(self, now: float) -> None:
        """The node is fine; counts go only where that is news."""
        self._expire(now)
        if self.is_anomalous:
            self._change(anomalous=False)

    def _expire(self, now: float) -> None:
        if self.is_anomalous and now > self.expires:
            self._change(anomalous=False)

    def _change(self, *, anomalous: bool) -> None:
        self.is_anomalous, self.abnormal, self.normal = anomalous, 0, 0


class AnomalyDetectors:
    """The detectors of one kind, by node.

    Args:
        keep_seconds: how long one is remembered after its last abnormal mark.
    """

    def __init__(self, keep_seconds: float) -> None:
        self._keep_seconds = keep_seconds
        self._by_node: dict[str, AnomalyDetector] = {}

    def __len__(self) -> int:
        return len(self._by_node)

    def abnormal(self, names: Iterable[str], condition: AnomalyCondition, now: float) -> set[str]:
        """Marks nodes abnormal; those that are in anomaly now.

        With one abnormality nothing is counted, and all of them are.
        """
        if condition.consecutive_abnormalities == 1:
            return set(names)
        self._forget(now)
        anomalous = set()
        for name in names:
            detector = self._by_node.setdefault(name, AnomalyDetector(condition))
            detector.kept_until = now + self._keep_seconds
            if detector.mark_abnormal(now):
                anomalous.add(name)
        return anomalous

    def mark_normal(self, names: Iterable[str], now: float) -> None:
        """Marks nodes normal, as far as they are remembered."""
        self._forget(now)
        for name in names:
            if name in self._by_node:
                self._by_node[name].mark_normal(now)

    def reset(self, names: Iterable[str], now: float) -> None:
        """Resets nodes, as far as they are remembered."""
        self._forget(now)
        for name in names:
            if name in self._by_node:
                self._by_node[name].reset(now)

    def _forget(self, now: float) -> None:
        old = [name for name, each in self._by_node.items() if now > each.kept_until]
        for name in old:
            del self._by_node[name]
