# SPDX-License-Identifier: Apache-2.0
"""RemovePodsViolatingNodeAffinity: pods whose node is not, or no longer, what they ask for.

Rule: docs/reference/descheduling-plugins.md#removepodsviolatingnodeaffinity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base import log
from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.plugins.kubernetes.strategy_args import StrategyArgs
from koord.controllers.descheduler.predicates.node_selection import (
    node_affinity,
    preference_weight,
    required_affinity,
    selects,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controllers.scheduler.config.field_path import FieldPath

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_LOG = log.get("descheduler")


class RemovePodsViolatingNodeAffinityArgs(StrategyArgs, frozen=True):
    """Which kinds of node affinity are looked at; others are left out with a line in the log."""

    node_affinity_type: list[str] = []

    def check(self, at: FieldPath) -> None:
        """At least one kind is named."""
        super().check(at)
        expected = f"{REQUIRED} or {PREFERRED} at least"
        at.inside("nodeAffinityType").need(bool(self.node_affinity_type), [], expected)


class RemovePodsViolatingNodeAffinity(DeschedulerPlugin):
    """The strategy; kind by kind, node by node."""

    name = "RemovePodsViolatingNodeAffinity"
    args_type = RemovePodsViolatingNodeAffinityArgs
    args: RemovePodsViolatingNodeAffinityArgs

    async def deschedule(self, nodes: Sequence[Node]) -> None:
        """Evicts pods that some node of the list would suit better."""
        evictor = self.handle.evictor
        selected = self.args.pod_filter(evictor.accepts)
        gone: set[str] = set()
        for kind in self.args.node_affinity_type:
            judge = {REQUIRED: self._misplaced, PREFERRED: self._better_elsewhere}.get(kind)
            if judge is None:
                told = log.fields(got=kind, expected=f"{REQUIRED} or {PREFERRED}")
                _LOG.warning("a kind of node affinity is left out", extra=told)
                continue
            for node in nodes:
                await self.handle.give_way()
                for pod in self.handle.snapshot.pods_on(node.metadata.name):
                    # The filters are asked last of all that is cheap to know.
                    if node_affinity(pod) is None or pod.metadata.uid in gone or not selected(pod):
                        continue
                    if judge(pod, node, nodes) and await evictor.evict(pod):
                        gone.add(pod.metadata.uid)

    def _misplaced(self, pod: Pod, node: Node, nodes: Sequence[Node]) -> bool:
        """Whether the pod's node is none that it may run on, while another would do."""
        return (
            required_affinity(pod) is not None
            and not selects(pod, node)
            and self.handle.node_fit.fits_any(pod, nodes)
        )

    def _better_elsewhere(self, pod: Pod, node: Node, nodes: Sequence[Node]) -> bool:
        """Whether a node of the list has more of what the pod prefers, while one takes it."""
        affinity = node_affinity(pod)
        if not affinity or not affinity.preferred_during_scheduling_ignored_during_execution:
            return False
        best = max(preference_weight(pod, other) for other in nodes)
        return best > preference_weight(pod, node) and self.handle.node_fit.fits_any(pod, nodes)
