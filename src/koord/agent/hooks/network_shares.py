# SPDX-License-Identifier: Apache-2.0
"""What a NodeSLO says of the network: the node's bandwidth and the classes' parts, in bits.

Rule: docs/reference/nodeslo.md#resource-qos-config.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity, Rounding

if TYPE_CHECKING:
    from koord.api.kinds.nodeslo import NodeSLOSpec
    from koord.api.kinds.qos_strategy import ResourceQOS

BITS = 8
_PERCENT = range(101)


class NetworkShares(NamedTuple):
    """Bits per second of one class; 0 for what is not told."""

    egress_request: int = 0
    egress_limit: int = 0
    ingress_request: int = 0
    ingress_limit: int = 0


def policy_of(slo: NodeSLOSpec | None) -> str | None:
    """``policies.netQOSPolicy``; None where nothing is told."""
    strategy = slo.resource_qos_strategy if slo else None
    policies = strategy.policies if strategy else None
    return policies.net_qos_policy if policies else None


def node_bits(slo: NodeSLOSpec) -> int:
    """The node's bandwidth, 0 for none.

    Raises:
        KoordError: below 0.
    """
    system = slo.system_strategy
    total = system.total_network_bandwidth if system else None
    bits = (total or Quantity()).value(Rounding.UP)
    if bits < 0:
        raise KoordError("NodeSLO", "systemStrategy.totalNetworkBandwidth", bits, "0 or more")
    return bits


def class_shares(slo: NodeSLOSpec, total_bits: int) -> tuple[NetworkShares, NetworkShares]:
    """Those of LS and of BE; nothing of a class that is not enabled.

    Raises:
        KoordError: a bandwidth is no quantity, negative, or above the node's, in bits or percent.
    """
    strategy = slo.resource_qos_strategy
    if strategy is None:
        return NetworkShares(), NetworkShares()
    return _shares(strategy.ls_class, total_bits), _shares(strategy.be_class, total_bits)


def _shares(part: ResourceQOS | None, total_bits: int) -> NetworkShares:
    quality = part.network_qos if part else None
    if quality is None or not quality.enable:
        return NetworkShares()
    fields = NetworkShares._fields
    return NetworkShares(*(_bits(field, getattr(quality, field), total_bits) for field in fields))


def _bits(field: str, value: int | str | None, total_bits: int) -> int:
    if value is None:
        return 0
    if isinstance(value, int):
        if value not in _PERCENT:
            expected = "a percentage of the node's bandwidth, 0 to 100"
            raise KoordError("NodeSLO", f"networkQOS.{field}", value, expected)
        return total_bits * value // 100
    try:
        bits = Quantity.parse(value).value(Rounding.UP)
    except ValueError as error:
        raise KoordError.wrap("NodeSLO", f"networkQOS.{field}", error) from None
    if not 0 <= bits <= total_bits:
        expected = f"from 0 to the node's bandwidth, {total_bits}"
        raise KoordError("NodeSLO", f"networkQOS.{field}", value, expected)
    return bits
