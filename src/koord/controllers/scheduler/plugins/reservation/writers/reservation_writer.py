# SPDX-License-Identifier: Apache-2.0
"""What the plugin writes: the status of Reservations, and annotations of the pods in them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from koord.api import codec
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import SCHEDULED, Reservation
from koord.api.protocol import annotation, keys
from koord.api.protocol import reservations as protocol
from koord.base import faults
from koord.base.errors import KoordError
from koord.controllers.cluster import transforms
from koord.controllers.scheduler.plugins.reservation.objects import lifecycle
from koord.kube.errors import ApiError
from koord.kube.patches import Patch
from koord.kube.requests import retry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from koord.api.kinds.reservation import ReservationStatus
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.framework.cycle import PendingPatch
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
        ReservationAllocation,
    )
    from koord.kube.client import Client

_STATUS = "status"
_NOT_FOUND, _CONFLICT = 404, 409


class ReservationWriter:
    """Writes for the plugin; does nothing where there is no cluster.

    Args:
        handle: the client and the clock.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def bind(self, reservation: Reservation, node: str) -> None:
        """Makes a Reservation available on a node.

        Raises:
            KoordError: it has ended, was made anew, or its annotations are malformed.
            ApiError: the write was refused.
        """
        client = self._handle.client
        now = self._handle.clock.wall_seconds()
        if client is None:
            lifecycle.bound(reservation, node, now)
            return
        written = await bind_reservation(client, reservation, node, now)
        # Who sees it available and creates its owner next finds that the owner can use it.
        self._handle.view(Reservation).observe_write(written)

    async def write_changes(self, reservation: Reservation, changes: PendingPatch) -> None:
        """Writes what PreBind plugins want on a Reservation.

        Raises:
            ApiError: the write was refused.
        """
        if self._handle.client is not None:
            patch = changes_patch(reservation, changes)
            await self._handle.client.patch(Reservation, reservation.metadata.name, patch)

    async def refuse(self, reservation: Reservation, message: str) -> None:
        """Says on a Reservation why it fits nowhere; that it changed meanwhile is no failure.

        Raises:
            ApiError: the write was refused for another reason.
        """
        client = self._handle.client
        patch = unschedulable_patch(reservation, message, self._handle.clock.wall_seconds())
        if client is None or patch is None:
            return
        try:
            await client.patch(Reservation, reservation.metadata.name, patch, subresource=_STATUS)
        except ApiError as error:
            if error.http_status not in (_NOT_FOUND, _CONFLICT):
                raise

    def _start(self, work: Callable[[], Awaitable[None]]) -> None:
        self._handle.supervisor.once("notes on Reservations and their pods", work)

    async def take_over(self, uid: str, allocation: ReservationAllocation) -> None:
        """Notes on a running pod that a Reservation takes it over."""
        client, info = self._handle.client, self._handle.pod(uid)
        if client is None or info is None:
            return
        value = protocol.ReservationAllocated(allocation.name, allocation.uid)
        await _annotate(client, info.pod, {keys.RESERVATION_ALLOCATED: annotation.text(value)})

    def take_back(self, pod: PodInfo, allocation: ReservationAllocation) -> None:
        """Takes the note off a pod that did not get to its node after all; returns at once."""
        if self._handle.client is None:
            return
        self._start(partial(self._take_back, pod, allocation))

    async def _take_back(self, pod: PodInfo, allocation: ReservationAllocation) -> None:
        client, held = self._handle.client, self._handle.pod
        assert client is not None
        try:
            await forget_allocation(
                client, pod.pod, allocation.uid, unless=lambda: held(pod.uid) is not None
            )
        except ApiError as error:
            # Gone, or changed in between: the next attempt overwrites or removes it.
            if error.http_status not in (_NOT_FOUND, _CONFLICT):
                raise


async def bind_reservation(
    client: Client, reservation: Reservation, node: str, now_seconds: float
) -> Reservation:
    """Makes a Reservation available on a node, whatever else has changed of it meanwhile.

    Raises:
        KoordError: it has ended, was made anew, or its annotations are malformed.
        ApiError: the write was refused.
    """
    faults.point("scheduler.reservation.bind")
    tries: list[Reservation] = [reservation]

    async def work() -> Reservation:
        name = reservation.metadata.name
        # As the cache would have it.
        now = tries.pop() if tries else transforms.reservation(await client.get(Reservation, name))
        if now.metadata.uid != reservation.metadata.uid:
            title = reservation.title
            raise KoordError(title, "metadata.uid", now.metadata.uid, reservation.metadata.uid)
        status = lifecycle.bound(now, node, now_seconds)
        return await client.patch(Reservation, name, status_patch(now, status), subresource=_STATUS)

    return await retry.on_conflict(work)


def unschedulable_patch(reservation: Reservation, message: str, now_seconds: float) -> Patch | None:
    """Says on a Reservation why it fits nowhere; None where it says so already."""
    known = lifecycle.condition(reservation.status.conditions, SCHEDULED)
    if known is not None and (known.status, known.message) == (lifecycle.FALSE, message):
        return None
    return status_patch(reservation, lifecycle.refused(reservation, message, now_seconds))


def changes_patch(reservation: Reservation, changes: PendingPatch) -> Patch:
    """What PreBind plugins want written on a Reservation."""
    meta: dict[str, Any] = {"uid": reservation.metadata.uid}
    if changes.annotations:
        meta["annotations"] = changes.annotations
    if changes.labels:
        meta["labels"] = changes.labels
    return Patch.merge({"metadata": meta})


def status_patch(reservation: Reservation, status: ReservationStatus) -> Patch:
    """From the status a Reservation has to another, if it has not changed since it was read."""
    before = _document(reservation.status)
    after = _document(status)
    change = {key: value for key, value in after.items() if before.get(key) != value}
    for key in ("allocatable", "allocated"):
        if key in change or key in before.keys() - after.keys():
            # A merge patch merges maps: names that are gone must be said to be.
            gone = before.get(key, {}).keys() - after.get(key, {}).keys()
            change[key] = {**after.get(key, {}), **dict.fromkeys(sorted(gone))}
    for key in before.keys() - after.keys() - change.keys():
        change[key] = None
    meta = {
        "uid": reservation.metadata.uid,
        "resourceVersion": reservation.metadata.resource_version,
    }
    return Patch.merge({"metadata": meta, "status": change})


async def forget_allocation(client: Client, pod: Pod, uid: str, unless: Any = None) -> bool:
    """Removes the note that a pod sits in a reservation, if it names that one.

    Args:
        client: writes.
        pod: whose.
        uid: of the reservation.
        unless: asked once the pod was read; truth leaves it as it is. With it, a pod that has a
            node is left as it is too.

    Returns:
        Whether it was removed.

    Raises:
        ApiError: the pod is gone, or was changed in between.
    """
    meta = pod.metadata
    live = await client.get(Pod, meta.name, namespace=meta.namespace)
    if live.metadata.uid != meta.uid:
        return False
    if unless is not None and (live.spec.node_name or unless()):
        return False
    try:
        found = protocol.reservation_allocated(live)
    except KoordError:
        return False
    if found is None or found.uid != uid:
        return False
    await _annotate(client, live, {keys.RESERVATION_ALLOCATED: None}, versioned=True)
    return True


async def _annotate(
    client: Client, pod: Pod, annotations: dict[str, str | None], *, versioned: bool = False
) -> None:
    meta: dict[str, Any] = {"uid": pod.metadata.uid, "annotations": annotations}
    if versioned:
        meta["resourceVersion"] = pod.metadata.resource_version
    patch = Patch.merge({"metadata": meta})
    await client.patch(Pod, pod.metadata.name, patch, pod.metadata.namespace)


def _document(status: ReservationStatus) -> dict[str, Any]:
    made = codec.parse_json(codec.to_json(status), "status")
    made.setdefault("phase", status.phase)
    return dict(made)
