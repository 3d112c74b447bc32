# SPDX-License-Identifier: Apache-2.0
"""The plugin's part for the loop: reserve pods stand for Reservations.

See :class:`koord.controllers.scheduler.cycles.surrogate_pods.StandIn`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.reservation import Reservation
from koord.base.errors import Code
from koord.controllers.scheduler.plugins.reservation.objects import lifecycle
from koord.controllers.scheduler.plugins.reservation.objects.reserve_pod import (
    stands_for_reservation,
)
from koord.controllers.scheduler.plugins.reservation.state.event_handlers import (
    ReservationEventHandlers,
)

_REASON = "FailedScheduling"

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod
    from koord.base.errors import KoordError
    from koord.controllers.scheduler.cache.event_handlers import EventHandlers
    from koord.controllers.scheduler.framework.cycle import PendingPatch
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.plugins.reservation.state.reservation_index import (
        ReservationIndex,
    )
    from koord.controllers.scheduler.plugins.reservation.writers.reservation_writer import (
        ReservationWriter,
    )
    from koord.kube.codec.decoder import UnreadableObject


class ReservationSurrogates:
    """Mixed into the plugin."""

    book: ReservationIndex
    handle: Handle
    writer: ReservationWriter

    def attach(self, feed: EventHandlers) -> None:
        """Begins to tell the feed of reserve pods; once, however many profiles there are."""
        if self.book.feed is None:
            self.book.feed = ReservationEventHandlers(
                self.handle, feed.pod_added, feed.pod_updated, feed.pod_deleted, self._validated
            )
            self.book.feed.attach()
            self.handle.view(Reservation).on_unreadable(self._unreadable)

    def _validated(self, reservation: Reservation, error: KoordError | None) -> None:
        reason = Code.INVALID.value if lifecycle.is_active(reservation) else _REASON
        self.handle.invalid.judge(Reservation, reservation, error, reason)

    def _unreadable(self, key: str, why: UnreadableObject | None) -> None:
        self.handle.invalid.unreadable(Reservation, key, why, _REASON)

    def represented_object(self, pod: Pod) -> Reservation | None:
        """The Reservation of a reserve pod."""
        if not stands_for_reservation(pod):
            return None
        record = self.book.get(pod.metadata.uid)
        found = record.object if record is not None else None
        return found if isinstance(found, Reservation) else None

    async def write_changes(self, pod: Pod, changes: PendingPatch) -> None:
        """Writes what PreBind plugins want on the Reservation."""
        found = self.represented_object(pod)
        if found is not None:
            await self.writer.write_changes(found, changes)

    async def write_failure(self, pod: Pod, message: str) -> None:
        """Says on the Reservation why it fits nowhere."""
        found = self.represented_object(pod)
        if found is not None:
            await self.writer.refuse(found, message)
