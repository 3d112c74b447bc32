# SPDX-License-Identifier: Apache-2.0
"""Checks of a pod that no time mends.

Rule: docs/reference/migration.md#which-pods-may-be-moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import selectors
from koord.api.protocol.eviction import NEVER_EVICT
from koord.controllers.descheduler.migration.arbitration.refusal import MoveRefusal
from koord.controllers.descheduler.predicates import pod_traits
from koord.controllers.descheduler.predicates.pod_order import eviction_cost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.migration.migration_args import MigrationControllerArgs


class Movability:
    """What a pod must be.

    Args:
        args: of the plugin.
        threshold: the priority from which on pods stay; None for none. Asked each time.
    """

    def __init__(self, args: MigrationControllerArgs, threshold: Callable[[], int | None]) -> None:
        self._args = args
        self._threshold = threshold

    def refusal(self, pod: Pod) -> MoveRefusal | None:
        """What keeps the pod for good, the first that applies; None for nothing."""
        for holds, reason, message in self._checks(pod):
            if holds:
                return MoveRefusal(reason, message)
        return None

    def _checks(self, pod: Pod) -> Iterator[tuple[bool, str, str]]:
        yield self._is_elsewhere(pod), "Namespaces", "its namespace is left out"
        cost = eviction_cost(pod)
        yield cost == NEVER_EVICT, "EvictionCost", f"its eviction cost is {cost}, never"
        yield pod_traits.is_of_daemon_set(pod), "DaemonSet", "a DaemonSet owns it"
        yield pod_traits.is_mirror(pod), "MirrorPod", "it is a mirror pod"
        yield pod_traits.is_static(pod), "StaticPod", "it is a static pod"
        terminating = pod.metadata.deletion_timestamp is not None
        yield terminating, "Terminating", "it is being deleted"
        yield self._is_bare(pod), "BarePods", "nobody would make it again"
        yield from self._priority(pod)
        yield self._has_local_storage(pod), "LocalStorage", "it has a volume of its node"
        yield self._has_claim(pod), "PVC", "it has a PersistentVolumeClaim"
        yield self._is_unselected(pod), "LabelSelector", "labelSelector does not match"

    def _is_elsewhere(self, pod: Pod) -> bool:
        given, namespace = self._args.namespaces, pod.metadata.namespace
        if given is None or self._args.skips("Namespaces"):
            return False
        return bool(given.include and namespace not in given.include) or namespace in given.exclude

    def _is_bare(self, pod: Pod) -> bool:
        args = self._args
        if pod.metadata.owner_references or args.evict_all_bare_pods or args.skips("BarePods"):
            return False
        return not (args.evict_failed_bare_pods and pod.status.phase == "Failed")

    def _priority(self, pod: Pod) -> Iterator[tuple[bool, str, str]]:
        args, priority = self._args, pod.spec.priority
        if args.evict_system_critical_pods or args.skips("SystemCritical"):
            return
        critical = pod_traits.is_system_critical(pod)
        yield critical, "SystemCritical", f"its priority is {priority}, the system's"
        limit = None if args.skips("PriorityThreshold") else self._threshold()
        above = limit is not None and priority is not None and priority >= limit
        yield above, "PriorityThreshold", f"its priority is {priority}, {limit} or more stays"

    def _has_local_storage(self, pod: Pod) -> bool:
        if self._args.evict_local_storage_pods or self._args.skips("LocalStorage"):
            return False
        return pod_traits.has_local_storage(pod)

    def _has_claim(self, pod: Pod) -> bool:
        if not self._args.ignore_pvc_pods or self._args.skips("PVC"):
            return False
        return any(True for _ in pod_traits.claim_names(pod))

    def _is_unselected(self, pod: Pod) -> bool:
        selector = self._args.label_selector
        if selector is None or self._args.skips("LabelSelector"):
            return False
        return not selectors.matches(selector, pod.metadata.labels)
