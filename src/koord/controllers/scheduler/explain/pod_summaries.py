# SPDX-License-Identifier: Apache-2.0
"""Where pods are, whose quota they use, what they hold: one line a pod, for all explanations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from koord.controllers.scheduler.explain.what_if import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.api.kinds.pod import Pod
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.explain.attempt_history import AttemptHistory
    from koord.controllers.scheduler.scheduler import Scheduler

MOST = 1000
"""Lines of an answer; how many there are more is said."""


class ExplainedPod(Struct, omit_defaults=True, rename="camel"):
    """What is said of one pod in a list of pods.

    Attributes:
        pod: ``namespace/name``; of one that stands for a Reservation ``reservation NAME``.
        state: in which part of the queue it waits, or ``waits on permit``, ``assumed``, ``bound``.
        node: where it counts; empty if nowhere.
        quota: whose quota it uses, or names though that is not in force; empty for nobody's.
        reservation: the one it sits in; empty for none.
        devices: what it holds of the node's cards.
        message: why its last attempt found no node, if remembered.
    """

    pod: str
    state: str
    node: str = ""
    quota: str = ""
    reservation: str = ""
    devices: Any = None
    message: str = ""


class ExplainedQuota(Struct, omit_defaults=True, rename="camel"):
    """What of a quota is left, by resource; amounts as quantities.

    Attributes:
        name: of the quota.
        used, runtime, max: figures of the quota.
        problem: why it is not in force as it is written.
    """

    name: str
    used: dict[str, str] = {}
    runtime: dict[str, str] = {}
    max: dict[str, str] = {}
    problem: str = ""


class PodSummaries:
    """Makes lines for one scheduler.

    Args:
        scheduler: whose.
        history: of its attempts.
    """

    def __init__(self, scheduler: Scheduler, history: AttemptHistory) -> None:
        self._scheduler = scheduler
        self._history = history

    def plugin(self, name: str) -> Any:
        """The plugin of a name; None where no profile enables it."""
        return next((each for each in self._scheduler.plugins if each.name == name), None)

    def info(self, pod: Pod) -> PodInfo:
        """A pod as the scheduler has it."""
        uid = pod.metadata.uid
        counted = self._scheduler.world.accounts.get(uid)
        queued = self._scheduler.queue.get(uid)
        waiting: PodInfo | None = queued.info if queued is not None else None
        return counted or waiting or self._scheduler.world.shapes.info(pod)

    def state(self, uid: str, info: PodInfo | None) -> str:
        """In which part of the queue a pod waits, or how it holds its node.

        Args:
            uid: of the pod.
            info: of one that counts on a node, None for others.
        """
        if info is not None:
            if self._scheduler.feed.confirmed(uid):
                return "bound"
            waits = any(each.uid == uid for each in self._scheduler.world.waiting())
            return "waits on permit" if waits else "assumed"
        queued = self._scheduler.queue.get(uid)
        if queued is None:
            return "unknown"
        by = f" by {queued.gated_by}" if queued.gated_by else ""
        return queued.place.name.lower().replace("_", " ") + by

    def of(self, pods: Iterable[PodInfo]) -> list[ExplainedPod]:
        """Lines of pods, by name."""
        ordered = sorted(pods, key=lambda info: info.key)
        return [self._line(info) for info in ordered[:MOST]]

    def title(self, info: PodInfo) -> str:
        """How a pod is called."""
        stand_ins = self._scheduler.loop.parts.stand_ins
        if stand_ins.of(info.pod) is None:
            return info.key
        return f"reservation {stand_ins.title(info.pod)}"

    def quotas(self, lines: Iterable[ExplainedPod]) -> list[ExplainedQuota]:
        """The quotas that these pods use, by name."""
        plugin = self.plugin("ElasticQuota")
        names = sorted({line.quota for line in lines if line.quota})
        found = []
        for name in names if plugin is not None else ():
            figures = plugin.figures_of(name)
            if figures is None:
                problem = plugin.groups.claimed(name, "").problem
                found.append(ExplainedQuota(name, problem=str(problem or "there is no such quota")))
            else:
                short = {key: figures[key] for key in ("used", "runtime", "max")}
                found.append(ExplainedQuota(name, **short))
        return found

    def _line(self, info: PodInfo) -> ExplainedPod:
        scheduler = self._scheduler
        # Plugins may know a pod by an object of their own.
        there = scheduler.world.accounts.get(info.uid)
        info = there or info
        seat = info.allocations.get("Reservation")
        last = self._history.last(info.uid)
        return ExplainedPod(
            self.title(info),
            self.state(info.uid, there),
            scheduler.world.table.name(info.row) if there is not None else "",
            self._quota(info),
            seat.name if seat is not None else "",
            plain(info.allocations.get("DeviceShare")),
            last.message if last is not None and there is None else "",
        )

    def _quota(self, info: PodInfo) -> str:
        plugin = self.plugin("ElasticQuota")
        if plugin is None:
            return ""
        claim = plugin.ledger.claim(info.shape)
        return str(claim.place.group if claim.place is not None else claim.label)
