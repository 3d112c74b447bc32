# SPDX-License-Identifier: Apache-2.0
"""The forms in which objects can be asked for: as they are, as a table, or metadata alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from koord.base.memory.text_cache import text_cache
from koord.controlplane.api_errors import NO_PAGE, failure
from koord.controlplane.requests import tables
from koord.controlplane.schema import CoreSchema
from koord.controlplane.storage import conversion
from koord.kube.errors import StatusDetails
from koord.kube.transport.messages import JSON, Response

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koord.controlplane.resource import Resource
    from koord.controlplane.storage.collection import Entry
    from koord.kube.errors import ApiError

WHOLE, TABLE, METADATA = "", "Table", "PartialObjectMetadata"
_READABLE = {"application/json", "application/*", "*/*"}
_META_VERSIONS = {"v1", "v1beta1"}


class ListPage(msgspec.Struct):
    """A list, or a part of one.

    Attributes:
        token: for the next part; empty at the end.
        remaining: how many objects follow; None where selectors leave that unknown.
    """

    entries: list[Entry]
    version: int
    token: str = ""
    remaining: int | None = None


@dataclass(frozen=True)
class Representation:
    """What the ``Accept`` header asks for."""

    shape: str = WHOLE
    version: str = "v1"


@text_cache(256)
def form(accept: str) -> Representation:
    """The first acceptable form that is known here.

    Raises:
        ApiError: 406, none is.
    """
    for choice in accept.split(",") if accept.strip() else ["*/*"]:
        media, *parameters = [part.strip() for part in choice.split(";")]
        if media not in _READABLE:
            continue
        named = dict(parameter.partition("=")[::2] for parameter in parameters)
        shape = named.get("as", "").removesuffix("List")
        if not shape:
            return Representation()
        version = named.get("v", "v1")
        known = shape in (TABLE, METADATA) and version in _META_VERSIONS
        if known and named.get("g", "meta.k8s.io") == "meta.k8s.io":
            return Representation(shape, version)
    message = "406: Not Acceptable\n\nAvailable representations: application/json"
    raise failure(406, "NotAcceptable", message, StatusDetails())


def refusal(error: ApiError) -> Response:
    """An error as an answer."""
    if error.status.message == NO_PAGE:
        return Response(error.http_status, NO_PAGE.encode(), "text/plain; charset=utf-8")
    seconds = error.retry_after_seconds
    headers = {"retry-after": str(seconds)} if seconds else {}
    return Response(error.http_status, conversion.encode(error.status), JSON, headers)


def renderer(
    resource: Resource, requested: Representation, query: Mapping[str, str], now_seconds: float
) -> Callable[[bytes], bytes] | None:
    """Turns the stored text of one object into the wanted form; None for the text itself."""
    if requested.shape == TABLE:
        return lambda body: tables.table(resource, [body], requested.version, query, now_seconds)
    if requested.shape == METADATA:
        return lambda body: conversion.encode(tables.partial(resource, body, requested.version))
    return conversion.renderer(resource)


def event_renderer(
    resource: Resource, requested: Representation, query: Mapping[str, str], now_seconds: float
) -> Callable[[bytes], bytes] | None:
    """The same for the events of one watch: a table tells its columns with the first alone."""
    if requested.shape != TABLE:
        return renderer(resource, requested, query, now_seconds)
    columns = iter([resource.strategy.columns])
    return lambda body: tables.table(
        resource, [body], requested.version, query, now_seconds, columns=next(columns, ())
    )


def listing(
    resource: Resource,
    page: ListPage,
    requested: Representation,
    query: Mapping[str, str],
    now_seconds: float,
) -> bytes:
    """A list in the wanted form."""
    metadata: dict[str, object] = {"resourceVersion": str(page.version)}
    if page.token:
        metadata["continue"] = page.token
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    bodies = [entry.body for entry in page.entries]
    if requested.shape == TABLE:
        return tables.table(resource, bodies, requested.version, query, now_seconds, metadata)
    kind, api_version = resource.list_kind, resource.api_version
    render = conversion.renderer(resource)
    if requested.shape == METADATA:
        kind, api_version = "PartialObjectMetadataList", f"meta.k8s.io/{requested.version}"
        render = renderer(resource, requested, query, now_seconds)
    if render is None and isinstance(resource.schema, CoreSchema):
        # Items of the kinds that are built in say neither apiVersion nor kind; the list does.
        skipped = len(conversion.head(resource))
        items = b",".join([b"{" + body[skipped:] for body in bodies])
    else:
        items = b",".join(map(render, bodies) if render else bodies)
    head = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
    return b'%b,"items":[%b]}' % (conversion.encode(head)[:-1], items)
