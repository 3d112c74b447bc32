# SPDX-License-Identifier: Apache-2.0
"""A server reduced to the core kinds: decoding, strategies and built-in admission, no store.

It takes the steps of a write in the order that ``docs/controlplane.md`` states.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from typing import Any

from koord.base.clock import VirtualClock
from koord.controlplane import failures
from koord.controlplane.admission import chain
from koord.controlplane.extension import Attributes
from koord.controlplane.kinds import metadata_rules, table
from koord.controlplane.resource import Context, Resource
from koord.kube.errors import ApiError, StatusCause
from tests.embedded.recording import collection_path

Document = dict[str, Any]
NOW = "2030-01-02T03:04:05Z"
UID = "00000000-0000-4000-8000-000000000000"
NAMESPACE = "golden"


class Objects:
    """What is stored, as admission looks it up."""

    def __init__(self) -> None:
        self._documents: dict[tuple[str, str, str], Document] = {}
        self._version = 0

    def put(self, storage: str, document: Document) -> None:
        """Stores an object under the names in its metadata."""
        metadata = document["metadata"]
        key = (storage, metadata.get("namespace", ""), metadata["name"])
        self._documents[key] = copy.deepcopy(document)
        self._version += 1

    def document(self, storage: str, namespace: str, name: str) -> Document | None:
        return copy.deepcopy(self._documents.get((storage, namespace, name)))

    def documents(self, storage: str, namespace: str = "") -> Iterator[Document]:
        for (kind, where, _), document in sorted(self._documents.items(), key=lambda item: item[0]):
            if kind == storage and namespace in ("", where):
                yield copy.deepcopy(document)

    def version(self, storage: str) -> int:
        return self._version


class StrategyServer:
    """Answers creates, updates and reads of the core kinds."""

    def __init__(self) -> None:
        self.objects = Objects()
        self.objects.put("namespaces", {"metadata": {"name": NAMESPACE}})
        self._admission = chain(self.objects, VirtualClock())
        self._paths = {collection_path(resource): resource for resource in table.resources()}

    def send(
        self, method: str, path: str, body: Document | None, as_table: bool
    ) -> tuple[int, Document]:
        """See :data:`tests.embedded.goldens.Send`."""
        try:
            if path in self._paths:
                return 201, self._create(self._paths[path], body or {})
            collection, name, subresource = self._split(path)
            resource = self._paths[collection]
            stored = self.objects.document(
                resource.storage, NAMESPACE if resource.namespaced else "", name
            )
            if stored is None:
                raise failures.not_found(resource, name)
            if as_table:
                return 200, self._table(resource, stored)
            if method == "PUT":
                return 200, self._update(resource, subresource, body or {}, stored)
            return 200, stored
        except ApiError as error:
            return error.http_status, json.loads(json.dumps(_plain(error.status)))

    def _split(self, path: str) -> tuple[str, str, str]:
        for collection in sorted(self._paths, key=len, reverse=True):
            if path.startswith(f"{collection}/"):
                name, _, subresource = path.removeprefix(f"{collection}/").partition("/")
                return collection, name, subresource
        raise AssertionError(path)

    def _create(self, resource: Resource, body: Document) -> Document:
        document, _ = resource.schema.decode(json.dumps(body).encode(), "Ignore")
        strategy, context = resource.strategy, Context(now=NOW)
        metadata = document.setdefault("metadata", {})
        if resource.namespaced:
            metadata["namespace"] = NAMESPACE
        metadata.update(uid=UID, creationTimestamp=NOW)
        strategy.default(document)
        attributes = self._attributes("CREATE", resource, "", document, None, context)
        asyncio.run(self._admission.mutate(attributes))
        if strategy.generation:
            metadata["generation"] = 1
        strategy.prepare_create(document, context)
        causes = [*metadata_rules.validate_create(resource, document)]
        causes += strategy.validate(document)
        self._finish(resource, document, causes, attributes)
        return document

    def _update(
        self, resource: Resource, subresource: str, body: Document, old: Document
    ) -> Document:
        document, _ = resource.schema.decode(json.dumps(body).encode(), "Ignore")
        strategy, context = resource.strategy, Context(now=NOW)
        for key in ("uid", "creationTimestamp", "generation"):
            if key in old["metadata"]:
                document["metadata"].setdefault(key, old["metadata"][key])
        strategy.default(document)
        attributes = self._attributes("UPDATE", resource, subresource, document, old, context)
        asyncio.run(self._admission.mutate(attributes))
        if subresource == "status":
            strategy.prepare_status(document, old, context)
        elif subresource:
            strategy.prepare_subresource(subresource, document, old, context)
        else:
            strategy.prepare_update(document, old, context)
        _count_generation(strategy, document, old)
        causes = [*metadata_rules.validate_update(resource, document, old)]
        if subresource:
            causes += strategy.validate_subresource(subresource, document, old)
        else:
            causes += strategy.validate_update(document, old)
        self._finish(resource, document, causes, attributes)
        return document

    def _attributes(
        self,
        operation: str,
        resource: Resource,
        subresource: str,
        document: Document,
        old: Document | None,
        context: Context,
    ) -> Attributes:
        metadata = document["metadata"]
        namespace = metadata.get("namespace", "")
        name = metadata.get("name", "")
        return Attributes(operation, resource, subresource, namespace, name, document, old, context)

    def _finish(
        self,
        resource: Resource,
        document: Document,
        causes: list[StatusCause],
        attributes: Attributes,
    ) -> None:
        if causes:
            raise failures.invalid(resource, document["metadata"].get("name", ""), causes)
        asyncio.run(self._admission.validate(attributes))
        self.objects.put(resource.storage, document)

    def _table(self, resource: Resource, document: Document) -> Document:
        columns = [
            {"name": c.name, "type": c.type, "format": c.format, "priority": c.priority}
            for c in resource.strategy.columns
        ]
        cells = resource.strategy.row(document, 1_900_000_000.0)
        return {"columnDefinitions": columns, "rows": [{"cells": cells}]}


def _count_generation(strategy: Any, document: Document, old: Document) -> None:
    if not strategy.generation:
        return
    generation = old["metadata"].get("generation", 0)
    spec = {k: v for k, v in document.items() if k not in ("metadata", "status")}
    before = {k: v for k, v in old.items() if k not in ("metadata", "status")}
    document["metadata"]["generation"] = generation + (spec != before)


def _plain(status: Any) -> Document:
    import msgspec

    plain: Document = msgspec.to_builtins(status)
    return plain
