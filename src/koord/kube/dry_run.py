# SPDX-License-Identifier: Apache-2.0
"""A dry run's writes: never sent, told and counted, and answered as the server would.

What the answer is made of is one read of the object as it is. So a caller meets the conflict or
the missing object that it would meet, and gets back the object as it would be.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from koord.api import codec
from koord.base.documents import Document
from koord.kube.dry_run_log import SuppressedWrite, WriteLog, log_write
from koord.kube.errors import ApiError, Status, StatusDetails
from koord.kube.transport.messages import (
    APPLY_PATCH,
    JSON_PATCH,
    STRATEGIC_MERGE_PATCH,
    Request,
    Response,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from koord.api.kinds.registry import Kind
    from koord.base.metrics import MetricRegistry

    Read = Callable[[Request], Awaitable[Response]]


_READS = ("GET", "HEAD")
_NOT_FOUND, _CONFLICT = 404, 409
_ROOT = re.compile(r"/(?:api/[^/]+|apis/[^/]+/[^/]+)/(?P<rest>.+)").fullmatch
_OF_NAMESPACES = ("status", "finalize")
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_ABOUT_PODS = {"binding": "bind", "eviction": "evict"}
# There are many, nobody reads them back, and roles that may write them often may not read them.
_UNREAD = "events"


class RequestInfo(NamedTuple):
    """What a path is about.

    Attributes:
        path: of the object without its subresource, or of the collection.
        plural: of the kind, as in URLs.
        namespace, name, subresource: empty for none.
    """

    path: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def request_info(path: str) -> RequestInfo:
    """Takes a path of the API apart; one that is none is a collection of that name."""
    found = _ROOT(path)
    if found is None:
        return RequestInfo(path, path)
    rest, namespace = found["rest"].split("/"), ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
        namespace, rest = unquote(rest[1]), rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    whole = path[: -len(subresource) - 1] if subresource else path
    return RequestInfo(whole, plural, namespace, unquote(name), subresource)


class DryRun:
    """The switch in front of every writer of a daemon; its client takes it, others ask the client.

    Args:
        registry: where writes are counted; None for one of its own.
    """

    def __init__(self, registry: MetricRegistry | None = None) -> None:
        self._log = WriteLog(registry)

    def record_local(self, verb: str, what: str, resource: str = "file", **words: object) -> None:
        """Tells of something that is not done on this machine.

        Args:
            verb: ``write``, ``delete``, ``mount`` ...
            what: the file, or whatever it would be done to.
            resource: what it is counted as; of few values.
            words: what else there is to say, such as the value.
        """
        self._log.record(verb, resource, what, {"verb": verb, "object": what, **words})

    @staticmethod
    def intercepts(request: Request) -> bool:
        """Whether a request may change anything: all that is no read."""
        return request.method not in _READS

    async def answer(self, request: Request, kind: Kind | None, read: Read) -> Response:
        """What the server would answer.

        Args:
            request: not sent.
            kind: what it is about; None where the caller does not say.
            read: asks the server for something.

        Raises:
            ApiError: the server would refuse, or could not be asked what is there.
            TransportError: no answer came.
        """
        place = request_info(request.path)
        body = codec.parse_json(request.body, place.path) if request.body else {}
        verb = _verb(request, place)
        made = await self._made(verb, place, request, body, read)
        name = place.name or _meta(body).get("name") or _meta(body).get("generateName", "")
        title = f"{kind.name if kind else place.plural} "
        title += f"{place.namespace}/{name}" if place.namespace else name
        write = SuppressedWrite(
            verb, place.plural, title.rstrip(), place.subresource, body, request.body
        )
        log_write(self._log, write)
        return Response(201 if request.method == "POST" else 200, codec.to_json(made))

    async def _made(
        self, verb: str, place: RequestInfo, request: Request, body: Document, read: Read
    ) -> Document:
        """The object as it would be, or a Status where the server gives no more."""
        if verb == "create":
            await _must_be_free(place, body, read)
            return body
        if place.plural == _UNREAD or not place.name:
            return body if verb != "delete" else _done()
        try:
            there = await _read_existing(place, read)
        except ApiError as error:
            if verb != "apply" or error.http_status != _NOT_FOUND:
                raise
            return body
        if verb in ("bind", "evict", "delete"):
            _check(place, there, _precondition(verb, body))
            if verb == "bind" and (node := there.get("spec", {}).get("nodeName")):
                text = f"pod {place.name} is already assigned to node {node!r}"
                raise _refusal(place, _CONFLICT, "Conflict", text)
            return _done()
        if request.content_type == JSON_PATCH:
            return there
        _check(place, there, _meta(body))
        if verb == "update":
            return {**body, "metadata": {**_meta(body), **_given(_meta(there))}}
        keyed = request.content_type == STRATEGIC_MERGE_PATCH
        return dict(merged(there, body, keyed=keyed))


def merged(document: Any, change: Any, *, keyed: bool = False) -> Any:
    """A document with a merge patch (RFC 7386) carried out; neither argument is changed.

    Args:
        document: as it is.
        change: the patch.
        keyed: ``conditions`` are merged by type, as a strategic merge patch of core kinds does.
    """
    if not isinstance(change, dict):
        return change
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        elif keyed and key == "conditions" and isinstance(value, list):
            result[key] = _by_type(result.get(key) or [], value)
        else:
            result[key] = merged(result.get(key), value, keyed=keyed)
    return result


def _by_type(existing: list[Document], change: list[Document]) -> list[Document]:
    found = {each.get("type"): each for each in existing}
    for each in change:
        found[each.get("type")] = merged(found.get(each.get("type")), each)
    return list(found.values())


def _verb(request: Request, place: RequestInfo) -> str:
    if request.method == "POST" and place.subresource in _ABOUT_PODS:
        return _ABOUT_PODS[place.subresource]
    if request.content_type == APPLY_PATCH:
        return "apply"
    return _VERBS.get(request.method, request.method.lower())


async def _must_be_free(place: RequestInfo, body: Document, read: Read) -> None:
    """Refuses to create what is there already."""
    name = _meta(body).get("name", "")
    if not name or place.plural == _UNREAD or place.subresource:
        return
    named = place._replace(path=f"{place.path}/{name}", name=name)
    try:
        there = await _read_existing(named, read)
    except ApiError as error:
        if error.http_status != _NOT_FOUND:
            raise
        return
    if there:
        text = f'{place.plural} "{name}" already exists'
        raise _refusal(named, _CONFLICT, "AlreadyExists", text)


async def _read_existing(place: RequestInfo, read: Read) -> Document:
    """The object as it is; empty for one that this client may write and not read."""
    path = place.path
    if place.subresource == "scale":
        path += "/scale"
    try:
        answer = await read(Request("GET", path))
    except ApiError as error:
        if error.http_status != 403:
            raise
        return {}
    return dict(codec.parse_json(answer.body, place.path))


def _check(place: RequestInfo, existing: Document, wanted: Document) -> None:
    """Refuses what names another object, or another version of it, than is there."""
    have = _meta(existing)
    for key, what in (("uid", "UID"), ("resourceVersion", "resource version")):
        if have.get(key) and wanted.get(key) and have[key] != wanted[key]:
            text = f'{place.plural} "{place.name}": {what} in precondition: {wanted[key]}, '
            text += f"in object meta: {have[key]}"
            raise _refusal(place, _CONFLICT, "Conflict", text)


def _precondition(verb: str, body: Document) -> Document:
    if verb == "bind":
        return {"uid": _meta(body).get("uid", "")}
    options = body.get("deleteOptions", {}) if verb == "evict" else body
    return dict(options.get("preconditions") or {})


def _given(meta: Document) -> Document:
    """What of metadata only the server gives."""
    names = ("uid", "resourceVersion", "generation", "creationTimestamp")
    return {name: meta[name] for name in names if name in meta}


def _meta(document: Any) -> Document:
    found = document.get("metadata") if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


def _refusal(place: RequestInfo, code: int, reason: str, message: str) -> ApiError:
    details = StatusDetails(place.name, kind=place.plural)
    status = Status("Status", "v1", {}, "Failure", message, reason, details, code)
    return ApiError(status)


def _done() -> Document:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
