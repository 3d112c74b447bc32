# SPDX-License-Identifier: Apache-2.0
"""Small pods for a queue, and a queue that stands on a virtual clock."""

from __future__ import annotations

from dataclasses import dataclass

from koord.base.clock import VirtualClock
from koord.controllers.scheduler.queue.events import HintedEvent
from koord.controllers.scheduler.queue.options import QueueOptions, QueueProfile
from koord.controllers.scheduler.queue.scheduling_queue import SchedulingQueue

PROFILE = "koord-scheduler"


@dataclass(frozen=True)
class Info:
    """A pod as the queue sees it."""

    uid: str
    priority: int = 0
    shape: int = 0
    gates: int = 0
    namespace: str = "default"

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.uid}"


class Bench:
    """A queue, its clock, and short words for what a test does with them."""

    def __init__(
        self,
        events: dict[str, list[HintedEvent]] | None = None,
        options: QueueOptions | None = None,
    ) -> None:
        self.clock = VirtualClock()
        gated = [("SchedulingGates", lambda info: "gated" if info.gates else None)]
        profile = QueueProfile(gated, events or {})
        self.queue = SchedulingQueue(self.clock, {PROFILE: profile}, options=options)

    def add(self, uid: str, priority: int = 0, shape: int = 0, gates: int = 0) -> None:
        self.queue.add(Info(uid, priority, shape, gates), PROFILE)

    def fail(self, uid: str, *plugins: str, pending: tuple[str, ...] = ()) -> None:
        """Pops the first pod, which has to be this one, and puts it back as rejected."""
        pod = self.queue.pop()
        assert pod is not None
        assert pod.info.uid == uid
        self.queue.put_back(pod, plugins, pending)

    def place(self, uid: str) -> str:
        pod = self.queue.get(uid)
        return pod.place.name.lower() if pod else ""

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.queue.tick()

    def popped(self) -> list[str]:
        """All that can be popped now, in order."""
        found = []
        while (pod := self.queue.pop()) is not None:
            found.append(pod.info.uid)
        return found
