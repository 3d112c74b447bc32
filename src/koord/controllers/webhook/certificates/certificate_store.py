# SPDX-License-Identifier: Apache-2.0
"""Where keys and certificates are kept: a Secret, or files.

Rule: docs/reference/admission.md#serving-and-certificates. What an operator keeps there, such as
cert-manager, has ``tls.crt`` and ``tls.key`` and no key of an authority: it is served and never
written.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from koord.api.kinds.registry import Kind
from koord.controllers.webhook.certificates.key_material import AUTHORITY_KEY, KeyMaterial
from koord.controllers.webhook.certificates.watched_documents import NamedObject
from koord.kube.errors import ApiError

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.controllers.webhook.certificates.watched_documents import WatchedDocuments
    from koord.kube.client import Client

SECRET = Kind("", "v1", "Secret", "secrets", True, "")
TLS_TYPE = "kubernetes.io/tls"
_TLS_CERTIFICATE, _TLS_KEY, _TLS_AUTHORITY = "tls.crt", "tls.key", "ca.crt"


@dataclass(frozen=True)
class StoredMaterial:
    """What a store has.

    Attributes:
        material: None where nothing is kept, or a part is missing.
        ours: whether it may be written.
        version: by which a write is conditional; empty where there is nothing.
    """

    material: KeyMaterial | None
    ours: bool = True
    version: str = ""


class CertificateStore(Protocol):
    """Keeps keys and certificates."""

    async def read(self) -> StoredMaterial:
        """What is kept.

        Raises:
            ApiError: the server refuses.
            OSError: no answer, or files that cannot be read.
        """
        ...

    async def write(self, material: KeyMaterial, former: StoredMaterial) -> bool:
        """Keeps something in the place of what was read.

        Returns:
            Whether it was; not where another has written since.
        """
        ...


class SecretStore:
    """A Secret.

    Args:
        client: the way to the API server; its rights are those of that one Secret.
        namespace, name: of the Secret.
        watched: knows it; None to ask for it each time.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        watched: WatchedDocuments | None = None,
    ) -> None:
        self._client, self._namespace, self._name = client, namespace, name
        self._watched = watched
        self._which = NamedObject(SECRET, name, namespace)

    async def read(self) -> StoredMaterial:
        """See :class:`CertificateStore`."""
        secret = await self._present()
        if secret is None:
            return StoredMaterial(None)
        files = _decoded(secret.get("data") or {})
        version = secret["metadata"].get("resourceVersion", "")
        if secret.get("type") == TLS_TYPE:
            return StoredMaterial(foreign_material(files), False, version)
        return StoredMaterial(KeyMaterial.of_files(files), True, version)

    async def write(self, material: KeyMaterial, former: StoredMaterial) -> bool:
        """See :class:`CertificateStore`."""
        data = {
            name: base64.b64encode(content).decode("ascii")
            for name, content in material.files().items()
        }
        secret: Document = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "data": data,
        }
        try:
            if former.version:
                there = await self._client.get(SECRET, self._name, self._namespace)
                secret = {**there, "data": {**(there.get("data") or {}), **data}}
                secret["metadata"]["resourceVersion"] = former.version
                written = await self._client.update(secret, kind=SECRET)
            else:
                written = await self._client.create(secret, kind=SECRET)
        except ApiError as error:
            if error.http_status not in (404, 409):
                raise
            if self._watched is not None:
                await self._watched.fresh(self._which)
            return False
        if self._watched is not None:
            self._watched.keep(self._which, written)
        return True

    async def _present(self) -> Document | None:
        if self._watched is not None:
            return await self._watched.get(self._which)
        try:
            found: Document = await self._client.get(SECRET, self._name, self._namespace)
        except ApiError as error:
            if error.http_status == 404:
                return None
            raise
        return found


def foreign_material(files: dict[str, bytes]) -> KeyMaterial | None:
    """What an operator keeps; None if it is not all there yet."""
    if not (files.get(_TLS_CERTIFICATE) and files.get(_TLS_KEY)):
        return None
    authority = files.get(_TLS_AUTHORITY, b"")
    return KeyMaterial(b"", authority, files[_TLS_KEY], files[_TLS_CERTIFICATE])


def is_foreign(files: dict[str, bytes]) -> bool:
    """Whether files are an operator's."""
    return not files.get(AUTHORITY_KEY) and bool(files.get(_TLS_CERTIFICATE))


def _decoded(data: Document) -> dict[str, bytes]:
    found = {}
    for name, text in data.items():
        try:
            found[name] = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError, TypeError):
            continue
    return found


class UnwrittenStore:
    """A dry run's: reads another store, and keeps what would be written in memory alone.

    Args:
        store: is read.
    """

    def __init__(self, store: CertificateStore) -> None:
        self._store = store
        self._made: KeyMaterial | None = None

    async def read(self) -> StoredMaterial:
        """See :class:`CertificateStore`."""
        found = await self._store.read()
        return StoredMaterial(self._made) if found.material is None else found

    async def write(self, material: KeyMaterial, former: StoredMaterial) -> bool:
        """See :class:`CertificateStore`."""
        del former
        self._made = material
        return True
