# SPDX-License-Identifier: Apache-2.0
"""CPUNormalization: a quota buys the same work on fast and on slow CPUs.

Rule: docs/reference/hooks.md#cpunormalization.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.executor.target import QUOTA
from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.builtin.batch_resource import ratio_moved
from koord.agent.hooks.hook import (
    CgroupRequest,
    ContainerContext,
    HookResponse,
    HookStage,
    PodContext,
)
from koord.agent.hooks.pod_contexts import qos_by_cpus
from koord.agent.states.snapshot import Snapshot, SnapshotPart
from koord.api.protocol.nodes import NO_RATIO, cpu_normalization_ratio
from koord.api.protocol.qos import QoSClass

if TYPE_CHECKING:
    from koord.agent.hooks.options import HookOptions

_CLASSES = (QoSClass.LS, QoSClass.NONE)


class CPUNormalization(BaseHook):
    """Answers the CPU quota as it was asked for, and the ratio that divides it."""

    name = "CPUNormalization"
    gate = "CPUNormalization"
    stages = frozenset(
        {
            HookStage.PRE_RUN_POD_SANDBOX,
            HookStage.PRE_CREATE_CONTAINER,
            HookStage.PRE_UPDATE_CONTAINER_RESOURCES,
        }
    )
    follows = SnapshotPart.NODE

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

    def pod(self, context: PodContext) -> HookResponse | None:
        """Of the whole pod, where the delivery knows its limits."""
        return self._of(context, context.requested)

    def container(self, context: ContainerContext) -> HookResponse | None:
        """Of a container; its sandbox has no quota."""
        return self._of(context.pod, context.requested)

    def _of(self, pod: PodContext, request: CgroupRequest) -> HookResponse | None:
        quota = request.cfs_quota_us
        if self._ratio == NO_RATIO or quota is None or quota <= 0:
            return None
        if qos_by_cpus(pod) not in _CLASSES:
            return None
        reason = f"limit on CPUs {self._ratio:g} times as fast"
        return HookResponse({QUOTA: quota}, quota_ratio=self._ratio, reason=reason)
