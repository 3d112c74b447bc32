# SPDX-License-Identifier: Apache-2.0
"""The descheduler's metrics: the original's under its names, ours beside them.

Rule: docs/reference/descheduling.md#metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from koord.base.metrics import registry
from koord.controllers.descheduler.framework.outcomes import EVICTED, FAILED, REFUSED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.base.metrics import MetricRegistry
    from koord.controllers.descheduler.framework.outcomes import RoundRecord

_RESULTS: Final[Mapping[str, str]] = {EVICTED: "success", FAILED: "error", REFUSED: "limited"}
_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class DeschedulerMetrics:
    """The descheduler's registry and what it counts in it.

    Args:
        into: where; a new registry by default.
    """

    def __init__(self, into: MetricRegistry | None = None) -> None:
        self.registry = into or registry()
        # A gauge that only grows: the text format would give a counter the suffix ``_total``.
        self._evicted = self.registry.gauge(
            "descheduler_pods_evicted",
            "Pods that a strategy wanted to evict, by what came of it.",
            ("result", "strategy", "namespace", "node"),
        )
        self._seconds = self.registry.histogram(
            "koord_descheduler_round_duration_seconds", "Time that a round took.", (), _BUCKETS
        )
        self._rounds = self.registry.counter(
            "koord_descheduler_rounds_total",
            "Rounds, by result: success, idle or error.",
            ("result",),
        )
        self._arbitration = self.registry.histogram(
            "koord_descheduler_arbitration_duration_seconds",
            "Time that a round of arbitration took, its writes included.", (), _BUCKETS,
        )  # fmt: skip
        self._leader = self.registry.gauge(
            "koord_descheduler_is_leader", "1 while this process leads, else 0."
        )
        self._leader.set(0)

    def round_ended(self, record: RoundRecord, seconds: float, failed: bool) -> None:
        """Counts a round.

        Args:
            record: what became of pods.
            seconds: that it took.
            failed: whether it, or a plugin of it, did.
        """
        self._seconds.observe(seconds)
        result = "error" if failed else "idle" if record.idle else "success"
        self._rounds.labels(result).inc()
        for outcome in record.outcomes:
            became = _RESULTS[outcome.result]
            self._evicted.labels(became, outcome.plugin, outcome.namespace, outcome.node).inc()

    def arbitrated(self, seconds: float) -> None:
        """Counts a round of arbitration."""
        self._arbitration.observe(seconds)

    def leads(self, leading: bool) -> None:
        """Whether this process leads."""
        self._leader.set(1 if leading else 0)
