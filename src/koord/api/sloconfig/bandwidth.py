# SPDX-License-Identifier: Apache-2.0
"""Whether the network requests of all classes together can be met.

Percentages add up to at most 100, bandwidths to at most the node's; each rule applies to requests
of its own format, and there is no rule where the bandwidth is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.api.kinds.qos_strategy import ResourceQOSStrategy
    from koord.api.kinds.slo_strategies import SystemStrategy

_MOST_PERCENT = 100
_ZERO = Quantity()


def bandwidth_problems(
    qos: ResourceQOSStrategy, system: SystemStrategy, object_name: str, path: str
) -> Iterator[KoordError]:
    """What is wrong with the requests of LSR, LS and BE together.

    Args:
        qos: the merged strategy; malformed quantities are another rule's to report.
        system: the merged system strategy of the same nodes.
        object_name: of the ConfigMap, for errors.
        path: where the QoS strategy stands, for errors.
    """
    bandwidth = system.total_network_bandwidth or _ZERO
    classes = (qos.lsr_class, qos.ls_class, qos.be_class)
    networks = [c.network_qos for c in classes if c is not None and c.network_qos is not None]
    for name in ("ingressRequest", "egressRequest"):
        found = [n.ingress_request if name == "ingressRequest" else n.egress_request
                 for n in networks]  # fmt: skip
        percents = [value for value in found if isinstance(value, int)]
        amounts = [_quantity(value) for value in found if isinstance(value, str)]
        # A plain 0 asks for nothing in either format.
        if amounts and any(percents):
            shown = ", ".join(str(value) for value in found if value is not None)
            expected = "percentages only, or bandwidths only, in all classes"
            yield KoordError(object_name, f"{path}.*.networkQOS.{name}", shown, expected)
            continue
        if sum(percents) > _MOST_PERCENT:
            expected = f"percentages that add up to at most {_MOST_PERCENT}"
            yield KoordError(object_name, f"{path}.*.networkQOS.{name}", sum(percents), expected)
        total = sum(amounts, start=_ZERO)
        if bandwidth > _ZERO and total > bandwidth:
            expected = f"bandwidths that add up to at most {bandwidth}"
            yield KoordError(object_name, f"{path}.*.networkQOS.{name}", str(total), expected)


def _quantity(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except ValueError:
        return _ZERO
