# SPDX-License-Identifier: Apache-2.0
"""ConfigMaps: keys, sizes, immutable ones; the rules that Secrets share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.ages import age
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from koord.kube.errors import StatusCause

LIMIT_BYTES = 1024 * 1024


class ConfigMapStrategy(Strategy):
    """ConfigMaps."""

    columns = (Column("Name", format="name"), Column("Data"), Column("Age"))

    def validate(self, document: Document) -> list[StatusCause]:
        """Keys, and the size of it all."""
        causes = Causes()
        data, binary = document.get("data") or {}, document.get("binaryData") or {}
        size = 0
        for part, entries in (("data", data), ("binaryData", binary)):
            for key, value in entries.items():
                if whys := names.config_key(key):
                    causes.invalid_all(f"{part}[{key}]", key, whys)
                size += len(value)
        for key in sorted(data.keys() & binary.keys()):
            causes.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        if size > LIMIT_BYTES // 4 and _bytes(data) + base64_bytes(binary) > LIMIT_BYTES:
            causes.too_long("", LIMIT_BYTES)
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """An immutable one stays as it is."""
        causes = Causes()
        if old.get("immutable"):
            check_immutable(document, old, ("data", "binaryData"), causes)
        return causes + self.validate(document)

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        metadata = document["metadata"]
        count = len(document.get("data") or ()) + len(document.get("binaryData") or ())
        return [metadata["name"], count, age(metadata.get("creationTimestamp"), now_seconds)]


def check_immutable(
    document: Document, old: Document, parts: tuple[str, ...], causes: Causes
) -> None:
    """Adds causes where parts of an immutable object change, or it is to be mutable again."""
    why = "field is immutable when `immutable` is set"
    if not document.get("immutable"):
        causes.forbidden("immutable", why)
    for part in parts:
        if (document.get(part) or {}) != (old.get(part) or {}):
            causes.forbidden(part, why)


def _bytes(entries: dict[str, str]) -> int:
    return sum(len(value.encode()) for value in entries.values())


def base64_bytes(entries: dict[str, str]) -> int:
    """How many bytes values in base64 have together."""
    return sum(len(value.rstrip("=")) * 3 // 4 for value in entries.values())
