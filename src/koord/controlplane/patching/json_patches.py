# SPDX-License-Identifier: Apache-2.0
"""JSON patches (RFC 6902), as lenient as a kube-apiserver is, merge patches (RFC 7386), and
strategic merge patches as requests bring them: :mod:`koord.api.patching.strategic_merge` has their
rules.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import jsonpatch
import msgspec
from jsonpointer import JsonPointer, JsonPointerException

from koord.api.patching.strategic_merge import PatchError, json_type, strategic_merge
from koord.controlplane.api_errors import bad_request, failure, unsupported_media_type
from koord.controlplane.patching.bodies import copied, is_deep, read, read_object
from koord.controlplane.schema.builtin.core_schema import CoreSchema
from koord.kube.errors import StatusDetails
from koord.kube.transport.messages import APPLY_PATCH, JSON_PATCH, MERGE_PATCH

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.controlplane.resource import Schema
    from koord.kube.errors import ApiError

_encode = msgspec.json.Encoder().encode
_decode: Any = msgspec.json.Decoder().decode
MAX_OPERATIONS = 10_000
# Of what all copies of a patch copy, as JSON; as kube-apiserver, which counts the same way.
MAX_COPIED_BYTES = 3 << 20
# The least that a JSON patch with a copy has in its text: members may be spelled in escapes.
_COPYING = (b"copy", b"\\u")


class _Replace(jsonpatch.ReplaceOperation):
    """A replace that also sets a member that is not there."""

    def apply(self, document: Any) -> Any:
        holder, key = self.pointer.to_last(document)
        if isinstance(holder, dict) and key is not None:
            holder[key] = self.operation["value"]
            return document
        return super().apply(document)


class _Test(jsonpatch.TestOperation):
    """A test to which an absent member equals null."""

    def apply(self, document: Any) -> Any:
        holder, key = self.pointer.to_last(document)
        if isinstance(holder, dict) and key is not None and key not in holder:
            if self.operation.get("value") is None:
                return document
            raise jsonpatch.JsonPatchTestFailed("absent")
        return super().apply(document)


class _TooMuchCopiedError(Exception):
    """All copies of a patch together are larger than a server makes."""

    def __init__(self, copied_bytes: int) -> None:
        super().__init__()
        self.copied_bytes = copied_bytes


class _LenientPatch(jsonpatch.JsonPatch):
    operations = MappingProxyType(
        {**jsonpatch.JsonPatch.operations, "replace": _Replace, "test": _Test}
    )


def may_copy(body: bytes) -> bool:
    """Whether a JSON patch may have copies, so that it makes more than its own size says."""
    return any(text in body for text in _COPYING)


def json_patch(document: Document, body: bytes) -> Document:
    """The document with a JSON patch applied.

    Raises:
        ApiError: 400, the body is no list of operations; 413, more than :data:`MAX_OPERATIONS`
            of them; 422, one does not apply, or their copies are of more than
            :data:`MAX_COPIED_BYTES`.
    """
    operations = read(body) or []
    listed = operations if isinstance(operations, list) else [operations]
    if operations is not listed or not all(isinstance(each, dict) for each in listed):
        wrong = next((each for each in listed if not isinstance(each, dict)), operations)
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {json_type(wrong)} into Go value of "
            "type []handlers.jsonPatchOp"
        )
    if len(operations) > MAX_OPERATIONS:
        raise failure(
            413,
            "RequestEntityTooLarge",
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{MAX_OPERATIONS}, got {len(operations)}",
        )
    try:
        patched = _applied(copied(document), operations)
    except _TooMuchCopiedError as error:
        raise _inapplicable(
            f": its copies take {error.copied_bytes} bytes, at most {MAX_COPIED_BYTES} are allowed"
        ) from None
    except (
        jsonpatch.JsonPatchException,
        JsonPointerException,
        TypeError,
        KeyError,
        IndexError,
        RecursionError,
    ):
        raise _inapplicable() from None
    if not isinstance(patched, dict) or is_deep(patched):
        raise _inapplicable()
    return patched


def _applied(document: Any, operations: list[Document]) -> Any:
    """The document after one operation after the other.

    Raises:
        _TooMuchCopiedError: copies are of more than :data:`MAX_COPIED_BYTES` in all.
    """
    copied_bytes = 0
    for operation in operations:
        if operation.get("op") == "copy":
            # It may double all there is: its size is looked at before it is made.
            text = _source_text(document, operation)
            copied_bytes += len(text)
            if copied_bytes > MAX_COPIED_BYTES:
                raise _TooMuchCopiedError(copied_bytes)
            operation = {"op": "add", "path": operation["path"], "value": _decode(text)}
        document = _LenientPatch([operation]).apply(document, in_place=True)
    return document


def _source_text(document: Any, operation: Document) -> bytes:
    """The JSON of what an operation copies."""
    source = operation["from"]
    if not isinstance(source, str):
        raise TypeError(source)
    text: bytes = _encode(JsonPointer(source).resolve(document))
    return text


def _inapplicable(why: str = "") -> ApiError:
    message = f"the server rejected our request due to an error in our request{why}"
    return failure(422, "Invalid", message, StatusDetails())


def merge_patch(document: Document, body: bytes) -> Document:
    """The document with a merge patch applied.

    Raises:
        ApiError: 400, the body is no JSON object.
    """
    patch = read_object(body)
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    return _merged(copied(document), patch)


def _merged(target: Any, patch: Document) -> Document:
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _merged(merged.get(key), value)
        else:
            merged[key] = value
    return merged


def strategic_merge_patch(document: Document, body: bytes, schema: Schema) -> Document:
    """The document with a strategic merge patch applied.

    Raises:
        ApiError: 400, the body is no JSON object or a directive is malformed; 415, the kind is
            not a core one; 500, a directive contradicts the patch (as a kube-apiserver has it).
    """
    if not isinstance(schema, CoreSchema):
        raise unsupported_media_type("", [JSON_PATCH, MERGE_PATCH, APPLY_PATCH])
    patch = read_object(body)
    try:
        return strategic_merge(copied(document), patch or {}, schema.shape)
    except PatchError as error:
        if error.is_malformed:
            raise bad_request(str(error)) from None
        # A kube-apiserver has no better status for it.
        raise failure(500, "", str(error)) from None
