# SPDX-License-Identifier: Apache-2.0
"""The plugin's part for the loop: reserve pods stand for Reservations.

See :class:`koord.controllers.scheduler.standins.StandIn`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.reservation import Reservation
from koord.base.errors import Code
from koord.controllers.scheduler.plugins.reservation import phases
from koord.controllers.scheduler.plugins.reservation.feed import ReservationFeed
from koord.controllers.scheduler.plugins.reservation.reservepod import stands_for_reservation

_REASON = "FailedScheduling"

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod
    from koord.base.errors import KoordError
    from koord.controllers.scheduler.feed import Feed
    from koord.controllers.scheduler.framework.cycle import Changes
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.plugins.reservation.book import Book
    from koord.controllers.scheduler.plugins.reservation.writing import Writer
    from koord.kube.answers import Unreadable


class Standing:
    """Mixed into the plugin."""

    book: Book
    handle: Handle
    writer: Writer

    def attach(self, feed: Feed) -> None:
        """Begins to tell the feed of reserve pods; once, however many profiles there are."""
        if self.book.feed is None:
            self.book.feed = ReservationFeed(
                self.handle, feed.pod_added, feed.pod_updated, feed.pod_deleted, self._judged
            )
            self.book.feed.attach()
            self.handle.view(Reservation).on_unreadable(self._unreadable)

    def _judged(self, reservation: Reservation, error: KoordError | None) -> None:
        reason = Code.INVALID.value if phases.is_active(reservation) else _REASON
        self.handle.invalid.judge(Reservation, reservation, error, reason)

    def _unreadable(self, key: str, why: Unreadable | None) -> None:
        self.handle.invalid.unreadable(Reservation, key, why, _REASON)

    def stands_for(self, pod: Pod) -> Reservation | None:
        """The Reservation of a reserve pod."""
        if not stands_for_reservation(pod):
            return None
        record = self.book.get(pod.metadata.uid)
        found = record.object if record is not None else None
        return found if isinstance(found, Reservation) else None

    async def write_changes(self, pod: Pod, changes: Changes) -> None:
        """Writes what PreBind plugins want on the Reservation."""
        found = self.stands_for(pod)
        if found is not None:
            await self.writer.write_changes(found, changes)

    async def write_failure(self, pod: Pod, message: str) -> None:
        """Says on the Reservation why it fits nowhere."""
        found = self.stands_for(pod)
        if found is not None:
            await self.writer.refuse(found, message)
