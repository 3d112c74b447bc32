# SPDX-License-Identifier: Apache-2.0
"""One reservation as the scheduler knows it: what its object says, and who sits in it.

The object is a Reservation or, in operating mode, a running pod that holds what it asks for
(docs/reference/reservations.md#operating-mode). What it says is parsed once; what is malformed
makes it unusable, with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.api import requests
from koord.api.kinds.pod import Pod
from koord.api.protocol import annotation, keys
from koord.api.protocol import reservations as protocol
from koord.base.errors import KoordError
from koord.controllers.cluster.node_table import ABSENT, PODS
from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
    ALIGNED,
    RESTRICTED,
    MatchedReservation,
)
from koord.controllers.scheduler.plugins.reservation.objects import lifecycle, owners

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.api.kinds.constraints import Taint
    from koord.api.kinds.reservation import Reservation, ReservationOwner
    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodInfo, PodShape

Amounts = dict[str, int]


class ReservationInfo:
    """A reservation as the scheduler knows it: its object, and the pods that are in it.

    Attributes:
        uid: of the object, and of its reserve pod.
        known: the API told of the object.
        available: the API says that pods may use it.
        error: why it is unusable although available; empty if it is not.
        entries: who may use it.
        policy, allocate_once, unschedulable, deleting, taints, labels, order: as the object says.
        age: creation time and name: who goes first among equals.
        options: the resources Restricted is limited to; None for all.
        withheld: what owners do not get.
        seats: how many pods may sit in it, where it says so.
        row: where it counts, -1 while nowhere.
        pod: the pod that counts for it there.
        owners: pods that sit in it and count on its row, by uid.
        claimed: uids of running pods that it takes over (pre-allocation).
        held: what it holds, by resource.
        used: what its owners ask for of that.
        shared: what of it the node table would count twice; taken off there.
        shared_nonzero: the same as scores count.
    """

    __slots__ = (
        "_counted", "_given", "_offers", "_owned_nonzero", "age", "allocate_once", "available",
        "claimed", "deleting", "entries", "error", "held", "known", "labels", "name", "object",
        "options", "order", "owners", "pod", "policy", "row", "seats", "shared", "shared_nonzero",
        "taints", "uid", "unschedulable", "used", "withheld",
    )  # fmt: skip

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.name = ""
        self.object: Reservation | Pod | None = None
        self.known = self.available = False
        self.error = ""
        self.entries: tuple[ReservationOwner, ...] = ()
        self.policy = ""
        self.allocate_once = True
        self.unschedulable = self.deleting = False
        self.taints: list[Taint] = []
        self.labels: dict[str, str] = {}
        self.order = 0
        self.age: tuple[float, str, str] = (0.0, "", uid)
        self.options: frozenset[str] | None = None
        self.withheld: Amounts = {}
        self.seats: int | None = None
        self.row = -1
        self.pod: PodInfo | None = None
        self.owners: dict[str, PodInfo] = {}
        self.claimed: tuple[str, ...] = ()
        self.held: Amounts = {}
        self.used: Amounts = {}
        self.shared: Amounts = {}
        self.shared_nonzero = (0, 0)
        self._offers: dict[bool, MatchedReservation] = {}
        self._given: tuple[object, NDArray[np.int64]] | None = None
        # As what each owner counts here: its shape may be another when it goes.
        self._counted: dict[str, PodShape] = {}
        self._owned_nonzero = (0, 0)

    def __repr__(self) -> str:
        return f"ReservationInfo({self.name!r}, row={self.row}, owners={len(self.owners)})"

    @property
    def is_pod(self) -> bool:
        """Whether it is a running pod that works as a reservation."""
        return isinstance(self.object, Pod)

    @property
    def matchable(self) -> bool:
        """Whether pods may use it at all now."""
        return (
            self.available
            and self.row >= 0
            and not self.error
            and not (self.allocate_once and self.owners)
        )

    @property
    def restricted(self) -> frozenset[str]:
        """The resources that come from it alone; empty unless its policy is Restricted."""
        if self.policy != RESTRICTED:
            return frozenset()
        names = frozenset(self.held)
        return (names & self.options or names) if self.options is not None else names

    def limits(self) -> Amounts:
        """What a pod may take at most, of resources that come from the reservation alone.

        Of ``pods`` the places that are left, where the object says how many there are.
        """
        if self.policy != RESTRICTED:
            return {}
        withheld, used = self.withheld, self.used
        found = {n: self.held[n] - withheld.get(n, 0) - used[n] for n in self.restricted}
        if self.seats is not None:
            found[requests.PODS] = self.seats - len(self.owners)
        return found

    @property
    def is_free(self) -> bool:
        """Whether nobody sits in it, so that the place of one pod is kept there too."""
        return not self.owners

    def read(self, reservation: Reservation, *, by_namespace: bool = False) -> None:
        """Takes over what a Reservation says.

        Args:
            reservation: the object.
            by_namespace: owners that name no namespace are of the one that its annotation names.
        """
        spec = reservation.spec
        self._read_object(reservation)
        self.available = lifecycle.is_available(reservation)
        self.entries = tuple(spec.owners)
        self.policy = spec.allocate_policy
        self.allocate_once = spec.allocate_once
        self.unschedulable = spec.unschedulable
        self.taints = [each for each in spec.taints if each.effect in ("NoSchedule", "NoExecute")]
        seats = reservation.status.allocatable.get(requests.PODS)
        self.seats = requests.amount(requests.PODS, seats) if seats is not None else None
        try:
            owners.check(self.entries, reservation.title, "spec.owners")
            options = protocol.restricted_options(reservation)
            self.options = frozenset(options.resources) if options is not None else None
            self.withheld = _withheld(reservation)
            if by_namespace:
                self.entries = owners.of_reservation(reservation)
        except KoordError as error:
            self.error = str(error)

    def read_pod(self, pod: Pod, *, by_namespace: bool = False) -> None:
        """Takes over what a pod in operating mode says; it is allocated once, and Aligned.

        Args:
            pod: the object.
            by_namespace: its owners are of its own namespace.
        """
        self._read_object(pod)
        self.policy, self.allocate_once = ALIGNED, True
        self.available = _is_ready(pod)
        try:
            self.entries = tuple(protocol.reservation_owners(pod))
            owners.check(self.entries, pod.title, annotation.field_of(keys.RESERVATION_OWNERS))
            if by_namespace:
                self.entries = owners.within(self.entries, pod.metadata.namespace)
            if protocol.reservation_current_owner(pod) is not None:
                self.available = False
        except KoordError as error:
            self.error = str(error)

    def _read_object(self, value: Reservation | Pod) -> None:
        meta = value.metadata
        self.object, self.known, self.error = value, True, ""
        self.name, self.labels = meta.name, meta.labels
        self.deleting = meta.deletion_timestamp is not None
        created = meta.creation_timestamp
        self.age = (created.timestamp() if created else 0.0, meta.name, meta.uid)
        self.order = _order(value)
        self._offers = {}

    def forget(self) -> None:
        """The object is gone; what counts on a node goes when its pod does."""
        self.object, self.known, self.available = None, False, False

    def offer(self, *, required: bool) -> MatchedReservation:
        """What it offers now; only while it counts on a row. Its owners are those of any time."""
        found = self._offers.get(required)
        if found is None:
            assert self.pod is not None
            found = self._offers[required] = MatchedReservation(
                self.uid, self.name, self.pod, self.owners, self.policy, self.restricted,
                self.held, self.used, self.remaining(), required,
            )  # fmt: skip
        return found

    def remaining(self) -> Amounts:
        """What is left for owners to come."""
        used, withheld = self.used, self.withheld
        return {
            name: max(0, amount - used.get(name, 0) - withheld.get(name, 0))
            for name, amount in self.held.items()
        }

    def given_back(self) -> Amounts:
        """What filters that know nothing of reservations may see as free for its owners."""
        used = self.used
        return {name: max(0, amount - used.get(name, 0)) for name, amount in self.held.items()}

    def given_vector(self, table: NodeTable) -> NDArray[np.int64]:
        """The same by resource column, with the place of one pod; not to be changed."""
        if self._given is None or self._given[0] is not table.resources_key:
            found = np.zeros(len(table.resources), np.int64)
            for name, left in self.given_back().items():
                found[table.resource(name)] = left
            found[PODS], found[ABSENT] = self.is_free, 0
            self._given = table.resources_key, found
        return self._given[1]

    def recount(self) -> None:
        """Works out what is held, used and counted twice, after any pods came or went."""
        asked = self.pod.shape.request if self.pod is not None else {}
        self.held = {name: amount for name, amount in asked.items() if amount > 0}
        self.used = dict.fromkeys(self.held, 0)
        self._counted, self._owned_nonzero = {}, (0, 0)
        for uid, owner in self.owners.items():
            self._count(uid, owner.shape, 1)
        self._sum_up()

    def differs(self, owners: dict[str, PodInfo]) -> bool:
        """Whether it counts anything else than it does anew with these owners."""
        fresh = ReservationInfo(self.uid)
        fresh.pod, fresh.owners = self.pod, owners
        fresh.recount()
        return self._sums() != fresh._sums()

    def _sums(self) -> tuple[object, ...]:
        return self.owners, self.held, self.used, self.shared, self.shared_nonzero

    def add_assigned_pod(self, owner: PodInfo) -> None:
        """Counts one more owner, or the same anew."""
        uid = owner.uid
        self.used = dict(self.used)  # offers keep the one that was
        before = self._counted.get(uid)
        if before is not None:
            self._count(uid, before, -1)
        self.owners[uid] = owner
        self._count(uid, owner.shape, 1)
        self._sum_up()

    def remove_assigned_pod(self, uid: str) -> None:
        """Counts an owner no longer."""
        self.used = dict(self.used)
        del self.owners[uid]
        self._count(uid, self._counted[uid], -1)
        self._sum_up()

    def _count(self, uid: str, shape: PodShape, sign: int) -> None:
        used, request = self.used, shape.request
        for name in used:
            used[name] += sign * request.get(name, 0)
        cpu, memory = self._owned_nonzero
        more = shape.container_requests.nonzero
        self._owned_nonzero = cpu + sign * more[0], memory + sign * more[1]
        if sign > 0:
            self._counted[uid] = shape
        else:
            del self._counted[uid]

    def _sum_up(self) -> None:
        held = self.held
        self.shared = {name: min(held[name], used) for name, used in self.used.items() if used}
        self.shared_nonzero = (0, 0)
        if self.pod is not None and self.owners:
            self.shared[requests.PODS] = 1
            most, owned = self.pod.shape.container_requests.nonzero, self._owned_nonzero
            self.shared_nonzero = min(most[0], owned[0]), min(most[1], owned[1])
        self._offers, self._given = {}, None


def _withheld(reservation: Reservation) -> Amounts:
    found = protocol.withheld(reservation)
    resources = found.resources if found is not None else {}
    return {name: requests.amount(name, quantity) for name, quantity in resources.items()}


def _order(value: Reservation | Pod) -> int:
    try:
        return protocol.reservation_order(value)  # type: ignore[arg-type]
    except KoordError:
        return 0  # as the original: what is no number has no say


def _is_ready(pod: Pod) -> bool:
    return pod.status.phase == "Running" and any(
        each.type == "Ready" and each.status == "True" for each in pod.status.conditions
    )
