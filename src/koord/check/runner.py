# SPDX-License-Identifier: Apache-2.0
"""A check from file names to a report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from koord.api import objects
from koord.base.errors import KoordError
from koord.check import api_validation, file_reader, registry
from koord.check.object_index import ObjectIndex
from koord.check.problem import FileProblem, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from koord.check.object_index import ClusterReader
    from koord.check.subject import Subject

# Enough for a person to see what is wrong with one object.
MOST_FINDINGS = 100
# Where pod templates stand, in any kind: workloads, CronJobs, Reservations, PodMigrationJobs.
_TEMPLATES: tuple[tuple[str, ...], ...] = (
    ("spec", "template"),
    ("spec", "jobTemplate", "spec", "template"),
    ("spec", "reservationOptions", "template"),
)


@dataclass
class CheckReport:
    """What a check found.

    Attributes:
        files: how many were read.
        objects: how many they hold.
        problems: by file in the order given, then by line.
        unread: ``apiVersion kind`` of objects that koord does not read, with their number.
    """

    files: int = 0
    objects: int = 0
    problems: list[FileProblem] = field(default_factory=list)
    unread: Counter[str] = field(default_factory=Counter)

    def count(self, severity: Severity) -> int:
        """How many problems are of a severity."""
        return sum(each.severity is severity for each in self.problems)


def check(files: Sequence[str], cluster: ClusterReader | None = None) -> CheckReport:
    """Checks files, each by itself and all together.

    Args:
        files: names; ``-`` for standard input. A name that comes twice is read once.
        cluster: where to look up what the files refer to; None for nowhere.

    Raises:
        KoordError: a file cannot be read.
        ApiError, ConnectionError: of the cluster.
    """
    names = list(dict.fromkeys(files))
    report = CheckReport(files=len(names))
    subjects: list[Subject] = []
    for name in names:
        found = file_reader.contents(file_reader.read_bytes(name), name)
        subjects += found.subjects
        report.problems += found.problems
    report.objects = len(subjects)
    world = ObjectIndex(subjects, cluster)
    for subject in subjects:
        report.problems += problems(subject, world)
        if not _is_read(subject):
            report.unread[f"{subject.api_version} {subject.kind}".strip()] += 1
    order = {name: at for at, name in enumerate(names)}
    report.problems.sort(key=lambda each: (order[each.file], each.line))
    return report


def problems(subject: Subject, world: ObjectIndex) -> list[FileProblem]:
    """What is wrong with an object, one problem for each field; errors count before warnings."""
    found: dict[tuple[int, str], FileProblem] = {}
    said = (
        each.problem(finding)
        for each in (subject, *templates(subject))
        for finding in _findings(each, world)
    )
    for problem in islice(said, MOST_FINDINGS):
        place = problem.line, problem.path
        known = found.get(place)
        worse = known is not None and known.severity is Severity.WARNING
        if known is None or (worse and problem.severity is Severity.ERROR):
            found[place] = problem
    # What a server says of the object as a whole, somebody may have said of the field.
    return [each for each in found.values() if each.path or len(found) == 1]


def templates(subject: Subject) -> Iterator[Subject]:
    """The pod templates of an object, each as the pod that comes of it."""
    for keys in _TEMPLATES:
        template: Any = subject.document
        for key in keys:
            template = template.get(key) if isinstance(template, dict) else None
        spec = template.get("spec") if isinstance(template, dict) else None
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            metadata = template.get("metadata")
            metadata = dict(metadata) if isinstance(metadata, dict) else {}
            metadata.setdefault("namespace", subject.namespace)
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            yield subject.part(pod, *keys)


def _findings(subject: Subject, world: ObjectIndex) -> Iterable[Finding]:
    if isinstance(subject.typed, KoordError):
        yield Finding.of(subject.typed)
    if subject.within is None:
        yield from _twice(subject, world)
        yield from api_validation.refusals(subject)
    yield from registry.findings(subject, world)


def _twice(subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
    """Another object of the same name in the file: the one that is applied last counts.

    Repeats do no harm, and files may be for different clusters.
    """
    first = world.twice.get(id(subject))
    if first is None or first.file != subject.file:
        return
    if first.document != subject.document:
        expected = f"a name used once in the file; line {first.locate('').line} has it already"
        yield Finding.warning("metadata.name", subject.name, expected)


def _is_read(subject: Subject) -> bool:
    if api_validation.catalog().of_kind(subject.api_version, subject.kind) is not None:
        return True
    try:
        known = objects.find_kind(subject.document, subject.title) is not None
    except KoordError:
        return True
    return known or registry.is_known(subject) or any(True for _ in templates(subject))
