# SPDX-License-Identifier: Apache-2.0
"""Which pod is charged to which group, and for what: its request while it exists, its use while it
holds a node.

A pod is known from two sides. The API says that it exists (*listed*) and whether it is bound; the
scheduler says that it counts on a node (*placed*): assumed, bound, or moved in a what-if. A charge
follows from these facts and the groups that exist, so every change has an exact inverse, and the
order in which they are told does not matter.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from koord.controllers.scheduler.plugins.elasticquota.objects.pod_request import (
    QuotaRequest,
    SignedCharge,
    reading,
)
from koord.controllers.scheduler.plugins.elasticquota.state.quota_index import AffectedPods
from koord.controllers.scheduler.plugins.reservation.objects.reserve_pod import (
    stands_for_reservation,
)

if TYPE_CHECKING:
    from koord.base.errors import KoordError
    from koord.controllers.cluster.pods import ContainerRequests, PodInfo, PodShape
    from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import (
        GroupKey,
        QuotaTrees,
    )

ENDED = ("Succeeded", "Failed")


class TerminatingPolicy(Enum):
    """When a pod that is being deleted is no longer charged.

    AT_END: when it is gone. AFTER_GRACE: when its grace period has passed once more after its
    deletion time (gate ``ElasticQuotaIgnoreTerminatingPod``). AT_ONCE: right away (gate
    ``ElasticQuotaImmediateIgnoreTerminatingPod``).
    """

    AT_END = 0
    AFTER_GRACE = 1
    AT_ONCE = 2


class QuotaClaim:
    """Pods that find their quota in the same way: by the same label, or none, in one namespace.

    Attributes:
        place: where they are charged, None for nowhere.
        problem: why they can be charged nowhere, None if nobody manages them.
        pods: by uid.
        lesser: how many of those that may be preempted are in use, by priority.
    """

    __slots__ = ("label", "lesser", "namespace", "place", "pods", "problem")

    def __init__(self, label: str, namespace: str) -> None:
        self.label = label
        self.namespace = namespace
        self.place: GroupKey | None = None
        self.problem: KoordError | None = None
        self.pods: dict[str, ChargedPod] = {}
        self.lesser: Counter[int] = Counter()


class ChargedPod(msgspec.Struct, eq=False):
    """One pod, with the facts that its charge follows from: listed, bound, placed on a node.

    Attributes:
        stands: it stands for a Reservation, in whose place its owners are charged.
        ignored: it is being deleted and no longer charged.
        withdrawn: the scheduler took it off its node although the API says it is bound there.
        requested: it is charged for its request, in the place of its claim.
        used: and for its use.
    """

    pod: PodInfo
    claim: QuotaClaim
    reading: QuotaRequest
    amounts: SignedCharge
    stands: bool = False
    listed: bool = False
    bound: bool = False
    placed: bool = False
    ignored: bool = False
    withdrawn: bool = False
    requested: bool = False
    used: bool = False


_ClaimTable = defaultdict[str, set[QuotaClaim]]


class QuotaLedger:
    """Charges pods to quota groups: requests while they exist, use while they hold a node.

    Args:
        groups: whose trees are charged.
        overhead: charge pods' overhead too (off by gate ``ElasticQuotaIgnorePodOverhead``).
        terminating: when a pod that is being deleted is no longer charged.
        now: wall time in seconds.
    """

    def __init__(
        self,
        groups: QuotaTrees,
        *,
        overhead: bool = True,
        terminating: TerminatingPolicy = TerminatingPolicy.AT_END,
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._groups = groups
        self._overhead = overhead
        self._terminating = terminating
        self._now = now
        self._entries: dict[str, ChargedPod] = {}
        self._claims: dict[tuple[str, str], QuotaClaim] = {}
        self._by_label: defaultdict[str, set[QuotaClaim]] = defaultdict(set)
        self._by_namespace: defaultdict[str, set[QuotaClaim]] = defaultdict(set)
        self._by_group: defaultdict[str, set[QuotaClaim]] = defaultdict(set)
        self._ending: dict[str, float] = {}
        self._withdrawn: set[str] = set()
        # Recounts under way are told of charges before they are made: the entry, its group, and
        # whether the pod is charged for its request and for its use from now on.
        self.recounts: list[Callable[[ChargedPod, str, bool, bool], None]] = []
        # Told of pods whose use begins or ends to count: group, pod, whether it counts.
        self.on_use: Callable[[str, PodInfo, bool], None] | None = None
        # Whether a pod was placed by this process: it keeps the quota that it had then.
        self.is_decided: Callable[[str], bool] = lambda uid: False
        groups.on_moved = self._moved
        groups.on_counted = self._counted

    def __len__(self) -> int:
        return len(self._entries)

    def list_pod(self, pod: PodInfo) -> None:
        """The API says that there is such a pod, or what it is now like."""
        api = pod.pod
        if api.status.phase in ENDED:
            self.unlist(pod.uid)
            return
        entry = self._entry(pod)
        entry.listed = True
        entry.bound = bool(api.spec.node_name)
        entry.withdrawn = False
        if api.metadata.deletion_timestamp is not None:
            self._judge_ending(entry)
        self._settle(entry)

    def list_pods(self, pods: Iterable[PodInfo]) -> None:
        """The same as :meth:`list_pod` for each, charging equal new ones together."""
        # By what they are charged for: those that only ask, and those that are bound.
        charges: dict[
            tuple[QuotaClaim, ContainerRequests, bool], tuple[list[ChargedPod], list[ChargedPod]]
        ] = {}
        others: list[PodInfo] = []
        # Those of a workload come together.
        for shape, alike in groupby(pods, attrgetter("shape")):
            read, claim = reading(shape), None
            for pod in alike:
                api, uid = pod.pod, pod.uid
                ends = api.metadata.deletion_timestamp is not None or api.status.phase in ENDED
                if ends or read.reserves or uid in self._entries:
                    others.append(pod)
                    continue
                if claim is None:
                    claim, amounts = self.claim(shape), self._amounts(read)
                    key = claim, shape.container_requests, read.non_preemptible
                    charged = charges.setdefault(key, ([], []))
                entry = self._entries[uid] = claim.pods[uid] = ChargedPod(pod, claim, read, amounts)
                entry.listed, entry.bound = True, bool(api.spec.node_name)
                charged[entry.bound].append(entry)
        for (claim, _, _), both in charges.items():
            for bound, entries in enumerate(both):
                if entries:
                    self._charge_all(claim, entries, bool(bound))
        for pod in others:
            self.list_pod(pod)

    def _charge_all(self, claim: QuotaClaim, entries: list[ChargedPod], used: bool) -> None:
        """Charges new entries of one claim and request for their requests, or for their use too."""
        place, first = claim.place, entries[0]
        if place is not None:
            for told in self.recounts:
                for entry in entries:
                    told(entry, place.group, True, used)
            tree, strict = self._groups.tree(place.tree_id), first.reading.non_preemptible
            sums = {name: n * len(entries) for name, n in first.amounts.forth.items()}
            self._groups.version += len(entries)
            tree.add_request(place.group, sums, non_preemptible=strict)
            if used:
                tree.add_used(place.group, sums, non_preemptible=strict)
        for entry in entries:
            entry.requested, entry.used = True, used
        if used:
            self._note(entries, used)

    def unlist(self, uid: str) -> None:
        """The API says that there is no such pod, or that it has ended."""
        entry = self._entries.get(uid)
        if entry is not None:
            entry.listed = entry.bound = entry.withdrawn = False
            self._settle(entry)

    def place_pod(self, pod: PodInfo) -> None:
        """The pod counts on a node."""
        entry = self._entries.get(pod.uid)
        if entry is None or entry.pod.shape is not pod.shape:
            entry = self._entry(pod)
        entry.placed, entry.withdrawn = True, False
        self._settle(entry)

    def place_pods(self, pods: Iterable[PodInfo]) -> None:
        """The same as :meth:`place_pod` for each."""
        for pod in pods:
            entry = self._entries.get(pod.uid)
            if entry is not None and entry.pod is pod and entry.used and entry.requested:
                entry.placed, entry.withdrawn = True, False
            else:
                self.place_pod(pod)

    def withdraw(self, pod: PodInfo) -> None:
        """The exact inverse of :meth:`place_pod`."""
        entry = self._entries.get(pod.uid)
        if entry is not None:
            entry.placed, entry.withdrawn = False, entry.bound
            if entry.withdrawn:
                self._withdrawn.add(pod.uid)
            self._settle(entry)

    def claim(self, shape: PodShape) -> QuotaClaim:
        """Whose quota pods of a shape use."""
        return self._claim_of(reading(shape))

    def _claim_of(self, read: QuotaRequest) -> QuotaClaim:
        known = self._claims.get((read.label, read.namespace))
        return known or self._new_claim(read.label, read.namespace)

    def amounts(self, shape: PodShape) -> dict[str, int]:
        """What a pod of a shape is charged, in the resources that some quota counts."""
        return self._amounts(reading(shape)).forth

    def get(self, uid: str) -> ChargedPod | None:
        """What is known of a pod."""
        return self._entries.get(uid)

    def find(self, key: str) -> ChargedPod | None:
        """A pod by ``namespace/name``, found by looking through all."""
        return next((e for e in self._entries.values() if e.pod.key == key), None)

    def pods(self, group: str) -> Iterator[ChargedPod]:
        """The pods charged to a group itself, by namespace and name."""
        entries = [e for claim in self._by_group.get(group, ()) for e in claim.pods.values()]
        yield from sorted(entries, key=lambda entry: entry.pod.key)

    def claims(self, group: str) -> list[QuotaClaim]:
        """By what pods are charged to a group itself."""
        claims = self._by_group.get(group, ())
        return sorted(claims, key=lambda claim: (claim.label, claim.namespace))

    def holds_lesser(self, group: str, priority: int) -> bool:
        """Whether a pod of lower priority, that may be preempted, uses a group's quota."""
        return any(
            count > 0 and rank < priority
            for claim in self._by_group.get(group, ())
            for rank, count in claim.lesser.items()
        )

    def expire(self) -> None:
        """Stops charging pods whose end has come, see :class:`TerminatingPolicy`.

        And goes by the API's word again for pods that were taken off a node and not put back: the
        node went, and they are still bound to it. Not to be called within a what-if.
        """
        now = self._now()
        for uid in sorted(self._withdrawn):
            entry = self._entries.get(uid)
            if entry is not None and entry.withdrawn:
                entry.withdrawn = False
                self._settle(entry)
        self._withdrawn.clear()
        for uid in [uid for uid, end in self._ending.items() if now > end]:
            del self._ending[uid]
            entry = self._entries.get(uid)
            if entry is not None:
                entry.ignored = True
                self._settle(entry)

    def _entry(self, pod: PodInfo) -> ChargedPod:
        """The pod's entry, in the claim and for the amounts that it now has."""
        read, entry = reading(pod.shape), self._entries.get(pod.uid)
        if entry is None:
            entry = ChargedPod(pod, self._claim_of(read), read, self._amounts(read))
            entry.stands = _stands(pod)
            self._entries[pod.uid] = entry
            entry.claim.pods[pod.uid] = entry
            return entry
        entry.pod, entry.stands = pod, _stands(pod)
        read = self.reading_of(entry, pod.shape)
        if entry.reading is not read:
            self._clear(entry)
            self._leave_claim(entry)
            # Who may be preempted for whom is another question now.
            self._groups.revision += 1
            entry.reading, entry.amounts = read, self._amounts(read)
            entry.claim = self._claim_of(read)
            entry.claim.pods[pod.uid] = entry
        return entry

    def reading_of(self, entry: ChargedPod, shape: PodShape) -> QuotaRequest:
        """What a known pod of a shape is charged for: in its quota, once it was placed here."""
        read = reading(shape)
        return read.kept(entry.reading) if self.is_decided(entry.pod.uid) else read

    def charged(self, entry: ChargedPod) -> SignedCharge:
        """What a pod is to be charged, worked out from what it asks for."""
        return self._amounts(entry.reading)

    def _amounts(self, read: QuotaRequest) -> SignedCharge:
        return read.amounts(self._groups.counted, overhead=self._overhead)

    def _judge_ending(self, entry: ChargedPod) -> None:
        meta = entry.pod.pod.metadata
        if meta.deletion_timestamp is None or self._terminating is TerminatingPolicy.AT_END:
            return
        end = meta.deletion_timestamp.timestamp() + (meta.deletion_grace_period_seconds or 0)
        if self._terminating is TerminatingPolicy.AT_ONCE or self._now() > end:
            entry.ignored = True
        else:
            self._ending[entry.pod.uid] = end

    def _settle(self, entry: ChargedPod) -> None:
        """Brings the pod's charges in line with the facts."""
        requested, used = owed(entry)
        if requested != entry.requested or used != entry.used:
            self._charge(entry, requested, used)
        elif requested:
            return  # it is there, and charged for what it is
        if not (entry.listed or entry.placed):
            del self._entries[entry.pod.uid]
            self._ending.pop(entry.pod.uid, None)
            self._leave_claim(entry)

    def _charge(self, entry: ChargedPod, requested: bool, used: bool) -> None:
        """Charges the pod for its request and its use, or no longer; it is not so charged now."""
        place, turned = entry.claim.place, used != entry.used
        if place is not None:
            amounts, strict = entry.amounts, entry.reading.non_preemptible
            groups, group = self._groups, place.group
            tree = groups.tree(place.tree_id)
            groups.version += 1
            for told in self.recounts:
                told(entry, group, requested, used)
            if requested != entry.requested:
                delta = amounts.forth if requested else amounts.back
                tree.add_request(group, delta, non_preemptible=strict)
            if turned:
                delta = amounts.forth if used else amounts.back
                tree.add_used(group, delta, non_preemptible=strict)
        entry.requested, entry.used = requested, used
        if turned:
            self._note((entry,), used)

    def _note(self, entries: Sequence[ChargedPod], used: bool) -> None:
        """Uses of entries of one claim, all preemptible or none, begin or cease to count."""
        claim = entries[0].claim
        if not entries[0].reading.non_preemptible:
            for entry in entries:
                claim.lesser[entry.pod.priority] += 1 if used else -1
        if self.on_use is not None and claim.place is not None:
            for entry in entries:
                self.on_use(claim.place.group, entry.pod, used)

    def _clear(self, entry: ChargedPod) -> None:
        """Takes the pod's charges back, without a change of the facts."""
        if entry.requested or entry.used:
            self._charge(entry, requested=False, used=False)

    def _leave_claim(self, entry: ChargedPod) -> None:
        claim = entry.claim
        del claim.pods[entry.pod.uid]
        if not claim.pods:
            self._drop_claim(claim)

    def _new_claim(self, label: str, namespace: str) -> QuotaClaim:
        claim = self._claims[label, namespace] = QuotaClaim(label, namespace)
        for table, name in self._tables(label, namespace):
            table[name].add(claim)
        self._resolve(claim)
        return claim

    def _tables(self, label: str, namespace: str) -> Iterator[tuple[_ClaimTable, str]]:
        """Where a claim is found by what its quota follows from."""
        if label:
            yield self._by_label, label
        # A name that does not reach its pods is as none.
        if not label or self._groups.settings.reaches is not None:
            yield self._by_namespace, namespace

    def reach_changed(self, namespace: str) -> None:
        """Quotas of others may reach a namespace now, or no longer."""
        self._moved(AffectedPods(namespaces=frozenset((namespace,))))

    def _drop_claim(self, claim: QuotaClaim) -> None:
        del self._claims[claim.label, claim.namespace]
        for table, name in self._tables(claim.label, claim.namespace):
            _discard(table, name, claim)
        if claim.place is not None:
            _discard(self._by_group, claim.place.group, claim)

    def _resolve(self, claim: QuotaClaim) -> None:
        found = self._groups.claimed(claim.label, claim.namespace)
        claim.problem = found.problem
        if found.place == claim.place:
            return
        for entry in claim.pods.values():
            self._clear(entry)
        if claim.place is not None:
            _discard(self._by_group, claim.place.group, claim)
        claim.place = found.place
        if claim.place is not None:
            self._by_group[claim.place.group].add(claim)
        for entry in list(claim.pods.values()):
            self._settle(entry)

    def _moved(self, reach: AffectedPods) -> None:
        claims: dict[QuotaClaim, None] = {}
        for table, names in (
            (self._by_group, reach.groups),
            (self._by_label, reach.labels),
            (self._by_namespace, reach.namespaces),
        ):
            for name in names:
                claims.update(dict.fromkeys(table.get(name, ())))
        for claim in sorted(claims, key=lambda claim: (claim.label, claim.namespace)):
            self._resolve(claim)

    def _counted(self, names: set[str]) -> None:
        """Charges what pods ask for of resources that no quota named so far, or takes it back."""
        for entry in self._entries.values():
            if names.isdisjoint(entry.reading.request):
                continue
            requested, used = entry.requested, entry.used
            self._clear(entry)
            entry.amounts = self._amounts(entry.reading)
            if requested or used:
                self._settle(entry)


def owed(entry: ChargedPod) -> tuple[bool, bool]:
    """Whether a pod is to be charged for its request, and for its use."""
    counts = not (entry.ignored or entry.stands)
    requested = counts and (entry.listed or entry.placed)
    return requested, counts and (entry.placed or (entry.bound and not entry.withdrawn))


def _stands(pod: PodInfo) -> bool:
    return reading(pod.shape).reserves and stands_for_reservation(pod.pod)


def _discard(table: dict[str, set[QuotaClaim]], name: str, claim: QuotaClaim) -> None:
    claims = table[name]
    claims.discard(claim)
    if not claims:
        del table[name]
