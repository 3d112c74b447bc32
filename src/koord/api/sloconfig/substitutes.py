# SPDX-License-Identifier: Apache-2.0
"""Values that can only be typing errors and that have an obvious reading, which is taken instead.

Percentages that are a share of a whole count as 100 beyond that. Koordinator's manager follows
them: it offers 165 percent of a node as batch. Those that mean something beyond 100
(``cpuBurstPercent``, ``cfsQuotaBurstPercent``, the thresholds of what batch pods use of what is
allocatable) are none of these. A calculation policy that nobody knows is ``usage``, as at
Koordinator.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import msgspec

from koord.api.kinds.qos_strategy import MemoryQOS
from koord.api.sloconfig.strategies import ColocationStrategy

WHOLE = 100
SHARE = f"a number from 0 to {WHOLE}"
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
"""By type of strategy, the wire names of shares that Koordinator's manager takes beyond 100."""

USAGE = "usage"
POLICIES: dict[type, dict[str, tuple[str, ...]]] = {
    ColocationStrategy: {
        "cpuCalculatePolicy": (USAGE, "maxUsageRequest", "requestRatio"),
        "memoryCalculatePolicy": (USAGE, "request", "maxUsageRequest", "requestRatio"),
    },
}
"""By type of strategy, texts that are :data:`USAGE` where they are none of these."""

T = TypeVar("T", bound=msgspec.Struct)


class Substitute(NamedTuple):
    """A value in the place of which another is taken.

    Args:
        path: where it stands.
        value: what is written.
        expected: what would be right.
        taken: what is taken instead.
    """

    path: str
    value: int | str
    expected: str
    taken: int | str


def bounded(strategy: T, path: str = "") -> tuple[T, list[Substitute]]:
    """A strategy as it is taken, and what of it is not as it is written.

    Args:
        strategy: as it is written, or merged; left unchanged, and returned if nothing is wrong.
        path: where it stands.
    """
    kind = type(strategy)
    shares, policies = SHARES.get(kind, frozenset()), POLICIES.get(kind, {})
    changes: dict[str, object] = {}
    found: list[Substitute] = []
    for field in msgspec.structs.fields(kind):
        value, name = getattr(strategy, field.name), field.encode_name
        where = f"{path}.{name}".lstrip(".")
        if isinstance(value, msgspec.Struct):
            inner, more = bounded(value, where)
            if more:
                changes[field.name] = inner
                found += more
        # An integer of more than 64 bits is malformed, which is for others to say.
        elif name in shares and value is not None and WHOLE < value <= _MOST_INT64:
            found.append(Substitute(where, value, SHARE, WHOLE))
        elif name in policies and value and value not in policies[name]:
            found.append(Substitute(where, value, "one of " + ", ".join(policies[name]), USAGE))
        if found and found[-1].path == where:
            changes[field.name] = found[-1].taken
    return (msgspec.structs.replace(strategy, **changes) if changes else strategy), found
