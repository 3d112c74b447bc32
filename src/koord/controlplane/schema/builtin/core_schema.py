# SPDX-License-Identifier: Apache-2.0
"""Schemas of the core kinds."""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from koord.api.patching.core_types import kinds, shape_of
from koord.controlplane.api_errors import bad_request, unpatchable
from koord.controlplane.schema.codec.bodies import parse
from koord.controlplane.schema.codec.canonical import canonicalizer, respeller
from koord.controlplane.schema.codec.depth import is_too_deep
from koord.controlplane.schema.codec.prechecks import document_type, hook, proof
from koord.controlplane.schema.codec.walk import DocumentWalk
from koord.kube.errors import ApiError

if TYPE_CHECKING:
    from koord.api.patching.shapes import Shape
    from koord.base.documents import Document
    from koord.kube.errors import StatusCause

_encode = msgspec.json.Encoder().encode
# Sent with the options of every group.
_KINDS_OF_ALL_GROUPS = ("DeleteOptions", "Status")


@cache
def core_schema(group: str, version: str, kind: str) -> CoreSchema:
    """The schema of a core kind.

    Raises:
        KeyError: the table has no such kind.
    """
    return CoreSchema(group, version, kind)


def metadata_of(text: msgspec.Raw) -> dict[str, Any] | None:
    """The metadata of an object from its JSON; None where only a whole decode can tell."""
    decode, respell = _metadata()
    try:
        value: dict[str, Any] = decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    encoded = _encode(value)
    # Something may be repeated or unknown. Of a view bytes would be compared one by one.
    if bytes(text) != encoded:
        return None
    if b"null" in encoded:
        value = {key: inner for key, inner in value.items() if inner is not None}
        if b"null" in _encode(value):
            return None
    try:
        respell(value)
    except (TypeError, ValueError):
        return None
    return value


class PartSchema:
    """Reads the JSON of a part of a core kind, such as a container of a pod.

    Args:
        shape: of the part; one that has a type (:func:`.prechecks.document_type`).
    """

    def __init__(self, shape: Shape) -> None:
        self._decode = msgspec.json.Decoder(document_type(shape)).decode
        self._respell = respeller(shape)

    def read(self, text: bytes) -> Any | None:
        """The value, scalars in canonical form; None where only a whole decode can tell."""
        if b"null" in text:
            return None
        try:
            value = self._decode(text)
            # Nothing is repeated or unknown where encoding gives the same text again.
            if _encode(value) != text or is_too_deep(text, value):
                return None
            return self._respell(value) if self._respell is not None else value
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError, ValueError):
            return None


class CoreSchema:
    """What the table says of one kind; see :class:`koord.controlplane.resource.Schema`.

    Nulls are absent fields, quantities and times are stored in canonical form. Only types are
    checked: required fields and values are the strategies' part.

    Attributes:
        shape: of the kind, for patches and managed fields.
    """

    def __init__(self, group: str, version: str, kind: str) -> None:
        self.type_name = kinds()[group, version, kind]
        self.api_version = f"{group}/{version}" if group else version
        self.kind = kind

    @cached_property
    def shape(self) -> Shape:
        """Of the whole document."""
        return shape_of(self.type_name)

    @cached_property
    def _proof(self) -> Any:
        return proof(self.shape)

    @cached_property
    def _typed(self) -> Any:
        """Decodes a body that fits the kind; None for a shape without a type."""
        kind = document_type(self.shape)
        return msgspec.json.Decoder(kind).decode if kind is not None else None

    @cached_property
    def _respell(self) -> Any:
        return respeller(self.shape)

    @cached_property
    def _tidy(self) -> Any:
        return canonicalizer(self.shape)

    def decode(self, body: bytes, field_validation: str) -> tuple[Document, list[str]]:
        """The document of a request body without unknown fields; fills in apiVersion and kind."""
        document = self._read(body, field_validation)
        if document is None:
            return self._walk_body(body, field_validation)
        self._check_kind(document)
        return document, []

    def _read(self, body: bytes, field_validation: str) -> Document | None:
        """The document of a body that needs no closer look; None for any other."""
        if self._typed is None:
            return None
        try:
            document: Document = self._typed(body)
            # Nothing is repeated or unknown where encoding gives the same text again.
            if field_validation != "Ignore" and _encode(document) != body.strip():
                return None
            if is_too_deep(body, document):
                return None
            if b"null" in body:
                self._tidy(document)
            elif self._respell is not None:
                self._respell(document)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError, ValueError):
            return None
        return document

    def prune(self, document: Document) -> list[str]:
        """Drops unknown fields and nulls and makes scalars canonical; gives the unknown paths.

        Raises:
            ApiError: 422 with the field ``patch``, a value of the wrong type.
        """
        if self._proof is not None:
            try:
                msgspec.convert(document, self._proof, dec_hook=hook)
                if b"null" in _encode(document):
                    self._tidy(document)
                return []
            except (msgspec.ValidationError, RecursionError):
                pass
        walk = DocumentWalk("")
        try:
            pruned = walk.document(document, self.shape)
        except ApiError as error:
            raise unpatchable(error.status.message) from None
        document.clear()
        document.update(pruned)
        return walk.unknown

    def default(self, document: Document) -> None:
        """Nothing: the defaults of core kinds are in their strategies."""

    def validate(self, document: Document, old: Document | None = None) -> list[StatusCause]:
        """Nothing: wrong types fail in :meth:`decode`."""
        return []

    def _walk_body(self, body: bytes, field_validation: str) -> tuple[Document, list[str]]:
        parsed = parse(body, self.kind)
        self._check_kind(parsed)
        walk = DocumentWalk(self._refusal(parsed))
        document = walk.document(parsed, self.shape)
        if field_validation == "Ignore" or not walk.warnings:
            return document, []
        if field_validation == "Strict":
            listed = ", ".join(walk.warnings)
            raise bad_request(f"{self._refusal(document)}strict decoding error: {listed}")
        return document, walk.warnings

    def _check_kind(self, document: Document) -> None:
        """Fills in what is missing of apiVersion and kind, and refuses others than the schema's."""
        given = (document.get("apiVersion"), document.get("kind"))
        if given == (self.api_version, self.kind) or self.kind in _KINDS_OF_ALL_GROUPS:
            return
        document["apiVersion"] = given[0] or self.api_version
        document["kind"] = given[1] or self.kind
        if document["apiVersion"] != self.api_version or document["kind"] != self.kind:
            raise bad_request(self._refusal(document) + self._mismatch(document))

    def _mismatch(self, document: Document) -> str:
        """Why a document of another kind is none of this one; in brackets are Go's types."""
        api_version, kind = document["apiVersion"], document["kind"]
        group, _, version = api_version.rpartition("/")
        if (group, version, kind) not in kinds():
            return f'no kind "{kind}" is registered for version "{api_version}"'
        package = (self.api_version.rpartition("/")[0] or "core").partition(".")[0]
        return f"converting ({version}.{kind}) to ({package}.{self.kind}): unknown conversion"

    def _refusal(self, document: Document) -> str:
        api_version, kind = document.get("apiVersion"), document.get("kind")
        return (
            f'{kind or self.kind} in version "{_version(api_version or self.api_version)}" '
            f"cannot be handled as a {self.kind}: "
        )


@cache
def _metadata() -> tuple[Any, Any]:
    """How metadata is decoded and respelled."""
    shape = core_schema("", "v1", "Pod").shape.fields["metadata"].shape
    return msgspec.json.Decoder(document_type(shape)).decode, respeller(shape)


def _version(api_version: str) -> str:
    return api_version.rpartition("/")[2]
