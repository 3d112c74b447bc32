# SPDX-License-Identifier: Apache-2.0
"""Patches as they come: bytes, or values already read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koord.api.patching.strategic_merge import json_type
from koord.controlplane.api_errors import bad_request
from koord.controlplane.schema.codec.depth import is_too_deep

if TYPE_CHECKING:
    from koord.base.documents import Document

_encode = msgspec.json.Encoder().encode
_decode: Any = msgspec.json.Decoder().decode


def read(body: bytes) -> Any:
    """The JSON value of a patch.

    Raises:
        ApiError: 400, no JSON.
    """
    try:
        value = _decode(body)
        if isinstance(value, dict | list) and is_too_deep(body, value):
            raise RecursionError("exceeded max depth")
        return value
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        ended = not body.strip() or "truncated" in str(error)
        why = "unexpected end of JSON input" if ended else f"invalid JSON: {error}"
        raise bad_request(f"error decoding patch: {why}") from None


def read_object(body: bytes) -> dict[str, Any] | None:
    """The object of a patch; None for ``null``.

    Raises:
        ApiError: 400, no JSON object.
    """
    value = read(body)
    if value is None or isinstance(value, dict):
        return value
    raise bad_request(
        f"error decoding patch: json: cannot unmarshal {json_type(value)} into Go value of type "
        "map[string]interface {}"
    )


def is_deep(document: Document) -> bool:
    """Whether a patch has nested a document too deep."""
    try:
        return is_too_deep(_encode(document), document)
    except RecursionError:
        return True


def copied(document: Document) -> Document:
    """A copy that shares nothing; the way over JSON is the fastest."""
    copy: Document = _decode(_encode(document))
    return copy
