# SPDX-License-Identifier: Apache-2.0
"""Secrets: keys that their types require, sizes, immutable ones."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.ages import age
from koord.controlplane.kinds.cluster.configmaps import LIMIT_BYTES, base64_bytes, check_immutable
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.kube.errors import StatusCause

# Keys that a secret of a type must have; where several lists stand, one of them must be there.
_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_BASIC_AUTH, _TOKEN = "kubernetes.io/basic-auth", "kubernetes.io/service-account-token"
_ACCOUNT = "kubernetes.io/service-account.name"


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
            causes.invalid_all(f"data[{key}]", key, names.config_key(key))
        if base64_bytes(data) > LIMIT_BYTES:
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
            check_immutable(document, old, ("data",), causes)
        return causes + self.validate(document)

    def fields(self, document: Document) -> Mapping[str, str]:
        """The type."""
        return {"type": document.get("type", "")}

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        metadata = document["metadata"]
        made = age(metadata.get("creationTimestamp"), now_seconds)
        return [metadata["name"], document.get("type", ""), len(document.get("data") or ()), made]
