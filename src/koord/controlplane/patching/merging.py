# SPDX-License-Identifier: Apache-2.0
"""JSON merge patches (RFC 7386)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controlplane.failures import bad_request
from koord.controlplane.patching.bodies import copied, read_object

if TYPE_CHECKING:
    from koord.controlplane.resource import Document


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
