# SPDX-License-Identifier: Apache-2.0
"""What prod pods asked for and will not use, judged in two ways; the more careful one counts.

Rule: docs/reference/measuring.md#reclaimable-of-prod-pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from koord.agent.prediction.usage_models import SYSTEM, PeakUsage, class_model
from koord.api.protocol.priority import PriorityClass
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from koord.agent.prediction.usage_models import UsageModels

ELIGIBLE = (PriorityClass.PROD, PriorityClass.NONE)
_NOTHING = PeakUsage(0, 0)


class PredictedPod(NamedTuple):
    """What the predictors look at of a pod.

    Attributes:
        age_seconds: since it was created.
        ended: whether it is being deleted, or has succeeded or failed.
        request: CPU in milli-cores, memory in bytes.
    """

    uid: str
    priority_class: PriorityClass
    age_seconds: float
    ended: bool
    request: PeakUsage


@dataclass(frozen=True)
class Reclaimable:
    """What can be lent, and how much prod pods may come to use."""

    reclaimable: PeakUsage
    peak: PeakUsage


def predict(
    models: UsageModels, pods: Iterable[PredictedPod], allocatable: PeakUsage
) -> Reclaimable:
    """Both predictors' answers joined: the smaller reclaimable, the larger peak.

    Args:
        models: trained.
        pods: those that are reported; a UID that comes twice counts once.
        allocatable: the node's, before amplification.

    Raises:
        KoordError: no model yet of the system or of an eligible class.
    """
    single = _PodPredictor(models)
    requests = _NOTHING
    for pod in pods:
        if pod.priority_class not in ELIGIBLE:
            continue
        # A pod that the first predictor cannot judge is not shown to the second.
        if single.add(pod) and not pod.ended:
            requests = _plus(requests, pod.request)
    by_pods = single.result(allocatable)
    by_class = _by_class(models, requests, allocatable)
    return Reclaimable(
        _by_resource(min, by_pods.reclaimable, by_class.reclaimable),
        _by_resource(max, by_pods.peak, by_class.peak),
    )


class _PodPredictor:
    """Sums what single pods are predicted to need and to leave."""

    def __init__(self, models: UsageModels) -> None:
        self._models = models
        self._seen: set[str] = set()
        self._needed = self._left = self._unpredicted = _NOTHING

    def add(self, pod: PredictedPod) -> bool:
        """Counts a pod; False if it cannot be judged."""
        if pod.uid in self._seen:
            return False
        self._seen.add(pod.uid)
        if pod.age_seconds <= self._models.options.cold_start_seconds:
            self._unpredicted = _plus(self._unpredicted, pod.request)
            return True
        if pod.ended:
            return True
        cpu, memory = self._models.peak(pod.uid, "p95"), self._models.peak(pod.uid, "p98")
        if cpu is None or memory is None:
            self._unpredicted = _plus(self._unpredicted, pod.request)
            return False
        peak = _with_margin(PeakUsage(cpu.cpu_milli, memory.memory_bytes), self._models)
        self._needed = _plus(self._needed, peak)
        self._left = _plus(self._left, _by_resource(max, _NOTHING, _minus(pod.request, peak)))
        return True

    def result(self, allocatable: PeakUsage) -> Reclaimable:
        """The sums, within what the node has."""
        room = _by_resource(max, _NOTHING, _minus(allocatable, self._needed))
        return Reclaimable(
            _by_resource(min, room, self._left), _plus(self._needed, self._unpredicted)
        )


def _by_class(models: UsageModels, requests: PeakUsage, allocatable: PeakUsage) -> Reclaimable:
    total = _NOTHING
    for name in (SYSTEM, *map(class_model, ELIGIBLE)):
        cpu, memory = models.peak(name, "p95"), models.peak(name, "p98")
        if cpu is None or memory is None:
            raise KoordError("prediction", "model", name, "one trained before a prediction")
        total = _plus(total, PeakUsage(cpu.cpu_milli, memory.memory_bytes))
    peak = _with_margin(total, models)
    room = _by_resource(max, _NOTHING, _minus(allocatable, peak))
    left = _by_resource(max, _NOTHING, _minus(requests, peak))
    return Reclaimable(_by_resource(min, room, left), peak)


def _with_margin(peak: PeakUsage, models: UsageModels) -> PeakUsage:
    factor = (100 + models.options.safety_margin_percent) / 100
    return PeakUsage(int(peak.cpu_milli * factor), int(peak.memory_bytes * factor))


def _plus(one: PeakUsage, other: PeakUsage) -> PeakUsage:
    return PeakUsage(one.cpu_milli + other.cpu_milli, one.memory_bytes + other.memory_bytes)


def _minus(one: PeakUsage, other: PeakUsage) -> PeakUsage:
    return PeakUsage(one.cpu_milli - other.cpu_milli, one.memory_bytes - other.memory_bytes)


def _by_resource(choose: Callable[[int, int], int], one: PeakUsage, other: PeakUsage) -> PeakUsage:
    return PeakUsage(*map(choose, one, other))
