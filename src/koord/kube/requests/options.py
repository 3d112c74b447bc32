# SPDX-License-Identifier: Apache-2.0
"""What a call is about: which kind, decoded into which type, with which options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from koord.api.kinds.meta import Object
from koord.api.kinds.registry import Kind, kind_of, kind_of_type
from koord.base.documents import Document
from koord.base.errors import Code, KoordError

if TYPE_CHECKING:
    from koord.kube.codec.page_reader import PageReader


class GetOptions(TypedDict, total=False):
    """How one object is read.

    Attributes:
        kind: the kind, where the target is a type that koord.api does not register.
        resource_version: ``0`` allows an old answer from the server's cache.
        timeout_seconds: for all tries together.
    """

    kind: Kind | None
    resource_version: str
    timeout_seconds: float | None


class SelectionOptions(TypedDict, total=False):
    """Which objects of a kind.

    Attributes:
        kind: the kind, where the target is a type that koord.api does not register.
        namespace: empty for all.
        label_selector: as kubectl's ``-l``.
        field_selector: as kubectl's ``--field-selector``.
        timeout_seconds: for all tries of a request together.
        lenient: objects that do not decode are told as such, rather than end the call.
    """

    kind: Kind | None
    namespace: str
    label_selector: str
    field_selector: str
    timeout_seconds: float | None
    lenient: bool


class ListOptions(SelectionOptions, total=False):
    """Which objects, and how fresh.

    Attributes:
        limit: objects a page; 0 for all at once.
        resource_version: ``0`` allows an old answer from the server's cache.
        resource_version_match: ``Exact`` or ``NotOlderThan``.
        reader: makes the objects, sharing their parts with those of earlier pages.
        metadata_only: ask for nothing else of each object; for types that have no more.
    """

    limit: int
    metadata_only: bool
    resource_version: str
    resource_version_match: str
    reader: PageReader[Any] | None


class WatchOptions(SelectionOptions, total=False):
    """Which changes, and from where on. ``timeout_seconds`` is until the watch has begun.

    Attributes:
        resource_version: changes after this one; empty for the present state first.
        bookmarks: whether the server tells of its version now and then.
        initial_events: begin with the present state, then a bookmark that says so.
        last_seconds: the server ends the watch after so long; None for its own choice.
        reader: makes the objects, sharing their parts with those of earlier events.
    """

    resource_version: str
    bookmarks: bool
    initial_events: bool
    last_seconds: int | None
    reader: PageReader[Any] | None


class WriteOptions(TypedDict, total=False):
    """How something is written.

    Attributes:
        kind: the kind, for documents and types that koord.api does not register.
        dry_run: everything is checked and nothing stored.
        field_manager: in place of the client's.
        field_validation: ``Strict``, ``Warn`` or ``Ignore`` for unknown fields.
        timeout_seconds: for all tries together.
    """

    kind: Kind | None
    dry_run: bool
    field_manager: str
    field_validation: str
    timeout_seconds: float | None


def resolve(target: Any, kind: Kind | None = None) -> tuple[Kind, Any]:
    """The kind of a target, and the type that its objects decode into.

    Args:
        target: a Kind (objects are documents), or a type.
        kind: of a type that is not registered.

    Raises:
        KoordError: the type is not registered, and no kind is given.
    """
    if isinstance(target, Kind):
        return target, dict
    if kind is not None:
        return kind, target
    try:
        return kind_of_type(target), target
    except KeyError:
        name = getattr(target, "__name__", target)
        expected = "a type of koord.api, or kind= to say which kind it is of"
        raise KoordError("target", "", name, expected, Code.UNSUPPORTED) from None


def kind_of_object(value: Object | Document, kind: Kind | None = None) -> Kind:
    """The kind of something to be written.

    Raises:
        KoordError: it does not say, or is of no registered kind, and no kind is given.
    """
    if kind is not None:
        return kind
    if isinstance(value, Object) and not value.kind:
        return resolve(type(value))[0]
    if isinstance(value, Object):
        version, name = value.api_version, value.kind
    else:
        version, name = str(value.get("apiVersion", "")), str(value.get("kind", ""))
    found = kind_of(version, name)
    if found is None:
        got = f"{version} {name}".strip()
        expected = "a kind of koord.api.KINDS, or kind= to say how it is served"
        raise KoordError("object", "apiVersion, kind", got, expected, Code.UNSUPPORTED)
    return found


def whole(value: Object | Document, kind: Kind) -> Object | Document:
    """What is sent: with apiVersion and kind, filled in where the value says neither."""
    if isinstance(value, Object):
        value.kind = value.kind or kind.name
        value.api_version = value.api_version or kind.api_version
        return value
    return {"apiVersion": kind.api_version, "kind": kind.name, **value}


def place_of(value: Object | Document, kind: Kind, namespace: str) -> tuple[str, str]:
    """Name and namespace of something to be written.

    Raises:
        KoordError: the kind needs a namespace and none is given, or two different ones.
    """
    if isinstance(value, Object):
        name, own = value.metadata.name, value.metadata.namespace
    else:
        metadata = value.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        name, own = str(metadata.get("name", "")), str(metadata.get("namespace", ""))
    title = f"{kind.name} {name}".strip()
    if namespace and own and namespace != own:
        raise KoordError(title, "metadata.namespace", own, f"the namespace asked for, {namespace}")
    place = namespace or own
    if kind.namespaced and not place:
        raise KoordError(title, "metadata.namespace", "", "the object's namespace")
    return name, place


def query(**parameters: str | int | bool | None) -> tuple[tuple[str, str], ...]:
    """Parameters of a URL in the API's spelling; empty ones are left out."""
    return tuple(
        (name, str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in parameters.items()
        if value not in ("", None, False)
    )
