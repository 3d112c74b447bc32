# SPDX-License-Identifier: Apache-2.0
"""All gangs there are, kept from pods and PodGroups (docs/reference/gangs.md#declaration)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.scheduler.job_planning.plan import GangCounts
from koord.controllers.scheduler.plugins.coscheduling import reasons
from koord.controllers.scheduler.plugins.coscheduling.objects import gang_declaration as decl
from koord.controllers.scheduler.plugins.coscheduling.state.gangs import (
    Gang,
    GangGroup,
    MemberState,
    ordered,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from koord.api.kinds.pod import Pod
    from koord.api.kinds.quota import PodGroup
    from koord.controllers.scheduler.plugins.coscheduling.objects.gang_declaration import (
        GangDeclaration,
        GangDefaults,
    )

_LOG = log.get("scheduler.coscheduling")
_OVER = ("Succeeded", "Failed")


class GangCache:
    """Gangs by id, groups by the ids of their gangs.

    Args:
        defaults: for what declarations do not say.
        wall_seconds: the time.
        complete: told of the uids of pending pods once a group has all the pods it needs.
    """

    def __init__(
        self,
        defaults: GangDefaults,
        wall_seconds: Callable[[], float],
        complete: Callable[[Iterable[str]], None],
    ) -> None:
        self._defaults = defaults
        self._wall_seconds = wall_seconds
        self._complete = complete
        self.gangs: dict[str, Gang] = {}
        self.groups: dict[tuple[str, ...], GangGroup] = {}
        self._gang_of: dict[str, Gang] = {}
        # Pods that name another gang than when they got their nodes, and that gang.
        self._stays_in: dict[str, str] = {}
        # Told of these, with the gang that counts, and with None once they name it again.
        self.on_late: Callable[[Pod, str | None], None] = lambda pod, gang: None
        self._groups_with: dict[str, list[GangGroup]] = {}
        self._pod_groups: dict[str, PodGroup] = {}

    def of(self, uid: str) -> Gang | None:
        """The gang of a pod that was seen."""
        return self._gang_of.get(uid)

    def group(self, gang: Gang) -> list[Gang]:
        """The known gangs of a gang's group, in the group's order; itself if it has none yet."""
        if gang.group is None:
            return [gang]
        return self._known(gang.group)

    def _known(self, group: GangGroup) -> list[Gang]:
        return [self.gangs[name] for name in group.gangs if name in self.gangs]

    # What the API says.

    def concerned(self, pods: list[Pod]) -> list[Pod]:
        """Those pods of which :meth:`pod_changed` must be told."""
        found: list[Pod] = []
        labels: dict[str, str] | None = None
        annotations: dict[str, str] | None = None
        for pod in pods:
            meta = pod.metadata
            # The pods of a workload come together, and share these.
            if meta.labels is not labels or meta.annotations is not annotations:
                labels, annotations = meta.labels, meta.annotations
                in_gang = bool(decl.gang_id(pod))
            if in_gang or meta.uid in self._gang_of:
                found.append(pod)
        return found

    def pod_changed(self, pod: Pod) -> None:
        """A pod came, changed, or got its node."""
        uid = pod.metadata.uid
        gang_id = self._stays_in.get(uid)
        if gang_id is None:
            gang_id = decl.gang_id(pod)
        before = self._gang_of.get(uid)
        if before is not None and before.id != gang_id:
            self.pod_deleted(uid)
            before = None
        if not gang_id:
            return
        if pod.status.phase in _OVER and (before is not None or not pod.spec.node_name):
            if not pod.spec.node_name:
                self.pod_deleted(uid)
            return
        gang = self._gang(gang_id)
        if gang.declared is None and not decl.by_pod_group(pod):
            self._declare_by_pod(gang, pod)
        gang.put(pod)
        self._gang_of[uid] = gang
        if pod.spec.node_name:
            self._bound(gang, uid)
        self._check(gang)

    def pod_updated(self, old: Pod, pod: Pod) -> None:
        """A pod changed. One that has a node stays in the gang in which it got that.

        Rule: docs/reference/gangs.md#members.
        """
        uid = pod.metadata.uid
        meta, before = pod.metadata, old.metadata
        same = meta.labels == before.labels and meta.annotations == before.annotations
        bound = old.spec.node_name and pod.spec.node_name and before.uid == uid
        if bound and not same:
            gang_id, was = decl.gang_id(pod), self._stays_in.get(uid)
            first = decl.gang_id(old) if was is None else was
            if gang_id != first:
                self._stays_in[uid] = first
                self.on_late(pod, first)
            elif was is not None:
                del self._stays_in[uid]
                self.on_late(pod, None)
        self.pod_changed(pod)

    def pod_gone(self, uid: str) -> None:
        """A pod was deleted; what it said does not matter any more."""
        self._stays_in.pop(uid, None)
        self.pod_deleted(uid)

    def pod_deleted(self, uid: str) -> None:
        """A pod went; of those that wait still, one is tried again in its place."""
        gang = self._gang_of.pop(uid, None)
        if gang is None:
            return
        was_pending = gang.members[uid].state is MemberState.PENDING
        gang.remove(uid)
        group = gang.group
        if group is not None:
            group.arrived(uid)
        self._check(gang)
        if was_pending and group is not None and group.ready:
            self._complete(
                [member.uid for member in ordered(self.group(gang), MemberState.PENDING)[:1]]
            )
        self._forget_if_empty(gang)

    def pod_group_changed(self, pod_group: PodGroup) -> None:
        """A PodGroup came or changed: its gang is declared anew, and with whom it goes."""
        gang_id = f"{pod_group.metadata.namespace}/{pod_group.metadata.name}"
        self._pod_groups[gang_id] = pod_group
        gang = self._gang(gang_id)
        try:
            declared = decl.of_pod_group(pod_group, gang_id, self._defaults)
        except KoordError as error:
            self._undeclare(gang, str(error))
            _LOG.warning("a PodGroup declares no gang", extra=log.fields(error=str(error)))
        else:
            self._declare(gang, declared)
            self._check(gang)

    def pod_group_deleted(self, pod_group: PodGroup) -> None:
        """A PodGroup went, and with it what its gang wanted; the pods stay."""
        gang_id = f"{pod_group.metadata.namespace}/{pod_group.metadata.name}"
        self._pod_groups.pop(gang_id, None)
        gang = self.gangs.get(gang_id)
        if gang is None:
            return
        self._undeclare(gang)
        self._forget_if_empty(gang)

    # What the scheduler does.

    def reserved(self, uid: str) -> bool:
        """A pod holds a node that it is not bound to yet; whether that is news."""
        gang = self._gang_of.get(uid)
        if gang is None or gang.members[uid].state is not MemberState.PENDING:
            return False
        gang.move(gang.members[uid], MemberState.WAITING)
        if gang.group is not None:
            gang.group.released.discard(uid)
        return True

    def unreserved(self, uid: str) -> bool:
        """A pod lost the node that it held; whether it held one."""
        gang = self._gang_of.get(uid)
        if gang is None or gang.members[uid].state is not MemberState.WAITING:
            return False
        gang.move(gang.members[uid], MemberState.PENDING)
        if gang.group is not None and uid in gang.group.unbound:
            gang.group.released.add(uid)
        return True

    def bound(self, uid: str) -> None:
        """A pod has its node for good."""
        gang = self._gang_of.get(uid)
        if gang is not None:
            self._bound(gang, uid)

    def let_go(self, gang: Gang) -> list[Gang]:
        """All waiting pods of a gang's group go to their nodes now; see :attr:`GangGroup.round`.

        Gives whose pods go. Of gangs that are listed, but are in another group themselves, only
        those go that miss nothing there: a list of one tenant's moves no pods of another's.
        """
        going, lacks = [], dict[tuple[GangGroup | None, bool], int]()
        for each in self.group(gang):
            # What gangs of one group lack is counted once.
            at = each.group, each.satisfied
            if each is not gang and not each.free and at not in lacks:
                lacks[at] = self.missing(each)
            if each is gang or each.free or not lacks[at]:
                going.append(each)
        group = gang.group
        if group is not None and not group.round:
            group.begin(member.uid for member in ordered(going, MemberState.WAITING))
        return going

    def may_go(self, gang: Gang) -> bool:
        """Whether a gang's pods that hold nodes need not wait for others."""
        return gang.free or not self.missing(gang)

    # What it takes.

    def blocking_reason(self, pod: Pod) -> str:
        """Why a pod cannot be tried yet, ``""`` if it can: basic check.

        The pod must have been seen. Rule: docs/reference/gangs.md#before-the-queue.
        """
        gang_id = decl.gang_id(pod)
        gang = self.gangs.get(gang_id)
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if gang is None:
            return reasons.unknown_gang(gang_id, key)
        if gang.declared is None or gang.group is None:
            return reasons.undeclared(gang_id, key, gang.error)
        if gang.satisfied or gang.group.ready:
            return ""
        unknown, undeclared, short = self._incomplete(gang.group)
        return reasons.incomplete(gang.group.gangs, unknown, undeclared, short, gang_id, key)

    def gang_counts(self, gang: Gang) -> list[GangCounts]:
        """How many pods the gangs of a gang's group have, in the group's order."""
        if gang.group is None:
            return [_gang_counts(gang.id, gang)]
        return [_gang_counts(name, self.gangs.get(name)) for name in gang.group.gangs]

    @contextmanager
    def with_minimum(self, gang_id: str, minimum: int) -> Iterator[None]:
        """As if a gang that has said what it needs had asked for another number of pods."""
        gang, groups = self.gangs[gang_id], self._groups_with.get(gang_id, ())
        declared, ready = gang.declared, [group.ready for group in groups]
        assert declared is not None
        gang.declared = declared._replace(minimum=minimum)
        for group in groups:
            group.ready = self._is_ready(group)
        try:
            yield
        finally:
            gang.declared = declared
            for group, was in zip(groups, ready, strict=True):
                group.ready = was

    def _is_ready(self, group: GangGroup) -> bool:
        known = self._known(group)
        return len(known) == len(group.gangs) and all(each.complete for each in known)

    def missing(self, gang: Gang) -> int:
        """How many pods must still find a node before the gang's group may go, over all gangs."""
        if gang.group is None:
            return 1
        if gang.satisfied:
            return sum(each.missing() for each in self.group(gang) if each.satisfied)
        unknown = sum(1 for name in gang.group.gangs if name not in self.gangs)
        return unknown + sum(each.missing() for each in self.group(gang))

    def _incomplete(self, group: GangGroup) -> tuple[list[str], list[str], list[str]]:
        known = [name for name in group.gangs if name in self.gangs]
        undeclared = [name for name in known if self.gangs[name].declared is None]
        short = [name for name in known if name not in undeclared and not self.gangs[name].complete]
        return [name for name in group.gangs if name not in self.gangs], undeclared, short

    # Inside.

    def _gang(self, gang_id: str) -> Gang:
        gang = self.gangs.get(gang_id)
        if gang is None:
            gang = self.gangs[gang_id] = Gang(gang_id, self._wall_seconds())
        return gang

    def _declare_by_pod(self, gang: Gang, pod: Pod) -> None:
        try:
            declared = decl.of_pod(pod, gang.id, self._defaults)
        except KoordError as error:
            gang.error = str(error)
            _LOG.warning("a pod declares no gang", extra=log.fields(error=str(error)))
        else:
            self._declare(gang, declared)

    def _declare(self, gang: Gang, declared: GangDeclaration) -> None:
        gang.declared, gang.error = declared, ""
        before = gang.group
        if before is not None and before.gangs == declared.groups:
            return
        self._leave(gang)
        gang.group = self._join(GangGroup(declared.groups))
        if gang.count(MemberState.BOUND):
            gang.group.once_satisfied = True
        if before is not None:
            before.hand_over(gang.group, gang.members)
            # Satisfied by the gang that left, it is not: so a scheduler that begins finds it.
            there = (each for each in self._known(before) if each.group is before)
            before.once_satisfied = any(each.count(MemberState.BOUND) for each in there)

    def _undeclare(self, gang: Gang, error: str = "") -> None:
        """Nobody says any more what a gang wants, nor with whom: it is as a pod alone makes it."""
        gang.declared, gang.error = None, error
        self._leave(gang)
        self._check(gang)

    def _bound(self, gang: Gang, uid: str) -> None:
        gang.move(gang.members[uid], MemberState.BOUND)
        if gang.group is not None:
            gang.group.once_satisfied = True
            gang.group.arrived(uid)

    def _join(self, group: GangGroup) -> GangGroup:
        # Not by its id: a gang that an annotation names may have a comma in its name.
        known = self.groups.get(group.gangs)
        if known is None:
            known = self.groups[group.gangs] = group
            for name in group.gangs:
                self._groups_with.setdefault(name, []).append(group)
        return known

    def _check(self, gang: Gang) -> None:
        """Tells of a group's pods at the moment when it has all it needs."""
        for group in self._groups_with.get(gang.id, ()):
            ready = self._is_ready(group)
            became, group.ready = ready and not group.ready, ready
            if became:
                pending = ordered(self._known(group), MemberState.PENDING)
                self._complete([member.uid for member in pending])

    def _forget_if_empty(self, gang: Gang) -> None:
        """Drops a gang that has neither pods nor a PodGroup."""
        if gang.members or gang.id in self._pod_groups:
            return
        del self.gangs[gang.id]
        self._leave(gang)

    def _leave(self, gang: Gang) -> None:
        """Takes a gang out of its group, which goes with its last gang."""
        group, gang.group = gang.group, None
        if group is None or any(each.group is group for each in self._known(group)):
            return
        self.groups.pop(group.gangs, None)
        for name in group.gangs:
            others = self._groups_with[name]
            others.remove(group)
            if not others:
                del self._groups_with[name]


def _gang_counts(name: str, gang: Gang | None) -> GangCounts:
    if gang is None:
        return GangCounts(name, problem="there is neither a pod nor a PodGroup of it")
    counts = (len(gang.members), gang.count(MemberState.BOUND), gang.count(MemberState.WAITING))
    if gang.declared is None:
        return GangCounts(name, 0, *counts, problem=gang.error or "nobody says what it needs")
    lacks = 0 if gang.satisfied else max(0, gang.minimum - len(gang.members))
    return GangCounts(name, gang.minimum, *counts, lacks)
