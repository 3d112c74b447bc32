# SPDX-License-Identifier: Apache-2.0
"""What pods of one machine use, and what is reclaimable: one pod at a time, as the rules say it."""

from __future__ import annotations

import math
from dataclasses import dataclass

PERIODS = (97.0, 311.0, 1013.0)


@dataclass(frozen=True)
class ModelPod:
    """CPU in cores; ``phases`` of the three waves, each from 0 to 1."""

    best_effort: bool
    request: float
    limit: float
    mean: float
    amplitude: float
    peak_hour: float
    noise: float
    phases: tuple[float, ...]
    tier: bool = False

    def wanted(self, now: float) -> float:
        hour = now % 86_400 / 3600
        swing = 1 + self.amplitude * math.cos(2 * math.pi * (hour - self.peak_hour) / 24)
        waves = sum(
            math.sin(2 * math.pi * (now / period + phase))
            for period, phase in zip(PERIODS, self.phases, strict=True)
        )
        wanted = self.request * max(0.0, self.mean * swing * (1 + self.noise * waves / 3))
        return min(wanted, self.limit) if self.limit else wanted


def granted(
    cpus: float, system: float, pods: list[ModelPod], now: float, most: float = math.inf
) -> list[float]:
    """What each pod of a machine gets: services first, batch what is left, each its share.

    Pods of the tier want no more than ``most`` together.
    """
    room = max(0.0, cpus - system)
    of_tier = sum(pod.wanted(now) for pod in pods if pod.tier)
    held = most / of_tier if of_tier > most else 1.0
    wants = [pod.wanted(now) * (held if pod.tier else 1.0) for pod in pods]
    services = sum(want for pod, want in zip(pods, wants, strict=True) if not pod.best_effort)
    batch = sum(want for pod, want in zip(pods, wants, strict=True) if pod.best_effort)
    left = max(0.0, room - services)
    found = []
    for pod, want in zip(pods, wants, strict=True):
        total, there = (batch, left) if pod.best_effort else (services, room)
        found.append(want * (there / total if total > there else 1.0))
    return found


def shares(
    cpus: float, system: float, pods: list[ModelPod], now: float, most: float
) -> tuple[float, float]:
    """Of what the tier wants, what it may have; of what services want after that, what there is."""
    of_tier = sum(pod.wanted(now) for pod in pods if pod.tier)
    held = most / of_tier if of_tier > most else 1.0
    services = sum(
        pod.wanted(now) * (held if pod.tier else 1.0) for pod in pods if not pod.best_effort
    )
    room = max(0.0, cpus - system)
    return held, room / services if services > room else 1.0


def reclaimable(
    allocatable: int, system_peak: int, pods: list[tuple[int, int, bool]]
) -> tuple[int, int]:
    """Reclaimable amount and peak by the two predictors of the agent, 10 % margin.

    Args:
        pods: (request, peak, whether old enough to be predicted) of each Prod pod.
    """
    unreclaimable = sum(int(peak * 1.1) for _, peak, known in pods if known)
    unpredicted = sum(request for request, _, known in pods if not known)
    idle = sum(max(0, request - int(peak * 1.1)) for request, peak, known in pods if known)
    first = min(max(0, allocatable - unreclaimable), idle)
    top = int((system_peak + sum(peak for _, peak, _ in pods)) * 1.1)
    requested = sum(request for request, _, _ in pods)
    second = min(max(0, allocatable - top), max(0, requested - top))
    return min(first, second), max(unreclaimable + unpredicted, top)
