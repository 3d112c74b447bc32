# SPDX-License-Identifier: Apache-2.0
"""The Prometheus series of what hooks set on containers.

Rule: docs/reference/reports.md#prometheus-series.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from koord.agent.executor.target import CORE_SCHED, OOM_SCORE_ADJ

if TYPE_CHECKING:
    from koord.agent.executor.target import Value
    from koord.agent.metrics.prometheus.pod_exporter import MakeGauge
    from koord.agent.states.snapshot import Snapshot

_OWNER = ("pod_name", "pod_namespace", "pod_uid", "container_name")


class WrittenValues(Protocol):
    """Who sets it."""

    def last_values(self, resource: str, directories: list[str]) -> list[Value | None]:
        """What holds in directories as of the last write or comparison; None where not known."""
        ...

    def cookie(self, group: str) -> int:
        """The core scheduling cookie of a group, 0 for none."""
        ...


class HookExports:
    """Gauges over containers; whoever owns them clears them.

    Args:
        gauge: declares one.
        node: the first label's value.
    """

    def __init__(self, gauge: MakeGauge, node: str) -> None:
        self._node = node
        self._scores = gauge(
            "koordlet_container_oom_score_adj", "The OOM score set on a container.", _OWNER
        )
        self._cookies = gauge(
            "koordlet_container_core_sched_cookie", "1 for the cookie that a container has.",
            (*_OWNER, "container_id", "core_sched_group", "core_sched_cookie"),
        )  # fmt: skip

    def refresh(self, executor: WrittenValues, snapshot: Snapshot) -> None:
        """Fills them; pods that are not in the snapshot any more have no series."""
        found = [
            (each.directory, (meta.name, meta.namespace, pod.uid, each.name), each.id)
            for pod in snapshot.pods.value
            for meta in (pod.pod.metadata,)
            for each in pod.containers
            if each.directory
        ]
        directories = [directory for directory, _, _ in found]
        scores = executor.last_values(OOM_SCORE_ADJ, directories)
        groups = executor.last_values(CORE_SCHED, directories)
        for (_, owner, container_id), score, group in zip(found, scores, groups, strict=True):
            if score is not None:
                self._scores.labels(self._node, *owner).set(float(score))
            if group is not None and (cookie := executor.cookie(str(group))):
                labels = (*owner, container_id, str(group), str(cookie))
                self._cookies.labels(self._node, *labels).set(1)
