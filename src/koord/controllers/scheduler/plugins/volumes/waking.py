# SPDX-License-Identifier: Apache-2.0
"""Tells the queue of changes of storage objects, which it does not watch itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controllers.scheduler.queue.events import Action

if TYPE_CHECKING:
    from koord.controllers.cluster.views import View
    from koord.controllers.scheduler.framework.handle import Handle


def follow(handle: Handle, view: View[Any], resource: str) -> None:
    """Wakes pods by the changes of a view.

    Args:
        handle: the way to the queue.
        view: the objects.
        resource: as events name them.
    """

    def updated(old: Any, new: Any) -> None:
        if old.metadata.resource_version != new.metadata.resource_version:
            handle.wake(resource, Action.UPDATE, old, new)

    view.on_change(
        lambda new: handle.wake(resource, Action.ADD, None, new),
        updated,
        lambda old, unknown: handle.wake(resource, Action.DELETE, old, None),
    )
