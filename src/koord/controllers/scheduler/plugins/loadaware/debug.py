# SPDX-License-Identifier: Apache-2.0
"""What ``/apis/v1/plugins/LoadAwareScheduling/node/NAME`` answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controllers.scheduler.plugins.loadaware.cache import NO_LIMIT, VIEWS

if TYPE_CHECKING:
    from koord.controllers.scheduler.plugins.loadaware.cache import LoadCache
    from koord.controllers.scheduler.plugins.loadaware.node_metric import AssignedPod, NodeUsage


def node(cache: LoadCache, name: str, row: int, now: float) -> dict[str, Any]:
    """The load of one node: CPU in milli, all else in units.

    Args:
        cache: the load.
        name: of the node.
        row: its row.
        now: wall seconds.
    """
    names, metric, chosen = cache.names, cache.metric(row), cache.thresholds[row]

    def by_name(amounts: Any) -> dict[str, int]:
        return dict(zip(names, (int(amount) for amount in amounts), strict=True))

    limits = {
        VIEWS[view]: {n: b for n, b in by_name(cache.limit[view, :, row]).items() if b < NO_LIMIT}
        for view in (0, 1)
    }
    return {
        "nodeName": name,
        "allocatable": by_name(cache.capacity[:, row]),
        "estimatedUsage": {
            view: by_name(cache.used[index, :, row]) for index, view in enumerate(VIEWS)
        },
        "mostWithinThresholds": limits,
        "thresholds": {
            "usageThresholds": dict(chosen.plain),
            "prodUsageThresholds": dict(chosen.prod),
            "aggregatedUsageThresholds": dict(chosen.aggregate),
        },
        "nodeMetric": _metric(metric, bool(cache.expires_at[row] <= now), by_name),
        "pods": [_pod(pod, metric, by_name) for pod in _in_order(cache, row)],
    }


def _in_order(cache: LoadCache, row: int) -> list[AssignedPod]:
    return sorted(cache.pods(row).values(), key=lambda pod: pod.key)


def _metric(metric: NodeUsage | None, expired: bool, by_name: Any) -> dict[str, Any] | None:
    if metric is None:
        return None
    return {
        "updateTime": metric.updated,
        "reportIntervalSeconds": metric.interval,
        "expired": expired,
        "nodeUsage": by_name(metric.node) if metric.node is not None else None,
    }


def _pod(pod: AssignedPod, metric: NodeUsage | None, by_name: Any) -> dict[str, Any]:
    usage = metric.pods.get(pod.key) if metric is not None else None
    return {
        "pod": pod.key,
        "estimated": by_name(pod.estimate),
        "measured": by_name(usage) if usage is not None else None,
        "awaited": metric is None or metric.may_grow(pod),
        "assignedAt": pod.since,
        "estimatedUntil": pod.deadline,
        "prod": pod.prod,
    }
