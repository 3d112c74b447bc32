# SPDX-License-Identifier: Apache-2.0
"""PrioritySort: the more important pod first, among equals the one that waits longer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controllers.scheduler.framework.plugin import Plugin

if TYPE_CHECKING:
    from koord.controllers.cluster.pods import PodInfo


class PrioritySort(Plugin):
    """Rule: docs/reference/scheduling.md#queue."""

    name = "PrioritySort"

    def sort_key(self, pod: PodInfo, timestamp: float) -> tuple[Any, ...]:
        """Higher ``spec.priority``, then the earlier timestamp."""
        return -pod.priority, timestamp
