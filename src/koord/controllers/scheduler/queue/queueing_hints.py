# SPDX-License-Identifier: Apache-2.0
"""Who is interested in an event: plugins by registration, unschedulable pods by rejecting plugin.

An event reaches the pods of interested plugins only, however many others wait, and a hint that
depends on the pod's shape alone is asked once for all pods of the shape.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.base import log
from koord.controllers.scheduler.queue.queued_pod import QueuedPod, Rejector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from koord.controllers.scheduler.queue.events import ClusterEvent, HintedEvent

_LOG = log.get("scheduler")


class QueueingStrategy(IntEnum):
    """What an event does to a pod; the greatest of several holds."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class EventSubscription(NamedTuple):
    """A plugin's registrations that match one event."""

    rejector: Rejector
    hints: tuple[HintedEvent, ...]
    per_shape: bool  # all of them
    faulty: set[HintedEvent]  # whose faults have been reported

    def wakes(self, pod: QueuedPod, old: Any, new: Any) -> bool:
        """Whether the plugin thinks that the event may help the pod."""
        return any(self._hint_wakes(hinted, pod, old, new) for hinted in self.hints)

    def _hint_wakes(self, hinted: HintedEvent, pod: QueuedPod, old: Any, new: Any) -> bool:
        if hinted.hint is None:
            return True
        try:
            return hinted.hint(pod.info, old, new)
        except Exception:
            # A pod must not wait for ever because a plugin has a fault, nor the log fill up.
            if hinted not in self.faulty:
                self.faulty.add(hinted)
                where = log.fields(
                    plugin=self.rejector.plugin, event=hinted.event.label, pod=pod.info.key
                )
                _LOG.exception("a queueing hint failed; told once", extra=where)
            return True


class QueueingHintTable:
    """The registrations of all profiles.

    Args:
        profiles: scheduler name to plugin to what the plugin registered.
    """

    def __init__(self, profiles: Mapping[str, Mapping[str, Sequence[HintedEvent]]]) -> None:
        self._registered = {
            Rejector(profile, plugin): tuple(hinted)
            for profile, plugins in profiles.items()
            for plugin, hinted in plugins.items()
        }
        self._faulty: set[HintedEvent] = set()
        self._interested: dict[ClusterEvent, tuple[EventSubscription, ...]] = {}

    def interested(self, event: ClusterEvent) -> tuple[EventSubscription, ...]:
        """Whose pods an event may concern, profiles and plugins in the order they were given."""
        found = self._interested.get(event)
        if found is None:
            found = self._interested[event] = tuple(self._matching(event))
        return found

    def _matching(self, event: ClusterEvent) -> Iterable[EventSubscription]:
        for rejector, registered in self._registered.items():
            hints = tuple(hinted for hinted in registered if hinted.event.matches(event))
            if hints:
                per_shape = all(hinted.per_shape or hinted.hint is None for hinted in hints)
                yield EventSubscription(rejector, hints, per_shape, self._faulty)


class RejectionIndex:
    """Unschedulable pods by who can wake them, and by shape below that.

    Args:
        shape_of: what pods have in common that per-shape hints look at, from the pod's info; None
            for a pod that is like no other.
    """

    def __init__(self, shape_of: Callable[[Any], object]) -> None:
        self._shape_of = shape_of
        self._pods: dict[Rejector, dict[object, dict[str, QueuedPod]]] = {}
        self._filed = 0

    def __len__(self) -> int:
        return self._filed

    def add(self, pod: QueuedPod) -> None:
        """Files a pod under its gating plugin, or else under all that rejected it."""
        names = (pod.gated_by,) if pod.gated_by else sorted(pod.rejectors)
        shape = self._shape_of(pod.info)
        pod.shape = pod.info.uid if shape is None else shape
        pod.indexed = tuple(Rejector(pod.profile, name) for name in names)
        self._filed += bool(pod.indexed)
        for rejector in pod.indexed:
            shapes = self._pods.setdefault(rejector, {})
            shapes.setdefault(pod.shape, {})[pod.info.uid] = pod

    def remove(self, pod: QueuedPod) -> None:
        """Forgets a pod; its info may have changed since."""
        self._filed -= bool(pod.indexed)
        for rejector in pod.indexed:
            shapes = self._pods[rejector]
            pods = shapes[pod.shape]
            del pods[pod.info.uid]
            if not pods:
                del shapes[pod.shape]
        pod.indexed, pod.shape = (), None

    def woken(
        self, interested: Iterable[EventSubscription], old: Any, new: Any
    ) -> dict[QueuedPod, QueueingStrategy]:
        """The pods that an event moves, and how."""
        found: dict[QueuedPod, QueueingStrategy] = {}
        for interest in interested:
            for pods in self._pods.get(interest.rejector, {}).values():
                first = next(iter(pods.values()))
                if interest.per_shape and not interest.wakes(first, old, new):
                    continue
                for pod in pods.values():
                    plugin = interest.rejector.plugin
                    strategy = strategy_of(pod, plugin)
                    if found.get(pod, QueueingStrategy.SKIP) >= strategy:
                        continue
                    if interest.per_shape or interest.wakes(pod, old, new):
                        found[pod] = strategy
        return found


def strategy_of(pod: QueuedPod, plugin: str) -> QueueingStrategy:
    """What a plugin's wish to try a pod again means."""
    return (
        QueueingStrategy.IMMEDIATELY
        if plugin in pod.pending_plugins
        else QueueingStrategy.AFTER_BACKOFF
    )
