# SPDX-License-Identifier: Apache-2.0
"""RemovePodsViolatingNodeTaints: pods that do not tolerate a taint their node got later.

Rule: docs/reference/descheduling-plugins.md#removepodsviolatingnodetaints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.tolerations import tolerates
from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.plugins.kubernetes.strategy_args import StrategyArgs

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from koord.api.kinds.constraints import Taint
    from koord.api.kinds.node import Node
    from koord.controllers.scheduler.config.field_path import FieldPath


class RemovePodsViolatingNodeTaintsArgs(StrategyArgs, frozen=True):
    """Which taints count; a list names keys, or keys with values as ``key=value``."""

    include_prefer_no_schedule: bool = False
    excluded_taints: list[str] = []
    included_taints: list[str] = []

    def check(self, at: FieldPath) -> None:
        """At most one of the two lists."""
        super().check(at)
        both = bool(self.excluded_taints and self.included_taints)
        expected = "one of includedTaints and excludedTaints"
        at.inside("includedTaints").need(not both, self.included_taints, expected)

    def counts(self, taint: Taint) -> bool:
        """Whether pods have to tolerate a taint; those of NoExecute are the kubelet's business."""
        prefers = self.include_prefer_no_schedule and taint.effect == "PreferNoSchedule"
        if taint.effect != "NoSchedule" and not prefers:
            return False
        if is_named(taint, self.excluded_taints):
            return False
        if not self.included_taints:
            return True
        # Unlike above, "key=" names no taint without a value.
        with_value = {f"{taint.key}={taint.value}"} if taint.value else set()
        return not ({taint.key} | with_value).isdisjoint(self.included_taints)


class RemovePodsViolatingNodeTaints(DeschedulerPlugin):
    """The strategy; node by node, in the order of the snapshot."""

    name = "RemovePodsViolatingNodeTaints"
    args_type = RemovePodsViolatingNodeTaintsArgs
    args: RemovePodsViolatingNodeTaintsArgs

    async def deschedule(self, nodes: Sequence[Node]) -> None:
        """Evicts pods that do not tolerate a taint that counts."""
        evictor = self.handle.evictor
        selected = self.args.pod_filter(evictor.accepts)
        for node in nodes:
            await self.handle.give_way()
            taints = [taint for taint in node.spec.taints if self.args.counts(taint)]
            for pod in self.handle.snapshot.pods_on(node.metadata.name) if taints else ():
                tolerations = pod.spec.tolerations
                intolerable = not all(tolerates(tolerations, taint) for taint in taints)
                if intolerable and selected(pod):
                    await evictor.evict(pod)


def is_named(taint: Taint, names: Collection[str]) -> bool:
    """Whether a list names a taint by its key or its key and value."""
    return taint.key in names or f"{taint.key}={taint.value}" in names
