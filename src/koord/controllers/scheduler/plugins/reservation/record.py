# SPDX-License-Identifier: Apache-2.0
"""One reservation as the scheduler knows it: what its object says, and who sits in it.

The object is a Reservation or, in operating mode, a running pod that holds what it asks for (spec
section 3.9). What it says is parsed once; what is malformed makes it unusable, with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import requests
from koord.api.kinds.pod import Pod
from koord.api.protocol import annotation, keys
from koord.api.protocol import reservations as protocol
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.reservation import owners, phases
from koord.controllers.scheduler.plugins.reservation.offer import ALIGNED, RESTRICTED, Offer

if TYPE_CHECKING:
    from koord.api.kinds.constraints import Taint
    from koord.api.kinds.reservation import Reservation, ReservationOwner
    from koord.controllers.cluster.pods import PodInfo

Amounts = dict[str, int]


class Record:
    """A reservation.

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
        "_offers", "age", "allocate_once", "available", "claimed", "deleting", "entries", "error",
        "held", "known", "labels", "name", "object", "options", "order", "owners", "pod", "policy",
        "row", "seats", "shared", "shared_nonzero", "taints", "uid", "unschedulable", "used",
        "withheld",
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
        self._offers: dict[bool, Offer] = {}

    def __repr__(self) -> str:
        return f"Record({self.name!r}, row={self.row}, owners={len(self.owners)})"

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

    @property
    def is_free(self) -> bool:
        """Whether nobody sits in it, so that the place of one pod is kept there too."""
        return not self.owners

    def read(self, reservation: Reservation) -> None:
        """Takes over what a Reservation says."""
        spec = reservation.spec
        self._read_object(reservation)
        self.available = phases.is_available(reservation)
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
        except KoordError as error:
            self.error = str(error)

    def read_pod(self, pod: Pod) -> None:
        """Takes over what a pod in operating mode says; it is allocated once, and Aligned."""
        self._read_object(pod)
        self.policy, self.allocate_once = ALIGNED, True
        self.available = _is_ready(pod)
        try:
            self.entries = tuple(protocol.reservation_owners(pod))
            owners.check(self.entries, pod.title, annotation.field_of(keys.RESERVATION_OWNERS))
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

    def offer(self, *, required: bool) -> Offer:
        """What it offers now; only while it counts on a row."""
        found = self._offers.get(required)
        if found is None:
            assert self.pod is not None
            found = self._offers[required] = Offer(
                self.uid, self.name, self.pod, dict(self.owners), self.policy, self.restricted,
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

    def recount(self) -> None:
        """Works out what is held, used and counted twice, after a pod came or went."""
        asked = self.pod.shape.request if self.pod is not None else {}
        self.held = {name: amount for name, amount in asked.items() if amount > 0}
        self.used = dict.fromkeys(self.held, 0)
        for owner in self.owners.values():
            for name, amount in owner.shape.request.items():
                if name in self.used:
                    self.used[name] += amount
        self.shared = {name: min(self.held[name], used) for name, used in self.used.items() if used}
        self.shared_nonzero = (0, 0)
        if self.pod is not None and self.owners:
            self.shared[requests.PODS] = 1
            counted = [owner.shape.nonzero for owner in self.owners.values()]
            held = self.pod.shape.nonzero
            self.shared_nonzero = (
                min(held[0], sum(each[0] for each in counted)),
                min(held[1], sum(each[1] for each in counted)),
            )
        self._offers = {}


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
