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


class LastAttempt(Struct, omit_defaults=True, rename="camel"):
    """What came of a pod's last attempt.

    Attributes:
        at: seconds since the Unix epoch.
        node: where it went; empty if nowhere.
        message: why nowhere.
    """

    at: float
    node: str = ""
    message: str = ""


class FilterResult(Struct, omit_defaults=True, rename="camel"):
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


class NearestNode(Struct, omit_defaults=True, rename="camel"):
    """A node that is close to fitting.

    Attributes:
        node: its name.
        plugins: the filters that refuse it.
        reasons: what they say.
        missing: by resource, how much more would have to be free (CPU in milli).
        lacks: what else there is too little of, or too much, and by how much: CPUs to bind,
            amounts in a zone, devices, load.
    """

    node: str
    plugins: list[str]
    reasons: list[str]
    missing: dict[str, int] = {}
    lacks: list[str] = []


class ScoredNode(Struct, omit_defaults=True, rename="camel"):
    """A node that the pod may go to, with the scores that the choice is made by.

    Attributes:
        node: its name.
        total: the sum of the plugins' weighted scores.
        by_plugin: those scores.
    """

    node: str
    total: int
    by_plugin: dict[str, int]


class SuggestedChange(Struct, omit_defaults=True, rename="camel"):
    """One change that alone would make the pod fit.

    Attributes:
        text: what to change.
        nodes: how many nodes would then fit.
    """

    text: str
    nodes: int


class GangMembers(Struct, omit_defaults=True, rename="camel"):
    """The pods of one gang.

    Attributes:
        gang: its id.
        pods: how many there are.
        minimum: how many of them must have a node before any is bound; 0 while nobody says so.
        bound: how many are bound.
        held: how many hold a node that they are not bound to yet.
        lacks: how many more pods there must be before any is tried.
        problem: why it is not known what the gang needs.
    """

    gang: str
    pods: int
    minimum: int
    bound: int
    held: int
    lacks: int = 0
    problem: str = ""


class GangForecast(Struct, omit_defaults=True, rename="camel"):
    """The gang of a pod, with those that go together with it, as a whole.

    Attributes:
        members: of each gang of the group.
        goes: whether its pods would be bound now.
        refused: why it cannot be tried at all.
        tried: how many pods that have no node can be tried.
        placed: how many of them would get one, with all of them tried one after the other.
        missing: how many more would have to get one before any is bound.
        first: the first pod that would get none.
        message: why; or why pods are missing though each that was tried would get a node.
        chosen: the node that the explained pod would get with the others.
    """

    members: list[GangMembers]
    goes: bool = False
    refused: str = ""
    tried: int = 0
    placed: int = 0
    missing: int = 0
    first: str = ""
    message: str = ""
    chosen: str = ""


class PodExplanation(Struct, omit_defaults=True, rename="camel"):
    """Everything about one pod.

    Attributes:
        pod: ``namespace/name``.
        node: where it counts now; empty if nowhere.
        state: in which part of the queue it waits, or ``assumed``, ``bound``.
        since: from when on attempts are remembered, seconds since the Unix epoch.
        last: its last attempt, if remembered.
        gang: what would become of its gang as a whole; absent for a pod of none. All else is about
            the pod by itself.
        notes: what is wrong with the pod's own words, or wanting in the whole cluster.
        nodes: how many nodes there are now.
        fitting: how many of them would take the pod now.
        refused: set if the pod is refused before any node is looked at. What follows is then what
            would be without the plugins that refuse it.
        filters: what each filter removes, in the profile's order.
        nearest: nodes that fail the fewest filters by the least, where none fits: those that the
            pod names first, then those that have what kinds of things it wants.
        best: the best nodes with their scores.
        chosen: the node it would go to now, or if it were not refused.
        allocations: what it would get there, by plugin: CPUs, zones, devices, the reservation.
        changes: single changes that would make it fit, where none does.
    """

    pod: str
    state: str
    since: float
    node: str = ""
    last: LastAttempt | None = None
    gang: GangForecast | None = None
    notes: list[str] = []
    nodes: int = 0
    fitting: int = 0
    refused: str = ""
    filters: list[FilterResult] = []
    nearest: list[NearestNode] = []
    best: list[ScoredNode] = []
    chosen: str = ""
    allocations: dict[str, Any] = {}
    changes: list[SuggestedChange] = []


def amount(resource: str, value: int, *, up: bool = False) -> str:
    """An amount of a resource as people write it: CPU in cores or milli, bytes in whole Mi.

    Bytes are rounded down, so that a request may be what is said; up where they are lacking.
    """
    if resource == "cpu":
        return f"{value}m" if value % 1000 else str(value // 1000)
    if resource in _BYTES and abs(value) >= _MEBI:
        return f"{-(-value // _MEBI) if up else value // _MEBI}Mi"
    return str(value)
