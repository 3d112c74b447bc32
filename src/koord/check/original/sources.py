# SPDX-License-Identifier: Apache-2.0
"""Where an installation is read from: a cluster, or manifests such as a rendered chart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koord.api.kinds.registry import KINDS
from koord.api.sloconfig import sections
from koord.check import file_reader, runner
from koord.check.object_index import ObjectIndex
from koord.check.original.change import ComponentChanges, Effect, MovingChange
from koord.check.original.installation import CONFIG_MAP, WORKLOAD_KINDS
from koord.check.problem import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from koord.api.kinds.registry import Kind
    from koord.base.documents import Document
    from koord.check.live_cluster import LiveCluster
    from koord.check.subject import Subject

# A person reads so many; scripts that want all check the objects as files.
_MOST_CHANGES = 50
_MOST_OF_A_KIND = file_reader.MOST_OBJECTS
_READ_CONFIG_MAPS = (sections.CONFIG_MAP_NAME, "gpu-shared-resource-templates")
_EFFECTS = {Severity.ERROR: Effect.REFUSED, Severity.WARNING: Effect.DIFFERS}


class FileInstallation:
    """That of manifests.

    Args:
        subjects: the objects of the files.
    """

    live = False

    def __init__(self, subjects: Sequence[Subject]) -> None:
        self._subjects = subjects

    def workloads(self) -> Sequence[Document]:
        """All objects: who asks knows which run something."""
        return [each.document for each in self._subjects]

    def all(self, kind: Kind) -> Sequence[Document]:
        """The objects of a kind."""
        return [
            each.document
            for each in self._subjects
            if (each.group, each.kind) == (kind.group, kind.name)
        ]

    def get(self, kind: Kind, name: str, namespace: str) -> Document | None:
        """An object of the files."""
        for each in self._subjects:
            if (each.group, each.kind, each.name) != (kind.group, kind.name, name):
                continue
            if (each.namespace or "default") == namespace:
                return each.document
        return None

    def objects(self) -> ComponentChanges:
        """What is wrong with the objects that koord reads."""
        custom = {(each.api_version, each.name) for each in KINDS if each.custom}
        read = [each for each in self._subjects if _is_read(each, custom)]
        return _changes(read, ObjectIndex(self._subjects))


class ClusterInstallation:
    """That of a cluster, read once.

    Args:
        cluster: the way to it.
        namespace: that slo-controller-config is in.
    """

    live = True

    def __init__(self, cluster: LiveCluster, namespace: str = "koordinator-system") -> None:
        self._cluster = cluster
        self._namespace = namespace

    def workloads(self) -> Sequence[Document]:
        """The workloads of all namespaces, of the three kinds that can run its programs."""
        return [{"kind": kind.name, **each} for kind in WORKLOAD_KINDS for each in self.all(kind)]

    def all(self, kind: Kind) -> Sequence[Document]:
        """The objects of a kind, none where it is not served."""
        return [{"kind": kind.name, **each} for each in self._cluster.documents(kind)]

    def get(self, kind: Kind, name: str, namespace: str) -> Document | None:
        """An object, None where there is none."""
        return self._cluster.document(kind, name, namespace)

    def objects(self) -> ComponentChanges:
        """What is wrong with the objects that koord reads; of one kind, with the first 10,000."""
        subjects: list[Subject] = []
        for kind in (each for each in KINDS if each.custom):
            documents = self._cluster.documents(kind)[:_MOST_OF_A_KIND]
            subjects += _subjects(kind, documents)
        for name in _READ_CONFIG_MAPS:
            found = self._cluster.document(CONFIG_MAP, name, self._namespace)
            subjects += _subjects(CONFIG_MAP, [found] if found else [])
        return _changes(subjects, ObjectIndex(subjects, self._cluster))


def _is_read(subject: Subject, custom: set[tuple[str, str]]) -> bool:
    if (subject.api_version, subject.kind) in custom:
        return True
    return subject.kind == CONFIG_MAP.name and subject.name in _READ_CONFIG_MAPS


def _subjects(kind: Kind, documents: Iterable[Document]) -> Iterator[Subject]:
    for each in documents:
        whole: dict[str, Any] = {"apiVersion": kind.api_version, "kind": kind.name, **each}
        data = msgspec.json.encode(whole)
        if len(data) <= file_reader.MOST_BYTES:
            yield from file_reader.contents(data, "cluster").subjects


def _changes(subjects: Sequence[Subject], world: ObjectIndex) -> ComponentChanges:
    found = ComponentChanges("objects", f"{len(subjects)} that koord reads")
    for subject in subjects:
        for problem in runner.problems(subject, world):
            if len(found.changes) == _MOST_CHANGES:
                why = f"more than {_MOST_CHANGES}: koord check of the objects as files tells all"
                found.changes.append(MovingChange(Effect.NOTE, "objects", why))
                return found
            where = f"{problem.title}: {problem.path}" if problem.path else problem.title
            why = f"got {problem.value!r}, expected {problem.expected}"
            found.changes.append(MovingChange(_EFFECTS[problem.severity], where, why))
    return found
