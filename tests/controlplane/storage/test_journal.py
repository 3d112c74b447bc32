# SPDX-License-Identifier: Apache-2.0
"""What was acknowledged is there after kill -9; what cannot be read stops the start in one line."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from koord.base.errors import KoordError
from koord.base.faults import FaultPlan, FaultRule, inject
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.controlplane.storage.journal import StorageJournal
from koord.controlplane.storage.store import StoreWrite
from koord.controlplane.subresources.request import SubresourceRequest
from koord.kube.errors import ApiError
from koord.kube.transport.messages import Request
from tests.controlplane.storage.writer import GONE, PATH, WORKERS, name_of

ACKNOWLEDGED = 400


def configs(data: Path) -> tuple[dict[str, int], int]:
    """Versions by name, and the version of the list, of a server started on a folder."""

    async def run() -> tuple[dict[str, int], int]:
        async with EmbeddedControlPlane(Options(data=data)) as plane:
            answer = await plane.transport().send(Request("GET", PATH))
        listed: dict[str, Any] = msgspec.json.decode(answer.body)
        found = {
            item["metadata"]["name"]: int(item["metadata"]["resourceVersion"])
            for item in listed["items"]
        }
        return found, int(listed["metadata"]["resourceVersion"])

    return asyncio.run(run())


def killed_while_writing(data: Path) -> tuple[dict[str, str], set[str]]:
    """What was acknowledged of each name before kill -9, and the names with a write under way."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.controlplane.storage.writer", str(data)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    last: dict[str, str] = {}
    under_way = {worker: name_of(worker, 0) for worker in range(WORKERS)}
    for number, line in enumerate(process.stdout):
        if number == ACKNOWLEDGED:
            process.kill()
        if line.endswith("\n"):
            worker, turn, version = line.split()
            last[name_of(int(worker), int(turn))] = version
            under_way[int(worker)] = name_of(int(worker), int(turn) + 1)
    process.wait()
    process.stdout.close()
    return last, set(under_way.values())


def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    kept: dict[str, int] = {}
    reached = 0
    for _ in range(2):
        last, under_way = killed_while_writing(tmp_path)
        found, version = configs(tmp_path)
        assert version > reached, "the version goes on"
        reached = version
        for name in last.keys() | kept.keys() | found.keys():
            acknowledged = last.get(name, kept.get(name, GONE))
            expected = None if acknowledged == GONE else int(acknowledged)
            if name not in under_way:
                assert found.get(name) == expected, name
            elif name in found:
                assert found[name] >= (expected or 0), name
        assert len(found) > 50
        kept = found


def test_a_watch_goes_on_across_a_restart_or_is_told_410(tmp_path: Path) -> None:
    async def write(*names: str) -> None:
        async with EmbeddedControlPlane(Options(data=tmp_path)) as plane:
            for name in names:
                body = msgspec.json.encode({"metadata": {"name": name}})
                await plane.transport().send(Request("POST", PATH, body=body))

    async def watch(version: int) -> list[str]:
        async with EmbeddedControlPlane(Options(data=tmp_path)) as plane:
            transport = plane.transport()
            query = (("watch", "1"), ("resourceVersion", str(version)))
            stream = await transport.open(Request("GET", PATH, query))
            body = msgspec.json.encode({"metadata": {"name": "later"}})
            await transport.send(Request("POST", PATH, body=body))
            events = [msgspec.json.decode(text) for text in await stream.read()]
            return [told["object"]["metadata"]["name"] for told in events]

    asyncio.run(write("a", "b"))
    found, version = configs(tmp_path)
    with pytest.raises(ApiError) as refused:
        asyncio.run(watch(found["a"]))
    assert refused.value.http_status == 410
    assert asyncio.run(watch(version)) == ["later"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b"not a database, but long enough to be looked at" * 20),
        lambda path: sqlite3.connect(path).execute("PRAGMA user_version=99").connection.close(),
        lambda path: sqlite3.connect(path).execute("PRAGMA application_id=7").connection.close(),
    ],
    ids=["garbage", "format", "another program"],
)
def test_an_unusable_file_stops_the_start(tmp_path: Path, spoil: Any) -> None:
    path = tmp_path / "state.db"
    StorageJournal(path).close()
    spoil(path)
    with pytest.raises(KoordError) as refused:
        StorageJournal(path)
    line = str(refused.value)
    assert str(path) in line
    assert "remove the file to start empty" in line
    assert "\n" not in line


def test_a_damaged_object_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    journal = StorageJournal(path)
    journal.commit([StoreWrite("pods", "a/x", 5, b'{"a":1}')])
    journal.close()
    with sqlite3.connect(path) as database:
        database.execute("UPDATE objects SET body=?", (b'{"a":2}',))
    database.close()
    journal = StorageJournal(path)
    with pytest.raises(KoordError, match="wrong checksum"):
        list(journal.load())
    journal.close()


def test_one_file_has_one_server(tmp_path: Path) -> None:
    journal = StorageJournal(tmp_path / "state.db")
    journal.commit([StoreWrite("pods", "a/x", 5, b"{}")])
    with pytest.raises(KoordError, match="no other server holds"):
        StorageJournal(tmp_path / "state.db")
    journal.close()


def test_a_request_of_two_writes_hears_of_the_first_one_that_failed(tmp_path: Path) -> None:
    """Between the writes it waits, so that the commit of the first fails before the answer."""
    full = FaultPlan(1, {"controlplane.commit": FaultRule(1.0, OSError(28, "no space left"))})

    async def twice(call: SubresourceRequest) -> tuple[int, dict[str, Any]]:
        def mark(document: dict[str, Any]) -> None:
            document["metadata"].setdefault("labels", {})[str(len(document["metadata"]))] = "x"

        place = (call.resource, call.namespace, call.name)
        with inject(full):
            await call.verbs.change(*place, mark, call.context)
            await asyncio.sleep(0.01)
        return 201, await call.verbs.change(*place, mark, call.context)

    async def run() -> int:
        async with EmbeddedControlPlane(Options(data=tmp_path)) as plane:
            plane.server.handlers["serviceaccounts", "token"] = twice
            path = "/api/v1/namespaces/default/serviceaccounts"
            transport = plane.transport()
            await transport.send(Request("POST", path, body=b'{"metadata":{"name":"a"}}'))
            answer = await transport.send(Request("POST", f"{path}/a/token"))
            return answer.status

    assert asyncio.run(run()) == 500
