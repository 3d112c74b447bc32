# SPDX-License-Identifier: Apache-2.0
"""Percentages that are a share of a whole, so that more than 100 can only be a typing error.

Koordinator's manager follows them: 165 percent of a node are offered as batch. Here they count as
100. Percentages that mean something beyond 100 (``cpuBurstPercent``, ``cfsQuotaBurstPercent``, the
thresholds of what batch pods use of what is allocatable) are none of these.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import msgspec

from koord.api.kinds.qos_strategy import MemoryQOS
from koord.api.sloconfig.strategies import ColocationStrategy

WHOLE = 100
_MOST_INT64 = 2**63 - 1

SHARES: dict[type, frozenset[str]] = {
    ColocationStrategy: frozenset({
        "cpuReclaimThresholdPercent",
        "memoryReclaimThresholdPercent",
        "batchCPUThresholdPercent",
        "batchMemoryThresholdPercent",
        "midStaticCPUReservedPercent",
        "midStaticMemoryReservedPercent",
    }),
    MemoryQOS: frozenset({"minLimitPercent", "lowLimitPercent", "throttlingPercent"}),
}  # fmt: skip
"""By type of strategy, the wire names of those that Koordinator's manager takes beyond 100."""

T = TypeVar("T", bound=msgspec.Struct)


class Excess(NamedTuple):
    """A share of more than the whole.

    Args:
        path: where in the strategy it stands.
        value: what it says.
    """

    path: str
    value: int


def bounded(strategy: T, path: str = "") -> tuple[T, list[Excess]]:
    """A strategy whose shares are 100 at most, and those that were more.

    Args:
        strategy: as it is written, or merged; left unchanged, and returned if nothing is above.
        path: where it stands.
    """
    shares = SHARES.get(type(strategy), frozenset())
    changes: dict[str, object] = {}
    found: list[Excess] = []
    for field in msgspec.structs.fields(type(strategy)):
        value, where = getattr(strategy, field.name), f"{path}.{field.encode_name}".lstrip(".")
        if isinstance(value, msgspec.Struct):
            inner, more = bounded(value, where)
            if more:
                changes[field.name] = inner
                found += more
        # An integer of more than 64 bits is malformed, which is for others to say.
        elif field.encode_name in shares and value is not None and WHOLE < value <= _MOST_INT64:
            changes[field.name] = WHOLE
            found.append(Excess(where, value))
    return (msgspec.structs.replace(strategy, **changes) if changes else strategy), found
