# SPDX-License-Identifier: Apache-2.0
"""``/openapi/v2`` and ``/openapi/v3``: what kubectl needs to explain, check and apply.

Types come from the table and from definitions, paths from the list of served resources. There are
no descriptions but those of definitions.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from koord.api.patching.core_types import PREFIX, kinds
from koord.controlplane.schema.openapi_documents.components import (
    KINDS,
    V2,
    V3,
    Components,
    Dialect,
    component_name,
)
from koord.controlplane.schema.openapi_documents.gnostic import encode_document
from koord.kube.transport.messages import (
    APPLY_PATCH,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from koord.controlplane.resource import Resource

V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
V2_PROTOBUF_SENT = V2_PROTOBUF.replace("@", ".")
"""The type of the answer: what clients ask for is no type that their own parsers would take."""
INFO = {"title": "Kubernetes", "version": "1.35"}
META_V1 = "apimachinery.pkg.apis.meta.v1."
_ACTIONS = {"get": "get", "put": "put", "patch": "patch", "delete": "delete", "post": "post"}
# Parameters of the verbs that write; kubectl looks for fieldValidation before it relies on it.
_WRITING = ("dryRun", "fieldManager", "fieldValidation")
# The kinds that subresources take: group, version, kind.
_SUBRESOURCE_KINDS = {
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
}


class OpenApi:
    """The documents for one list of served resources. They are made when first asked for.

    Args:
        resources: everything that is served; make a new instance when that changes.
    """

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._by_path: dict[str, list[Resource]] = {}
        for resource in resources:
            self._by_path.setdefault(_path(resource), []).append(resource)
        self._v3: dict[str, bytes] = {}

    @cached_property
    def index(self) -> bytes:
        """``/openapi/v3``: where each group version's document is."""
        paths = {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={self.hash(path)}"}
            for path in sorted(self._by_path)
        }
        return msgspec.json.encode({"paths": paths})

    def v3(self, path: str) -> bytes | None:
        """``/openapi/v3/PATH``; None for an unknown path.

        Args:
            path: ``api/v1`` or ``apis/GROUP/VERSION``.
        """
        if path not in self._v3:
            if path not in self._by_path:
                return None
            components = Components(V3)
            paths = _paths(self._by_path[path], V3, components)
            document = {
                "openapi": "3.0.0",
                "info": INFO,
                "paths": paths,
                "components": {"schemas": components.schemas},
            }
            self._v3[path] = msgspec.json.encode(document)
        return self._v3[path]

    def hash(self, path: str) -> str:
        """What changes with the document of a path: its ETag.

        Raises:
            KeyError: unknown path.
        """
        document = self.v3(path)
        if document is None:
            raise KeyError(path)
        return hashlib.sha512(document).hexdigest().upper()

    @cached_property
    def _v2_document(self) -> dict[str, Any]:
        components = Components(V2)
        paths: dict[str, Any] = {}
        for resources in self._by_path.values():
            paths.update(_paths(resources, V2, components))
        return {
            "swagger": "2.0",
            "info": INFO,
            "paths": paths,
            "definitions": components.schemas,
        }

    @cached_property
    def v2(self) -> bytes:
        """``/openapi/v2`` as JSON."""
        return msgspec.json.encode(self._v2_document)

    @cached_property
    def v2_protobuf(self) -> bytes:
        """``/openapi/v2`` as :data:`V2_PROTOBUF`."""
        return encode_document(self._v2_document)


def _path(resource: Resource) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def _paths(resources: list[Resource], dialect: Dialect, components: Components) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for name in ("DeleteOptions", "Status"):
        components.add_core(META_V1 + name)
    for resource in resources:
        components.add(resource)
        paths.update(_items(resource, dialect, components))
    return paths


def _items(
    resource: Resource, dialect: Dialect, components: Components
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The paths of one resource."""
    writer = _Operations(resource, dialect)
    verbs = set(resource.verbs)
    top = f"/{_path(resource)}"
    base = f"{top}/namespaces/{{namespace}}" if resource.namespaced else top
    collection = {"list": "get", "create": "post", "deletecollection": "delete"}
    methods = [method for verb, method in collection.items() if verb in verbs]
    yield f"{base}/{resource.plural}", writer.item(methods, (), is_list=True)
    if resource.namespaced and "list" in verbs:
        yield f"{top}/{resource.plural}", writer.item(["get"], (), is_list=True, everywhere=True)
    single = {"get": "get", "update": "put", "patch": "patch", "delete": "delete"}
    methods = [method for verb, method in single.items() if verb in verbs]
    if methods:
        yield f"{base}/{resource.plural}/{{name}}", writer.item(methods, ("name",))
    for subresource in resource.subresources:
        path = f"{base}/{resource.plural}/{{name}}/{subresource}"
        kind = _SUBRESOURCE_KINDS.get(subresource)
        if kind is not None:
            components.add_core(kinds()[kind])
        methods = ["post"] if subresource in ("binding", "eviction") else ["get", "put", "patch"]
        yield path, writer.item(methods, ("name",), subresource=subresource)


class _Operations:
    """Writes the operations of one resource."""

    def __init__(self, resource: Resource, dialect: Dialect) -> None:
        self._resource = resource
        self._dialect = dialect

    def item(
        self,
        methods: list[str],
        parameters: tuple[str, ...],
        *,
        subresource: str = "",
        is_list: bool = False,
        everywhere: bool = False,
    ) -> dict[str, Any]:
        """One path with its operations."""
        named = parameters
        if self._resource.namespaced and not everywhere:
            named = (*named, "namespace")
        kind = _SUBRESOURCE_KINDS.get(subresource)
        item: dict[str, Any] = {
            method: self._operation(method, kind, subresource, is_list, everywhere)
            for method in methods
        }
        if named:
            item["parameters"] = [self._parameter(name, "path") for name in named]
        return item

    def _operation(
        self,
        method: str,
        kind: tuple[str, str, str] | None,
        subresource: str,
        is_list: bool,
        everywhere: bool,
    ) -> dict[str, Any]:
        resource, action = self._resource, _ACTIONS[method]
        if is_list and method in ("get", "delete"):
            action = "list" if method == "get" else "deletecollection"
        scope = "Namespaced" if resource.namespaced and not everywhere else ""
        told = f"{resource.group}_{resource.version}_{scope}{resource.kind}{subresource.title()}"
        group, version, name = kind or (resource.group, resource.version, resource.kind)
        operation: dict[str, Any] = {
            "operationId": f"{action}_{told.replace('.', '_')}",
            "x-kubernetes-action": action,
            KINDS: {"group": group, "version": version, "kind": name},
        }
        writes = method in ("post", "put", "patch")
        parameters = [self._parameter(each, "query") for each in _WRITING] if writes else []
        if method == "patch":
            parameters.append(self._parameter("force", "query"))
        answer = component_name(resource) if kind is None else PREFIX + kinds()[kind]
        if writes:
            self._add_body(operation, parameters, method, answer)
        if parameters:
            operation["parameters"] = parameters
        if action == "list":
            answer += "List"
        elif method == "delete":
            answer = f"{PREFIX}{META_V1}Status"
        operation["responses"] = {"200": self._response(answer)}
        return operation

    def _add_body(
        self,
        operation: dict[str, Any],
        parameters: list[dict[str, Any]],
        method: str,
        name: str,
    ) -> None:
        types = [JSON]
        schema = self._dialect.reference(name)
        if method == "patch":
            core = self._resource.group == "" or name.startswith(PREFIX)
            types = [JSON_PATCH, MERGE_PATCH, *([STRATEGIC_MERGE_PATCH] if core else [])]
            types.append(APPLY_PATCH)
            schema = {"type": "object"}
        if self._dialect.version == 3:
            content = {each: {"schema": schema} for each in types}
            operation["requestBody"] = {"content": content, "required": True}
        else:
            operation["consumes"] = types
            body = {"name": "body", "in": "body", "required": True, "schema": schema}
            parameters.insert(0, body)

    def _parameter(self, name: str, place: str) -> dict[str, Any]:
        kind = {"type": "boolean" if name == "force" else "string", "uniqueItems": True}
        parameter: dict[str, Any] = {"name": name, "in": place}
        if place == "path":
            parameter["required"] = True
        if self._dialect.version == 3:
            return {**parameter, "schema": kind}
        return {**parameter, **kind}

    def _response(self, name: str) -> dict[str, Any]:
        schema = {"schema": self._dialect.reference(name)}
        if self._dialect.version == 3:
            return {"description": "OK", "content": {JSON: schema}}
        return {"description": "OK", **schema}
