# SPDX-License-Identifier: Apache-2.0
"""All that changes, component by component."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from koord.api import definitions as own_definitions
from koord.check.original import shared_objects
from koord.check.original.change import ComponentChanges, Effect, MovingChange
from koord.check.original.installation import (
    CRD,
    LEASE,
    MUTATING,
    VALIDATING,
    RunningProgram,
    running_programs,
)
from koord.check.original.programs import WITHOUT_COUNTERPART, ProgramReaders, of_program
from koord.controllers.webhook.framework.default_configurations import default_configurations

if TYPE_CHECKING:
    from koord.api.kinds.registry import Kind
    from koord.base.documents import Document

LeaseOf = Callable[[RunningProgram, str | None], tuple[str, str] | None]
"""The name and namespace of a program's Lease, from its flags and the text of its configuration."""
_MANAGER = "koord-manager"


class InstallationReader(Protocol):
    """The objects of an installation: those of files, or of a cluster."""

    live: bool

    def workloads(self) -> Sequence[Document]:
        """Those that may run its programs."""
        ...

    def all(self, kind: Kind) -> Sequence[Document]:
        """The objects of a kind."""
        ...

    def get(self, kind: Kind, name: str, namespace: str) -> Document | None:
        """An object; None where there is none, or it may not be read."""
        ...

    def objects(self) -> ComponentChanges:
        """What is wrong with objects of koord's kinds, and with slo-controller-config."""
        ...


class MovingReport(NamedTuple):
    """What changes.

    Args:
        components: programs first, in the order in which they are moved.
    """

    components: list[ComponentChanges]

    def count(self, effect: Effect) -> int:
        """How many changes are of a sort."""
        return sum(each.count(effect) for each in self.components)


def report(
    source: InstallationReader,
    readers: Mapping[str, ProgramReaders],
    lease_of: LeaseOf,
) -> MovingReport:
    """Compares an installation with koord's.

    Args:
        source: the installation.
        readers: how koord's programs read what the original's are given, by name.
        lease_of: names a program's Lease.
    """
    found = list(running_programs(source.workloads()))
    components = [_program(each, source, readers, lease_of) for each in found]
    namespace = next((each.namespace for each in found if each.name == _MANAGER), "")
    hooks = ComponentChanges("webhooks", changes=[])
    own = default_configurations(namespace) if namespace else default_configurations()
    theirs = [*source.all(MUTATING), *source.all(VALIDATING)]
    hooks.changes += shared_objects.webhooks(own, theirs)
    return MovingReport([*components, hooks, _definitions(source), source.objects()])


def _definitions(source: InstallationReader) -> ComponentChanges:
    found, theirs = ComponentChanges("definitions"), source.all(CRD)
    needed = {each["metadata"]["name"] for each in own_definitions.crds(guide=False)}
    if not source.live:
        # Charts come without definitions, or with some: what a cluster lacks no file tells.
        there = needed.intersection(each["metadata"]["name"] for each in theirs)
        found.source = f"{len(there)} of {len(needed)} among the files"
        needed = set()
    found.changes += shared_objects.definitions(own_definitions.crds(), theirs, needed)
    return found


def _program(
    program: RunningProgram,
    source: InstallationReader,
    readers: Mapping[str, ProgramReaders],
    lease_of: LeaseOf,
) -> ComponentChanges:
    found = ComponentChanges(program.name, program.source)
    instead = WITHOUT_COUNTERPART.get(program.name)
    if instead is not None:
        found.changes.append(MovingChange(Effect.NOTE, program.name, instead))
        return found

    def text_of(namespace: str, name: str, key: str) -> str | None:
        from koord.check.original.installation import CONFIG_MAP

        document = source.get(CONFIG_MAP, name, namespace)
        text = (document or {}).get("data", {}).get(key)
        return text if isinstance(text, str) else None

    if program.is_moved:
        found.changes.append(MovingChange(Effect.NOTE, program.name, "is koord's already"))
    else:
        found.changes += of_program(program, readers[program.name], text_of)
    if source.live:
        path = program.flag("config")
        place = program.config_map(path) if path else None
        named = lease_of(program, text_of(program.namespace, *place) if place else None)
        if named is not None:
            lease = source.get(LEASE, *named)
            found.changes.append(shared_objects.lease(*named, lease, moved=program.is_moved))
    return found
