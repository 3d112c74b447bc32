# SPDX-License-Identifier: Apache-2.0
"""Files are replaced all at once; configurations are made of their template and left alone."""

from __future__ import annotations

import asyncio
import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest

from koord.base.clock import SystemClock
from koord.base.documents import Document
from koord.base.errors import KoordError
from koord.controllers.webhook.certificates.certificate_store import StoredMaterial
from koord.controllers.webhook.certificates.file_store import FileStore
from koord.controllers.webhook.certificates.key_material import KeyMaterial
from koord.controllers.webhook.certificates.webhook_configuration import (
    TEMPLATE,
    WebhookAddress,
    bundles,
    desired,
)
from koord.controllers.webhook.environment import WebhookEnvironment
from koord.controllers.webhook.framework.default_configurations import default_configurations
from koord.controllers.webhook.framework.webhook_table import MUTATE_POD, WEBHOOKS

ADDRESS = WebhookAddress("service", "system")
ONE = KeyMaterial(b"1", b"2", b"3", b"4")


def test_files_are_replaced_through_a_link(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    store = FileStore(folder, SystemClock())

    async def play() -> None:
        nothing = await store.read()
        assert nothing == StoredMaterial(None)
        assert await store.write(ONE, nothing)
        found = await store.read()
        assert found.material == ONE
        assert not await store.write(ONE, nothing), "somebody wrote since"
        two = KeyMaterial(b"5", b"6", b"7", b"8")
        assert await store.write(two, found)
        assert (await store.read()).material == two

    asyncio.run(play())
    assert sorted(each.name for each in folder.iterdir() if not each.name.startswith("..")) == [
        "ca-cert.pem", "ca-key.pem", "cert.pem", "key.pem", "tls.crt", "tls.key",
    ]  # fmt: skip
    assert (folder / "tls.key").read_bytes() == b"7"
    assert os.stat(folder / "key.pem").st_mode & 0o077 == 0  # noqa: PTH116
    # Only the newest folder stays.
    assert (
        len([each for each in folder.iterdir() if each.is_dir() and each.name[2:].isdigit()]) == 1
    )


def test_an_operators_files_are_only_read(tmp_path: Path) -> None:
    (tmp_path / "tls.crt").write_bytes(b"c")
    (tmp_path / "tls.key").write_bytes(b"k")
    found = asyncio.run(FileStore(tmp_path, SystemClock()).read())
    assert (found.ours, found.material) == (False, KeyMaterial(b"", b"", b"k", b"c"))


def test_entries_come_back_from_the_template() -> None:
    mutating, _ = default_configurations()
    before = copy.deepcopy(mutating)
    some = desired(mutating, {MUTATE_POD}, ADDRESS, b"CA")
    assert mutating == before
    assert {each["clientConfig"]["service"]["path"] for each in some["webhooks"]} == {MUTATE_POD}
    assert bundles(some) == [b"CA", b"CA"]
    every = desired(some, {each.path for each in WEBHOOKS}, ADDRESS, b"CA")
    names = [each["name"] for each in before["webhooks"]]
    assert [each["name"] for each in every["webhooks"]] == names
    assert desired(every, {each.path for each in WEBHOOKS}, ADDRESS, b"CA") == every
    service = every["webhooks"][0]["clientConfig"]["service"]
    assert service == {"port": 443, "namespace": "system", "name": "service", "path": MUTATE_POD}


def test_requests_fail_only_once_somebody_answers() -> None:
    """A template of ``Fail`` over entries of ``Ignore``, as the chart has them."""
    mutating, _ = default_configurations()
    wished = copy.deepcopy(mutating["webhooks"])
    for entry in wished[1:]:
        entry["failurePolicy"] = "Fail"
    mutating["metadata"]["annotations"] = {TEMPLATE: json.dumps(wished)}
    every = {each.path for each in WEBHOOKS}

    def policies(document: Document) -> list[str]:
        return [each["failurePolicy"] for each in document["webhooks"]]

    begun = desired(mutating, every, ADDRESS, b"CA", answering=False)
    assert policies(begun) == ["Ignore"] * len(wished)
    good = desired(begun, every, ADDRESS, b"CA", answering=True)
    assert policies(good) == ["Ignore", *["Fail"] * (len(wished) - 1)]
    # What is in force stays so where another replica begins, and goes where nobody wishes it.
    assert desired(good, every, ADDRESS, b"CA", answering=False) == good
    good["metadata"]["annotations"][TEMPLATE] = json.dumps(
        [{**each, "failurePolicy": "Ignore"} for each in wished]
    )
    assert policies(desired(good, every, ADDRESS, b"CA", answering=False)) == policies(begun)
    # An entry that comes back does not fail before that either.
    some = desired(begun, {MUTATE_POD}, ADDRESS, b"CA", answering=False)
    assert policies(desired(some, every, ADDRESS, b"CA", answering=False)) == policies(begun)


def test_by_url_and_back() -> None:
    mutating, _ = default_configurations()
    by_url = desired(mutating, {MUTATE_POD}, WebhookAddress("s", "n", "::1", 9876), b"CA")
    client = by_url["webhooks"][0]["clientConfig"]
    assert client["url"] == f"https://[::1]:9876{MUTATE_POD}"
    assert "service" not in client
    again = desired(by_url, {MUTATE_POD}, ADDRESS, b"CA")
    assert "url" not in again["webhooks"][0]["clientConfig"]


def test_whom_somebody_else_writes_is_left_alone() -> None:
    mutating, _ = default_configurations()
    mutating["metadata"]["annotations"] = {"cert-manager.io/inject-ca-from": "a/b"}
    for entry in mutating["webhooks"]:
        entry["clientConfig"]["caBundle"] = "dGhlaXJz"
    assert set(bundles(desired(mutating, {MUTATE_POD}, ADDRESS, b"CA"))) == {b"theirs"}


@pytest.mark.parametrize("text", ["", "no JSON", "{}", "[1]", "[" * 5000])
def test_a_template_that_nobody_can_read_is_told(text: str) -> None:
    mutating, _ = default_configurations()
    mutating["metadata"]["annotations"] = {TEMPLATE: text}
    with pytest.raises(KoordError, match="a list of webhooks as JSON"):
        desired(mutating, {MUTATE_POD}, ADDRESS, b"CA")


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"WEBHOOK_PORT": "65536"}, "WEBHOOK_PORT: got '65536', expected a whole number"),
        ({"WEBHOOK_PORT": "x"}, "WEBHOOK_PORT"),
        ({"WEBHOOK_CERT_WRITER": "vault"}, "WEBHOOK_CERT_WRITER: got 'vault', expected fs"),
    ],
)
def test_variables_that_cannot_be_meant(variables: Any, message: str) -> None:
    with pytest.raises(KoordError) as caught:
        WebhookEnvironment.of(variables)
    assert message in str(caught.value)


def test_variables() -> None:
    assert WebhookEnvironment.of({}) == WebhookEnvironment()
    told = WebhookEnvironment.of({"WEBHOOK_HOST": "h", "WEBHOOK_PORT": "1", "SECRET_NAME": ""})
    assert (told.in_files, told.port, told.secret) == (True, 1, "koordinator-webhook-certs")
    assert told.address(7).name == "h"
    assert WebhookEnvironment().address(7).name == (
        "koordinator-webhook-service.koordinator-system.svc"
    )
    assert not WebhookEnvironment.of(
        {"WEBHOOK_HOST": "h", "WEBHOOK_CERT_WRITER": "secret"}
    ).in_files
