# SPDX-License-Identifier: Apache-2.0
"""What becomes of custom objects whose definition goes: told, removed, never seen again."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.transport.messages import Request, Transport

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/widgets"
STORAGE = "widgets.example.com"


def definition(stored_is_served: bool) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object"}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    versions = [
        {"name": "v1", "served": True, "storage": False, "schema": schema},
        {"name": "v2", "served": stored_is_served, "storage": True, "schema": schema},
    ]
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": versions}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": STORAGE},
        "spec": spec,
    }


async def made(transport: Transport, path: str, document: dict[str, Any]) -> None:
    body = json.dumps(document).encode()
    answer = await transport.send(Request("POST", path, body=body))
    assert answer.status == 201, answer.body


async def with_widget(transport: Transport, stored_is_served: bool) -> None:
    await made(transport, CRDS, definition(stored_is_served))
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}}
    await made(transport, WIDGETS, widget)


def rows(data: Path) -> list[str]:
    """Keys of the custom objects in the journal of a server that has stopped."""
    database = sqlite3.connect(data / "state.db")
    found = database.execute("SELECT key FROM objects WHERE storage=?", (STORAGE,)).fetchall()
    database.close()
    return [key for (key,) in found]


@pytest.mark.parametrize("stored_is_served", [True, False])
def test_watches_are_told_and_nothing_is_kept(tmp_path: Path, stored_is_served: bool) -> None:
    async def run() -> None:
        async with EmbeddedControlPlane(Options(data=tmp_path)) as plane:
            transport = plane.transport()
            await with_widget(transport, stored_is_served)
            watch = await transport.open(Request("GET", WIDGETS, (("watch", "1"),)))
            (added,) = await watch.read()
            assert json.loads(added)["type"] == "ADDED"
            await transport.send(Request("DELETE", f"{CRDS}/{STORAGE}"))
            (deleted,) = await asyncio.wait_for(watch.read(), 5)
            assert json.loads(deleted)["type"] == "DELETED"
            assert await watch.read() == []

    asyncio.run(run())
    assert rows(tmp_path) == []


def test_objects_that_a_kill_left_without_definition_do_not_come_back(tmp_path: Path) -> None:
    async def begin() -> None:
        async with EmbeddedControlPlane(Options(data=tmp_path)) as plane:
            await with_widget(plane.transport(), stored_is_served=True)

    async def again() -> None:
        async with EmbeddedControlPlane(Options(data=tmp_path)) as plane:
            transport = plane.transport()
            await made(transport, CRDS, definition(stored_is_served=True))
            answer = await transport.send(Request("GET", WIDGETS))
            assert json.loads(answer.body)["items"] == []

    asyncio.run(begin())
    assert rows(tmp_path) == ["one"]
    database = sqlite3.connect(tmp_path / "state.db")
    database.execute("DELETE FROM objects WHERE key=?", (STORAGE,))
    database.commit()
    database.close()
    asyncio.run(again())
    assert rows(tmp_path) == []
