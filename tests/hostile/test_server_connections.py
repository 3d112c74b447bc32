# SPDX-License-Identifier: Apache-2.0
"""Connections that are too many, say nothing, read nothing, or say two things at once."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import resource
import socket
import sys
from asyncio import sslproto
from collections.abc import Callable

import pytest

from koord.controlplane.frontends import bodies, connections
from koord.controlplane.storage.store import Store
from koord.controlplane.storage.watch import _BATCH_BYTES, WatchCursor, WatchScope
from koord.kube.transport.messages import Request, Response
from tests.hostile.served import CONFIGS, END_SECONDS, Target, attack, config_map, encoded

LIST = b"GET /api/v1/namespaces HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
WATCH = b"GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


async def until(is_so: Callable[[], bool]) -> None:
    """Waits for what must come about."""
    async with asyncio.timeout(END_SECONDS):
        while not is_so():
            await asyncio.sleep(0.005)


def open_connections(target: Target) -> int:
    front = target.plane._front
    assert front is not None
    return front.connections


def test_beyond_the_most_connections_a_new_one_is_closed_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 8)

    async def test(target: Target) -> None:
        held = [await target.raw(b"") for _ in range(8)]
        await until(lambda: open_connections(target) == 8)
        for _ in range(3):
            assert await target.exchange(LIST) == b""
        assert open_connections(target) == 8
        for reader, writer in held:  # Those that came in are served as ever.
            writer.write(LIST)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        for _, writer in held:
            writer.close()
        await until(lambda: open_connections(target) == 0)
        reader, writer = await target.raw(LIST)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        writer.close()

    attack(test)


def test_the_most_connections_leave_files_for_the_rest_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for files, most in ((20_000, 4_096), (1_024, 768), (256, 128), (resource.RLIM_INFINITY, 4_096)):
        monkeypatch.setattr(
            connections.resource, "getrlimit", lambda _, files=files: (files, files)
        )
        assert connections.most_connections() == most


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01", LIST], ids=["nothing", "half", "no TLS"])
def test_a_handshake_that_never_ends_is_ended(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HANDSHAKE_SECONDS", 0.05)

    async def test(target: Target) -> None:
        reader, writer = await target.raw(sent)
        async with asyncio.timeout(END_SECONDS):
            with contextlib.suppress(ConnectionError):
                await reader.read()
        writer.close()
        await until(lambda: open_connections(target) == 0)

    attack(test, insecure=False)


def test_who_greets_and_says_nothing_more_is_hung_up_on_without_a_farewell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A farewell of TLS would wait for one from a client that does not even read."""
    monkeypatch.setattr(bodies, "REQUEST_SECONDS", 0.05)
    monkeypatch.setattr(connections, "_FAREWELL_SECONDS", 1_000.0)

    async def test(target: Target) -> None:
        def greet() -> socket.socket:
            plain = socket.create_connection(("127.0.0.1", target.port))
            return target.trust().wrap_socket(plain, server_hostname="127.0.0.1")

        silent = await asyncio.to_thread(greet)
        try:
            await until(lambda: open_connections(target) == 0)
        finally:
            silent.close()

    attack(test, insecure=False)


def test_watches_that_never_read() -> None:
    """They are let go once the log has overtaken them; nobody waits for them."""

    async def test(target: Target) -> None:
        watches = [await target.raw(WATCH) for _ in range(20)]
        await until(lambda: len(target.plane._front._watches) == 20)
        for number in range(100):
            body = config_map("a", {"text": "x" * 100_000, "n": str(number)})
            method, path = ("PUT", f"{CONFIGS}/a") if number else ("POST", CONFIGS)
            assert (await target.ask(method, path, body)).status < 300
        for _, writer in watches:
            writer.transport.abort()
        await until(lambda: not target.plane._front._watches)

    attack(test)


@pytest.mark.parametrize("prefix", ["", "default/"], ids=["shared events", "its own"])
def test_a_watch_that_reads_slowly_is_handed_little_at_a_time(prefix: str) -> None:
    """The log may have 64 MiB: whoever reads on after a while would hold all of it, each watch."""
    large, count = 200_000, 40

    async def story() -> int:
        store = Store()
        collection = store.collection("configmaps")
        scope = WatchScope(prefix, None, None, lambda version, end: b"")
        start = collection.position(store.version)
        watch = WatchCursor(collection, scope, start, [], lambda: store.version, None)
        for number in range(count):
            meta = {"namespace": "default", "name": f"a{number}", "uid": f"{number}"}
            data = {"a": "x" * large}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
            store.put("configmaps", body, ())
        await store.settled()
        seen = 0
        while seen < count:
            events = await watch.read()
            assert sum(map(len, events)) <= _BATCH_BYTES + 2 * large
            seen += len(events)
        await watch.close()
        return seen

    assert asyncio.run(story()) == count


def test_a_thousand_idle_watches() -> None:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(1_000, (files - 300) // 2) if files != resource.RLIM_INFINITY else 1_000

    async def test(target: Target) -> None:
        watches = [await target.raw(WATCH) for _ in range(count)]
        await until(lambda: len(target.plane._front._watches) == count)
        body = config_map("a")
        assert (await target.ask("POST", CONFIGS, body)).status == 201
        for reader, writer in watches:
            async with asyncio.timeout(END_SECONDS):
                while b'"name":"a"' not in await reader.readline():
                    pass
            writer.transport.abort()
        await until(lambda: open_connections(target) == 0)

    attack(test)


HEAD = "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
INNER = f"DELETE {CONFIGS}/kept HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        "Content-Length: 0\r\nContent-Length: 9\r\n\r\n",
        "Content-Length: +0\r\n\r\n",
        "Content-Length: 0, 9\r\n\r\n",
        "Content-Length: -1\r\n\r\n",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        "X: a\n\nContent-Length: 0\r\n\r\n",
    ],
)
def test_a_request_within_another_is_not_served(framing: str) -> None:
    async def test(target: Target) -> None:
        await target.ask("POST", CONFIGS, config_map("kept"))
        told = await target.exchange((HEAD.format(path=CONFIGS) + framing + INNER).encode())
        assert told.startswith((b"HTTP/1.0 400 ", b"HTTP/1.1 400 "))
        assert told.count(b"HTTP/1.") == 1
        assert (await target.ask("GET", f"{CONFIGS}/kept")).status == 200

    attack(test)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/default/configmaps/../secrets/a",
        "/api/v1/namespaces/default/configmaps/%2e%2e/secrets/a",
        "/api/v1/namespaces/default/configmaps/..%2fsecrets%2fa",
        "/api/v1/namespaces/default%2fsecrets%2fa",
        "//api/v1/namespaces/default/secrets/a",
        "/api/v1//namespaces/default/secrets/a",
        "/api/v1/namespaces/default/secrets/a%00",
        "/api/v1/namespaces/default/secrets/a/",
        "/healthz/../api/v1/namespaces/default/secrets/a",
        "/healthz/..%2fapi/v1/namespaces/default/secrets/a",
        "/version?/../api/v1/namespaces/default/secrets/a",
        "http://127.0.0.1/api/v1/namespaces/default/secrets/a",
        "*",
    ],
)
def test_other_spellings_of_a_path_lead_to_no_secret(path: str) -> None:
    secret = {"metadata": {"name": "a"}, "stringData": {"word": "swordfish"}}

    async def test(target: Target) -> None:
        await target.ask("POST", "/api/v1/namespaces/default/secrets", secret)
        reader, writer = await target.raw(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode(), True
        )
        async with asyncio.timeout(END_SECONDS):
            told = await reader.read()
        writer.close()
        assert told.startswith((b"HTTP/1.0 4", b"HTTP/1.1 4", b"HTTP/1.1 200"))
        assert b"swordfish" not in told
        assert b"c3dvcmRmaXNo" not in told  # the same in base64
        assert (b" 200 " in told[:20]) == path.startswith("/version")

    attack(test, insecure=False)


def test_a_header_that_never_ends_costs_its_limit() -> None:
    async def test(target: Target) -> None:
        sent = b"GET /api HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * (1 << 20)
        told = await target.exchange(sent)
        assert not told or told.startswith(b"HTTP/1.0 400 ")
        lines = b"".join(b"X-%d: y\r\n" % number for number in range(50_000))
        sent = b"GET /api HTTP/1.1\r\nHost: 127.0.0.1\r\n" + lines + b"\r\n"
        told = await target.exchange(sent)
        assert not told or json.loads(told.partition(b"\r\n\r\n")[2])
        assert (await target.ask("GET", CONFIGS)).status == 200

    attack(test)


def test_a_body_that_does_not_arrive_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "REQUEST_SECONDS", 0.05)

    async def test(target: Target) -> None:
        body = encoded(config_map("a"))
        head = HEAD.format(path=CONFIGS) + f"Content-Length: {len(body)}\r\n\r\n"
        told = await target.exchange(head.encode() + body[:-1])
        assert told.startswith(b"HTTP/1.1 400 ")

    attack(test)


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01", LIST], ids=["nothing", "half", "no TLS"])
def test_a_handshake_that_failed_leaves_no_buffers(sent: bytes) -> None:
    """Each has a quarter of a megabyte; what lies in a circle stays until the collector comes."""

    async def test(target: Target) -> None:
        gc.collect()
        gc.disable()
        try:
            for _ in range(20):
                _, writer = await target.raw(sent)
                await until(lambda: open_connections(target) == 1)
                writer.close()
                await until(lambda: open_connections(target) == 0)
            held = sum(type(each) is sslproto.SSLProtocol for each in gc.get_objects())
        finally:
            gc.enable()
        assert held <= 1

    attack(test, insecure=False)


def test_an_idle_connection_holds_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sslproto.SSLProtocol, "max_size", 256 << 10)  # As Python has it.

    async def test(target: Target) -> None:
        held = [(await target.raw(b""))[1] for _ in range(20)]
        await until(lambda: open_connections(target) == 20)
        buffers = [each for each in gc.get_objects() if type(each) is sslproto.SSLProtocol]
        assert len(buffers) == 20
        taken = [sum(map(sys.getsizeof, vars(each).values())) for each in buffers]
        assert max(taken) <= 64 << 10
        for writer in held:
            writer.close()

    attack(test, insecure=False)


def test_who_has_many_connections_is_served_no_sooner_than_others() -> None:
    """All that came in one turn of the loop was served in it, before anybody else."""
    most = 10

    async def test(target: Target) -> None:
        begun: list[str] = []
        handle = target.plane.server.handle

        async def noted(request: Request) -> Response | WatchCursor:
            begun.append(request.path)
            return await handle(request)

        target.plane.server.handle = noted  # type: ignore[method-assign]
        alice, mallory = (f"/api/v1/namespaces/{name}/pods" for name in ("alice", "mallory"))
        connections = [await target.raw(b"") for _ in range(41)]
        last = connections[-1]
        try:
            for path in (alice, mallory):
                last[1].write(_get(path))
                await last[0].readuntil(b"\r\n\r\n")
            begun.clear()
            for _, writer in connections[:-1]:
                writer.write(_get(mallory))
            last[1].write(_get(alice))
            async with asyncio.timeout(END_SECONDS):
                while len(begun) < len(connections):
                    await asyncio.sleep(0.001)
        finally:
            for _, writer in connections:
                writer.close()
        assert begun.index(alice) <= most, begun

    attack(test)


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
