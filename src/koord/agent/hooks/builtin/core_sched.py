# SPDX-License-Identifier: Apache-2.0
"""CoreSched: which pods may share a core, and which classes run only when others are idle.

Rule: docs/reference/hooks.md#coresched. The cookies themselves are the executor's work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.agent.executor.target import CORE_SCHED, FEATURES
from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.builtin.group_identity import CORE_SWITCH, IDENTITY_SWITCH
from koord.agent.hooks.hook import ContainerContext, HookResponse, PodContext
from koord.agent.hooks.pod_contexts import read_once
from koord.agent.host.kernel.core_sched import FEATURE
from koord.agent.host.kernel.features import Feature
from koord.agent.states.snapshot import Snapshot, SnapshotPart
from koord.api.protocol.agent import core_sched_group, core_sched_policy
from koord.api.protocol.qos import QoSClass
from koord.kernels.cgroup_path import KubeQos

if TYPE_CHECKING:
    from koord.agent.hooks.options import HookOptions
    from koord.api.kinds.nodeslo import NodeSLOSpec
    from koord.api.kinds.qos_strategy import ResourceQOS

IDLE = "cpu.idle"
EXPELLER = "-expeller"


@dataclass(frozen=True)
class CoreSchedClassRule:
    """One class.

    Attributes:
        enabled: whether its pods have groups.
        expeller: whether its groups are apart from those of other classes.
        idle: whether it runs only when others do not.
    """

    enabled: bool = False
    expeller: bool = False
    idle: bool = False


@dataclass(frozen=True)
class CoreSchedRule:
    """All classes; SYSTEM is never touched."""

    by_qos: dict[QoSClass, CoreSchedClassRule]
    by_kube_qos: dict[KubeQos, CoreSchedClassRule]

    @property
    def enabled(self) -> bool:
        """Whether any class is."""
        return any(row.enabled for row in self.by_qos.values())

    def of(self, context: PodContext) -> CoreSchedClassRule:
        """The rule of a pod's class."""
        by_kube = self.by_kube_qos.get(context.kube_qos, CoreSchedClassRule())
        return self.by_qos.get(context.qos, by_kube)


def rule_of(slo: NodeSLOSpec | None) -> CoreSchedRule:
    """What a NodeSLO means; without the policy ``coreSched`` nothing is enabled."""
    strategy = slo.resource_qos_strategy if slo else None
    policies = strategy.policies if strategy else None
    if strategy is None or policies is None or policies.cpu_policy != "coreSched":
        return CoreSchedRule({}, {})
    lsr, ls = _class(strategy.lsr_class), _class(strategy.ls_class)
    be = _class(strategy.be_class)
    return CoreSchedRule(
        {QoSClass.LSE: lsr, QoSClass.LSR: lsr, QoSClass.LS: ls, QoSClass.BE: be},
        {
            KubeQos.GUARANTEED: lsr if lsr.enabled else ls,
            KubeQos.BURSTABLE: ls,
            KubeQos.BEST_EFFORT: be,
        },
    )


def _class(part: ResourceQOS | None) -> CoreSchedClassRule:
    quality = part.cpu_qos if part else None
    if quality is None:
        return CoreSchedClassRule()
    return CoreSchedClassRule(
        bool(quality.enable), bool(quality.core_expeller), quality.sched_idle == 1
    )


def group_of(rule: CoreSchedRule, context: PodContext) -> str | None:
    """The group of a pod; None for one without core scheduling."""
    own = rule.of(context)
    if context.qos is QoSClass.SYSTEM or not rule.enabled or not own.enabled:
        return None
    policy = read_once(context, core_sched_policy)
    if policy == "none":
        return None
    group = read_once(context, core_sched_group)
    if group and policy != "exclusive":
        # A name is its namespace's: nobody joins the group of another's pods, or of an exclusive
        # pod by naming its UID.
        group = f"{context.namespace}/{group}"
    return group + (EXPELLER if own.expeller else "")


class CoreSched(BaseHook):
    """Answers the core-scheduling group of each container, and claims ``cpu.idle`` by class."""

    name = "CoreSched"
    gate = "CoreSched"
    follows = SnapshotPart.SLO

    def __init__(self, options: HookOptions) -> None:
        self._options = options
        self._rule = CoreSchedRule({}, {})
        self._sysctl_was_set = False  # whether the sysctl was to be set the last time

    def learn(self, snapshot: Snapshot) -> bool:
        """From the NodeSLO."""
        rule = rule_of(snapshot.slo.value)
        changed, self._rule = rule != self._rule, rule
        return changed

    def _active(self) -> bool:
        return self._rule.enabled and self._options.has(Feature.CORE_SCHED)

    def container(self, context: ContainerContext) -> HookResponse | None:
        """The group of its pod, for its sandbox too."""
        group = group_of(self._rule, context.pod) if self._active() else None
        if group is None:
            return None
        return HookResponse({CORE_SCHED: group}, reason=f"core scheduling group {group!r}")

    def kube_qos(self, qos: KubeQos) -> HookResponse | None:
        """Whether a class is idle, and with the first directory the kernel's switches."""
        if not self._active():
            return None
        rule = self._rule.by_kube_qos.get(qos, CoreSchedClassRule())
        values: dict[str, str | int] = {}
        if self._options.has(Feature.CPU_IDLE):
            values[IDLE] = int(rule.idle)
        if qos is KubeQos.GUARANTEED:
            values.update(self._switches())
        return HookResponse(values, reason=f"core scheduling of {qos} pods")

    def _switches(self) -> dict[str, str | int]:
        """Identities off, then core scheduling on: by the sysctl, where there is none or it does
        not stay on by the scheduler's feature. Kernels without either are always on.
        """
        switch = self._options.sysctl(CORE_SWITCH)
        values: dict[str, str | int] = {}
        if self._options.sysctl(IDENTITY_SWITCH) is not None:
            values[IDENTITY_SWITCH] = 0
        if switch is not None:
            values[CORE_SWITCH] = 1
        refused = self._sysctl_was_set and switch != "1"
        self._sysctl_was_set = switch is not None
        listed = self._options.scheduler_feature(FEATURE) is not None
        if listed and (switch is None or refused):
            values[FEATURES] = FEATURE
        return values
