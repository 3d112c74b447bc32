# SPDX-License-Identifier: Apache-2.0
"""Turns changes of Reservations into changes of their reserve pods.

Rule: docs/reference/reservations.md#reserve-pods.

From there on a reserve pod goes the way of every pod: into the queue while it has no node, onto the
node table once it has, off it when its Reservation ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.reservation import Reservation
from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.reservation.objects import lifecycle, owners
from koord.controllers.scheduler.plugins.reservation.objects.reserve_pod import reserve_pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.api.kinds.pod import Pod
    from koord.controllers.scheduler.framework.handle import Handle

_LOG = log.get("scheduler")


class ReservationEventHandlers:
    """Follows all Reservations.

    Args:
        handle: the view of Reservations.
        added: told of a reserve pod that came, as an informer tells of pods.
        updated: told of one that changed: before and after.
        deleted: told of one that ended or went; the second argument is False.
        validated: told of a Reservation, and why it cannot be scheduled as it is written or, where
            it holds a node, why no pod can use it; None where all is well.
    """

    def __init__(
        self,
        handle: Handle,
        added: Callable[[Pod], None],
        updated: Callable[[Pod, Pod], None],
        deleted: Callable[[Pod, bool], None],
        validated: Callable[[Reservation, KoordError | None], None] = lambda reservation, error: (
            None
        ),
    ) -> None:
        self._handle = handle
        self._added = added
        self._updated = updated
        self._deleted = deleted
        self._validated = validated
        self._pods: dict[str, Pod] = {}

    def attach(self) -> None:
        """Begins; the nodes should be known by then."""
        view = self._handle.view(Reservation)
        view.on_change(self._put, self._replace, self._gone)

    def pods(self) -> dict[str, Pod]:
        """The reserve pods that are, by uid; not to be changed."""
        return self._pods

    def _replace(self, old: Reservation, reservation: Reservation) -> None:
        if old.metadata.uid != reservation.metadata.uid:
            self._end(old.metadata.uid)
        self._put(reservation)

    def _put(self, reservation: Reservation) -> None:
        uid = reservation.metadata.uid
        if lifecycle.is_terminal(reservation):
            self._end(uid)
            return
        pod = self._made(reservation)
        if pod is None:
            self._end(uid)
            return
        known = self._pods.get(uid)
        self._pods[uid] = pod
        if known is None:
            self._added(pod)
        else:
            self._updated(known, pod)

    def _made(self, reservation: Reservation) -> Pod | None:
        wrong: KoordError | None = None
        active = lifecycle.is_active(reservation)
        made: Pod | None = None
        try:
            lifecycle.check(reservation)
            made = reserve_pod(reservation)
        except KoordError as error:
            wrong = error
            where = log.fields(reservation=reservation.metadata.name, error=str(error))
            _LOG.warning("a Reservation cannot be scheduled", extra=where)
        self._validated(reservation, _of_no_use(reservation) if active else wrong)
        return made

    def _gone(self, reservation: Reservation, unknown: bool) -> None:
        self._end(reservation.metadata.uid)
        self._handle.invalid.gone(Reservation, reservation)

    def _end(self, uid: str) -> None:
        known = self._pods.pop(uid, None)
        if known is not None:
            self._deleted(known, False)


def _of_no_use(reservation: Reservation) -> KoordError | None:
    """Why no pod can use a Reservation that holds a node; None if pods can."""
    try:
        owners.check(reservation.spec.owners, reservation.title, "spec.owners")
    except KoordError as error:
        return error
    return None
