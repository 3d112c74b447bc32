# SPDX-License-Identifier: Apache-2.0
"""Custom resources: CustomResourceDefinition objects become served resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koord.controlplane.customresources import accepted_names
from koord.controlplane.customresources.strategies import CLEANUP, CustomStrategy, put_condition
from koord.controlplane.discovery import stability
from koord.controlplane.handlers import metadata
from koord.controlplane.handlers.delete import mark
from koord.controlplane.resource import Context, Resource
from koord.controlplane.schema import crd_schema
from koord.controlplane.storage import conversion

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.base.documents import Document
    from koord.controlplane.server import Server
    from koord.controlplane.storage.collection import Change

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
_ESTABLISHED = {"type": "Established", "status": "True", "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted"}  # fmt: skip
_NOT_ESTABLISHED = {"type": "Established", "status": "False", "reason": "NotAccepted",
                    "message": "not all names are accepted"}  # fmt: skip
_TERMINATING = {"type": "Terminating", "status": "True", "reason": "InstanceDeletionInProgress",
                "message": "CustomResource deletion is in progress"}  # fmt: skip
_CLOSED = "create not allowed while custom resource definition is terminating"


class CustomResources:
    """Keeps the catalog in step with the definitions in the store."""

    def __init__(self, server: Server, clock: Clock) -> None:
        self._server = server
        self._clock = clock
        self._ending: set[str] = set()  # by storage, definitions whose instances are deleted

    def serve_all(self) -> None:
        """Serves what is defined already."""
        for crd in self._definitions():
            self._serve(crd)

    def follow(self) -> None:
        """Reacts to definitions from now on, and goes on with those that are on their end."""
        self._server.store.listen(CRDS, self._changed)
        self._server.store.listen_to_deletions(self._deleted)
        for crd in self._definitions():
            self._follow_end(crd)

    def _changed(self, storage: str, change: Change) -> None:
        crd = msgspec.json.decode(change.entry.body)
        if change.deleted:
            self._withdraw(crd)
        elif not self._establish(crd):
            self._serve(crd)
            self._follow_end(crd)

    def _deleted(self, storage: str, change: Change) -> None:
        if storage in self._ending:
            self._finish(storage)

    def _establish(self, crd: Document) -> bool:
        """Writes names, conditions and stored versions into the status; False if they are there."""
        spec, status = crd["spec"], crd.setdefault("status", {})
        before = msgspec.json.encode(status)
        now = metadata.timestamp(self._clock.wall_seconds())
        accepted = accepted_names.accept(crd, self._definitions())
        status["acceptedNames"] = accepted.names
        stored = [version["name"] for version in spec["versions"] if version.get("storage")]
        versions = status.setdefault("storedVersions", [])
        versions += [name for name in stored if name not in versions]
        named = {"type": "NamesAccepted", "status": str(accepted.all), "reason": accepted.reason,
                 "message": accepted.message}  # fmt: skip
        put_condition(status, named, now)
        if not _is_established(crd):
            put_condition(status, _ESTABLISHED if accepted.all else _NOT_ESTABLISHED, now)
        if msgspec.json.encode(status) == before:
            return False
        self._put(crd)
        return True

    def _serve(self, crd: Document) -> None:
        if _is_established(crd):
            self._server.catalog.remove(crd["spec"]["group"], crd["spec"]["names"]["plural"])
            self._server.catalog.add(custom_resources(crd))

    def _follow_end(self, crd: Document) -> None:
        """Deletes the instances of a definition that is to go; the last one takes it along."""
        meta, storage = crd["metadata"], crd["metadata"]["name"]
        if "deletionTimestamp" not in meta or CLEANUP not in meta.get("finalizers", ()):
            return
        if storage in self._ending:
            return
        self._ending.add(storage)
        resource, server = self._server.catalog.stored(storage), self._server
        context = Context(metadata.timestamp(self._clock.wall_seconds()))
        for entry in list(server.store.collection(storage).entries.values()):
            if resource is None:  # No served version is the stored one.
                server.store.remove(storage, msgspec.json.decode(entry.body), entry.fields)
                continue
            document = conversion.document(resource, entry.body)
            if not mark(resource, document, {}, context):
                server.verbs.remove(resource, document, context)
            elif document != conversion.document(resource, entry.body):
                server.verbs.put(resource, document, context)
        self._finish(storage)

    def _finish(self, storage: str) -> None:
        """Lets a definition go once no instance is left."""
        definitions = self._server.catalog.stored(CRDS)
        entry = self._server.store.collection(CRDS).entries.get(storage)
        if definitions is None or entry is None:
            return
        crd = conversion.document(definitions, entry.body)
        now = metadata.timestamp(self._clock.wall_seconds())
        if self._server.store.collection(storage).entries:
            if put_condition(crd["status"], _TERMINATING, now):
                self._put(crd)
            return
        meta = crd["metadata"]
        meta["finalizers"] = [name for name in meta["finalizers"] if name != CLEANUP]
        if meta["finalizers"]:
            self._put(crd)
        else:
            del meta["finalizers"]
            self._server.verbs.remove(definitions, crd, Context(now))

    def _withdraw(self, crd: Document) -> None:
        """Serves a resource no more, and lets others have its names."""
        spec, storage = crd["spec"], crd["metadata"]["name"]
        self._ending.discard(storage)
        if _is_established(crd):
            self._server.catalog.remove(spec["group"], spec["names"]["plural"])
            self._server.store.drop(storage)
        for other in self._definitions():
            if other["spec"]["group"] == spec["group"]:
                self._establish(other)

    def _put(self, crd: Document) -> None:
        resource = self._server.catalog.stored(CRDS)
        assert resource is not None
        now = metadata.timestamp(self._clock.wall_seconds())
        self._server.verbs.put(resource, crd, Context(now))

    def _definitions(self) -> list[Document]:
        entries = self._server.store.collection(CRDS).entries.values()
        return [msgspec.json.decode(entry.body) for entry in list(entries)]


def _is_established(crd: Document) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(
        condition["type"] == "Established" and condition["status"] == "True"
        for condition in conditions
    )


def custom_resources(crd: Document) -> list[Resource]:
    """One resource for each served version of a definition; the stored one, at least unserved."""
    spec = crd["spec"]
    names = (crd.get("status") or {}).get("acceptedNames") or spec["names"]
    group, ends = spec["group"], "deletionTimestamp" in crd["metadata"]
    stored = next(version["name"] for version in spec["versions"] if version.get("storage"))
    resources = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        strategy = CustomStrategy(version, f"{group}/{version['name']}", names["kind"])
        strategy.closed = _CLOSED if ends else ""
        subresources = tuple(version.get("subresources") or {})
        resources.append(Resource(
            group, version["name"], names["kind"], names["plural"],
            spec.get("scope") == "Namespaced", crd_schema(crd, version["name"]),
            strategy, storage_api_version=f"{group}/{stored}",
            singular=names.get("singular", ""), list_kind=names.get("listKind", ""),
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
                warning=_deprecation(crd, version), subresources=subresources,
        ))  # fmt: skip
    return resources


def _deprecation(crd: Document, version: Document) -> str:
    """The warning of a deprecated version; empty for another."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning"):
        return str(version["deprecationWarning"])
    group, kind = crd["spec"]["group"], crd["spec"]["names"]["kind"]
    told = f"{group}/{version['name']} {kind} is deprecated"
    newer = [v["name"] for v in crd["spec"]["versions"]
             if v.get("served") and not v.get("deprecated")]  # fmt: skip
    newer.sort(key=stability, reverse=True)
    return f"{told}; use {group}/{newer[0]} {kind}" if newer else told
