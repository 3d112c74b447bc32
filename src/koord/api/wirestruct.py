# SPDX-License-Identifier: Apache-2.0
"""The base of every type that crosses the wire, and how its field names are spelled there."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")

# Words that the wire writes in capitals when they are not the first of a name.
_CAPITALS = {
    "be": "BE",
    "bps": "BPS",
    "cidr": "CIDR",
    "cpu": "CPU",
    "cpus": "CPUs",
    "id": "ID",
    "iops": "IOPS",
    "ip": "IP",
    "numa": "NUMA",
    "qos": "QOS",
}


def wire_name(name: str) -> str:
    """``cpu_evict_be_usage_threshold_percent`` as ``cpuEvictBEUsageThresholdPercent``."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(_CAPITALS.get(word, word.capitalize()) for word in rest)


class WireStruct(msgspec.Struct, omit_defaults=True, rename=wire_name, gc=False):
    """A JSON object of the wire: unknown keys are ignored, fields at their default are left out.

    Every field has a default, because absence is legal everywhere on the wire; what a server
    requires stands in the CRD schema.
    """


def emitted(empty: type[T]) -> T:
    """A default that is written out all the same, for fields that servers or peers require.

    Args:
        empty: ``int``, ``str``, ``bool`` or ``list``; its empty value is the default.
    """
    # A default that a function makes is never recognised as "still at its default".
    return msgspec.field(default_factory=lambda: empty())
