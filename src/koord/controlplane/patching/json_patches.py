# SPDX-License-Identifier: Apache-2.0
"""JSON patches (RFC 6902), as lenient as a kube-apiserver is, and merge patches (RFC 7386)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import jsonpatch
from jsonpointer import JsonPointerException

from koord.controlplane.api_errors import bad_request, failure
from koord.controlplane.patching.bodies import copied, is_deep, json_type, read, read_object
from koord.kube.errors import StatusDetails

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.kube.errors import ApiError

MAX_OPERATIONS = 10_000


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


class _LenientPatch(jsonpatch.JsonPatch):
    operations = MappingProxyType(
        {**jsonpatch.JsonPatch.operations, "replace": _Replace, "test": _Test}
    )


def json_patch(document: Document, body: bytes) -> Document:
    """The document with a JSON patch applied.

    Raises:
        ApiError: 400, the body is no list of operations; 413, more than :data:`MAX_OPERATIONS`
            of them; 422, one does not apply.
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
        patched = _LenientPatch(operations).apply(copied(document), in_place=True)
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


def _inapplicable() -> ApiError:
    message = "the server rejected our request due to an error in our request"
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
