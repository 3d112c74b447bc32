# SPDX-License-Identifier: Apache-2.0
"""Somebody else writes a configuration at the same moment, as an upgrade of the release does."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any

import pytest

from koord.base.clock import SystemClock
from koord.base.documents import Document
from koord.base.metrics import registry
from koord.base.supervision import Supervisor
from koord.controllers.webhook.certificates.certificate_keeper import (
    CertificateKeeper,
    ConfigurationNames,
)
from koord.controllers.webhook.certificates.file_store import FileStore
from koord.controllers.webhook.certificates.watched_documents import NamedObject
from koord.controllers.webhook.certificates.webhook_configuration import WebhookAddress, bundles
from koord.controllers.webhook.framework.default_configurations import (
    MUTATING_NAME,
    VALIDATING_NAME,
    default_configurations,
)
from koord.controllers.webhook.framework.webhook_table import WEBHOOKS
from koord.controllers.webhook.server.serving_certificate import ServingCertificate
from koord.kube.errors import ApiError, Status


class Server:
    """An API server with the two configurations, on which somebody else writes in between.

    Attributes:
        others: how many writes of others are still to come, each just before one of ours.
        writes: how many of ours came.
        stored: the configurations by name.
    """

    def __init__(self, others: int) -> None:
        self.others, self.writes, self._version = others, 0, 1
        self.stored: dict[str, Document] = {}
        for each in default_configurations():
            each["metadata"]["resourceVersion"] = "1"
            self.stored[each["metadata"]["name"]] = copy.deepcopy(each)
        self._known = copy.deepcopy(self.stored)

    async def get(self, named: NamedObject) -> Document:
        return copy.deepcopy(self._known[named.name])

    async def fresh(self, named: NamedObject) -> Document:
        self._known[named.name] = copy.deepcopy(self.stored[named.name])
        return await self.get(named)

    def keep(self, named: NamedObject, document: Document) -> None:
        self._known[named.name] = copy.deepcopy(document)

    async def update(self, document: Document, *, kind: object) -> Document:
        name = document["metadata"]["name"]
        if self.others:
            self.others -= 1
            self._write(name, {**self.stored[name], "metadata": self._labelled(name)})
        if document["metadata"]["resourceVersion"] != self._current(name):
            raise ApiError(Status(code=409, reason="Conflict", message="modified"))
        self.writes += 1
        return self._write(name, document)

    def change(self, name: str, **fields: object) -> None:
        """Somebody else writes fields of all entries, and is seen."""
        entries = [{**each, **fields} for each in self.stored[name]["webhooks"]]
        self._known[name] = self._write(name, {**self.stored[name], "webhooks": entries})

    def _labelled(self, name: str) -> Document:
        return {**self.stored[name]["metadata"], "labels": {"release": "2"}}

    def _current(self, name: str) -> str:
        found: str = self.stored[name]["metadata"]["resourceVersion"]
        return found

    def _write(self, name: str, document: Document) -> Document:
        self._version += 1
        written = copy.deepcopy(document)
        written["metadata"]["resourceVersion"] = str(self._version)
        for each in written["webhooks"]:
            each.setdefault("matchPolicy", "Equivalent")
            each.setdefault("objectSelector", {})
        self.stored[name] = written
        return copy.deepcopy(written)


def keeper(server: Server, folder: Path) -> CertificateKeeper:
    """One that leads."""
    clock, metrics, any_server = SystemClock(), registry(), server_as_both(server)
    return CertificateKeeper(
        any_server, any_server, FileStore(folder, clock), ServingCertificate(),
        ConfigurationNames(MUTATING_NAME, VALIDATING_NAME), WebhookAddress("service", "system"),
        [each.path for each in WEBHOOKS], lambda: True,
        Supervisor("webhook", metrics, clock), clock,
    )  # fmt: skip


def server_as_both(server: Server) -> Any:
    """As client, and as what is watched."""
    return server


def test_a_write_in_between_is_kept_and_ours_comes_on_top(tmp_path: Path) -> None:
    server = Server(others=1)
    asyncio.run(keeper(server, tmp_path / "certs").round())
    assert server.stored[MUTATING_NAME]["metadata"]["labels"] == {"release": "2"}
    for each in server.stored.values():
        assert all(bundles(each)), each["metadata"]["name"]


def test_what_is_as_wanted_is_written_once(tmp_path: Path) -> None:
    """A server adds fields that entries lack; whoever changes one of ours is answered."""
    server = Server(others=0)
    keeping = keeper(server, tmp_path / "certs")

    async def rounds(count: int) -> int:
        for _ in range(count):
            await keeping.round()
        return server.writes

    assert asyncio.run(rounds(3)) == len(server.stored)
    server.change(MUTATING_NAME, timeoutSeconds=7)
    assert asyncio.run(rounds(2)) == len(server.stored) + 1
    assert all(each["timeoutSeconds"] != 7 for each in server.stored[MUTATING_NAME]["webhooks"])


def test_who_writes_again_and_again_is_told(tmp_path: Path) -> None:
    """The next round tries anew."""
    server = Server(others=2)
    with pytest.raises(ApiError, match="modified"):
        asyncio.run(keeper(server, tmp_path / "certs").round())
