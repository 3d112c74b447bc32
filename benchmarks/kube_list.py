# SPDX-License-Identifier: Apache-2.0
"""Lists pods into typed objects: koord.kube against the ``kubernetes`` package.

Both read the same pages of 500 pods over HTTP from one server that has them ready, each in a
process of its own, so that its memory is what its list takes. Absolute figures::

    python -m benchmarks.kube_list --pods 50000
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from benchmarks.resident import resident_bytes
from tests.kube.pods import pages

ROOT = Path(__file__).resolve().parents[1]
PAGE = 500
_SIDES = ("koord", "kubernetes")


@dataclass(frozen=True)
class Cost:
    """What one side's list cost.

    Attributes:
        pods: how many it holds.
        seconds: from the first request to the last object.
        cpu_seconds: of the process meanwhile.
        resident_bytes: growth of the resident memory, the list still held.
        peak_bytes: growth of its peak.
    """

    pods: int
    seconds: float
    cpu_seconds: float
    resident_bytes: int
    peak_bytes: int


def measure(count: int) -> dict[str, Cost]:
    """The cost of both sides, one after the other, over the same bytes."""
    with _server(count) as url:
        return {side: _cost(side, url) for side in _SIDES}


def _cost(side: str, url: str) -> Cost:
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.kube_list", "--side", side, "--url", url],
        cwd=ROOT, env=_environment(), check=True, capture_output=True, text=True,
    )  # fmt: skip
    return Cost(**json.loads(told.stdout))


@contextmanager
def _server(count: int) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.kube_list", "--serve", "--pods", str(count)],
        cwd=ROOT, env=_environment(), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.communicate()


def _environment() -> dict[str, str]:
    inherited = [path for path in sys.path if path]
    return os.environ | {"PYTHONPATH": os.pathsep.join(inherited)}


async def serve(count: int) -> None:
    """Answers ``/api/v1/pods`` page by page; prints where."""
    ready = list(pages(count, PAGE))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                target = head.split(b" ", 2)[1].decode()
                token = parse_qs(urlsplit(target).query).get("continue", ["0"])[0]
                body = ready[int(token)]
                length = f"Content-Length: {len(body)}\r\n\r\n"
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                writer.write(length.encode())
                writer.write(body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def with_koord(url: str) -> Cost:
    """Lists by koord's client."""
    from koord.api import Pod
    from koord.kube.client import Client
    from koord.kube.transport.config import ClusterConfig
    from koord.kube.transport.http import HttpTransport

    async def work() -> Cost:
        transport = HttpTransport(ClusterConfig(url))
        client = Client(transport, requests_per_second=None)
        async for _ in client.pages(Pod, limit=PAGE):
            break
        begin = _Begin()
        listed = await client.list(Pod, limit=PAGE)
        cost = begin.cost(len(listed.items))
        await transport.close()
        return cost

    return asyncio.run(work())


def with_kubernetes(url: str) -> Cost:
    """Lists by the ``kubernetes`` package, page by page too, which is kind to its memory."""
    from kubernetes.client import ApiClient, Configuration, CoreV1Api

    api = CoreV1Api(ApiClient(Configuration(host=url)))
    api.list_pod_for_all_namespaces(limit=PAGE)
    begin = _Begin()
    items: list[Any] = []
    token = ""
    while True:
        named: dict[str, Any] = {"_continue": token} if token else {}
        page: Any = api.list_pod_for_all_namespaces(limit=PAGE, **named)
        items += page.items
        token = page.metadata._continue or ""
        if not token:
            return begin.cost(len(items))


class _Begin:
    """Where a measurement begins: everything is imported and one page has been decoded."""

    def __init__(self) -> None:
        gc.collect()
        self._resident = resident_bytes()
        self._cpu_seconds = time.process_time()
        self._seconds = time.perf_counter()

    def cost(self, pods: int) -> Cost:
        seconds = time.perf_counter() - self._seconds
        cpu_seconds = time.process_time() - self._cpu_seconds
        gc.collect()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        resident = resident_bytes()
        grown, peaked = resident - self._resident, peak - self._resident
        return Cost(pods, seconds, cpu_seconds, grown, peaked)


def report(costs: dict[str, Cost]) -> str:
    """A table for people."""
    ours, theirs = costs["koord"], costs["kubernetes"]
    lines = [
        f"{'':12} {'seconds':>9} {'CPU s':>9} {'resident MB':>12} {'KB a pod':>9} {'peak MB':>9}"
    ]
    for side, cost in costs.items():
        lines.append(
            f"{side:12} {cost.seconds:9.2f} {cost.cpu_seconds:9.2f} "
            f"{cost.resident_bytes / 1e6:12.1f} {cost.resident_bytes / cost.pods / 1e3:9.2f} "
            f"{cost.peak_bytes / 1e6:9.1f}"
        )
    lines.append(
        f"{'ratio':12} {theirs.seconds / ours.seconds:9.1f} "
        f"{theirs.cpu_seconds / ours.cpu_seconds:9.1f} "
        f"{theirs.resident_bytes / ours.resident_bytes:12.1f} {'':9} "
        f"{theirs.peak_bytes / ours.peak_bytes:9.1f}"
    )
    return "\n".join([f"{ours.pods} pods", *lines])


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--side", choices=_SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(arguments.pods))
    elif arguments.side:
        sides: dict[str, Callable[[str], Cost]] = {
            "koord": with_koord,
            "kubernetes": with_kubernetes,
        }
        print(json.dumps(vars(sides[arguments.side](arguments.url))))
    else:
        print(report(measure(arguments.pods)))


if __name__ == "__main__":
    main()
