# SPDX-License-Identifier: Apache-2.0
"""Answers decoded: one object, a list, the events of a watch, a refusal.

Whatever its size, an answer is decoded from bytes to typed values in one step where its kind and
content allow it.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from koord.api import codec, guide
from koord.api.kinds.meta import Object
from koord.base.errors import KoordError, one_line
from koord.base.loop_share import LARGE_BYTES, loop_share
from koord.kube.codec.projection import projection
from koord.kube.errors import ApiError, Status, StatusDetails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.api.kinds.registry import Kind
    from koord.kube.codec.page_reader import PageReader
    from koord.kube.transport.messages import Response

T = TypeVar("T")

_EXCERPT_BYTES = 300
_MOST_DIGITS = 9

# client-go's reasons for answers that are no Status.
_REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound",
    405: "MethodNotAllowed", 406: "NotAcceptable", 409: "Conflict", 410: "Gone",
    413: "RequestEntityTooLarge", 415: "UnsupportedMediaType", 422: "Invalid",
    429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


class UnreadableObject(msgspec.Struct, frozen=True):
    """An object that is there and does not decode, as when a rule of its kind is newer than it.

    Attributes:
        key: ``namespace/name``, or the name of a cluster-wide object.
        resource_version: of the state that does not decode.
        error: what is wrong with it.
        uid: which life of the object.
    """

    key: str
    resource_version: str
    error: KoordError
    uid: str = ""


class ObjectList(msgspec.Struct, Generic[T]):
    """A list, or one page of it.

    Attributes:
        items: the objects, in the server's order.
        resource_version: where a watch of what comes next begins.
        continue_token: asks for the next page; empty at the end.
        remaining: how many objects come after this page; None where the server does not say.
        unreadable: objects that do not decode, where the caller allows for them.
        shared: whether equal parts of the objects are one already, see :class:`PageReader`.
    """

    items: list[T]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None
    unreadable: list[UnreadableObject] = []
    shared: bool = False


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A change that a watch reports.

    Attributes:
        type: ``ADDED``, ``MODIFIED``, ``DELETED`` or ``BOOKMARK``.
        object: the object after the change, before it for DELETED; None for a bookmark.
        resource_version: where a watch of what comes next begins.
        initial_events_end: whether a bookmark marks the end of a streamed list.
        unreadable: why there is no object, where it does not decode and the caller allows for it.
        shared: whether the object's parts are shared already, see :class:`PageReader`.
    """

    type: str
    object: T | None
    resource_version: str
    initial_events_end: bool = False
    unreadable: UnreadableObject | None = None
    shared: bool = False


class _ListMeta(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")
    remaining_item_count: int | None = None


class _RawList(msgspec.Struct, Generic[T], gc=False):
    items: list[T] | None = None
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class _RawEvent(msgspec.Struct, Generic[T], gc=False):
    type: str
    object: T


class _BookmarkMeta(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct, gc=False):
    metadata: _BookmarkMeta


_ODD_EVENTS = (b'{"type":"ERROR"', b'{"type":"BOOKMARK"')
# Events about an object, by their type as JSON.
_CHANGES = {b'"%b"' % name.encode(): name for name in ("ADDED", "MODIFIED", "DELETED")}
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Decoder(Generic[T]):
    """Decodes answers about one kind into one type.

    Args:
        kind: what the answers are about.
        into: the type of each object, with ``metadata``; ``dict`` for whole documents.
    """

    def __init__(self, kind: Kind, into: type[T]) -> None:
        self._kind = kind
        self._into: Any = into
        self._list = codec.decoder(_RawList[into])  # type: ignore[valid-type]
        self._event = codec.decoder(_RawEvent[into])  # type: ignore[valid-type]
        self._stamped = issubclass(into, Object)
        self._names = kind.api_version, kind.name
        self._has_shapes = guide.has_shapes(kind)
        self._cut_one = projection(into)
        self._cut_list = projection(into, "items[]")
        self._cut_event = projection(into, "object")

    def one(self, body: bytes) -> T:
        """One object.

        Raises:
            KoordError: no JSON object, or a field of the wrong type.
        """
        name = self._kind.name
        if self._into is dict:
            return self._document(codec.parse_json(body, name))
        if guide.may_have_shapes(self._kind, body):
            document = codec.without_nulls(codec.parse_json(body, name), name)
            document = guide.normalise(document, self._kind, name)
            return self._set_kind(codec.convert(document, self._into, name))
        return self._set_kind(codec.decode_json(self._cut_one.cut(body) or body, self._into, name))

    def page(self, body: bytes, reader: PageReader[T] | None = None) -> ObjectList[T]:
        """A list or a page of one; objects that do not decode stand in ``unreadable``.

        Args:
            body: of the answer.
            reader: makes the objects; what it cannot read is decoded without it.

        Raises:
            KoordError: no JSON list, or an object without metadata.
        """
        name = f"{self._kind.name} list"
        if self._into is not dict and guide.may_have_shapes(self._kind, body):
            return self._one_by_one(body, name)
        page = self._read(body, reader) if reader is not None else None
        if page is not None:
            return page
        body = self._cut_list.cut(body) or body
        try:
            with no_collection():
                found = self._list.decode(body)
        except msgspec.ValidationError:
            # A null where the type has none, or a wrong field: find out object by object.
            return self._one_by_one(body, name)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise codec.malformed(body, name, "", error) from None
        return self._whole(found.metadata, found.items or [])

    def _read(self, body: bytes, reader: PageReader[T]) -> ObjectList[T] | None:
        """The page as a reader makes it; None where anything is unusual."""
        try:
            with no_collection():
                found = reader.page(body)
            if found is None:
                return None
            metadata = codec.decoder(_ListMeta).decode(found[0] or b"{}")
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None
        page = self._whole(metadata, found[1])
        page.shared = True
        return page

    def events(
        self, lines: list[bytes], reader: PageReader[T] | None = None
    ) -> tuple[list[WatchEvent[T]], ApiError | None]:
        """The events of one reading of a watch, and the error that ended it, if one did.

        Args:
            lines: an event each.
            reader: makes the objects; what it cannot read is decoded without it.

        Raises:
            KoordError: no JSON, or an object without metadata.
        """
        events: list[WatchEvent[T]] = []
        try:
            for line in lines:
                event = self._event_of(line, reader)
                events.append(event)
        except ApiError as error:
            return events, error
        return events, None

    def _event_of(self, line: bytes, reader: PageReader[T] | None) -> WatchEvent[T]:
        shapes = self._has_shapes and guide.may_have_shapes(self._kind, line)
        if shapes or self._into is dict or line.startswith(_ODD_EVENTS):
            return self._odd_event(line)
        change: str | None = None
        try:
            if reader is None:
                event = self._event.decode(self._cut_event.cut(line) or line)
                value = event.object
                if event.type in _CHANGES.values():
                    change = event.type
            elif (found := reader.event(line)) is not None:
                change, value = _CHANGES.get(found[0]), found[1]
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            change = None
        if change is None:
            return self._odd_event(line)
        if self._stamped:
            value.api_version, value.kind = self._names
        version: str = value.metadata.resource_version
        return WatchEvent(change, value, version, False, None, reader is not None)

    def _odd_event(self, line: bytes) -> WatchEvent[T]:
        event = codec.decode_json(line, _RawEvent[msgspec.Raw], f"{self._kind.name} event")
        raw = bytes(event.object)
        if event.type == "ERROR":
            raise ApiError(codec.decode_json(raw, Status, "Status"))
        if event.type == "BOOKMARK":
            metadata = codec.decode_json(raw, _Bookmark, "bookmark").metadata
            ended = (metadata.annotations or {}).get(_INITIAL_EVENTS_END) == "true"
            return WatchEvent("BOOKMARK", None, metadata.resource_version, ended)
        value = self._one_or_why(raw)
        if isinstance(value, UnreadableObject):
            return WatchEvent(event.type, None, value.resource_version, unreadable=value)
        return WatchEvent(event.type, value, _version(value))

    def _document(self, value: Any) -> T:
        if not isinstance(value, dict):
            raise KoordError(self._kind.name, "", value, "a JSON object")
        document: Any = value
        return document  # type: ignore[no-any-return]

    def _one_by_one(self, body: bytes, name: str) -> ObjectList[T]:
        found = codec.decode_json(body, _RawList[msgspec.Raw], name)
        items: list[T] = []
        unreadable: list[UnreadableObject] = []
        for raw in found.items or []:
            value = self._one_or_why(bytes(raw))
            if isinstance(value, UnreadableObject):
                unreadable.append(value)
            else:
                items.append(value)
        page = self._whole(found.metadata, items)
        page.unreadable = unreadable
        return page

    def _one_or_why(self, raw: bytes) -> T | UnreadableObject:
        try:
            return self.one(raw)
        except KoordError as error:
            meta = codec.decode_json(raw, Object, self._kind.name).metadata
            if not meta.name:
                raise
            key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
            return UnreadableObject(key, meta.resource_version, error.copy(), meta.uid)

    def _whole(self, metadata: _ListMeta, items: list[T]) -> ObjectList[T]:
        self._set_kinds(items)
        return ObjectList(
            items, metadata.resource_version, metadata.continue_ or "",
            metadata.remaining_item_count,
        )  # fmt: skip

    def _set_kinds(self, items: list[T]) -> None:
        """Items of a list do not repeat what the list says."""
        version, kind = self._names
        item: Any
        if self._stamped:
            for item in items:
                item.api_version, item.kind = version, kind
        elif self._into is dict:
            for item in items:
                item.setdefault("apiVersion", version)
                item.setdefault("kind", kind)

    def _set_kind(self, value: T) -> T:
        # The strings of the kind are shared by all objects; those just decoded are not.
        item: Any = value
        if self._stamped:
            item.api_version, item.kind = self._names
        return value


@cache
def decoder_of(kind: Kind, into: Any) -> Decoder[Any]:
    """The decoder of a kind into a type; made once."""
    return Decoder(kind, into)


@contextmanager
def no_collection() -> Iterator[None]:
    """Keeps the garbage collector out while a page is decoded, or told of.

    A page is tens of thousands of new objects and no garbage. The collector would look at them
    forty times meanwhile, which takes longer than the decoding.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def refusal(response: Response) -> Status:
    """What an answer other than 2xx says, whoever wrote it: a server, or a proxy before it."""
    status = _status_of(response.body)
    if status is None:
        text = one_line(response.body[:_EXCERPT_BYTES].decode("utf-8", "backslashreplace").strip())
        message = f"status {response.status}" + (f": {text}" if text else "")
        reason = _REASONS.get(response.status, "Unknown")
        status = Status(status="Failure", message=message, reason=reason)
    status.code = response.status
    asked = response.headers.get("retry-after", "")
    # The other form, a date, is none that API servers send; nor do they ask for years.
    if asked.isdecimal() and len(asked) < _MOST_DIGITS:
        status.details = status.details or StatusDetails()
        status.details.retry_after_seconds = int(asked)
    return status


def _status_of(body: bytes) -> Status | None:
    try:
        status = codec.decode_json(body, Status, "Status")
    except KoordError:
        return None
    return status if status.kind == "Status" and (status.message or status.reason) else None


def _version(value: Any) -> str:
    if isinstance(value, dict):
        metadata = value.get("metadata")
        return str(metadata.get("resourceVersion", "")) if isinstance(metadata, dict) else ""
    version: str = value.metadata.resource_version
    return version


async def decoded(decoder: Decoder[T], body: bytes) -> T:
    """One object as :meth:`Decoder.one` makes it; a large one in its turn (:mod:`loop_share`).

    Raises:
        KoordError: no JSON object, or a field of the wrong type.
    """
    if len(body) < LARGE_BYTES:
        return decoder.one(body)
    share = loop_share()
    await share.wait()
    with share.taken():
        return decoder.one(body)
