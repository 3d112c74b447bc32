# SPDX-License-Identifier: Apache-2.0
"""What stands in the two webhook configurations: whom to trust, whom to call, which entries.

Rule: docs/reference/admission.md#serving-and-certificates. Documents in, documents out.
"""

from __future__ import annotations

import base64
import binascii
import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Collection

    from koord.base.documents import Document

TEMPLATE = "template"
"""The annotation that keeps the list as it was first, as JSON."""
_IGNORE, _FAIL = "Ignore", "Fail"
_INJECTED = (
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
)


@dataclass(frozen=True)
class WebhookAddress:
    """Where API servers call.

    Attributes:
        service, namespace: of the Service.
        host: by URL in the place of the service; empty for the service.
        port: of the URL.
    """

    service: str
    namespace: str
    host: str = ""
    port: int = 9876

    @property
    def name(self) -> str:
        """What the certificate has to be for."""
        return self.host or f"{self.service}.{self.namespace}.svc"


def is_injected(document: Document) -> bool:
    """Whether somebody else, such as cert-manager, writes whom to trust."""
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    return any(annotations.get(key) for key in _INJECTED)


def bundles(document: Document) -> list[bytes]:
    """Whom each entry trusts, as PEM; what is none is empty."""
    found = []
    for entry in document.get("webhooks") or ():
        text = (entry.get("clientConfig") or {}).get("caBundle") or ""
        try:
            found.append(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError):
            found.append(b"")
    return found


def desired(
    document: Document,
    paths: Collection[str],
    address: WebhookAddress,
    bundle: bytes,
    *,
    answering: bool = True,
) -> Document:
    """A configuration as it is to be; the argument is left as it is.

    Entries whose path nobody serves are left out; as they were first they stay in the annotation
    ``template``, from which they come back.

    Args:
        document: a mutating or validating webhook configuration.
        paths: those that have a handler.
        address: where to call.
        bundle: PEM to trust; left as it is where somebody else writes that.
        answering: whether who is called answers by now. Until then a ``Fail`` of the template that
            is not in force yet stays out, for nothing could be created.

    Raises:
        KoordError: the annotation cannot be read.
    """
    made = copy.deepcopy(document)
    annotations = made.setdefault("metadata", {}).setdefault("annotations", {})
    first = _template(made)
    if TEMPLATE not in annotations:
        annotations[TEMPLATE] = msgspec.json.encode(first).decode()
    present = {each.get("name"): each for each in document.get("webhooks") or ()}
    trust = None if is_injected(document) else base64.b64encode(bundle).decode("ascii")
    made["webhooks"] = [
        _entry(
            _in_force(each, present, answering), present.get(each.get("name"), each), address, trust
        )
        for each in first
        if _path(each) in paths
    ]
    return made


def _template(document: Document) -> list[Document]:
    metadata = document["metadata"]
    text = metadata["annotations"].get(TEMPLATE)
    if text is None:
        return list(document.get("webhooks") or ())
    title = f"{document.get('kind', '')} {metadata.get('name', '')}"
    try:
        return msgspec.json.decode(text, type=list[dict[str, Any]])
    except (msgspec.DecodeError, RecursionError):
        field = f"metadata.annotations[{TEMPLATE}]"
        raise KoordError(title, field, text, "a list of webhooks as JSON") from None


def _in_force(first: Document, present: dict[Any, Document], answering: bool) -> Document:
    """An entry of the template with the failure policy that may be in force now."""
    if answering or first.get("failurePolicy", _FAIL) != _FAIL:
        return first
    now = present.get(first.get("name"), {"failurePolicy": _IGNORE})
    return (
        first if now.get("failurePolicy", _FAIL) == _FAIL else {**first, "failurePolicy": _IGNORE}
    )


def _entry(
    first: Document, present: Document, address: WebhookAddress, trust: str | None
) -> Document:
    client: Document = {}
    trusted = (present.get("clientConfig") or {}).get("caBundle") if trust is None else trust
    if trusted:
        client["caBundle"] = trusted
    if address.host:
        shown = f"[{address.host}]" if ":" in address.host else address.host
        client["url"] = f"https://{shown}:{address.port}{_path(first)}"
    else:
        service = dict((first.get("clientConfig") or {}).get("service") or {})
        service.update(name=address.service, namespace=address.namespace, path=_path(first))
        client["service"] = {"port": 443, **service}
    return {**first, "clientConfig": client}


def _path(entry: Document) -> str:
    client = entry.get("clientConfig") or {}
    if client.get("url"):
        return urlsplit(str(client["url"])).path or "/"
    path = str((client.get("service") or {}).get("path") or "/")
    return path if path.startswith("/") else f"/{path}"
