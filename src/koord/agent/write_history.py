# SPDX-License-Identifier: Apache-2.0
"""Whose a file is, and what was last written to it: for the audit log and for people."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from koord.agent.executor import write_events
from koord.agent.executor.audit import AuditSubject

if TYPE_CHECKING:
    from koord.agent.executor.target import Target
    from koord.agent.states.pod_state import PodState
    from koord.agent.states.snapshot import SnapshotSource

_KEPT = 500


class RecordedWrite(NamedTuple):
    """One write, or one that was not possible.

    Attributes:
        at_seconds: wall time.
        what: written, planned, put back, given back, failed, or gone with its cgroup.
        subject: whose file it is, in words.
        resource, directory: the file.
        value: what it says now, or should.
        why: who wanted it and for what reason; of a failure what the kernel said.
    """

    at_seconds: float
    what: str
    subject: str
    resource: str
    directory: str
    value: str
    why: str


class WriteHistory:
    """Remembers the last writes, a fixed number of them.

    Args:
        states: the pods that directories belong to.
    """

    def __init__(self, states: SnapshotSource) -> None:
        self._states = states
        self._deeds: deque[RecordedWrite] = deque(maxlen=_KEPT)
        self._pods: tuple[PodState, ...] = ()
        self._by_directory: dict[str, AuditSubject] = {}

    def subject(self, target: Target) -> AuditSubject:
        """Whom a target is about: a pod or its container, a QoS class, or the node."""
        if not target.directory:
            return AuditSubject("node")
        self._index()
        return self._by_directory.get(target.directory) or AuditSubject(
            "group", name=target.directory
        )

    def words(self, target: Target) -> str:
        """The subject as people call it: ``namespace/pod container``, ``node``, a directory."""
        subject = self.subject(target)
        if subject.type == "pod":
            return f"{subject.namespace}/{subject.name} {subject.container}".rstrip()
        return subject.name or subject.type

    def note(self, event: write_events.WriteEvent, at_seconds: float) -> None:
        """Remembers what the executor did."""
        if isinstance(event, write_events.WriteFailed):
            what, value = "failed", ""
            why = event.failure.result.message
        elif isinstance(event, write_events.CgroupGone):
            what, value, why = "gone", "", "its cgroup is not there"
        else:
            what = _write_verb(event)
            value = str(event.made.value)
            why = f"{', '.join(event.made.owners) or 'nobody'}: {event.made.reason}"
        target = event.target
        subject = self.words(target)
        self._deeds.append(
            RecordedWrite(at_seconds, what, subject, target.resource, target.directory, value, why)
        )

    def last(self, most: int = _KEPT) -> list[RecordedWrite]:
        """The newest first."""
        return list(reversed(self._deeds))[:most]

    def _index(self) -> None:
        pods = self._states.snapshot().pods.value
        if pods is self._pods:
            return
        self._pods = pods
        self._by_directory = {}
        for pod in pods:
            meta = pod.pod.metadata
            subject = AuditSubject("pod", meta.namespace, meta.name)
            self._by_directory[pod.directory] = subject
            for container in pod.containers:
                if container.directory:
                    self._by_directory[container.directory] = AuditSubject(
                        "pod", meta.namespace, meta.name, container.name
                    )


def _write_verb(event: write_events.ValueWritten | write_events.WritePlanned) -> str:
    if isinstance(event, write_events.WritePlanned):
        return "planned"
    if event.given_back:
        return "given back"
    return "put back" if event.by_hand else "written"
