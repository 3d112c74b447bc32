# SPDX-License-Identifier: Apache-2.0
"""Keeps the certificate good and both webhook configurations true; every replica shows it.

Rule: docs/reference/admission.md#serving-and-certificates. Only who leads writes, each write on the
condition that nobody wrote since; the others read. What is kept in the API server is watched; a
round asks for nothing that a watch has told.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from koord.api.kinds.registry import Kind
from koord.base import log
from koord.controllers.webhook.certificates.key_material import contains
from koord.controllers.webhook.certificates.renewal import next_step
from koord.controllers.webhook.certificates.watched_documents import NamedObject
from koord.controllers.webhook.certificates.webhook_configuration import (
    bundles,
    desired,
    is_injected,
)
from koord.kube.daemon.missing_kinds import ReadinessNote
from koord.kube.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from koord.base.clock import Clock
    from koord.base.documents import Document
    from koord.base.supervision import Supervisor
    from koord.controllers.webhook.certificates.certificate_store import CertificateStore
    from koord.controllers.webhook.certificates.key_material import KeyMaterial
    from koord.controllers.webhook.certificates.watched_documents import WatchedDocuments
    from koord.controllers.webhook.certificates.webhook_configuration import WebhookAddress
    from koord.controllers.webhook.server.serving_certificate import ServingCertificate
    from koord.kube.client import Client

PART = "certificates"
ROUND_SECONDS = 10.0
FIRST_ROUNDS_SECONDS = 1.0
"""Between two rounds until one has gone well."""
TRUSTED_FOR_SECONDS = 60.0
"""Configurations have had an authority for so long before a certificate of its is shown: API
servers watch them, and follow in far less."""

_REGISTRATION = "admissionregistration.k8s.io"
_LOG = log.get("webhook")


def _configuration_kind(name: str) -> Kind:
    return Kind(_REGISTRATION, "v1", name, f"{name.lower()}s", False, "")


MUTATING = _configuration_kind("MutatingWebhookConfiguration")
VALIDATING = _configuration_kind("ValidatingWebhookConfiguration")


@dataclass(frozen=True)
class ConfigurationNames:
    """The two webhook configurations."""

    mutating: str
    validating: str

    def objects(self) -> tuple[NamedObject, ...]:
        """Kind and name of each."""
        return (NamedObject(MUTATING, self.mutating), NamedObject(VALIDATING, self.validating))


class _Found(NamedTuple):
    which: NamedObject
    document: Document


class CertificateKeeper:
    """Makes, renews, shows and publishes the certificate.

    Args:
        client: writes configurations.
        watched: knows them.
        store: of the certificate.
        serving: shows it.
        names: of the configurations.
        address: where API servers call.
        paths: those that have a handler.
        leading: whether this process may write.
        supervisor: failures count under ``certificates``.
        clock: of what has been trusted for how long, and of certificates.
        answering: whether reviews have been answered for a while.
    """

    def __init__(
        self,
        client: Client,
        watched: WatchedDocuments,
        store: CertificateStore,
        serving: ServingCertificate,
        names: ConfigurationNames,
        address: WebhookAddress,
        paths: Collection[str],
        leading: Callable[[], bool],
        supervisor: Supervisor,
        clock: Clock,
        answering: Callable[[], bool] = lambda: True,
    ) -> None:
        self._answering = answering
        self._client, self._store, self._serving = client, store, serving
        self._watched = watched
        self._names, self._address, self._paths = names, address, paths
        self._leading, self._supervisor, self._clock = leading, supervisor, clock
        self._material: KeyMaterial | None = None
        self._trusted_since: tuple[bytes, float] | None = None
        self._untrusted = "no round has ended yet"
        self._note: ReadinessNote | None = None
        self._written: dict[NamedObject, tuple[str, list[Document]]] = {}
        self._wake = asyncio.Event()

    def readiness(self) -> str | None:
        """Why the certificate does not do now; None, or a note, if it does."""
        if self._material is None or not self._serving.present:
            return "there is no certificate yet"
        if not self._material.authorities:
            return self._untrusted or self._note  # of somebody who doesn't tell its authority
        if not self._material.holds(self._address.name, self._now()):
            return f"the certificate is not good for {self._address.name} now"
        return self._untrusted or self._note

    def wake(self) -> None:
        """Has the next round begin at once."""
        self._wake.set()

    async def run(self) -> None:
        """Works until cancelled; a round that fails is tried again."""
        while True:
            self._wake.clear()
            with self._supervisor.round(PART):
                await self.round()
            good = self.readiness() is None
            seconds = ROUND_SECONDS if good else FIRST_ROUNDS_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()

    async def round(self) -> None:
        """Looks at everything once, and takes one step where one is due.

        Raises:
            KoordError: configurations or files that are not as they should be.
            ApiError: the server refuses.
            OSError: no answer.
        """
        configurations = await self._configurations()
        kept = await self._store.read()
        if kept.ours and self._leading():
            trusted = self._trusted_for_a_while(kept.material, configurations)
            # A new key takes a tenth of a second, in which others are answered.
            step = await asyncio.to_thread(
                next_step, kept.material, self._address.name, self._now(), trusted
            )
            if step.reason:
                if not await self._store.write(step.material, kept):
                    self.wake()
                    return
                _LOG.info("certificate written", extra=log.fields(why=step.reason))
                kept = replace(kept, material=step.material)
        self._material = kept.material
        if kept.material is None:
            return
        if self._serving.show(kept.material.certificate, kept.material.key):
            _LOG.info("certificate shown", extra=log.fields(name=self._address.name))
        if self._leading():
            configurations = await self._published(configurations, kept.material.authorities)
        self._untrusted = self._distrust(configurations, kept.material)

    async def _configurations(self) -> list[_Found]:
        """Those of the two that there are."""
        found, missing = [], []
        for each in self._names.objects():
            document = await self._watched.get(each)
            if document is None:
                missing.append(f"{each.kind.name} {each.name}")
            else:
                found.append(_Found(each, document))
        self._note_missing(missing)
        return found

    def _note_missing(self, missing: list[str]) -> None:
        note = (
            ReadinessNote(f"nobody asks: there is no {', no '.join(missing)}") if missing else None
        )
        if note and note != self._note:
            _LOG.warning("no configuration", extra=log.fields(missing=", ".join(missing)))
        self._note = note

    def _trusted_for_a_while(self, kept: KeyMaterial | None, configurations: list[_Found]) -> bool:
        """Whether every entry has trusted the first authority since long enough."""
        now = self._clock.monotonic_seconds()
        if kept is None or not _all_trust(configurations, kept.authorities):
            self._trusted_since = None
            return False
        first = kept.authority_key
        if self._trusted_since is None or self._trusted_since[0] != first:
            self._trusted_since = (first, now)
        return now - self._trusted_since[1] >= TRUSTED_FOR_SECONDS

    async def _published(self, configurations: list[_Found], authorities: bytes) -> list[_Found]:
        return [await self._made_right(each, authorities) for each in configurations]

    async def _made_right(self, entry: _Found, authorities: bytes) -> _Found:
        """An entry as it is then; once more on what somebody else made of it meanwhile."""
        for last in (False, True):
            wanted = desired(
                entry.document, self._paths, self._address, authorities, answering=self._answering()
            )
            if wanted == entry.document or self._is_written(entry, wanted):
                break
            try:
                return entry._replace(document=await self._updated(entry.which, wanted))
            except ApiError as error:
                if error.http_status not in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                    raise
                # An upgrade of the release writes them, too.
                newer = await self._watched.fresh(entry.which)
                if last or newer is None:
                    raise
                entry = entry._replace(document=newer)
        return entry

    async def _updated(self, which: NamedObject, wanted: Document) -> Document:
        written: Document = await self._client.update(wanted, kind=which.kind)
        self._watched.keep(which, written)
        self._written[which] = (written["metadata"]["resourceVersion"], wanted["webhooks"])
        _LOG.info("configuration written", extra=log.fields(kind=which.kind.name))
        return written

    def _is_written(self, entry: _Found, wanted: Document) -> bool:
        """Whether the server made this of the same entries: it adds fields that they lack."""
        version = entry.document["metadata"].get("resourceVersion")
        return self._written.get(entry.which) == (version, wanted["webhooks"])

    def _distrust(self, configurations: list[_Found], material: KeyMaterial) -> str:
        """Which configuration does not trust what is shown; empty if all do."""
        if not material.authorities:
            return ""
        for each in configurations:
            if is_injected(each.document):
                continue
            for bundle in bundles(each.document):
                seen = replace(material, authorities=bundle)
                if not seen.holds(self._address.name, self._now()):
                    which = f"{each.which.kind.name} {each.which.name}"
                    return f"{which} does not trust the certificate yet"
        return ""

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.wall_seconds(), UTC)


def _all_trust(configurations: list[_Found], authorities: bytes) -> bool:
    return all(
        contains(bundle, authorities)
        for each in configurations
        if not is_injected(each.document)
        for bundle in bundles(each.document)
    )
