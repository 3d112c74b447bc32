# SPDX-License-Identifier: Apache-2.0
"""Which memory quality a pod has: its class's, overlaid by its annotation.

Rule: docs/reference/strategies.md#settings-of-a-pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.strategies.pod_overlay import lenient, overlaid
from koord.api.kinds.qos_strategy import MemoryQOS, ResourceQOSStrategy
from koord.api.protocol.agent import memory_qos
from koord.api.protocol.qos import QoSClass
from koord.kernels.cgroup_path import KubeQos

if TYPE_CHECKING:
    from koord.agent.states.pod_state import PodState

NEUTRAL = MemoryQOS(
    min_limit_percent=0, low_limit_percent=0, throttling_percent=0, wmark_ratio=0,
    wmark_scale_permill=50, wmark_min_adj=0, priority_enable=0, priority=0, oom_kill_group=0,
)  # fmt: skip
"""What switches everything off."""
_SERVICE = overlaid(NEUTRAL, MemoryQOS(wmark_ratio=95, wmark_scale_permill=20, wmark_min_adj=-25))
_BEST_EFFORT = overlaid(_SERVICE, MemoryQOS(wmark_min_adj=50))
_DEFAULTS = {
    QoSClass.LSE: _SERVICE,
    QoSClass.LSR: _SERVICE,
    QoSClass.LS: _SERVICE,
    QoSClass.BE: _BEST_EFFORT,
}


def of_class(strategy: ResourceQOSStrategy, qos: QoSClass) -> MemoryQOS | None:
    """The node's settings for a class; None where it has none."""
    section = {
        QoSClass.LSE: strategy.lsr_class,
        QoSClass.LSR: strategy.lsr_class,
        QoSClass.LS: strategy.ls_class,
        QoSClass.BE: strategy.be_class,
        QoSClass.SYSTEM: strategy.system_class,
    }.get(qos)
    return section.memory_qos if section else None


def of_kube_class(strategy: ResourceQOSStrategy, kube: KubeQos) -> MemoryQOS | None:
    """The node's settings that the directory of a Kubernetes class takes."""
    stands_for = {
        KubeQos.GUARANTEED: QoSClass.LSR,
        KubeQos.BURSTABLE: QoSClass.LS,
        KubeQos.BEST_EFFORT: QoSClass.BE,
    }
    return of_class(strategy, stands_for[kube])


def of_pod(strategy: ResourceQOSStrategy, pod: PodState) -> MemoryQOS | None:
    """The settings of a pod; None where neither node nor pod says anything.

    ``none`` is :data:`NEUTRAL` whatever else the annotation says, ``auto`` begins with what is
    recommended for the class, ``default`` with the node's. A malformed annotation counts as absent.
    """
    node = of_class(strategy, pod.qos_default)
    own = lenient(memory_qos, pod.pod)
    if own is None:
        return node
    if own.policy == "none":
        return NEUTRAL
    auto = _DEFAULTS.get(pod.qos_default, NEUTRAL)
    base = auto if own.policy == "auto" else node
    return overlaid(base or MemoryQOS(), own)
