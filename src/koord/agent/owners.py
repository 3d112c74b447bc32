# SPDX-License-Identifier: Apache-2.0
"""Whose a file is, and what was last written to it: for the audit log and for people."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from koord.agent.executor import report
from koord.agent.executor.audit import Subject

if TYPE_CHECKING:
    from koord.agent.executor.target import Target
    from koord.agent.states.pods import PodState
    from koord.agent.states.snapshot import States

_KEPT = 500


class Deed(NamedTuple):
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


class Owners:
    """Remembers the last writes, a fixed number of them.

    Args:
        states: the pods that directories belong to.
    """

    def __init__(self, states: States) -> None:
        self._states = states
        self._deeds: deque[Deed] = deque(maxlen=_KEPT)
        self._pods: tuple[PodState, ...] = ()
        self._by_directory: dict[str, Subject] = {}

    def subject(self, target: Target) -> Subject:
        """Whom a target is about: a pod or its container, a QoS class, or the node."""
        if not target.directory:
            return Subject("node")
        self._index()
        return self._by_directory.get(target.directory) or Subject("group", name=target.directory)

    def words(self, target: Target) -> str:
        """The subject as people call it: ``namespace/pod container``, ``node``, a directory."""
        subject = self.subject(target)
        if subject.type == "pod":
            return f"{subject.namespace}/{subject.name} {subject.container}".rstrip()
        return subject.name or subject.type

    def note(self, told: report.Told, at_seconds: float) -> None:
        """Remembers what the executor did."""
        if isinstance(told, report.Failed):
            what, value = "failed", ""
            why = told.failure.result.message
        elif isinstance(told, report.Gone):
            what, value, why = "gone", "", "its cgroup is not there"
        else:
            what = _deed(told)
            value = str(told.made.value)
            why = f"{', '.join(told.made.owners) or 'nobody'}: {told.made.reason}"
        target = told.target
        subject = self.words(target)
        self._deeds.append(
            Deed(at_seconds, what, subject, target.resource, target.directory, value, why)
        )

    def last(self, most: int = _KEPT) -> list[Deed]:
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
            subject = Subject("pod", meta.namespace, meta.name)
            self._by_directory[pod.directory] = subject
            for container in pod.containers:
                if container.directory:
                    self._by_directory[container.directory] = Subject(
                        "pod", meta.namespace, meta.name, container.name
                    )


def _deed(told: report.Written | report.Planned) -> str:
    if isinstance(told, report.Planned):
        return "planned"
    if told.given_back:
        return "given back"
    return "put back" if told.by_hand else "written"
