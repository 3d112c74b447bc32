# SPDX-License-Identifier: Apache-2.0
"""The way from kubectl's client-side apply, which keeps what it sent in an annotation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koord.controlplane.patching.bodies import copied
from koord.controlplane.patching.field_sets import EMPTY, MalformedError, Paths
from koord.controlplane.patching.typed import compare, field_set

if TYPE_CHECKING:
    from koord.api.patching.shapes import Shape
    from koord.base.documents import Document

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MANAGER = "kubectl"


def unchanged(live: Document, shape: Shape) -> Paths:
    """The fields of the annotation that the live document still has so: kubectl may take them."""
    told = _annotations(live).get(ANNOTATION)
    if not told:
        return EMPTY
    try:
        last = msgspec.json.decode(told, type=dict)
        difference = compare(last, live, shape)
        changed = difference.modified | difference.added | difference.removed
        return field_set(last, shape) - changed
    except (msgspec.DecodeError, MalformedError, AttributeError, RecursionError):
        return EMPTY


def renewed(merged: Document, applied: Document) -> Document:
    """The merged document; an annotation that is there tells what is applied now."""
    if not _annotations(merged).get(ANNOTATION):
        return merged
    sent = copied(applied)
    _annotations(sent).pop(ANNOTATION, None)
    document = copied(merged)
    _annotations(document)[ANNOTATION] = msgspec.json.encode(sent).decode() + "\n"
    return document


def _annotations(document: Document) -> dict[str, str]:
    return document.get("metadata", {}).get("annotations") or {}
