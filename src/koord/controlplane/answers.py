# SPDX-License-Identifier: Apache-2.0
"""The forms in which objects can be asked for: as they are, as a table, or metadata alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from koord.controlplane import objects, tables
from koord.controlplane.failures import NO_PAGE, failure
from koord.controlplane.schema import CoreSchema
from koord.kube.errors import StatusDetails
from koord.kube.messages import JSON, Response

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koord.controlplane.reads import Page
    from koord.controlplane.resource import Resource
    from koord.kube.errors import ApiError

WHOLE, TABLE, METADATA = "", "Table", "PartialObjectMetadata"
_READABLE = {"application/json", "application/*", "*/*"}
_META_VERSIONS = {"v1", "v1beta1"}


@dataclass(frozen=True)
class Form:
    """What the ``Accept`` header asks for."""

    shape: str = WHOLE
    version: str = "v1"


@lru_cache(maxsize=256)
def form(accept: str) -> Form:
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
            return Form()
        version = named.get("v", "v1")
        known = shape in (TABLE, METADATA) and version in _META_VERSIONS
        if known and named.get("g", "meta.k8s.io") == "meta.k8s.io":
            return Form(shape, version)
    message = "406: Not Acceptable\n\nAvailable representations: application/json"
    raise failure(406, "NotAcceptable", message, StatusDetails())


def refusal(error: ApiError) -> Response:
    """An error as an answer."""
    if error.status.message == NO_PAGE:
        return Response(error.http_status, NO_PAGE.encode(), "text/plain; charset=utf-8")
    seconds = error.retry_after_seconds
    headers = {"retry-after": str(seconds)} if seconds else {}
    return Response(error.http_status, objects.encode(error.status), JSON, headers)


def renderer(
    resource: Resource, asked: Form, query: Mapping[str, str], now_seconds: float
) -> Callable[[bytes], bytes] | None:
    """Turns the stored text of one object into the wanted form; None for the text itself."""
    if asked.shape == TABLE:
        return lambda body: tables.table(resource, [body], asked.version, query, now_seconds)
    if asked.shape == METADATA:
        return lambda body: objects.encode(tables.partial(resource, body, asked.version))
    return objects.renderer(resource)


def event_renderer(
    resource: Resource, asked: Form, query: Mapping[str, str], now_seconds: float
) -> Callable[[bytes], bytes] | None:
    """The same for the events of one watch: a table tells its columns with the first alone."""
    if asked.shape != TABLE:
        return renderer(resource, asked, query, now_seconds)
    columns = iter([resource.strategy.columns])
    return lambda body: tables.table(
        resource, [body], asked.version, query, now_seconds, columns=next(columns, ())
    )


def listing(
    resource: Resource, page: Page, asked: Form, query: Mapping[str, str], now_seconds: float
) -> bytes:
    """A list in the wanted form."""
    metadata: dict[str, object] = {"resourceVersion": str(page.version)}
    if page.token:
        metadata["continue"] = page.token
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    bodies = [entry.body for entry in page.entries]
    if asked.shape == TABLE:
        return tables.table(resource, bodies, asked.version, query, now_seconds, metadata)
    kind, api_version = resource.list_kind, resource.api_version
    render = objects.renderer(resource)
    if asked.shape == METADATA:
        kind, api_version = "PartialObjectMetadataList", f"meta.k8s.io/{asked.version}"
        render = renderer(resource, asked, query, now_seconds)
    if render is None and isinstance(resource.schema, CoreSchema):
        # Items of the kinds that are built in say neither apiVersion nor kind; the list does.
        skipped = len(objects.head(resource))
        items = b",".join([b"{" + body[skipped:] for body in bodies])
    else:
        items = b",".join(map(render, bodies) if render else bodies)
    head = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
    return b'%b,"items":[%b]}' % (objects.encode(head)[:-1], items)
