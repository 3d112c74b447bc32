# SPDX-License-Identifier: Apache-2.0
"""The row of a pod: containers that are ready, one word on how it is, restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.ages import age
from koord.controlplane.kinds.documents import NONE, condition_is_true, section
from koord.controlplane.resource import Column

if TYPE_CHECKING:
    from collections.abc import Iterable


COLUMNS = (
    Column("Name", format="name"),
    Column("Ready"),
    Column("Status"),
    Column("Restarts"),
    Column("Age"),
    Column("IP", priority=1),
    Column("Node", priority=1),
    Column("Nominated Node", priority=1),
    Column("Readiness Gates", priority=1),
)


class _ContainerCounts:
    """What the container statuses of one pod add up to."""

    def __init__(self, pod: Document) -> None:
        self.pod = pod
        self.spec: Document = section(pod, "spec")
        self.status: Document = section(pod, "status")
        first = self.spec.get("initContainers") or ()
        self.sidecars = {c["name"] for c in first if c.get("restartPolicy") == "Always"}
        self.containers = len(self.spec.get("containers") or ()) + len(self.sidecars)
        self.ready = 0
        self.word = self.status.get("reason") or self.status.get("phase", "")
        for entry in self.status.get("conditions") or ():
            if entry.get("type") == "PodScheduled" and entry.get("reason") == "SchedulingGated":
                self.word = "SchedulingGated"
        first_statuses = self.status.get("initContainerStatuses") or ()
        initializing = self._look_at_first(first_statuses)
        self.restarts, self.last_restart = _restarts(first_statuses)
        if not initializing or condition_is_true(pod, "Initialized"):
            sidecars = [entry for entry in first_statuses if entry.get("name") in self.sidecars]
            statuses = self.status.get("containerStatuses") or ()
            self.restarts, self.last_restart = _restarts([*sidecars, *statuses])
            self._look_at_main(statuses)
        self._look_at_deletion()

    def _look_at_first(self, statuses: Iterable[Document]) -> bool:
        """Init containers in order; stops at the first that is not done. True if there is one."""
        total = len(self.spec.get("initContainers") or ())
        for index, entry in enumerate(statuses):
            ended, waiting = _state(entry, "terminated"), _state(entry, "waiting")
            if ended is not None and not ended.get("exitCode"):
                continue
            if entry.get("name") in self.sidecars and entry.get("started"):
                self.ready += bool(entry.get("ready"))
                continue
            if ended is not None:
                self.word = f"Init:{_ended_word(ended)}"
            elif waiting and waiting.get("reason") not in (None, "", "PodInitializing"):
                self.word = f"Init:{waiting['reason']}"
            else:
                self.word = f"Init:{index}/{total}"
            return True
        return False

    def _look_at_main(self, statuses: Iterable[Document]) -> None:
        running, failed = False, ""
        for entry in reversed(list(statuses)):
            ended, waiting = _state(entry, "terminated"), _state(entry, "waiting")
            if waiting and waiting.get("reason"):
                self.word = waiting["reason"]
            elif ended is not None:
                self.word = _ended_word(ended)
                if ended.get("exitCode"):
                    failed = self.word
            elif entry.get("ready") and _state(entry, "running") is not None:
                running = True
                self.ready += 1
        if self.word == "Completed":
            if running and condition_is_true(self.pod, "Ready"):
                self.word = "Running"
            elif failed:
                self.word = failed
            elif running:
                self.word = "NotReady"

    def _look_at_deletion(self) -> None:
        if "deletionTimestamp" not in self.pod["metadata"]:
            return
        if self.status.get("reason") == "NodeLost":
            self.word = "Unknown"
        elif self.status.get("phase") not in ("Succeeded", "Failed"):
            self.word = "Terminating"


def row(pod: Document, now_seconds: float) -> list[Any]:
    """The cells of a pod's row."""
    summary = _ContainerCounts(pod)
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart:
        restarts = f"{restarts} ({age(summary.last_restart, now_seconds)} ago)"
    addresses = summary.status.get("podIPs")
    return [
        pod["metadata"]["name"],
        f"{summary.ready}/{summary.containers}",
        summary.word,
        restarts,
        age(pod["metadata"].get("creationTimestamp"), now_seconds),
        (addresses[0].get("ip") if addresses else "") or NONE,
        summary.spec.get("nodeName") or NONE,
        summary.status.get("nominatedNodeName") or NONE,
        _gates(pod, summary.spec.get("readinessGates")),
    ]


def _gates(pod: Document, gates: list[Document] | None) -> str:
    if not gates:
        return NONE
    open_gates = sum(condition_is_true(pod, gate.get("conditionType", "")) for gate in gates)
    return f"{open_gates}/{len(gates)}"


def _state(entry: Document, name: str) -> Document | None:
    state = entry.get("state") or {}
    found: Document | None = state.get(name)
    return found


def _ended_word(ended: Document) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _restarts(statuses: Iterable[Document]) -> tuple[int, str]:
    """How often containers restarted, and when the last one that did had ended."""
    count, last = 0, ""
    for entry in statuses:
        count += entry.get("restartCount", 0)
        ended = (entry.get("lastState") or {}).get("terminated") or {}
        last = max(last, ended.get("finishedAt") or "")
    return count, last
