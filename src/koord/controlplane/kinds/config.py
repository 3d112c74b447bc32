# SPDX-License-Identifier: Apache-2.0
"""ConfigMaps and Secrets."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from koord.controlplane.kinds import names
from koord.controlplane.kinds.causes import Causes
from koord.controlplane.resource import Column, Strategy
from koord.controlplane.tables import age

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.kube.errors import StatusCause

Document = dict[str, Any]
LIMIT_BYTES = 1024 * 1024


# Keys that a secret of a type must have; where several lists stand, one of them must be there.
_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_BASIC_AUTH, _TOKEN = "kubernetes.io/basic-auth", "kubernetes.io/service-account-token"
_ACCOUNT = "kubernetes.io/service-account.name"


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
                    causes.each(f"{part}[{key}]", key, whys)
                size += len(value)
        for key in sorted(data.keys() & binary.keys()):
            causes.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        if size > LIMIT_BYTES // 4 and _bytes(data) + _base64_bytes(binary) > LIMIT_BYTES:
            causes.too_long("", LIMIT_BYTES)
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """An immutable one stays as it is."""
        causes = Causes()
        if old.get("immutable"):
            _check_immutable(document, old, ("data", "binaryData"), causes)
        return causes + self.validate(document)

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        metadata = document["metadata"]
        count = len(document.get("data") or ()) + len(document.get("binaryData") or ())
        return [metadata["name"], count, age(metadata.get("creationTimestamp"), now_seconds)]


class SecretStrategy(Strategy):
    """Secrets."""

    columns = (Column("Name", format="name"), Column("Type"), Column("Data"), Column("Age"))
    selectable = ("type",)

    def default(self, document: Document) -> None:
        """Opaque; plain texts become data."""
        document.setdefault("type", "Opaque")
        texts = document.pop("stringData", None)
        if texts:
            data = document.setdefault("data", {})
            for key, text in texts.items():
                data[key] = base64.b64encode(text.encode()).decode()

    def validate(self, document: Document) -> list[StatusCause]:
        """Keys, those that the type asks for, and the size of it all."""
        causes = Causes()
        data, kind = document.get("data") or {}, document["type"]
        for key in data:
            causes.each(f"data[{key}]", key, names.config_key(key))
        if _base64_bytes(data) > LIMIT_BYTES:
            causes.too_long("data", LIMIT_BYTES)
        for key in _SECRET_KEYS.get(kind, ()):
            if key not in data:
                causes.required(f"data[{key}]")
        if kind == _BASIC_AUTH and "username" not in data and "password" not in data:
            causes.required("data[username]")
            causes.required("data[password]")
        annotations = document["metadata"].get("annotations") or {}
        if kind == _TOKEN and not annotations.get(_ACCOUNT):
            causes.required(f"metadata.annotations[{_ACCOUNT}]")
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """The type is fixed; an immutable one stays as it is."""
        causes = Causes()
        causes.fixed("type", document["type"], old.get("type"))
        if old.get("immutable"):
            _check_immutable(document, old, ("data",), causes)
        return causes + self.validate(document)

    def fields(self, document: Document) -> Mapping[str, str]:
        """The type."""
        return {"type": document.get("type", "")}

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        metadata = document["metadata"]
        made = age(metadata.get("creationTimestamp"), now_seconds)
        return [metadata["name"], document.get("type", ""), len(document.get("data") or ()), made]


def _check_immutable(
    document: Document, old: Document, parts: tuple[str, ...], causes: Causes
) -> None:
    why = "field is immutable when `immutable` is set"
    if not document.get("immutable"):
        causes.forbidden("immutable", why)
    for part in parts:
        if (document.get(part) or {}) != (old.get(part) or {}):
            causes.forbidden(part, why)


def _bytes(entries: dict[str, str]) -> int:
    return sum(len(value.encode()) for value in entries.values())


def _base64_bytes(entries: dict[str, str]) -> int:
    return sum(len(value.rstrip("=")) * 3 // 4 for value in entries.values())
