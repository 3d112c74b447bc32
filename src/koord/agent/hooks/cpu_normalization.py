# SPDX-License-Identifier: Apache-2.0
"""CPUNormalization: a quota buys the same work on fast and on slow CPUs.

Rule: docs/reference/hooks.md#cpunormalization.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.executor.target import QUOTA
from koord.agent.hooks.batch_resource import ratio_moved
from koord.agent.hooks.context import qos_by_cpus
from koord.agent.hooks.hook import Answer, Asked, ContainerContext, PodContext, Stage
from koord.agent.hooks.quiet import QuietHook
from koord.agent.states.snapshot import Part, Snapshot
from koord.api.protocol.nodes import NO_RATIO, cpu_normalization_ratio
from koord.api.protocol.qos import QoSClass

if TYPE_CHECKING:
    from koord.agent.hooks.options import HookOptions

_CLASSES = (QoSClass.LS, QoSClass.NONE)


class CPUNormalization(QuietHook):
    """The hook; answers the quota as it was asked for, and the ratio that divides it."""

    name = "CPUNormalization"
    gate = "CPUNormalization"
    stages = frozenset(
        {
            Stage.PRE_RUN_POD_SANDBOX,
            Stage.PRE_CREATE_CONTAINER,
            Stage.PRE_UPDATE_CONTAINER_RESOURCES,
        }
    )
    follows = Part.NODE

    def __init__(self, options: HookOptions) -> None:
        self._ratio = NO_RATIO

    def learn(self, snapshot: Snapshot) -> bool:
        """From the Node; a malformed ratio leaves the last good one."""
        node = snapshot.node.value
        ratio = cpu_normalization_ratio(node) if node else NO_RATIO
        if not ratio_moved(self._ratio, ratio):
            return False
        self._ratio = ratio
        return True

    def pod(self, context: PodContext) -> Answer | None:
        """Of the whole pod, where the delivery knows its limits."""
        return self._of(context, context.asked)

    def container(self, context: ContainerContext) -> Answer | None:
        """Of a container; its sandbox has no quota."""
        return self._of(context.pod, context.asked)

    def _of(self, pod: PodContext, asked: Asked) -> Answer | None:
        quota = asked.cfs_quota_us
        if self._ratio == NO_RATIO or quota is None or quota <= 0:
            return None
        if qos_by_cpus(pod) not in _CLASSES:
            return None
        reason = f"limit on CPUs {self._ratio:g} times as fast"
        return Answer({QUOTA: quota}, quota_ratio=self._ratio, reason=reason)
