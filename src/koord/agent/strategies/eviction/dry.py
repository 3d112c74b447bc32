# SPDX-License-Identifier: Apache-2.0
"""Evicts nobody and says who would have gone: ``--dry-run``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.strategies.eviction.evictor import Fate

if TYPE_CHECKING:
    from koord.agent.states.pods import PodState
    from koord.base.clock import Clock
    from koord.kube.dryrun import DryRun

TOLD_AGAIN_SECONDS = 120.0


class DryEvictor:
    """An evictor that only tells; a pod counts as on its way out for two minutes.

    Args:
        clock: for how long.
        dry_run: told of it.
    """

    def __init__(self, clock: Clock, dry_run: DryRun) -> None:
        self._clock, self._dry_run = clock, dry_run
        self._told: dict[str, float] = {}

    def evict(self, pod: PodState, feature: str, message: str) -> Fate:
        """Says that the pod would be evicted."""
        if self.fate(pod.uid) is not None:
            return Fate.UNDER_WAY
        self._told[pod.uid] = self._clock.monotonic_seconds()
        title = f"Pod {pod.key}"
        self._dry_run.local("evict", title, "pods", feature=feature, reason=message)
        return Fate.STARTED

    def fate(self, uid: str) -> Fate | None:
        """Under way for a while after it was told."""
        now = self._clock.monotonic_seconds()
        self._told = {each: at for each, at in self._told.items() if now - at < TOLD_AGAIN_SECONDS}
        return Fate.UNDER_WAY if uid in self._told else None
