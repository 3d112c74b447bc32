# SPDX-License-Identifier: Apache-2.0
"""Evicts nobody and says who would have gone: ``--dry-run``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.strategies.eviction.evictor import EvictionState

if TYPE_CHECKING:
    from koord.agent.states.pod_state import PodState
    from koord.base.clock import Clock
    from koord.kube.dry_run import DryRun

REPORT_AGAIN_SECONDS = 120.0


class DryEvictor:
    """An evictor that only tells; a pod counts as on its way out for two minutes.

    Args:
        clock: for how long.
        dry_run: told of it.
    """

    def __init__(self, clock: Clock, dry_run: DryRun) -> None:
        self._clock, self._dry_run = clock, dry_run
        self._reported: dict[str, float] = {}

    def evict(self, pod: PodState, feature: str, message: str) -> EvictionState:
        """Says that the pod would be evicted."""
        if self.fate(pod.uid) is not None:
            return EvictionState.UNDER_WAY
        self._reported[pod.uid] = self._clock.monotonic_seconds()
        title = f"Pod {pod.key}"
        self._dry_run.record_local("evict", title, "pods", feature=feature, reason=message)
        return EvictionState.STARTED

    def fate(self, uid: str) -> EvictionState | None:
        """Under way for a while after it was told."""
        now = self._clock.monotonic_seconds()
        self._reported = {
            each: at for each, at in self._reported.items() if now - at < REPORT_AGAIN_SECONDS
        }
        return EvictionState.UNDER_WAY if uid in self._reported else None
