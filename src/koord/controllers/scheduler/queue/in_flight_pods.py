# SPDX-License-Identifier: Apache-2.0
"""Pods that are out of the queue, and what has happened since they left it.

An event that comes while a pod is being scheduled may be what it lacks, and the attempt did not see
it. So events are kept until the last pod that left before them has come back or is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.controllers.scheduler.queue.events import ClusterEvent
    from koord.controllers.scheduler.queue.queued_pod import QueuedPod

_MANY = 4096


class RecordedEvent(NamedTuple):
    """An event with its objects; ``uid`` names the only pod it is for, ``""`` is for all."""

    event: ClusterEvent
    old: Any
    new: Any
    uid: str


class InFlightPods:
    """Pods by uid and the log of events; a pod remembers where the log ended when it left."""

    def __init__(self) -> None:
        self.pods: dict[str, QueuedPod] = {}
        self._log: list[RecordedEvent] = []
        self._dropped = 0
        self._trim_at = _MANY

    def __len__(self) -> int:
        return len(self.pods)

    @property
    def kept(self) -> int:
        """How many events are kept."""
        return len(self._log)

    def start(self, pod: QueuedPod) -> None:
        """Takes note that a pod has left the queue."""
        self.pods[pod.info.uid] = pod
        pod.since = self._dropped + len(self._log)

    def record(self, event: ClusterEvent, old: Any, new: Any, uid: str = "") -> None:
        """Keeps an event, if anything is out that it may concern."""
        if self.pods and (not uid or uid in self.pods):
            self._log.append(RecordedEvent(event, old, new, uid))

    def since(self, uid: str) -> Iterator[RecordedEvent]:
        """What has happened since a pod left, first to last."""
        start = self.pods[uid].since - self._dropped
        for at in range(start, len(self._log)):
            happening = self._log[at]
            if not happening.uid or happening.uid == uid:
                yield happening

    def done(self, uid: str) -> None:
        """Forgets a pod, and events that nothing needs any more."""
        if self.pods.pop(uid, None) is None:
            return
        if not self.pods:
            if self._log:
                self._dropped += len(self._log)
                self._log.clear()
                self._trim_at = _MANY
        elif len(self._log) > self._trim_at:
            # Since the first of a dict that is emptied from its front is slow to find, seldom.
            oldest = next(iter(self.pods.values())).since - self._dropped
            del self._log[:oldest]
            self._dropped += oldest
            self._trim_at = 2 * len(self._log) + _MANY
