# SPDX-License-Identifier: Apache-2.0
"""Which files do not say what they should, of many: most do, and reading them is all it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.agent.executor.writers.target_writer import BatchReader
from koord.kernels.cgroup import Directories

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from koord.agent.executor.target import Target, Value
    from koord.agent.executor.value_memory import ValueMemory
    from koord.agent.executor.write_failures import WriteFailures
    from koord.agent.executor.writers.target_writer import TargetWriter


class _ComparedFiles(NamedTuple):
    """The targets of one resource, and their directories in the same order."""

    resource: str
    targets: list[Target]
    directories: Directories


class DriftDetector:
    """Compares files with what they were last found to say, or written with.

    Args:
        kind_of: the kind of a resource.
        current: what each was found to say, or written with.
        failures: targets that could not be written.
    """

    def __init__(
        self,
        kind_of: Callable[[str], TargetWriter],
        current: ValueMemory,
        failures: WriteFailures,
    ) -> None:
        self._kind_of, self._current, self._failures = kind_of, current, failures
        self._compared: tuple[AbstractSet[Target], list[_ComparedFiles]] = (frozenset(), [])

    def drifted(self, targets: AbstractSet[Target]) -> set[Target]:
        """The targets that are to be settled: those that differ, and those of which one cannot
        tell, or that could not be written.

        Single values are read in one go a resource, others not at all: of them one cannot tell.

        Args:
            targets: what is looked at; the same set as last time costs no sorting by resource.
        """
        if self._compared[0] is not targets:
            self._compared = (targets, _compared(targets))
        found = {each.target for each in self._failures.all() if each.target in targets}
        for files in self._compared[1]:
            wanted = self._current.of(files.resource, files.directories)
            values = self._values(files)
            if values != wanted or None in values:
                found |= {
                    target
                    for target, value in zip(files.targets, values, strict=True)
                    if value is None or value != self._current.get(target)
                }
        return found

    def _values(self, files: _ComparedFiles) -> list[Value | None]:
        kind = self._kind_of(files.resource)
        if isinstance(kind, BatchReader):
            return kind.values(files.resource, files.directories)
        return [None] * len(files.targets)


def _compared(targets: AbstractSet[Target]) -> list[_ComparedFiles]:
    by_resource: dict[str, list[Target]] = {}
    for target in targets:
        by_resource.setdefault(target.resource, []).append(target)
    # What is claimed of all containers has the same directories: their names are kept once.
    known: dict[tuple[str, ...], Directories] = {}
    found = []
    for resource, its in by_resource.items():
        its.sort()
        names = tuple(target.directory for target in its)
        if names not in known:
            known[names] = Directories(names)
        found.append(_ComparedFiles(resource, its, known[names]))
    return found
