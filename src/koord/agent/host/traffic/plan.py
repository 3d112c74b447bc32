# SPDX-License-Identifier: Apache-2.0
"""What the traffic of a node is to be: classes of its link, and what belongs to each.

Rule: docs/reference/hooks.md#tcnetworkqos. Rates are bytes per second.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

MAJOR: Final = 1
ROOT, SYSTEM, LS, BE = 1, 2, 3, 4
SYSTEM_GROUP, LS_GROUP, BE_GROUP = 0xFFF2, 0xFFF3, 0xFFF4
LAYOUT: Final = {
    ROOT: 0,
    SYSTEM_GROUP: ROOT,
    LS_GROUP: ROOT,
    BE_GROUP: ROOT,
    SYSTEM: SYSTEM_GROUP,
    LS: LS_GROUP,
    BE: BE_GROUP,
}
"""The classes that are always there, each with the one above it; 0 is the root qdisc."""

POD_MINORS: Final = range(0x10, 0xFFF0)
"""Minor numbers of classes of single pods."""


class TrafficClass(NamedTuple):
    """One HTB class.

    Attributes:
        minor: of its handle ``1:minor``.
        parent: minor of the class above; 0 for the root qdisc.
        rate_bytes: what it gets in any case, bytes per second.
        ceil_bytes: what it gets at most.
        priority: who is served first of what others leave; least first.
    """

    minor: int
    parent: int
    rate_bytes: int
    ceil_bytes: int
    priority: int


@dataclass(frozen=True)
class TrafficPlan:
    """The whole of it.

    Attributes:
        classes: each after the one above it.
        addresses: minor by source address; no address of the node itself.
        cgroups: minor by cgroup directory, of pods in the node's network.
    """

    classes: tuple[TrafficClass, ...] = ()
    addresses: Mapping[str, int] = field(default_factory=dict)
    cgroups: Mapping[str, int] = field(default_factory=dict)

    def text(self) -> str:
        """As one line, the same for the same plan; empty for none."""
        if not self.classes:
            return ""
        parts = {
            "classes": self.classes,
            "addresses": self.addresses,
            "cgroups": self.cgroups,
        }
        return json.dumps(parts, sort_keys=True, separators=(",", ":"))


def plan_of(text: str) -> TrafficPlan:
    """The plan of a line.

    Raises:
        ValueError: it is no plan.
    """
    if not text:
        return TrafficPlan()
    try:
        parts = json.loads(text)
        classes = tuple(TrafficClass(*(int(number) for number in row)) for row in parts["classes"])
        addresses = {str(name): int(minor) for name, minor in parts["addresses"].items()}
        cgroups = {str(name): int(minor) for name, minor in parts["cgroups"].items()}
    except (TypeError, KeyError, AttributeError, RecursionError):
        raise ValueError("no plan of traffic classes") from None
    return TrafficPlan(classes, addresses, cgroups)


def handle(minor: int) -> int:
    """A class's handle, which is also its classid."""
    return MAJOR << 16 | minor
