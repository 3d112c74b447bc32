# SPDX-License-Identifier: Apache-2.0
"""Schemas of the core kinds."""

from __future__ import annotations

import threading
from functools import cache, cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from koord.api.patching.core_types import kinds, shape_of
from koord.controlplane.api_errors import bad_request, unpatchable
from koord.controlplane.schema.codec.bodies import parse
from koord.controlplane.schema.codec.canonical import canonicalizer
from koord.controlplane.schema.codec.depth import is_too_deep
from koord.controlplane.schema.codec.prechecks import hook, noting, proof
from koord.controlplane.schema.codec.walk import DocumentWalk
from koord.kube.errors import ApiError

if TYPE_CHECKING:
    from koord.api.patching.shapes import Shape
    from koord.base.documents import Document
    from koord.kube.errors import StatusCause

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
# Sent with the options of every group.
_KINDS_OF_ALL_GROUPS = ("DeleteOptions", "Status")


# Specs whose text is remembered as right, and the longest of them in bytes.
_REMEMBERED, _LARGEST_REMEMBERED = 256, 16 << 10


@cache
def core_schema(group: str, version: str, kind: str) -> CoreSchema:
    """The schema of a core kind.

    Raises:
        KeyError: the table has no such kind.
    """
    return CoreSchema(group, version, kind)


def metadata_of(text: msgspec.Raw) -> dict[str, Any] | None:
    """The metadata of an object from its JSON; None where only a whole decode can tell."""
    try:
        _proved_metadata()(text)
        value: dict[str, Any] = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    encoded = _encode(value)
    if memoryview(text) != encoded:  # Something may be repeated.
        return None
    if b"null" in encoded:
        value = {key: inner for key, inner in value.items() if inner is not None}
        if b"null" in _encode(value):
            return None
    return value


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
        self._specs: set[bytes] = set()
        self._respelled = _RespelledQuantities()

    @cached_property
    def shape(self) -> Shape:
        """Of the whole document."""
        return shape_of(self.type_name)

    @cached_property
    def _proof(self) -> Any:
        return proof(self.shape)

    @cached_property
    def _proved(self) -> Any:
        return msgspec.json.Decoder(self._proof, dec_hook=noting(self._respelled)).decode

    @cached_property
    def _tidy(self) -> Any:
        return canonicalizer(self.shape)

    @cached_property
    def _split(self) -> Any:
        """Decodes everything but ``spec``, which stays text."""
        fields = [
            (f"f{number}", msgspec.Raw if key == "spec" else kind, default)
            for number, (key, kind, default) in enumerate(
                (field.encode_name, field.type, field.default)
                for field in msgspec.structs.fields(self._proof)
            )
        ]
        rename = {
            f"f{number}": field.encode_name
            for number, field in enumerate(msgspec.structs.fields(self._proof))
        }
        split = msgspec.defstruct(
            "Split", fields, rename=rename, forbid_unknown_fields=True, gc=False
        )
        place = next(name for name, key in rename.items() if key == "spec")
        decode = msgspec.json.Decoder(split, dec_hook=noting(self._respelled)).decode
        return decode, attrgetter(place)

    def _prove(self, body: bytes) -> None:
        """Passes a body that fits the kind, else raises. A spec that has passed passes again.

        The pods of one workload share theirs, which is most of their text.
        """
        if "spec" not in self.shape.fields:
            self._proved(body)
            return
        decode, spec_of = self._split
        spec = bytes(spec_of(decode(body)) or b"")
        if spec in self._specs:
            return
        self._proved(body)
        if len(spec) <= _LARGEST_REMEMBERED and not self._respelled.values and b"null" not in spec:
            if len(self._specs) == _REMEMBERED:
                self._specs.clear()
            self._specs.add(spec)

    def decode(self, body: bytes, field_validation: str) -> tuple[Document, list[str]]:
        """The document of a request body without unknown fields; fills in apiVersion and kind."""
        if self._proof is None:
            return self._walk_body(body, field_validation)
        self._respelled.values.clear()
        try:
            self._prove(body)
            document = _decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._walk_body(body, field_validation)
        if is_too_deep(body, document):
            return self._walk_body(body, field_validation)
        # Nothing is repeated where encoding gives the same text again.
        if field_validation != "Ignore" and _encode(document) != body.strip():
            return self._walk_body(body, field_validation)
        if self._respelled.values or b"null" in body:
            self._tidy(document)
        self._check_kind(document)
        return document, []

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


class _RespelledQuantities(threading.local):
    """Quantities of the body at hand that are not canonical; every thread has a body at hand."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def append(self, value: Any) -> None:
        self.values.append(value)


@cache
def _proved_metadata() -> Any:
    shape = core_schema("", "v1", "Pod").shape.fields["metadata"].shape
    return msgspec.json.Decoder(proof(shape), dec_hook=hook).decode


def _version(api_version: str) -> str:
    return api_version.rpartition("/")[2]
