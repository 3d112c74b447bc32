# SPDX-License-Identifier: Apache-2.0
"""Feeds the models: once an interval, the 90th percentile of each workload's usage in it.

Rule: docs/reference/measuring.md#training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.reader import Window
from koord.agent.prediction.usage_models import NODE, SYSTEM, class_model
from koord.api.protocol.priority import PriorityClass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.agent.metrics.reader import MetricReader
    from koord.agent.prediction.usage_models import UsageModels
    from koord.agent.states.pod_state import PodState

_SHARE = 0.9
_MILLI = 1000

Usage = tuple[float, float]


def train(
    models: UsageModels, metrics: MetricReader, pods: Iterable[PodState], now_ms: int
) -> None:
    """One round over the last training interval.

    A pod whose CPU or memory was not measured is left out, also of the sums.
    """
    window = Window(now_ms - int(models.options.training_seconds * _MILLI), now_ms)
    cpu = _by_pod(metrics, MetricKind.POD_CPU_USAGE, window)
    memory = _by_pod(metrics, MetricKind.POD_MEMORY_USAGE, window)
    classes: dict[str, Usage] = dict.fromkeys(PriorityClass, (0.0, 0.0))
    all_pods: Usage = (0.0, 0.0)
    for pod in pods:
        if pod.uid not in cpu or pod.uid not in memory:
            continue
        usage = (cpu[pod.uid], memory[pod.uid])
        models.add(pod.uid, *usage, now_ms)
        classes[pod.priority_class] = _plus(classes[pod.priority_class], usage)
        all_pods = _plus(all_pods, usage)
    node = _node(metrics, window)
    if node is not None:
        models.add(NODE, *node, now_ms)
    for priority, usage in classes.items():
        models.add(class_model(priority), *usage, now_ms)
    measured = node or (0.0, 0.0)
    rest = (max(0.0, measured[0] - all_pods[0]), max(0.0, measured[1] - all_pods[1]))
    models.add(SYSTEM, *rest, now_ms)


def _by_pod(metrics: MetricReader, kind: MetricKind, window: Window) -> dict[str, float]:
    rows = metrics.read(kind, window, (_SHARE,))
    return rows.by_label(rows.percentiles[:, 0])


def _node(metrics: MetricReader, window: Window) -> Usage | None:
    cpu = metrics.read(MetricKind.NODE_CPU_USAGE, window, (_SHARE,))
    memory = metrics.read(MetricKind.NODE_MEMORY_USAGE, window, (_SHARE,))
    if not cpu.labels or not memory.labels:
        return None
    return float(cpu.percentiles[0, 0]), float(memory.percentiles[0, 0])


def _plus(one: Usage, other: Usage) -> Usage:
    return one[0] + other[0], one[1] + other[1]
