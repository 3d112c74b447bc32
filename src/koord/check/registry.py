# SPDX-License-Identifier: Apache-2.0
"""Checkers by kind. A component adds one by decorating a function in a module listed in
:data:`MODULES`, or in a package of its own that is imported before the check.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING

from koord.base.errors import KoordError
from koord.check.problem import Finding

if TYPE_CHECKING:
    from koord.check.object_index import ObjectIndex
    from koord.check.subject import Subject

Checker = Callable[["Subject", "ObjectIndex"], Iterable[Finding | KoordError]]
"""Says what is wrong with one object; the world knows the others. It may raise a KoordError."""

ANY = "*"
MODULES = (
    "annotations",
    "component_configs",
    "config_maps",
    "migration_jobs",
    "nodes",
    "pod_groups",
    "pods",
    "colocation_profiles",
    "quotas",
    "reservations",
    "slo_config",
    "unknown_keys",
)
"""Modules of ``koord.check.kinds`` with checkers."""

_checkers: defaultdict[tuple[str, str], list[Checker]] = defaultdict(list)


def checker(kind: str, group: str = ANY) -> Callable[[Checker], Checker]:
    """Registers a function for the objects of a kind.

    Args:
        kind: its name, or :data:`ANY`.
        group: its API group, ``""`` for the core, or :data:`ANY`.
    """

    def register(function: Checker) -> Checker:
        known = _checkers[group, kind]
        if function not in known:
            known.append(function)
        return function

    return register


def findings(subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
    """What all checkers of an object's kind say of it, those of every kind last."""
    for module in MODULES:
        import_module(f"koord.check.kinds.{module}")
    for group in (subject.group, ANY):
        for kind in (subject.kind, ANY):
            for each in _checkers.get((group, kind), ()):
                yield from _run_checker(each, subject, world)


def _run_checker(function: Checker, subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
    try:
        for finding in function(subject, world):
            yield Finding.of(finding) if isinstance(finding, KoordError) else finding
    except KoordError as error:
        yield Finding.of(error)


def is_known(subject: Subject) -> bool:
    """Whether there is a checker for an object's own kind."""
    return any((group, subject.kind) in _checkers for group in (subject.group, ANY))
