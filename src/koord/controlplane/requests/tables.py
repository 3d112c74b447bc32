# SPDX-License-Identifier: Apache-2.0
"""Answers as tables, for ``kubectl get``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controlplane.api_errors import bad_request
from koord.controlplane.storage import conversion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.base.documents import Document
    from koord.controlplane.resource import Column, Resource

_DESCRIPTIONS = {
    "Name": "The name, unique within the resource and the namespace.",
    "Age": "How long ago the object was created.",
}


def table(
    resource: Resource,
    bodies: Sequence[bytes],
    version: str,
    query: Mapping[str, str],
    now_seconds: float,
    metadata: Mapping[str, object] | None = None,
    columns: Sequence[Column] | None = None,
) -> bytes:
    """A ``Table`` of objects.

    Args:
        bodies: as stored.
        version: of meta.k8s.io.
        query: ``includeObject`` says what each row carries.
        metadata: of the list; None for that of a single object.
        columns: that are told; None for those of the resource.

    Raises:
        ApiError: 400, an unknown ``includeObject``.
    """
    include = query.get("includeObject", "") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        raise bad_request(f'unrecognized includeObject value: "{include}"')
    columns = resource.strategy.columns if columns is None else columns
    rows = []
    documents = [conversion.document(resource, body) for body in bodies]
    for document in documents:
        row: Document = {"cells": resource.strategy.row(document, now_seconds)}
        if include == "Metadata":
            row["object"] = _partial(document, version)
        elif include == "Object":
            row["object"] = document
        rows.append(row)
    if metadata is None:
        metadata = {"resourceVersion": documents[0]["metadata"]["resourceVersion"]}
    return conversion.encode({
        "kind": "Table", "apiVersion": f"meta.k8s.io/{version}", "metadata": metadata,
        "columnDefinitions": [_definition(column) for column in columns],
        "rows": rows,
    })  # fmt: skip


def partial(resource: Resource, body: bytes, version: str) -> Document:
    """The ``PartialObjectMetadata`` of a stored object."""
    return _partial(conversion.document(resource, body), version)


def _partial(document: Document, version: str) -> Document:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": document["metadata"],
    }


def _definition(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description or _DESCRIPTIONS.get(column.name, ""),
        "priority": column.priority,
    }
