# SPDX-License-Identifier: Apache-2.0
"""RemovePodsHavingTooManyRestarts.

Rule: docs/reference/descheduling-plugins.md#removepodshavingtoomanyrestarts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.plugins.kubernetes.strategy_args import (
    StrategyArgs,
    check_words,
    waiting_reasons,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import ContainerStatus, Pod
    from koord.controllers.scheduler.config.field_path import FieldPath

STATES = ("Running", "CrashLoopBackOff")
"""What ``states`` may name."""


class RemovePodsHavingTooManyRestartsArgs(StrategyArgs, frozen=True):
    """How many restarts are too many."""

    pod_restart_threshold: int = 0
    including_init_containers: bool = False
    states: list[str] = []

    def check(self, at: FieldPath) -> None:
        """The threshold is given, and the states are known."""
        super().check(at)
        at.inside("podRestartThreshold").at_least(self.pod_restart_threshold, 1)
        check_words(self.states, STATES, at.inside("states"))


class RemovePodsHavingTooManyRestarts(DeschedulerPlugin):
    """The strategy; of each node those with the most restarts first."""

    name = "RemovePodsHavingTooManyRestarts"
    args_type = RemovePodsHavingTooManyRestartsArgs
    args: RemovePodsHavingTooManyRestartsArgs

    async def deschedule(self, nodes: Sequence[Node]) -> None:
        """Evicts all pods that every option selects."""
        evictor = self.handle.evictor
        selected = self.args.pod_filter(evictor.accepts)
        for node in nodes:
            await self.handle.give_way()
            pods = [
                pod
                for pod in self.handle.snapshot.all_pods_on(node.metadata.name)
                if self._is_due(pod) and selected(pod)
            ]
            for pod in sorted(pods, key=self._restarts, reverse=True):
                await evictor.evict(pod)

    def _is_due(self, pod: Pod) -> bool:
        if self._restarts(pod) < self.args.pod_restart_threshold:
            return False
        states = {pod.status.phase, *waiting_reasons(self._statuses(pod))}
        return not self.args.states or not states.isdisjoint(self.args.states)

    def _restarts(self, pod: Pod) -> int:
        return sum(status.restart_count for status in self._statuses(pod))

    def _statuses(self, pod: Pod) -> list[ContainerStatus]:
        status = pod.status
        if self.args.including_init_containers and status.init_container_statuses:
            return [*status.container_statuses, *status.init_container_statuses]
        return status.container_statuses
