# SPDX-License-Identifier: Apache-2.0
"""Gangs and groups of gangs, with where each of their pods is.

Rule: docs/reference/gangs.md#members.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from koord.api.protocol.gang import topology_order
from koord.controllers.scheduler.plugins.coscheduling.objects import gang_declaration as decl

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.api.kinds.pod import Pod
    from koord.controllers.scheduler.plugins.coscheduling.objects.gang_declaration import (
        GangDeclaration,
    )


class MemberState(Enum):
    """Where a pod of a gang is: without a node, holding one that it is not bound to, bound."""

    PENDING = 0
    WAITING = 1
    BOUND = 2


class GangMember:
    """A pod of a gang, and whether it waits, holds a node or is bound.

    Attributes:
        pod: the last known object.
        uid: its identity.
        key: ``namespace/name``.
        state: see :class:`MemberState`.
        index: its place in the gang's order, -1 for none.
    """

    __slots__ = ("index", "key", "pod", "state", "uid")

    def __init__(self, pod: Pod) -> None:
        self.uid = pod.metadata.uid
        self.key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        self.state = MemberState.PENDING
        self.pod = pod
        self.index = decl.index_of(pod)

    @property
    def order(self) -> tuple[bool, int, str]:
        """Sorts members: by index, those without one last, then by name."""
        return topology_order(self.index, self.key)


class GangGroup:
    """Gangs that are satisfied together.

    Attributes:
        id: the gangs' ids, joined by commas: what others read, and not always one group's alone.
        gangs: the gangs' ids, sorted.
        once_satisfied: a pod of the group has been bound; never taken back, unless its gang joins
            another group.
        round: the pods that were let go to their nodes together, by uid, until all are bound. While
            it lasts, those of them that are bound count as waiting: a round that broke is completed
            rather than begun anew.
        unbound: those of the round that are not bound yet.
        released: those of them that lost their node again, since a binding failed.
        ready: every gang has as many pods as it needs; kept by :class:`GangCache`.
    """

    __slots__ = ("gangs", "id", "once_satisfied", "ready", "released", "round", "unbound")

    def __init__(self, gangs: tuple[str, ...]) -> None:
        self.id = ",".join(gangs)
        self.gangs = gangs
        self.once_satisfied = False
        self.round: frozenset[str] = frozenset()
        self.unbound: set[str] = set()
        self.released: set[str] = set()
        self.ready = False

    def begin(self, uids: Iterable[str]) -> None:
        """Begins a round."""
        self.round = frozenset(uids)
        self.unbound = set(self.round)

    def arrived(self, uid: str) -> None:
        """A pod is bound, or gone; a round without any left is over."""
        self.unbound.discard(uid)
        self.released.discard(uid)
        if not self.unbound:
            self.round = frozenset()

    def hand_over(self, other: GangGroup, uids: Iterable[str]) -> None:
        """Some pods are of another group now, and with them what is left of their round."""
        mine = frozenset(uids)
        left = self.unbound & mine
        if left:
            other.round |= self.round & mine
            other.unbound |= left
            other.released |= self.released & mine
        for uid in left:
            self.arrived(uid)


class Gang:
    """Pods that are placed together: what was declared of them, and its members by uid.

    Attributes:
        id: ``namespace/name``.
        declared: what it wants; None until a pod or a PodGroup says so.
        group: the gangs it is satisfied with; None until declared.
        error: why the last pod or PodGroup that tried did not declare it.
        created_seconds: wall time when it was first seen.
        members: its pods by uid.
    """

    __slots__ = ("_counts", "created_seconds", "declared", "error", "group", "id", "members")

    def __init__(self, gang_id: str, created_seconds: float) -> None:
        self.id = gang_id
        self.declared: GangDeclaration | None = None
        self.group: GangGroup | None = None
        self.error = ""
        self.created_seconds = created_seconds
        self.members: dict[str, GangMember] = {}
        self._counts = dict.fromkeys(MemberState, 0)

    @property
    def minimum(self) -> int:
        """How many pods it needs; 0 while it is not declared."""
        return self.declared.minimum if self.declared is not None else 0

    @property
    def complete(self) -> bool:
        """Whether it is declared and has as many pods as it needs."""
        return self.declared is not None and len(self.members) >= self.declared.minimum

    @property
    def satisfied(self) -> bool:
        """Whether once is enough, and was."""
        if self.declared is None or self.group is None:
            return False
        return self.declared.policy == decl.ONCE_SATISFIED and self.group.once_satisfied

    @property
    def free(self) -> bool:
        """Whether its pods need not wait for each other any more.

        Those of a Strict gang do until a round that broke is complete.
        """
        if not self.satisfied or self.declared is None or self.group is None:
            return False
        return self.declared.mode == decl.NON_STRICT or not self.group.released

    def names(self, gang_id: str) -> bool:
        """Whether it is this gang, or wants to go with it."""
        return gang_id == self.id or (self.group is not None and gang_id in self.group.gangs)

    def count(self, state: MemberState) -> int:
        """How many pods are in a state."""
        return self._counts[state]

    def of(self, state: MemberState) -> list[GangMember]:
        """The pods in a state, in the gang's order."""
        found = [member for member in self.members.values() if member.state is state]
        return sorted(found, key=lambda member: member.order)

    def missing(self) -> int:
        """How many more pods must hold a node before any may be bound.

        Rule: docs/reference/gangs.md#permit.
        """
        if self.declared is None or self.group is None:
            return 1
        if self.satisfied:
            return 0 if self.free else len(self.group.released.intersection(self.members))
        held = self._counts[MemberState.WAITING]
        if self.declared.policy == decl.WAITING_AND_RUNNING:
            held += self._counts[MemberState.BOUND]
        elif self.declared.policy == decl.ONLY_WAITING and self.group.round:
            held += sum(
                1 for uid in self.group.round
                if (member := self.members.get(uid)) and member.state is MemberState.BOUND
            )  # fmt: skip
        return max(0, self.declared.minimum - held)

    def put(self, pod: Pod) -> GangMember:
        """Takes in a pod, or its new state."""
        uid = pod.metadata.uid
        member = self.members.get(uid)
        if member is None:
            member = self.members[uid] = GangMember(pod)
            self._counts[MemberState.PENDING] += 1
        else:
            member.pod, member.index = pod, decl.index_of(pod)
        return member

    def move(self, member: GangMember, state: MemberState) -> None:
        """Notes that a pod is in another state."""
        self._counts[member.state] -= 1
        self._counts[state] += 1
        member.state = state

    def remove(self, uid: str) -> None:
        """Forgets a pod; nothing happens if it is not known."""
        member = self.members.pop(uid, None)
        if member is not None:
            self._counts[member.state] -= 1


def ordered(gangs: Iterable[Gang], state: MemberState) -> list[GangMember]:
    """The pods of several gangs in a state, gang by gang."""
    return [member for gang in gangs for member in gang.of(state)]
