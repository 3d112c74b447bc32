# SPDX-License-Identifier: Apache-2.0
"""Who owns which fields of an object: ``metadata.managedFields``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from koord.controlplane.patching.field_sets import (
    EMPTY,
    MalformedError,
    Paths,
    from_wire,
    member,
    to_wire,
)

if TYPE_CHECKING:
    from koord.base.documents import Document

APPLY, UPDATE = "Apply", "Update"
MOST_UPDATERS = 10
ANCIENT = "ancient-changes"

# Fields that the server itself keeps, or that name the object: nobody owns them.
NOBODYS: Paths = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",)}
    | {
        ("f:metadata", member(name))
        for name in (
            "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName",
            "generation", "managedFields", "resourceVersion",
        )
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FieldManager:
    """What tells two entries apart.

    Attributes:
        api_version: empty for appliers, who stay the same across versions.
    """

    name: str
    operation: str
    subresource: str
    api_version: str

    def __str__(self) -> str:
        told = f'"{self.name}"'
        if self.subresource:
            told += f' with subresource "{self.subresource}"'
        return f"{told} using {self.api_version}" if self.operation == UPDATE else told


@dataclass(frozen=True, slots=True)
class OwnedFields:
    """What one manager owns.

    Attributes:
        time: of its last change; empty where it changed nothing yet.
    """

    paths: Paths
    api_version: str
    time: str = ""


FieldManagers = dict[FieldManager, OwnedFields]


def manager_of(name: str, operation: str, subresource: str, api_version: str) -> FieldManager:
    """The identity of a manager."""
    version = api_version if operation == UPDATE else ""
    return FieldManager(name or "unknown", operation, subresource, version)


def decode(entries: Any) -> FieldManagers:
    """The managers of ``metadata.managedFields``.

    Raises:
        MalformedError: an entry cannot be read.
    """
    managers: FieldManagers = {}
    for entry in entries or ():
        operation, version = entry.get("operation"), entry.get("apiVersion")
        if operation not in (APPLY, UPDATE):
            raise MalformedError("operation must be `Apply` or `Update`")
        if not version:
            raise MalformedError("apiVersion must not be empty")
        if entry.get("fieldsType") != "FieldsV1":
            raise MalformedError("fieldsType must be `FieldsV1`")
        name, subresource = entry.get("manager", ""), entry.get("subresource", "")
        paths = from_wire(entry.get("fieldsV1") or {})
        version_of_updater = version if operation == UPDATE else ""
        managers[FieldManager(name, operation, subresource, version_of_updater)] = OwnedFields(
            paths, version, entry.get("time") or ""
        )
    return managers


def encode(managers: FieldManagers) -> list[Document]:
    """``metadata.managedFields``: appliers first, then by time and name."""
    ordered = sorted(managers.items(), key=lambda pair: _order(*pair))
    return [_entry(manager, owned) for manager, owned in ordered]


def _order(manager: FieldManager, owned: OwnedFields) -> tuple[str, ...]:
    return (manager.operation, owned.time, manager.name, owned.api_version, manager.subresource)


def _entry(manager: FieldManager, owned: OwnedFields) -> Document:
    entry = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": owned.api_version,
        "time": owned.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": to_wire(owned.paths),
        "subresource": manager.subresource,
    }
    return {key: value for key, value in entry.items() if value or key == "fieldsV1"}


def owning(managers: FieldManagers, manager: FieldManager, owned: OwnedFields) -> FieldManagers:
    """The managers, one of them with what it owns now; who owns nothing is no manager."""
    paths = owned.paths - NOBODYS
    others = {each: what for each, what in managers.items() if each != manager}
    return others | {manager: replace(owned, paths=paths)} if paths else others


def losing(managers: FieldManagers, lost: dict[FieldManager, Paths]) -> FieldManagers:
    """The managers without what some of them lost."""
    left = {
        manager: replace(owned, paths=owned.paths - lost.get(manager, EMPTY))
        for manager, owned in managers.items()
    }
    return {manager: owned for manager, owned in left.items() if owned.paths}


def capped(managers: FieldManagers) -> FieldManagers:
    """The managers with the oldest updaters in one entry a version, at most ten in all."""
    updaters = [manager for manager in managers if manager.operation == UPDATE]
    excess = len(updaters) - MOST_UPDATERS
    if excess <= 0:
        return managers
    updaters.sort(key=lambda manager: (managers[manager].time, str(manager)))
    left = dict(managers)
    firsts: dict[str, FieldManager] = {}
    for manager in updaters:
        if excess <= 0:
            break
        version = managers[manager].api_version
        if version not in firsts:
            firsts[version] = manager
            continue
        bucket = manager_of(ANCIENT, UPDATE, "", version)
        kept = left.pop(bucket, None) or left.pop(firsts[version])
        newest = left.pop(manager)
        left[bucket] = replace(newest, paths=newest.paths | kept.paths)
        excess -= 1
    return left
