# SPDX-License-Identifier: Apache-2.0
"""The built-in plugins: where each class is. A new plugin is one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

BUILT_IN: Final[Mapping[str, str]] = {
    "DefaultEvictor": "kubernetes.default_evictor",
    "HighNodeUtilization": "kubernetes.node_utilization",
    "LowNodeUtilization": "kubernetes.node_utilization",
    "PodLifeTime": "kubernetes.pod_life_time",
    "RemoveDuplicates": "kubernetes.duplicates",
    "RemoveFailedPods": "kubernetes.failed_pods",
    "RemovePodsHavingTooManyRestarts": "kubernetes.too_many_restarts",
    "RemovePodsViolatingInterPodAntiAffinity": "kubernetes.inter_pod_anti_affinity",
    "RemovePodsViolatingNodeAffinity": "kubernetes.node_affinity",
    "RemovePodsViolatingNodeTaints": "kubernetes.node_taints",
    "RemovePodsViolatingTopologySpreadConstraint": "kubernetes.topology_spread",
}
"""Plugin to its module below ``koord.controllers.descheduler.plugins``; the class has its name."""
