# SPDX-License-Identifier: Apache-2.0
"""GroupIdentity: the scheduling priority of classes, ``cpu.bvt_warp_ns``.

Rule: docs/reference/hooks.md#groupidentity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.hook import ContainerContext, HookResponse, HookStage, PodContext
from koord.agent.hooks.pod_contexts import read_once
from koord.agent.host.kernel.features import Feature
from koord.agent.states.snapshot import Snapshot, SnapshotPart
from koord.api.protocol.agent import cpu_qos
from koord.api.protocol.qos import QoSClass, parse_qos
from koord.kernels.cgroup_path import KubeQos

if TYPE_CHECKING:
    from koord.agent.hooks.options import HookOptions
    from koord.api.kinds.nodeslo import NodeSLOSpec
    from koord.api.kinds.qos_strategy import ResourceQOS
    from koord.api.kinds.slo_strategies import HostApplication

BVT = "cpu.bvt_warp_ns"
IDENTITY_SWITCH, CORE_SWITCH = "sched_group_identity_enabled", "sched_core"


@dataclass(frozen=True)
class GroupIdentityRule:
    """Identities by class.

    Attributes:
        enabled: whether any class is.
        by_qos: of pods with a class; SYSTEM and none are not in it.
        by_kube_qos: of pods without one.
        directories: of the directories of Kubernetes classes.
    """

    enabled: bool
    by_qos: dict[QoSClass, int]
    by_kube_qos: dict[KubeQos, int]
    directories: dict[KubeQos, int]


def rule_of(slo: NodeSLOSpec) -> GroupIdentityRule:
    """What a NodeSLO means."""
    strategy = slo.resource_qos_strategy
    policies = strategy.policies if strategy else None
    policy = (policies.cpu_policy if policies else None) or "groupIdentity"
    lsr, ls, be = (
        _identity(part, policy == "groupIdentity")
        for part in (
            (strategy.lsr_class, strategy.ls_class, strategy.be_class)
            if strategy
            else (None, None, None)
        )
    )
    guaranteed = lsr if lsr is not None else ls or 0
    return GroupIdentityRule(
        enabled=any(value is not None for value in (lsr, ls, be)),
        by_qos={
            QoSClass.LSE: lsr or 0,
            QoSClass.LSR: lsr or 0,
            QoSClass.LS: ls or 0,
            QoSClass.BE: be or 0,
        },
        by_kube_qos={
            KubeQos.GUARANTEED: guaranteed,
            KubeQos.BURSTABLE: ls or 0,
            KubeQos.BEST_EFFORT: be or 0,
        },
        directories={
            KubeQos.GUARANTEED: 0,
            KubeQos.BURSTABLE: ls or 0,
            KubeQos.BEST_EFFORT: be or 0,
        },
    )


def _identity(part: ResourceQOS | None, gate: bool) -> int | None:
    quality = part.cpu_qos if part else None
    if not gate or quality is None or not quality.enable:
        return None
    return quality.group_identity or 0


def identity_of(rule: GroupIdentityRule, context: PodContext) -> int:
    """The identity of a pod; an LS pod may bring its own.

    Raises:
        KoordError: its annotation is malformed.
    """
    value = rule.by_qos.get(context.qos, rule.by_kube_qos.get(context.kube_qos, 0))
    if context.qos is not QoSClass.LS:
        return value
    own = read_once(context, cpu_qos)
    if own is None:
        return value
    if not own.enable:
        return 0
    return value if own.group_identity is None else own.group_identity


class GroupIdentity(BaseHook):
    """Answers ``cpu.bvt_warp_ns`` of classes, pods and containers."""

    name = "GroupIdentity"
    gate = "GroupIdentity"
    stages = frozenset({HookStage.PRE_RUN_POD_SANDBOX})
    follows = SnapshotPart.SLO

    def __init__(self, options: HookOptions) -> None:
        self._options = options
        self._rule: GroupIdentityRule | None = None

    def learn(self, snapshot: Snapshot) -> bool:
        """From the NodeSLO."""
        slo = snapshot.slo.value
        rule = rule_of(slo) if slo else None
        changed, self._rule = rule != self._rule, rule
        return changed

    def _active(self) -> GroupIdentityRule | None:
        if self._rule is None or not self._options.has(Feature.BVT):
            return None
        # With the switch off and nothing to switch on the files have no meaning.
        if not self._rule.enabled and self._options.sysctl(IDENTITY_SWITCH) == "0":
            return None
        return self._rule

    def pod(self, context: PodContext) -> HookResponse | None:
        """The pod's identity."""
        rule = self._active()
        if rule is None:
            return None
        return HookResponse(
            {BVT: identity_of(rule, context)}, reason=f"identity of {_named(context)}"
        )

    def container(self, context: ContainerContext) -> HookResponse | None:
        """The pod's: a new cgroup has its parent's, but one that is there does not follow it."""
        return self.pod(context.pod)

    def kube_qos(self, qos: KubeQos) -> HookResponse | None:
        """The identity of a directory, and with the first of them the kernel's switches."""
        rule = self._active()
        if rule is None:
            return None
        values: dict[str, str | int] = {BVT: rule.directories[qos]}
        if qos is KubeQos.GUARANTEED and rule.enabled:
            # Identities and core scheduling exclude each other; the one goes off first.
            wanted = ((CORE_SWITCH, 0), (IDENTITY_SWITCH, 1))
            values.update((n, v) for n, v in wanted if self._options.sysctl(n) is not None)
        return HookResponse(values, reason=f"identity of {qos} pods")

    def host_application(self, application: HostApplication) -> HookResponse | None:
        """The identity of its class; 0 without one."""
        rule = self._active()
        if rule is None:
            return None
        value = rule.by_qos.get(parse_qos(application.qos), 0)
        return HookResponse({BVT: value}, reason=f"identity of class {application.qos or 'none'}")


def _named(context: PodContext) -> str:
    return f"class {context.qos}" if context.qos else f"{context.kube_qos} pods"
