# SPDX-License-Identifier: Apache-2.0
"""What ``/apis/v1/plugins/LoadAwareScheduling/node/NAME`` answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controllers.scheduler.plugins.loadaware.ledger import UNBOUND, VIEWS

if TYPE_CHECKING:
    from koord.controllers.scheduler.plugins.loadaware.ledger import Ledger
    from koord.controllers.scheduler.plugins.loadaware.measured import Assigned, Measured


def node(ledger: Ledger, name: str, row: int, now: float) -> dict[str, Any]:
    """The load of one node: CPU in milli, all else in units.

    Args:
        ledger: the load.
        name: of the node.
        row: its row.
        now: wall seconds.
    """
    names, metric, chosen = ledger.names, ledger.metric(row), ledger.thresholds[row]

    def by_name(amounts: Any) -> dict[str, int]:
        return dict(zip(names, (int(amount) for amount in amounts), strict=True))

    bounds = {
        VIEWS[view]: {n: b for n, b in by_name(ledger.bound[view, :, row]).items() if b < UNBOUND}
        for view in (0, 1)
    }
    return {
        "nodeName": name,
        "allocatable": by_name(ledger.capacity[:, row]),
        "estimatedUsage": {
            view: by_name(ledger.used[index, :, row]) for index, view in enumerate(VIEWS)
        },
        "mostWithinThresholds": bounds,
        "thresholds": {
            "usageThresholds": dict(chosen.plain),
            "prodUsageThresholds": dict(chosen.prod),
            "aggregatedUsageThresholds": dict(chosen.aggregate),
        },
        "nodeMetric": _metric(metric, bool(ledger.fresh_until[row] <= now), by_name),
        "pods": [_pod(pod, metric, by_name) for pod in _in_order(ledger, row)],
    }


def _in_order(ledger: Ledger, row: int) -> list[Assigned]:
    return sorted(ledger.pods(row).values(), key=lambda pod: pod.key)


def _metric(metric: Measured | None, expired: bool, by_name: Any) -> dict[str, Any] | None:
    if metric is None:
        return None
    return {
        "updateTime": metric.updated,
        "reportIntervalSeconds": metric.interval,
        "expired": expired,
        "nodeUsage": by_name(metric.node) if metric.node is not None else None,
    }


def _pod(pod: Assigned, metric: Measured | None, by_name: Any) -> dict[str, Any]:
    usage = metric.pods.get(pod.key) if metric is not None else None
    return {
        "pod": pod.key,
        "estimated": by_name(pod.estimate),
        "measured": by_name(usage) if usage is not None else None,
        "awaited": metric is None or metric.awaited(pod),
        "assignedAt": pod.since,
        "estimatedUntil": pod.deadline,
        "prod": pod.prod,
    }
