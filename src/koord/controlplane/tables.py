# SPDX-License-Identifier: Apache-2.0
"""Answers as tables, for ``kubectl get``."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from koord.controlplane import objects
from koord.controlplane.failures import bad_request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.controlplane.resource import Column, Document, Resource

_DESCRIPTIONS = {
    "Name": "The name, unique within the resource and the namespace.",
    "Age": "How long ago the object was created.",
}
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 365 * 86_400


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
    documents = [objects.document(resource, body) for body in bodies]
    for document in documents:
        row: Document = {"cells": resource.strategy.row(document, now_seconds)}
        if include == "Metadata":
            row["object"] = _partial(document, version)
        elif include == "Object":
            row["object"] = document
        rows.append(row)
    if metadata is None:
        metadata = {"resourceVersion": documents[0]["metadata"]["resourceVersion"]}
    return objects.encode({
        "kind": "Table", "apiVersion": f"meta.k8s.io/{version}", "metadata": metadata,
        "columnDefinitions": [_definition(column) for column in columns],
        "rows": rows,
    })  # fmt: skip


def partial(resource: Resource, body: bytes, version: str) -> Document:
    """The ``PartialObjectMetadata`` of a stored object."""
    return _partial(objects.document(resource, body), version)


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


def age(timestamp: str | None, now_seconds: float) -> str:
    """How long ago a time was, as kubectl shows it: ``45s``, ``3m10s``, ``5d``.

    Args:
        timestamp: RFC 3339; None for unknown.
        now_seconds: seconds since the epoch.
    """
    if timestamp is None:
        return "<unknown>"
    return human_duration(now_seconds - datetime.fromisoformat(timestamp).timestamp())


def human_duration(seconds: float) -> str:
    """A length of time in at most two units (apimachinery's ``HumanDuration``)."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(seconds: int, big: int, big_name: str, small: int, small_name: str) -> str:
    rest = seconds % big // small
    return f"{seconds // big}{big_name}" + (f"{rest}{small_name}" if rest else "")
