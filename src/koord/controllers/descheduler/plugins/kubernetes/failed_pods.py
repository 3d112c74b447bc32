# SPDX-License-Identifier: Apache-2.0
"""RemoveFailedPods: pods that have failed, after a while.

Rule: docs/reference/descheduling-plugins.md#removefailedpods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.plugins.kubernetes.strategy_args import (
    StrategyArgs,
    age_seconds,
    exit_codes,
    terminated_reasons,
    waiting_reasons,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controllers.scheduler.config.field_path import FieldPath


class RemoveFailedPodsArgs(StrategyArgs, frozen=True):
    """Which of the failed pods go."""

    exclude_owner_kinds: list[str] = []
    min_pod_lifetime_seconds: int = 3600
    reasons: list[str] = []
    exit_codes: list[int] = []
    including_init_containers: bool = False

    def check(self, at: FieldPath) -> None:
        """The least age is not negative."""
        super().check(at)
        at.inside("minPodLifetimeSeconds").at_least(self.min_pod_lifetime_seconds, 0)


class RemoveFailedPods(DeschedulerPlugin):
    """The strategy; node by node, in the order of the snapshot."""

    name = "RemoveFailedPods"
    args_type = RemoveFailedPodsArgs
    args: RemoveFailedPodsArgs

    async def deschedule(self, nodes: Sequence[Node]) -> None:
        """Evicts all pods that every option selects."""
        evictor = self.handle.evictor
        selected = self.args.pod_filter(evictor.accepts)
        for node in nodes:
            await self.handle.give_way()
            for pod in self.handle.snapshot.all_pods_on(node.metadata.name):
                if pod.status.phase == "Failed" and selected(pod) and self._is_due(pod):
                    await evictor.evict(pod)

    def _is_due(self, pod: Pod) -> bool:
        args = self.args
        if age_seconds(pod, self.handle.now()) < args.min_pod_lifetime_seconds:
            return False
        kinds = {owner.kind for owner in pod.metadata.owner_references}
        if not kinds.isdisjoint(args.exclude_owner_kinds):
            return False
        statuses = list(pod.status.container_statuses)
        if args.including_init_containers:
            statuses += pod.status.init_container_statuses
        if args.reasons:
            reasons = {*waiting_reasons(statuses), *terminated_reasons(statuses)}
            if {pod.status.reason, *reasons}.isdisjoint(args.reasons):
                return False
        return not args.exit_codes or not set(exit_codes(statuses)).isdisjoint(args.exit_codes)
