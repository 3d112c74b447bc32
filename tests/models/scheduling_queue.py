# SPDX-License-Identifier: Apache-2.0
"""The scheduling queue as its rules say it: one list of pods, searched from end to end each time.

Rule: docs/reference/scheduling.md#queue. Events are kept for ever, so that nothing can be
forgotten too early.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from koord.controllers.scheduler.queue.events import ClusterEvent, HintedEvent

INITIAL, LONGEST, FLUSH, LEFTOVER_FLUSH, LEFTOVER = 1.0, 10.0, 1.0, 30.0, 300.0


@dataclass
class Waiting:
    """A pod."""

    info: Any
    arrival: int
    timestamp: float
    place: str = "new"
    attempts: int = 0
    until: float = 0.0
    unschedulable: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    gate: str = ""
    left_at: int = 0
    latest: Any = None
    before: dict[str, Any] = field(default_factory=dict)


class PlainQueue:
    """All pods in one list."""

    def __init__(
        self, gates: dict[str, Callable[[Any], object]], hints: dict[str, list[HintedEvent]]
    ) -> None:
        self.gates, self.hints = gates, hints
        self.pods: list[Waiting] = []
        self.log: list[tuple[ClusterEvent, Any, str]] = []
        self.now = 0.0
        self.arrivals = 0
        self.flushed = self.swept = 0.0

    def get(self, uid: str) -> Waiting | None:
        return next((pod for pod in self.pods if pod.info.uid == uid), None)

    def at(self, *places: str) -> list[Waiting]:
        return [pod for pod in self.pods if pod.place in places]

    def add(self, info: Any) -> None:
        known = self.get(info.uid)
        if known is not None:
            self._renew(known, info)
            return
        pod = Waiting(info, self.arrivals, self.now)
        self.arrivals += 1
        self.pods.append(pod)
        self._activate(pod)

    def update(self, info: Any, event: ClusterEvent) -> None:
        pod = self.get(info.uid)
        if pod is None:
            self.add(info)
            return
        self._renew(pod, info)
        self.log.append((event, info, info.uid))
        if pod.place in ("unschedulable", "gated"):
            self._requeue(pod, self._worth(pod, event, info))

    def _renew(self, pod: Waiting, info: Any) -> None:
        if pod.place in ("flying", "gone"):
            pod.place, pod.latest = "flying", info
        else:
            pod.info = info

    def delete(self, uid: str) -> None:
        pod = self.get(uid)
        if pod is not None and pod.place in ("flying", "gone"):
            pod.place = "gone"
        elif pod is not None:
            self.pods.remove(pod)

    def happened(self, event: ClusterEvent, new: Any) -> None:
        if event.is_wildcard or any(
            hinted.event.matches(event) for hints in self.hints.values() for hinted in hints
        ):
            self.log.append((event, new, ""))
        for pod in self.at("unschedulable", "gated"):
            self._requeue(pod, self._worth(pod, event, new))

    def activate(self, uid: str) -> None:
        pod = self.get(uid)
        if pod is None or pod.place == "active":
            return
        if pod.place in ("flying", "gone"):
            self.log.append((ClusterEvent("*", 8191, "ForceActivate"), None, uid))
        elif pod.place in ("backoff", "error"):
            pod.place = "active"
        else:
            self._activate(pod)

    def pop(self) -> Waiting | None:
        def order(pod: Waiting) -> tuple[float, ...]:
            return (-pod.info.priority, pod.timestamp, pod.arrival)

        if self.at("active"):
            first = min(self.at("active"), key=order)
        elif self.at("backoff"):
            first = min(self.at("backoff"), key=lambda pod: (pod.until, *order(pod)))
        else:
            return None
        self.take(first.info.uid)
        self._begin(first)
        return first

    def take(self, uid: str) -> Waiting | None:
        pod = self.get(uid)
        if pod is None or pod.place in ("flying", "gone"):
            return None
        kept = ("place", "attempts", "unschedulable", "pending", "gate")
        pod.before = {name: getattr(pod, name) for name in kept}
        pod.place, pod.left_at = "flying", len(self.log)
        return pod

    def pop_many(self, uids: list[str]) -> list[str]:
        taken = [pod for uid in uids if (pod := self.take(uid)) is not None]
        for pod in taken:
            self._begin(pod)
        return [pod.info.uid for pod in taken]

    def _begin(self, pod: Waiting) -> None:
        pod.attempts += 1
        pod.unschedulable = pod.pending = frozenset()
        pod.gate = ""

    def restore(self, uid: str) -> None:
        pod = self._returned(uid)
        if pod is None:
            return
        for name, value in pod.before.items():
            setattr(pod, name, value)
        if pod.place in ("unschedulable", "gated"):
            self._requeue(pod, self._replayed(pod))

    def put_back(self, uid: str, unschedulable: frozenset[str], pending: frozenset[str]) -> None:
        pod = self._returned(uid)
        if pod is None:
            return
        pod.unschedulable, pod.pending = unschedulable, pending
        pod.timestamp = self.now
        wait = INITIAL
        for _ in range(pod.attempts - 1):
            wait = min(LONGEST, wait * 2)
        pod.until = self.now + (wait if pod.attempts else 0.0)
        self._requeue(pod, self._replayed(pod))

    def _returned(self, uid: str) -> Waiting | None:
        pod = self.get(uid)
        assert pod is not None
        if pod.place == "gone":
            self.pods.remove(pod)
            return None
        if pod.latest is not None:
            pod.info, pod.latest = pod.latest, None
        return pod

    def done(self, uid: str) -> None:
        pod = self.get(uid)
        assert pod is not None
        self.pods.remove(pod)

    def tick(self) -> None:
        if math.floor(self.now / FLUSH) > math.floor(self.flushed / FLUSH):
            self.flushed = self.now
            for pod in self.at("backoff", "error"):
                if pod.until <= self.now:
                    pod.place = "active"
        if math.floor(self.now / LEFTOVER_FLUSH) > math.floor(self.swept / LEFTOVER_FLUSH):
            self.swept = self.now
            for pod in self.at("unschedulable"):
                if self.now - pod.timestamp > LEFTOVER:
                    self._requeue(pod, 1)

    def _activate(self, pod: Waiting) -> None:
        pod.place = "active" if self._passes(pod) else "gated"

    def _passes(self, pod: Waiting) -> bool:
        holding = [name for name, check in self.gates.items() if check(pod.info) is not None]
        if pod.gate not in holding:
            pod.gate = holding[0] if holding else ""
        return not holding

    def _requeue(self, pod: Waiting, strategy: int) -> None:
        if strategy == 0:
            pod.place = "gated" if pod.gate else "unschedulable"
        elif strategy == 2 or pod.until <= self.now:
            self._activate(pod)
        elif not self._passes(pod):
            pod.place = "gated"
        else:
            pod.place = "backoff" if pod.unschedulable | pod.pending else "error"

    def _replayed(self, pod: Waiting) -> int:
        if not pod.gate and not pod.unschedulable | pod.pending:
            return 1
        found = [0]
        for event, new, uid in self.log[pod.left_at :]:
            if uid == pod.info.uid and event.is_wildcard:
                found.append(1)
            elif uid in ("", pod.info.uid):
                found.append(self._worth(pod, event, new))
        return max(found)

    def _worth(self, pod: Waiting, event: ClusterEvent, new: Any) -> int:
        if event.is_wildcard and not pod.gate:
            return 1
        best = 0
        for plugin in {pod.gate} if pod.gate else pod.unschedulable | pod.pending:
            for hinted in self.hints.get(plugin, []):
                if hinted.event.matches(event) and self._says(hinted, pod, new):
                    best = max(best, 2 if plugin in pod.pending else 1)
        return best

    def _says(self, hinted: HintedEvent, pod: Waiting, new: Any) -> bool:
        try:
            return hinted.hint is None or hinted.hint(pod.info, None, new)
        except RuntimeError:
            return True
