# SPDX-License-Identifier: Apache-2.0
"""Pods that stand for objects of another kind: the reserve pods of Reservations.

They go through queue, filters and accounts like any pod; only what is written about them goes to
the object they stand for. A plugin that makes such pods says so by being a
:class:`SurrogatePodPlugin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.api.kinds.meta import Object
    from koord.api.kinds.pod import Pod
    from koord.controllers.scheduler.cache.event_handlers import EventHandlers
    from koord.controllers.scheduler.framework.cycle import PendingPatch


class SurrogatePodPlugin(Protocol):
    """A plugin whose pods stand for other objects."""

    def attach(self, feed: EventHandlers) -> None:
        """Begins to tell the feed of such pods; nodes and pods are known by then."""
        ...

    def represented_object(self, pod: Pod) -> Object | None:
        """The object a pod stands for, None for real pods."""
        ...

    async def write_changes(self, pod: Pod, changes: PendingPatch) -> None:
        """Writes what PreBind plugins want on the object."""
        ...

    async def write_failure(self, pod: Pod, message: str) -> None:
        """Says on the object why it fits nowhere."""
        ...


class SurrogatePods:
    """All plugins whose pods stand for another object, such as a Reservation.

    Args:
        plugins: of all profiles; those that are no stand-ins are passed over.
    """

    def __init__(self, plugins: Iterable[Any] = ()) -> None:
        self.plugins: list[SurrogatePodPlugin] = [
            each for each in plugins if hasattr(each, "represented_object")
        ]

    def of(self, pod: Pod) -> SurrogatePodPlugin | None:
        """Who writes about a pod; None for real pods."""
        return next(
            (each for each in self.plugins if each.represented_object(pod) is not None), None
        )

    def subject(self, pod: Pod) -> Object:
        """What events about a pod are about."""
        for each in self.plugins:
            found = each.represented_object(pod)
            if found is not None:
                return found
        return pod

    def title(self, pod: Pod) -> str:
        """How messages name what a pod stands for: ``namespace/name``, or the name alone."""
        return title(self.subject(pod))


def title(about: Object) -> str:
    """``namespace/name`` of an object, or the name alone."""
    meta = about.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
