# SPDX-License-Identifier: Apache-2.0
"""Keeps the status of Reservations true, ends them in time and clears them away.

Rule: docs/reference/reservations.md#life-of-a-reservation.

Runs where the scheduler leads. What is decided is in plain functions of objects and the time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from koord.api import requests
from koord.api.kinds.meta import ObjectReference
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import EXPIRED, READY, Reservation, ReservationStatus
from koord.api.protocol import keys
from koord.api.protocol import reservations as protocol
from koord.base import faults, log
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.reservation.objects import lifecycle
from koord.controllers.scheduler.plugins.reservation.writers import reservation_writer
from koord.kube.controller import Controller
from koord.kube.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.api.kinds.meta import ResourceList
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.plugins.reservation.explain.metrics import ReservationMetrics

_LOG = log.get("scheduler.reservation")
SHORTEST_SECONDS, LONGEST_SECONDS = 3.0, 15.0
_SOON_SECONDS = 0.1
_CONFLICT, _NOT_FOUND = 409, 404
_OVER = ("Succeeded", "Failed")


def next_status(
    reservation: Reservation, pods: Iterable[Pod], now_seconds: float, *, node_exists: bool
) -> ReservationStatus | None:
    """The status a Reservation should have, None if that is the one it has.

    Args:
        reservation: which.
        pods: those whose annotation says that they sit in it.
        now_seconds: since the Unix epoch.
        node_exists: whether there is its node.
    """
    if lifecycle.is_terminal(reservation):
        return None
    status, node = reservation.status, reservation.status.node_name
    if lifecycle.needs_expiry(reservation, now_seconds) or (node and not node_exists):
        return lifecycle.expired(reservation, now_seconds)
    if not node:
        return None
    owners = sorted(
        (each for each in pods if each.spec.node_name == node and each.status.phase not in _OVER),
        key=lambda each: each.metadata.uid,
    )
    references = [
        ObjectReference(namespace=m.namespace, name=m.name, uid=m.uid)
        for m in (each.metadata for each in owners)
    ]
    used = allocated(owners, status.allocatable)
    known = sorted(status.current_owners, key=lambda each: each.uid)
    if references == known and used == status.allocated:
        return None
    fresh = msgspec.structs.replace(status, current_owners=references, allocated=used)
    if reservation.spec.allocate_once:
        return lifecycle.succeeded(fresh, now_seconds)
    return fresh


def allocated(owners: Iterable[Pod], allocatable: ResourceList) -> ResourceList:
    """What owners ask for of the resources that a Reservation holds."""
    total: dict[str, int] = {}
    for owner in owners:
        for name, amount in requests.requested(owner).items():
            if name in allocatable and name != requests.PODS:
                total[name] = total.get(name, 0) + amount
    return lifecycle.quantities(dict(sorted(total.items())), allocatable)


def next_look_seconds(reservation: Reservation, now_seconds: float) -> float | None:
    """After how long a Reservation is looked at again if nothing happens; None for never."""
    due = lifecycle.due_seconds(reservation)
    if due is None or lifecycle.is_terminal(reservation):
        return None
    return min(max(due - now_seconds, SHORTEST_SECONDS), LONGEST_SECONDS)


def is_garbage(
    reservation: Reservation, now_seconds: float, keep_seconds: float, *, node_exists: bool
) -> bool:
    """Whether a Reservation that has ended may be deleted."""
    expired = lifecycle.is_expired(reservation)
    if not expired and reservation.status.phase != "Succeeded":
        return False
    if reservation.status.node_name and not node_exists:
        return True
    ready = lifecycle.condition(reservation.status.conditions, READY)
    if ready is None:
        return False
    since = ready.last_transition_time if expired else ready.last_probe_time
    return since is not None and now_seconds - since.timestamp() > keep_seconds


class ReservationController:
    """The loop around these functions.

    Args:
        handle: views, client, clock, gates.
        workers: Reservations worked on at a time.
        gc_seconds: how long ended Reservations are kept; None for ever.
        gc_interval_seconds: how often they are looked through.
        resync_seconds: how often all Reservations are looked at, and metrics worked out.
        metrics: see :mod:`.figures`.
    """

    def __init__(
        self,
        handle: Handle,
        *,
        workers: int = 1,
        gc_seconds: float | None = 86_400.0,
        gc_interval_seconds: float = 60.0,
        resync_seconds: float = 60.0,
        metrics: ReservationMetrics | None = None,
    ) -> None:
        self._handle = handle
        self._workers = workers
        self._gc_seconds = gc_seconds
        self._gc_interval_seconds = gc_interval_seconds
        self._resync_seconds = resync_seconds
        self.metrics = metrics
        self._reservations = handle.view(Reservation)
        self._pods = handle.view(Pod)
        self._nodes = handle.view(Node)
        # Pods by the uid of the Reservation they sit in, and names by node.
        self._owners: dict[str, dict[str, Pod]] = {}
        self._names: dict[str, str] = {}
        self._gone: dict[str, set[str]] = {}
        self._controller: Controller[str] | None = None
        self._reservations.on_change(self._came, lambda _, new: self._came(new), self._went)
        self._pods.on_change(self._pod_came, self._pod_changed, self._pod_went, self._seated)
        self._nodes.on_change(deleted=self._node_went)

    async def run(self) -> None:
        """Works until cancelled."""
        controller = self._controller = Controller(
            "reservation", self.reconcile, workers=self._workers,
            supervisor=self._handle.supervisor,
        )  # fmt: skip
        for name, _ in list(self._reservations.items()):
            controller.queue.add(name)
        try:
            keep = self._handle.supervisor.keep
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(keep("resync of Reservations", self._resync))
                if self._gc_seconds is not None:
                    tasks.create_task(keep("ended Reservations", self._collect))
                await controller.run()
        finally:
            self._controller = None

    async def reconcile(self, name: str) -> float | None:
        """Brings one Reservation to where it should be; after how long to come back."""
        reservation = self._reservations.get(name)
        if reservation is None or name in self._gone:
            await self._clean(name)
        if reservation is None:
            return None
        now = self._handle.clock.wall_seconds()
        node = reservation.status.node_name
        sitting = self._owners.get(reservation.metadata.uid, {})
        status = next_status(
            reservation, sitting.values(), now, node_exists=not node or self._is_node(node)
        )
        if status is not None and not await self._write(reservation, status):
            return _SOON_SECONDS
        return next_look_seconds(reservation, now) if status is None else SHORTEST_SECONDS

    async def _write(self, reservation: Reservation, status: ReservationStatus) -> bool:
        """Whether it stands; not where somebody was faster: the informer tells."""
        client = self._handle.client
        if client is None:
            return True
        faults.point("scheduler.reservation.status")
        patch = reservation_writer.status_patch(reservation, status)
        try:
            await client.patch(Reservation, reservation.metadata.name, patch, subresource="status")
        except ApiError as error:
            if error.http_status == _CONFLICT:
                return False
            if error.http_status != _NOT_FOUND:
                raise
            return True
        ready = lifecycle.condition(status.conditions, READY)
        if ready is not None and ready.reason == EXPIRED and ready.message:
            # It was over before it began.
            self._handle.event(reservation, "Warning", EXPIRED, ready.message)
        return True

    async def collect(self) -> int:
        """Deletes what has ended long ago; how many."""
        client, now = self._handle.client, self._handle.clock.wall_seconds()
        if client is None or self._gc_seconds is None:
            return 0
        found = 0
        for name, reservation in list(self._reservations.items()):
            node = reservation.status.node_name
            exists = not node or self._is_node(node)
            if is_garbage(reservation, now, self._gc_seconds, node_exists=exists):
                try:
                    await client.delete(Reservation, name, uid=reservation.metadata.uid)
                    found += 1
                except ApiError as error:
                    if error.http_status not in (_CONFLICT, _NOT_FOUND):
                        raise
        return found

    async def _clean(self, name: str) -> None:
        """Takes the note off pods that sat in a Reservation that is gone, if that is wanted."""
        client = self._handle.client
        for uid in sorted(self._gone.get(name, ())):
            if client is not None and self._handle.gate("CleanExpiredReservationAllocated"):
                for pod in list(self._owners.get(uid, {}).values()):
                    try:
                        await reservation_writer.forget_allocation(client, pod, uid)
                    except ApiError as error:
                        if error.http_status != _NOT_FOUND:
                            raise
            self._gone[name].discard(uid)
        self._gone.pop(name, None)

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self._resync_seconds)
            if self.metrics is not None:
                with self._handle.supervisor.round("metrics of Reservations"):
                    self.metrics.record(value for _, value in self._reservations.items())
            for name, _ in list(self._reservations.items()):
                self._enqueue(name)

    async def _collect(self) -> None:
        while True:
            await asyncio.sleep(self._gc_interval_seconds)
            with self._handle.supervisor.round("ended Reservations"):
                await self.collect()

    def _is_node(self, name: str) -> bool:
        return self._nodes.get(name) is not None

    # What is told by the views.

    def _enqueue(self, name: str | None) -> None:
        if name and self._controller is not None:
            self._controller.queue.add(name)

    def _came(self, reservation: Reservation) -> None:
        self._names[reservation.metadata.uid] = reservation.metadata.name
        self._enqueue(reservation.metadata.name)

    def _went(self, reservation: Reservation, unknown: bool) -> None:
        meta = reservation.metadata
        self._names.pop(meta.uid, None)
        if self._owners.get(meta.uid):
            self._gone.setdefault(meta.name, set()).add(meta.uid)
        self._enqueue(meta.name)

    def _pod_came(self, pod: Pod) -> None:
        uid = seat_of(pod)
        if uid:
            self._owners.setdefault(uid, {})[pod.metadata.uid] = pod
            self._enqueue(self._names.get(uid))

    def _seated(self, pods: list[Pod]) -> list[Pod]:
        """Those of many that :meth:`_pod_came` must be told of."""
        return [pod for pod in pods if keys.RESERVATION_ALLOCATED in pod.metadata.annotations]

    def _pod_changed(self, old: Pod, pod: Pod) -> None:
        before, now = seat_of(old), seat_of(pod)
        if before and (before != now or old.metadata.uid != pod.metadata.uid):
            self._pod_went(old, False)
        if now:
            self._pod_came(pod)

    def _pod_went(self, pod: Pod, unknown: bool) -> None:
        uid = seat_of(pod)
        sitting = self._owners.get(uid)
        if uid and sitting is not None:
            sitting.pop(pod.metadata.uid, None)
            if not sitting:
                del self._owners[uid]
            self._enqueue(self._names.get(uid))

    def _node_went(self, node: Node, unknown: bool) -> None:
        for name, reservation in self._reservations.items():
            if reservation.status.node_name == node.metadata.name:
                self._enqueue(name)


def seat_of(pod: Pod) -> str:
    """The uid of the Reservation that a pod says it sits in; empty for none."""
    if keys.RESERVATION_ALLOCATED not in pod.metadata.annotations:
        return ""
    try:
        found = protocol.reservation_allocated(pod)
    except KoordError:
        return ""
    return found.uid if found is not None else ""
