# SPDX-License-Identifier: Apache-2.0
"""Which files do not say what they should, of many: most do, and reading them is all it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.executor.writers.target_writer import BatchReader

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from koord.agent.executor.target import Target, Value
    from koord.agent.executor.writers.target_writer import TargetWriter


def drifted_targets(
    targets: Iterable[Target],
    kind_of: Callable[[str], TargetWriter],
    current: Mapping[Target, Value],
    failing: Container[Target],
) -> set[Target]:
    """The targets that are to be settled: those that differ, and those of which one cannot tell.

    Args:
        targets: what is looked at; single values are read in one go a resource, others not at all.
        kind_of: the kind of a resource.
        current: what each was last found to say, or written with.
        failing: targets that could not be written.
    """
    by_resource: dict[str, list[Target]] = {}
    for target in targets:
        by_resource.setdefault(target.resource, []).append(target)
    found: set[Target] = set()
    for resource, its in by_resource.items():
        kind = kind_of(resource)
        values: Sequence[Value | None] = [None] * len(its)
        if isinstance(kind, BatchReader):
            values = kind.values(resource, [target.directory for target in its])
        found |= {
            target
            for target, value in zip(its, values, strict=True)
            if value is None or value != current.get(target) or target in failing
        }
    return found
