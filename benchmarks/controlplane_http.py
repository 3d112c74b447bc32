# SPDX-License-Identifier: Apache-2.0
"""Pod creates over HTTPS: ``python -m benchmarks.controlplane_http [COUNT]``.

A server in a process and on a core of its own, and here a generator that does as little as it can:
bodies and heads are made beforehand, answers are read by their length, watches are drained unread.
Prints creates by the second of the wall clock and by the CPU second of the server.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import yaml

from benchmarks.test_controlplane import PATH, WATCHERS, pod

CONNECTIONS = 32
_TICKS = os.sysconf("SC_CLK_TCK")
_END = b"\r\n\r\n"
_LENGTH = b"\r\nContent-Length: "


class _Creator(asyncio.Protocol):
    """Sends one request after the other on one connection."""

    def __init__(self, request: bytes, left: list[int], done: asyncio.Future[None]) -> None:
        self._request, self._left, self._done = request, left, done
        self._unread = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def next(self) -> None:
        """Sends the next request, if there is one left."""
        if self._left[0] > 0:
            self._left[0] -= 1
            self._transport.write(self._request)
        elif not self._done.done():
            self._done.set_result(None)

    def data_received(self, data: bytes) -> None:
        data = self._unread + data
        head = data.find(_END)
        if head >= 0:
            start = data.index(_LENGTH) + len(_LENGTH)
            length = int(data[start : data.index(b"\r", start)])
            if len(data) >= head + len(_END) + length:
                assert data.startswith(b"HTTP/1.1 201 "), data
                self._unread = b""
                self.next()
                return
        self._unread = data


class _Watcher(asyncio.Protocol):
    """Asks for all pods and counts events by the bytes that begin each."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.events = 0

    def connection_made(self, transport: Any) -> None:
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.events += data.count(b'{"type":"ADDED"')


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


async def _load(config: dict[str, Any], process: int, count: int) -> None:
    cluster = config["clusters"][0]["cluster"]
    url = cluster["server"].removeprefix("https://")
    host, port = url.split(":")
    token = config["users"][0]["user"]["token"]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    shared = f"Host: {url}\r\nAuthorization: Bearer {token}\r\nAccept: application/json\r\n"
    body = msgspec.json.encode(pod())
    post = (
        f"POST {PATH} HTTP/1.1\r\n{shared}Content-Type: application/json\r\n"
        f"User-Agent: bench\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    get = f"GET /api/v1/pods?watch=1 HTTP/1.1\r\n{shared}\r\n"
    loop = asyncio.get_running_loop()
    watchers = [
        (await loop.create_connection(lambda: _Watcher(get.encode()), host, int(port), ssl=context))
        for _ in range(WATCHERS)
    ]
    left, connections, done = [count], [], []
    for _ in range(CONNECTIONS):
        done.append(loop.create_future())
        creator = _Creator(post.encode() + body, left, done[-1])
        made = await loop.create_connection(lambda c=creator: c, host, int(port), ssl=context)
        connections.append(made)
    began, used = time.perf_counter(), _cpu_seconds(process)
    own = time.process_time()
    for _, creator in connections:
        creator.next()
    await asyncio.gather(*done)
    while min(watcher.events for _, watcher in watchers) < count:
        await asyncio.sleep(0.001)
    wall, used = time.perf_counter() - began, _cpu_seconds(process) - used
    own = time.process_time() - own
    for transport, _ in [*connections, *watchers]:
        transport.abort()
    print(f"{CONNECTIONS} connections, {WATCHERS} watchers, {count:,} pods: {count / wall:,.0f} "
          f"creates a second, {count / used:,.0f} a CPU second of the server "
          f"({used / wall:.0%} of its core busy, {own / wall:.0%} of the generator's)")  # fmt: skip


def main() -> None:
    """Starts the server on one core, loads it from the others, ends it."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "kubeconfig"
        command = [sys.executable, "-m", "koord.controlplane", "--kubeconfig", str(config)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, preexec_fn=lambda: os.sched_setaffinity(0, cores[:1])
        ) as server:
            assert server.stdout is not None
            server.stdout.readline()
            os.sched_setaffinity(0, cores[1:] or cores)
            try:
                asyncio.run(_load(yaml.safe_load(config.read_text()), server.pid, count))
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
