# SPDX-License-Identifier: Apache-2.0
"""Which pods an event wakes, as plugins' tests ask it."""

from __future__ import annotations

from typing import Any

from koord.controllers.scheduler.queue.events import ClusterEvent


def wakes(plugin: Any, waiting: Any, event: ClusterEvent, old: Any, new: Any) -> bool:
    """Whether any registration of a plugin lets the pod be tried again."""
    return any(
        hinted.hint is None or hinted.hint(waiting, old, new)
        for hinted in plugin.events()
        if hinted.event.matches(event)
    )


class Waking:
    """For a cluster of one plugin in which pods wait: which of them the last event woke."""

    plugin: Any
    world: Any

    def watch(self, waiting: dict[str, Any]) -> None:
        """Begins to watch over waiting pods, by name."""
        self.waiting = waiting
        self.woken: set[str] = set()
        self.world.wake = self.wake

    def wake(self, resource: str, action: int, old: Any, new: Any) -> None:
        self.woken = self.by(ClusterEvent(resource, action), old, new)

    def by(self, event: ClusterEvent, old: Any, new: Any) -> set[str]:
        """Whom an event wakes."""
        found = self.waiting.items()
        return {name for name, each in found if wakes(self.plugin, each, event, old, new)}
