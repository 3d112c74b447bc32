# SPDX-License-Identifier: Apache-2.0
"""Reservations of jobs: made, found, labelled, deleted.

Rule: docs/reference/migration.md#reservation-of-a-job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.meta import ObjectReference
from koord.api.kinds.migration import PodMigrationJob
from koord.api.kinds.pod import Pod
from koord.api.kinds.registry import kind_of_type
from koord.api.kinds.reservation import Reservation
from koord.api.protocol import keys
from koord.base import faults
from koord.controllers.descheduler.migration.course.next_step import is_own
from koord.controllers.descheduler.migration.course.reservation_template import reservation_of
from koord.kube.errors import ApiError, unless_missing
from koord.kube.patches import Patch, preconditions_of

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.base.documents import Document
    from koord.kube.client import Client

_POD, _JOB, _RESERVATION = (kind_of_type(k) for k in (Pod, PodMigrationJob, Reservation))


class Reservations:
    """Writes of reservations.

    Args:
        client: the way to the API server.
        clock: the time.
        without_claims: whether volumes of claims are left out.
    """

    def __init__(self, client: Client, clock: Clock, without_claims: bool = False) -> None:
        self._client = client
        self._clock = clock
        self._without_claims = without_claims

    async def get(self, name: str) -> Reservation | None:
        """The reservation, asked of the server."""
        return await unless_missing(self._client.get(Reservation, name))

    async def make(self, job: PodMigrationJob, pod: Pod) -> ObjectReference | None:
        """Makes the reservation, or takes the one that an earlier try made.

        Returns:
            The reference to it; None where the pod is gone.

        Raises:
            ApiError: the server refuses, or another's has that name.
            TransportError: no answer came.
        """
        meta = pod.metadata
        whole: Document | None = await unless_missing(
            self._client.get(_POD, meta.name, meta.namespace)
        )
        if whole is None or whole["metadata"].get("uid") != meta.uid:
            return None
        asked = await self._client.get(_JOB, job.metadata.name)
        if asked["metadata"].get("uid") != job.metadata.uid:
            return None
        wanted = reservation_of(asked, whole, self._now_millis(), self._without_claims)
        faults.point("descheduler.migration.reserve")
        try:
            made = await self._client.create(wanted, kind=_RESERVATION)
        except ApiError as error:
            name = wanted["metadata"]["name"]
            found = await self.get(name) if error.reason == "AlreadyExists" else None
            if found is None or not is_own(found, job):
                raise
            return _reference(name, found.metadata.uid)
        faults.point("descheduler.migration.reserve.done")
        return _reference(made["metadata"]["name"], made["metadata"]["uid"])

    async def order(self, reservation: Reservation) -> None:
        """Labels a reservation with its order."""
        label = {"labels": {keys.RESERVATION_ORDER: str(self._now_millis())}}
        meta = reservation.metadata
        change = {"metadata": {**label, **preconditions_of(meta)}}
        faults.point("descheduler.migration.order")
        await self._client.patch(Reservation, meta.name, Patch.merge(change))

    async def give(self, reservation: Reservation, job: PodMigrationJob) -> Reservation:
        """Makes a reservation another job's: with that it goes from then on.

        Returns:
            The reservation as the server stored it.

        Raises:
            ApiError: the server refuses, also where anybody wrote meanwhile.
            TransportError: no answer came.
        """
        meta = reservation.metadata
        if any(owner.uid == job.metadata.uid for owner in meta.owner_references):
            return reservation
        owner = {"name": job.metadata.name, "uid": job.metadata.uid,
                 "apiVersion": _JOB.api_version, "kind": _JOB.name}  # fmt: skip
        change = {"metadata": {"ownerReferences": [owner], **preconditions_of(meta)}}
        faults.point("descheduler.migration.give")
        stored = await self._client.patch(Reservation, meta.name, Patch.merge(change))
        faults.point("descheduler.migration.give.done")
        return stored

    async def delete(self, reservation: Reservation) -> None:
        """Deletes that very reservation; one that is gone already is well."""
        meta = reservation.metadata
        faults.point("descheduler.migration.release")
        version = meta.resource_version
        await unless_missing(
            self._client.delete(Reservation, meta.name, uid=meta.uid, resource_version=version)
        )
        faults.point("descheduler.migration.release.done")

    def _now_millis(self) -> int:
        return int(self._clock.wall_seconds() * 1000)


def _reference(name: str, uid: str) -> ObjectReference:
    return ObjectReference(
        api_version=_RESERVATION.api_version, kind=_RESERVATION.name, name=name, uid=uid
    )


def reference_to(reservation: Reservation) -> ObjectReference:
    """What a job names it by."""
    return _reference(reservation.metadata.name, reservation.metadata.uid)
