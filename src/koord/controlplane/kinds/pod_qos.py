# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes QoS class of a pod: Guaranteed, Burstable or BestEffort."""

from __future__ import annotations

from typing import Any

from koord.api.protocol.qos import qos_from_resources
from koord.controlplane.kinds.quantities import parsed
from koord.kernels.quantity import Quantity

Document = dict[str, Any]
_COUNTED = ("cpu", "memory")


def qos_class(spec: Document) -> str:
    """The class; amounts for the whole pod take the place of the containers'."""
    whole = spec.get("resources")
    if whole is not None:
        owners = [whole]
    else:
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        owners = [each.get("resources") or {} for each in containers]
    amounts = ((_amounts(each, "requests"), _amounts(each, "limits")) for each in owners)
    return qos_from_resources(amounts).value


def _amounts(resources: Document, part: str) -> dict[str, Quantity]:
    found = resources.get(part) or {}
    return {name: parsed(found[name]) for name in _COUNTED if found.get(name) is not None}
