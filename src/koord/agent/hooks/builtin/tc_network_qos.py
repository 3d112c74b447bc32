# SPDX-License-Identifier: Apache-2.0
"""TCNetworkQoS: parts of the node's link for QoS classes, and limits of single pods.

Rule: docs/reference/hooks.md#tcnetworkqos. The link itself is the executor's work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.executor.claim import Claim
from koord.agent.executor.target import CLASSID, TRAFFIC
from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.hook import ContainerContext, HookResponse, HookStage, PodContext
from koord.agent.hooks.network_classes import (
    CLASS_OF,
    POLICY,
    NetworkRule,
    PodMinors,
    plan_for,
    rule_of,
)
from koord.agent.hooks.pod_contexts import read_once
from koord.agent.hooks.pod_limits import PodLimits
from koord.agent.host.kernel.features import Feature
from koord.agent.host.traffic.plan import handle
from koord.agent.states.snapshot import Snapshot, SnapshotPart
from koord.api.protocol.agent import network_limits_bytes

if TYPE_CHECKING:
    from koord.agent.hooks.options import HookOptions

_REASON = f"netQOSPolicy is {POLICY}"


class TCNetworkQoS(BaseHook):
    """Claims the plan of the node's traffic, and answers the class of a pod's sockets on v1."""

    name = "TCNetworkQoS"
    gate = "TCNetworkQoS"
    stages = frozenset({HookStage.PRE_RUN_POD_SANDBOX})
    follows = SnapshotPart.SLO | SnapshotPart.PODS

    def __init__(self, options: HookOptions) -> None:
        self._options = options
        self._rule: NetworkRule | None = None
        self._minors = PodMinors()
        self._limits = PodLimits(self.name)

    def learn(self, snapshot: Snapshot) -> bool:
        """From the NodeSLO.

        Raises:
            KoordError: a bandwidth is malformed; what was known before stays.
        """
        rule = rule_of(snapshot.slo.value)
        changed, self._rule = rule != self._rule, rule
        return changed

    def pod(self, context: PodContext) -> HookResponse | None:
        """The classid of its sockets.

        Raises:
            KoordError: its limits are malformed.
        """
        minor = CLASS_OF.get(context.qos)
        if self._rule is None or minor is None or not self._options.has(Feature.NET_CLS):
            return None
        limited = _egress_bytes(read_once(context, network_limits_bytes))
        own = self._minors.of(context.uid) if limited else None
        return HookResponse({CLASSID: str(handle(own or minor))}, reason=_REASON)

    def container(self, context: ContainerContext) -> HookResponse | None:
        """The same: only what is made later has it of its pod.

        Raises:
            KoordError: as of the pod.
        """
        return self.pod(context.pod)

    def node(self, snapshot: Snapshot) -> list[Claim]:
        """The plan, while the policy is tc and the node's bandwidth is known."""
        if self._rule is None:
            return []
        pods = [state for state in snapshot.pods.value if state.active]
        found = self._limits.read(pods).items()
        limits = {uid: egress for uid, (_, egress) in found if egress > 0}
        self._minors.keep(state.uid for state in pods)
        plan = plan_for(self._rule, pods, limits, self._minors)
        return [Claim(TRAFFIC, "", plan.text(), _REASON)]


def _egress_bytes(limits: tuple[int, int] | None) -> int:
    return max(limits[1], 0) if limits else 0
