# SPDX-License-Identifier: Apache-2.0
"""TerwayQoS: the two files by which terway-qos shares the network among classes and pods.

Rule: docs/reference/hooks.md#terwayqos. Everything in them is bytes per second.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from koord.agent.executor.claim import Claim
from koord.agent.executor.target import TERWAY_BANDWIDTH, TERWAY_PODS
from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.network_shares import BITS, class_shares, node_bits, policy_of
from koord.agent.hooks.pod_limits import PodLimits
from koord.agent.states.snapshot import Snapshot, SnapshotPart
from koord.api.protocol.qos import QoSClass
from koord.kernels.cgroup_path import KubeQos

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koord.agent.hooks.options import HookOptions
    from koord.agent.states.pod_state import PodState
    from koord.api.kinds.nodeslo import NodeSLOSpec

POLICY = "terway-qos"
_ROOT = "/sys/fs/cgroup/net_cls"
_BY_QOS = {QoSClass.SYSTEM: 0, QoSClass.LSE: 1, QoSClass.LSR: 1, QoSClass.LS: 1, QoSClass.BE: 2}
_BY_KUBE_QOS = {KubeQos.GUARANTEED: 1, KubeQos.BURSTABLE: 1, KubeQos.BEST_EFFORT: 2}
_NAMES = ("tx_bps_min", "tx_bps_max", "rx_bps_min", "rx_bps_max")


def is_on(slo: NodeSLOSpec | None) -> bool:
    """Whether the node's network is terway-qos's."""
    return policy_of(slo) == POLICY


def bandwidth_text(slo: NodeSLOSpec) -> str:
    """The file of the node: its own bandwidth, then what LS and BE get at least and at most.

    Raises:
        KoordError: a bandwidth is no quantity, negative, or above the node's, in bits or percent.
    """
    bits = node_bits(slo)
    rows = [("hw_tx_bps_max", bits // BITS), ("hw_rx_bps_max", bits // BITS)]
    for level, shares in zip(("offline_l1", "offline_l2"), class_shares(slo, bits), strict=True):
        rows += [(f"{level}_{name}", n // BITS) for name, n in zip(_NAMES, shares, strict=True)]
    return "".join(f"{name} {value}\n" for name, value in rows)


def pods_text(pods: Iterable[PodState], limits: Mapping[str, tuple[int, int]]) -> str:
    """The file of pods, by UID.

    Args:
        pods: those that have not ended.
        limits: of ingress and egress in bytes per second, by UID; a pod without is left out.
    """
    rows: dict[str, object] = {}
    for state in pods:
        if state.uid not in limits:
            continue
        ingress, egress = limits[state.uid]
        metadata = state.pod.metadata
        rows[metadata.uid] = {
            "podName": metadata.name,
            "podNamespace": metadata.namespace,
            "podUID": metadata.uid,
            "prio": _BY_QOS.get(state.qos, _BY_KUBE_QOS.get(state.kube_qos, 0)),
            "cgroupDir": f"{_ROOT}/{state.directory}",
            "qosConfig": {"ingressBandwidth": ingress, "egressBandwidth": egress},
        }
    return json.dumps(rows, sort_keys=True, separators=(",", ":"))


class TerwayQoS(BaseHook):
    """Claims the two files of terway-qos, which speak of the node as a whole."""

    name = "TerwayQoS"
    gate = "TerwayQoS"
    follows = SnapshotPart.SLO | SnapshotPart.PODS

    def __init__(self, options: HookOptions) -> None:
        self._limits = PodLimits(self.name)

    def node(self, snapshot: Snapshot) -> list[Claim]:
        """Both files while the policy is terway-qos, else none.

        Raises:
            KoordError: a bandwidth is malformed; the files stay as they are.
        """
        slo = snapshot.slo.value
        if slo is None or not is_on(slo):
            return []
        reason = f"netQOSPolicy is {POLICY}"
        alive = [state for state in snapshot.pods.value if not state.terminated]
        bandwidth = bandwidth_text(slo)
        pods = pods_text(alive, self._limits.read(alive))
        texts = {TERWAY_BANDWIDTH: bandwidth, TERWAY_PODS: pods}
        return [Claim(resource, "", text, reason) for resource, text in texts.items()]
