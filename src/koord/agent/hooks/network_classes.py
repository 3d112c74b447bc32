# SPDX-License-Identifier: Apache-2.0
"""Which traffic classes a node has, and which pod belongs to which: NodeSLO and pods to a plan.

Rule: docs/reference/hooks.md#tcnetworkqos.
"""

from __future__ import annotations

import zlib
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

from koord.agent.hooks.network_shares import BITS, class_shares, node_bits, policy_of
from koord.agent.host.traffic.plan import (
    BE,
    BE_GROUP,
    LS,
    LS_GROUP,
    POD_MINORS,
    ROOT,
    SYSTEM,
    SYSTEM_GROUP,
    TrafficClass,
    TrafficPlan,
)
from koord.api.protocol.qos import QoSClass
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koord.agent.hooks.network_shares import NetworkShares
    from koord.agent.states.pod_state import PodState
    from koord.api.kinds.nodeslo import NodeSLOSpec

POLICY: Final = "tc"
LEAST_BYTES: Final = 1000
"""What a class gets in any case: HTB takes none without a rate."""

MOST_BITS: Final = 10**15
MOST_OWN_CLASSES: Final = 1024
"""Pods with a class of their own; later ones are in that of their QoS."""

CLASS_OF: Final = {
    QoSClass.SYSTEM: SYSTEM,
    QoSClass.LSE: LS,
    QoSClass.LSR: LS,
    QoSClass.LS: LS,
    QoSClass.BE: BE,
}
"""Minor of the class of a pod by its label; pods without one are nobody's."""

_GROUP_OF = {SYSTEM: SYSTEM_GROUP, LS: LS_GROUP, BE: BE_GROUP}
_PRIORITY = {SYSTEM: 1, LS: 2, BE: 3}


class ClassLimits(NamedTuple):
    """What a class gets, bytes per second."""

    rate_bytes: int
    ceil_bytes: int


class NetworkRule(NamedTuple):
    """The classes of a NodeSLO.

    Attributes:
        total_bytes: the node's bandwidth, bytes per second.
        limits: by minor, of the three that pods are in.
    """

    total_bytes: int
    limits: Mapping[int, ClassLimits]


def rule_of(slo: NodeSLOSpec | None) -> NetworkRule | None:
    """What a NodeSLO means; None under another policy, or without the node's bandwidth.

    Raises:
        KoordError: a bandwidth is malformed, or more is promised than there is.
    """
    if slo is None or policy_of(slo) not in (None, POLICY):
        return None
    total_bits = node_bits(slo)
    if total_bits == 0:
        return None
    if not LEAST_BYTES * BITS * 3 <= total_bits <= MOST_BITS:
        expected = f"0, or {LEAST_BYTES * BITS * 3} to {MOST_BITS} bits a second"
        raise KoordError("NodeSLO", "systemStrategy.totalNetworkBandwidth", total_bits, expected)
    ls, be = class_shares(slo, total_bits)
    rest = total_bits - ls.egress_request - be.egress_request
    if rest < 0:
        promised = ls.egress_request + be.egress_request
        expected = f"together at most the node's bandwidth, {total_bits}"
        raise KoordError("NodeSLO", "networkQOS.egressRequest", promised, expected)
    total = total_bits // BITS
    system = ClassLimits(max(rest // BITS, LEAST_BYTES), total)
    return NetworkRule(total, {SYSTEM: system, LS: _limits(ls, total), BE: _limits(be, total)})


def _limits(shares: NetworkShares, total: int) -> ClassLimits:
    ceil = max(shares.egress_limit // BITS, LEAST_BYTES) if shares.egress_limit else total
    return ClassLimits(min(max(shares.egress_request // BITS, LEAST_BYTES), ceil), ceil)


class PodMinors:
    """A number of its own for each pod that has a limit, kept for as long as it is there."""

    def __init__(self) -> None:
        self._by_uid: dict[str, int] = {}
        self._taken: set[int] = set()

    def of(self, uid: str) -> int | None:
        """The pod's number, mostly the same after a restart; None when all are given."""
        found = self._by_uid.get(uid)
        if found is None and len(self._by_uid) < MOST_OWN_CLASSES:
            size, first = len(POD_MINORS), zlib.crc32(uid.encode())
            found = next(
                minor
                for step in range(size)
                if (minor := POD_MINORS[(first + step) % size]) not in self._taken
            )
            self._by_uid[uid] = found
            self._taken.add(found)
        return found

    def keep(self, uids: Iterable[str]) -> None:
        """Gives back the numbers of all other pods."""
        for uid in self._by_uid.keys() - set(uids):
            self._taken.discard(self._by_uid.pop(uid))


def plan_for(
    rule: NetworkRule, pods: Iterable[PodState], limits: Mapping[str, int], minors: PodMinors
) -> TrafficPlan:
    """The whole plan of a node.

    Args:
        rule: of its NodeSLO.
        pods: those that are active, oldest first: the newest has an address that two name.
        limits: bytes per second by UID of a pod with a limit of its own.
        minors: numbers of those.
    """
    rows = [TrafficClass(ROOT, 0, rule.total_bytes, rule.total_bytes, 0)]
    for minor, its in rule.limits.items():
        rows.append(TrafficClass(_GROUP_OF[minor], ROOT, its.rate_bytes, its.ceil_bytes, 0))
        rows.append(
            TrafficClass(minor, _GROUP_OF[minor], its.rate_bytes, its.ceil_bytes, _PRIORITY[minor])
        )
    addresses: dict[str, int] = {}
    cgroups: dict[str, int] = {}
    for pod in pods:
        minor = CLASS_OF.get(pod.qos, 0)
        if not minor:
            continue
        own = minors.of(pod.uid) if pod.uid in limits else None
        if own is not None:
            rows.append(_own_class(rule, own, minor, limits[pod.uid]))
        if _in_the_nodes_network(pod):
            cgroups[pod.directory] = own or minor
        elif address := _address(pod.pod.status.pod_ip):
            addresses[address] = own or minor
    return TrafficPlan(tuple(rows), addresses, cgroups)


def _own_class(rule: NetworkRule, own: int, minor: int, limit_bytes: int) -> TrafficClass:
    """Beneath its QoS's, with no part of its own: a limit promises nothing."""
    ceil = max(min(limit_bytes, rule.limits[minor].ceil_bytes), LEAST_BYTES)
    return TrafficClass(own, _GROUP_OF[minor], LEAST_BYTES, ceil, _PRIORITY[minor])


def _in_the_nodes_network(pod: PodState) -> bool:
    # By its address the whole node would be in the pod's class.
    return pod.pod.spec.host_network or bool(
        pod.pod.status.pod_ip and pod.pod.status.pod_ip == pod.pod.status.host_ip
    )


def _address(text: str) -> str:
    try:
        address = ip_address(text)
    except ValueError:
        return ""
    plain = not (address.is_unspecified or address.is_loopback or address.is_multicast)
    return str(address) if plain and "%" not in text else ""
