# SPDX-License-Identifier: Apache-2.0
"""What an explanation says: JSON for scripts, and what the command line draws tables from."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

_MEBI = 1 << 20
_BYTES = (
    "memory", "ephemeral-storage", "kubernetes.io/batch-memory", "kubernetes.io/mid-memory",
    "koordinator.sh/gpu-memory",
)  # fmt: skip


class Attempt(Struct, omit_defaults=True, rename="camel"):
    """What came of a pod's last attempt.

    Attributes:
        at: seconds since the Unix epoch.
        node: where it went; empty if nowhere.
        message: why nowhere.
    """

    at: float
    node: str = ""
    message: str = ""


class Removed(Struct, omit_defaults=True, rename="camel"):
    """What one filter took away.

    Attributes:
        plugin: the filter.
        nodes: how many nodes it refuses, whatever the others say.
        first: how many of them no filter before it refuses.
        reasons: of those, nodes by reason.
    """

    plugin: str
    nodes: int
    first: int
    reasons: dict[str, int]


class Near(Struct, omit_defaults=True, rename="camel"):
    """A node that is close to fitting.

    Attributes:
        node: its name.
        plugins: the filters that refuse it.
        reasons: what they say.
        missing: by resource, how much more would have to be free (CPU in milli).
    """

    node: str
    plugins: list[str]
    reasons: list[str]
    missing: dict[str, int] = {}


class Scored(Struct, omit_defaults=True, rename="camel"):
    """A node that fits.

    Attributes:
        node: its name.
        total: the sum of the plugins' weighted scores.
        by_plugin: those scores.
    """

    node: str
    total: int
    by_plugin: dict[str, int]


class Change(Struct, omit_defaults=True, rename="camel"):
    """One change that alone would make the pod fit.

    Attributes:
        text: what to change.
        nodes: how many nodes would then fit.
    """

    text: str
    nodes: int


class Explanation(Struct, omit_defaults=True, rename="camel"):
    """Everything about one pod.

    Attributes:
        pod: ``namespace/name``.
        node: where it counts now; empty if nowhere.
        state: in which part of the queue it waits, or ``assumed``, ``bound``.
        since: from when on attempts are remembered, seconds since the Unix epoch.
        last: its last attempt, if remembered.
        nodes: how many nodes there are now.
        fitting: how many of them would take the pod now.
        refused: set if the pod is refused before any node is looked at.
        filters: what each filter removes, in the profile's order.
        nearest: nodes that fail the fewest filters by the least, where none fits.
        best: the best nodes with their scores.
        chosen: the node it would go to now.
        allocations: what it would get there, by plugin: CPUs, zones, devices, the reservation.
        changes: single changes that would make it fit, where none does.
    """

    pod: str
    state: str
    since: float
    node: str = ""
    last: Attempt | None = None
    nodes: int = 0
    fitting: int = 0
    refused: str = ""
    filters: list[Removed] = []
    nearest: list[Near] = []
    best: list[Scored] = []
    chosen: str = ""
    allocations: dict[str, Any] = {}
    changes: list[Change] = []


def amount(resource: str, value: int) -> str:
    """An amount of a resource as people write it: CPU in cores or milli, bytes in whole Mi.

    Bytes are rounded down, so that a request may be what is said.
    """
    if resource == "cpu":
        return f"{value}m" if value % 1000 else str(value // 1000)
    if resource in _BYTES and abs(value) >= _MEBI:
        return f"{value // _MEBI}Mi"
    return str(value)
