# SPDX-License-Identifier: Apache-2.0
"""Schemas of custom resources."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from koord.api.patching.core_types import shape_of
from koord.controlplane.api_errors import bad_request, unpatchable
from koord.controlplane.schema.codec import bodies
from koord.controlplane.schema.codec.depth import is_too_deep
from koord.controlplane.schema.codec.prechecks import hook, proof
from koord.controlplane.schema.codec.walk import DocumentWalk, without_notes
from koord.controlplane.schema.custom import structural, validation
from koord.controlplane.schema.custom.json_schema import compiled
from koord.controlplane.schema.custom.validation_rules import ValidationRules
from koord.kube.errors import ApiError, StatusCause

if TYPE_CHECKING:
    from koord.api.patching.shapes import Shape
    from koord.base.documents import Document

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
# Of a document with such faults rules are not asked.
_BLOCKING = (
    "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany",
    "FieldValueTypeInvalid",
)  # fmt: skip
_UNCHECKED = (
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def crd_schema(definition: Document, version: str) -> CrdSchema:
    """The schema of one version of a custom resource.

    Args:
        definition: a CustomResourceDefinition that :func:`~.check_crd` finds nothing wrong with.
        version: e.g. ``v1alpha1``.

    Raises:
        KeyError: the definition has no such version.
    """
    spec = definition["spec"]
    for each in spec["versions"]:
        if each["name"] == version:
            schema = each.get("schema", {}).get("openAPIV3Schema") or {structural.PRESERVE: True}
            return CrdSchema(spec["group"], version, spec["names"]["kind"], schema)
    raise KeyError(version)


class CrdSchema:
    """What a definition says of one version; see :class:`koord.controlplane.resource.Schema`.

    Attributes:
        openapi: the structural schema as it stands in the definition.
    """

    def __init__(self, group: str, version: str, kind: str, schema: dict[str, Any]) -> None:
        self.api_version = f"{group}/{version}"
        self.kind = kind
        self.openapi = schema
        self._version = version
        self._defaults = structural.Defaults(schema)

    @cached_property
    def shape(self) -> Shape:
        """Of the whole document."""
        return structural.shape_of_kind(self.openapi, self.kind)

    @cached_property
    def _proof(self) -> Any:
        return proof(structural.shape_of_kind(self.openapi, self.kind, typed=False))

    @cached_property
    def _proved(self) -> Any:
        return msgspec.json.Decoder(self._proof, dec_hook=hook).decode

    @cached_property
    def _valid(self) -> Any:
        return compiled(self.openapi)

    @cached_property
    def _rules(self) -> ValidationRules:
        return ValidationRules(self.openapi)

    def decode(self, body: bytes, field_validation: str) -> tuple[Document, list[str]]:
        """The document of a request body, without fields that the schema does not know."""
        # Whole numbers are stored without a fraction.
        if b"null" in body or b".0" in body:
            return self._walk_body(body, field_validation)
        try:
            self._proved(body)
            document: Document = _decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._walk_body(body, field_validation)
        repeats = field_validation != "Ignore" and _encode(document) != body.strip()
        if repeats or is_too_deep(body, document):
            return self._walk_body(body, field_validation)
        self._check_kind(document, body)
        return document, []

    def prune(self, document: Document) -> list[str]:
        """Drops unknown fields, as after a patch; gives their paths."""
        walk = DocumentWalk("")
        try:
            self._read_metadata(document, walk)
        except ApiError as error:
            raise unpatchable(error.status.message) from None
        return sorted([*walk.unknown, *self._prune(document)])

    def default(self, document: Document) -> None:
        """Fills in the schema's own defaults."""
        self._defaults.fill(document)

    def validate(self, document: Document, old: Document | None = None) -> list[StatusCause]:
        """What breaks the schema.

        What an update leaves as it was may stay wrong, as in a kube-apiserver.
        """
        before = validation.ABSENT if old is None else old
        found = [] if self._valid(document) else validation.causes(document, self.openapi, before)
        lists = validation.list_causes(document, self.openapi)
        if lists and (old is None or not validation.list_causes(old, self.openapi)):
            found += lists
        if self._rules.empty:
            return found
        if any(cause.reason in _BLOCKING for cause in found):
            return [*found, StatusCause("FieldValueInvalid", _UNCHECKED, validation.NO_FIELD)]
        return found + self._rules.causes(document, old)

    def _walk_body(self, body: bytes, field_validation: str) -> tuple[Document, list[str]]:
        parsed = bodies.parse(body or b"{}", self.kind, whole=True)
        self._check_kind(parsed, body)
        walk = DocumentWalk(self._refusal)
        told = walk.repeated(parsed)
        document = without_notes(parsed)
        self._read_metadata(document, walk)
        unknown = sorted([*walk.unknown, *self._prune(document)])
        told += [f'unknown field "{path}"' for path in unknown]
        if field_validation == "Ignore" or not told:
            return document, []
        if field_validation == "Strict":
            raise bad_request(f"{self._refusal}strict decoding error: {', '.join(told)}")
        return document, told

    def _read_metadata(self, document: Document, walk: DocumentWalk) -> None:
        if document.get("metadata") is not None:
            shape = shape_of(structural.OBJECT_META)
            document["metadata"] = walk.document(document["metadata"], shape, "metadata")

    def _prune(self, document: Document) -> list[str]:
        return structural.prune(document, self.openapi)

    def _check_kind(self, document: Document, body: bytes) -> None:
        if not document.get("kind") and body:
            shown = body.decode("utf-8", "replace")
            raise bad_request(
                f"the object provided is unrecognized (must be of type {self.kind}): "
                f"Object 'Kind' is missing in '{shown[:200]}'"
            )
        given = document.setdefault("apiVersion", self.api_version) if body else self.api_version
        if given != self.api_version:
            raise bad_request(
                f"the API version in the data ({given}) does not match the expected API version "
                f"({self.api_version})"
            )

    @property
    def _refusal(self) -> str:
        return f'{self.kind} in version "{self._version}" cannot be handled as a {self.kind}: '
