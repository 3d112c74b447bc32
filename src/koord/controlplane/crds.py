# SPDX-License-Identifier: Apache-2.0
"""Custom resources: CustomResourceDefinition objects become served resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koord.controlplane import metadata
from koord.controlplane.custom import CustomStrategy
from koord.controlplane.discovery import stability
from koord.controlplane.resource import Context, Resource
from koord.controlplane.schema import crd_schema

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.controlplane.resource import Document
    from koord.controlplane.server import Server
    from koord.controlplane.store import Change

CRDS = "customresourcedefinitions.apiextensions.k8s.io"


class CustomResources:
    """Keeps the catalog in step with the definitions in the store."""

    def __init__(self, server: Server, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    def serve_all(self) -> None:
        """Serves what is defined already."""
        for entry in self._server.store.collection(CRDS).entries.values():
            self._serve(msgspec.json.decode(entry.body))

    def follow(self) -> None:
        """Reacts to definitions from now on."""
        self._server.store.listen(self._changed)

    def _changed(self, storage: str, change: Change) -> None:
        if storage != CRDS:
            return
        crd = msgspec.json.decode(change.entry.body)
        if change.deleted:
            self._withdraw(crd)
        elif not self._establish(crd):
            self._serve(crd)

    def _establish(self, crd: Document) -> bool:
        """Writes names, conditions and stored versions into the status; False if they are there."""
        spec, status = crd["spec"], crd.setdefault("status", {})
        before = msgspec.json.encode(status)
        now = metadata.timestamp(self._clock.wall_seconds())
        status["acceptedNames"] = spec["names"]
        stored = [version["name"] for version in spec["versions"] if version.get("storage")]
        versions = status.setdefault("storedVersions", [])
        versions += [name for name in stored if name not in versions]
        conditions = status.setdefault("conditions", [])
        for kind, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ):
            if not any(condition["type"] == kind for condition in conditions):
                conditions.append({"type": kind, "status": "True", "lastTransitionTime": now,
                                   "reason": reason, "message": message})  # fmt: skip
        if msgspec.json.encode(status) == before:
            return False
        resource = self._server.catalog.stored(CRDS)
        assert resource is not None
        self._server.verbs.put(resource, crd, Context(now))
        return True

    def _serve(self, crd: Document) -> None:
        spec = crd["spec"]
        self._server.catalog.remove(spec["group"], spec["names"]["plural"])
        self._server.catalog.add(custom_resources(crd))

    def _withdraw(self, crd: Document) -> None:
        """Deletes all objects of a kind that is no more."""
        spec, store = crd["spec"], self._server.store
        storage = f"{spec['names']['plural']}.{spec['group']}"
        for entry in list(store.collection(storage).entries.values()):
            store.remove(storage, msgspec.json.decode(entry.body), entry.fields)
        self._server.catalog.remove(spec["group"], spec["names"]["plural"])
        store.drop(storage)


def custom_resources(crd: Document) -> list[Resource]:
    """One resource for each served version of a definition; the stored one, at least unserved."""
    spec = crd["spec"]
    names, group = spec["names"], spec["group"]
    stored = next(version["name"] for version in spec["versions"] if version.get("storage"))
    resources = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        strategy = CustomStrategy(version, f"{group}/{version['name']}", names["kind"])
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
