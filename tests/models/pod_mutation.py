# SPDX-License-Identifier: Apache-2.0
"""What admission makes of a pod's resources, over plain amounts: slow, and close to the reference.

Amounts are integers: CPU in milli-cores, all else in units.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

Amounts = dict[str, int]
Container = dict[str, Any]
_GPU, _SHARED = "koordinator.sh/gpu", "koordinator.sh/gpu.shared"
_CORE, _RATIO = "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio"
_MENTIONED = (_GPU, _SHARED, _CORE, _RATIO, "koordinator.sh/gpu-memory")


def translated(container: Container, to: str) -> Container:
    """A container of class ``batch`` or ``mid``; others stay.

    Args:
        container: ``requests`` and ``limits``, either may be missing.
        to: the class, without ``koord-``; empty for none.
    """
    found = deepcopy(container)
    if to not in ("batch", "mid"):
        return found
    for name in ("cpu", "memory"):
        own = f"kubernetes.io/{to}-{name}"
        for part in ("requests", "limits"):
            if name in found.get(part, {}):
                found[part][own] = found[part].pop(name)
        if own in found.get("limits", {}) and own not in found.get("requests", {}):
            found.setdefault("requests", {})[own] = found["limits"][own]
    return found


def with_devices(container: Container) -> Container:
    """A container with its shares of GPUs told in full."""
    found = deepcopy(container)
    named = {**found.get("requests", {}), **found.get("limits", {})}
    if not any(name in named for name in _MENTIONED):
        return found
    requests: Amounts = found.setdefault("requests", {})
    limits: Amounts = found.setdefault("limits", {})
    if _GPU in requests:
        share = requests[_GPU]
        for amounts in (requests, limits):
            amounts.pop(_GPU, None)
            amounts[_CORE] = amounts[_RATIO] = share
    if _SHARED not in requests:
        share = requests.get(_RATIO, requests.get(_CORE, 0))
        cards = share // 100 if share > 100 and share % 100 == 0 else 1
        requests[_SHARED] = limits[_SHARED] = cards
    return found


def told(containers: dict[str, Container]) -> dict[str, Container]:
    """What the annotation says of each container, init containers included."""
    found = {}
    for name, container in containers.items():
        parts = {
            part: {
                key: amount
                for key, amount in container.get(part, {}).items()
                if key.startswith(("kubernetes.io/batch-", "kubernetes.io/mid-"))
            }
            for part in ("requests", "limits")
        }
        parts = {part: amounts for part, amounts in parts.items() if amounts}
        if parts:
            found[name] = parts
    return found
