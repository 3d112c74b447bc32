# SPDX-License-Identifier: Apache-2.0
"""Informers on servers of their own that are killed, cut off and slowed down under load.

The handlers' history must add up to what the server has in the end, with versions that only grow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import pytest

from koord.api import ConfigMap, Namespace, ObjectMeta
from koord.base import rng
from koord.base.metrics import MetricRegistry, registry
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.controlplane.storage.collection import HistoryLimits
from koord.kube.client import Client
from koord.kube.errors import ApiError, TransportError
from koord.kube.informers.informer import Informer
from koord.kube.informers.reflector import InformerMetrics
from koord.kube.requests.retry import RetryPolicy
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from koord.kube.transport.messages import Request, Stream, Transport
from tests.kube.informers.history import History
from tests.kube.servers import BOTH, Plane, started
from tests.kube.transport.proxy import proxy_to

CHANGES_A_SECOND = 1000
PATIENCE_SECONDS = 240.0
WRITERS = 8
NAMES = 25
UNKNOWN = -1
_numbers = count(1)


@pytest.fixture(scope="module", params=BOTH)
def plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Plane]:
    with started(request.param, tmp_path_factory.mktemp("plane")) as server:
        yield server


class Writers:
    """Change ConfigMaps of one namespace, each its own, as fast as allowed and as they can.

    Attributes:
        known: what each name is, where the last answer about it came: a version, or None for gone.
        done: changes that were acknowledged.
    """

    def __init__(self, client: Client, namespace: str, padding: int) -> None:
        self._client = client
        self._namespace = namespace
        self._padding = "x" * padding
        self._stopping = asyncio.Event()
        self.known: dict[str, int | None] = {}
        self.done = 0

    @asynccontextmanager
    async def busy(self) -> AsyncIterator[Writers]:
        """They write while the block runs."""
        tasks = [asyncio.create_task(self._write(number)) for number in range(WRITERS)]
        try:
            yield self
        finally:
            self._stopping.set()
            await asyncio.gather(*tasks)

    async def _write(self, number: int) -> None:
        draw = rng.stream(number, "writer")
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not self._stopping.is_set():
            due = max(due + WRITERS / CHANGES_A_SECOND, loop.time())
            await asyncio.sleep(due - loop.time())
            name = f"w{number}-{draw.randrange(NAMES)}"
            try:
                await self._change(name, draw.random())
            except (ApiError, TransportError):
                # Whether it took effect is not known: the next change of the name finds out.
                self.known.pop(name, None)
                await asyncio.sleep(0.05)

    async def _change(self, name: str, choice: float) -> None:
        known = self.known.get(name, UNKNOWN)
        try:
            self.known[name] = await self._carry_out(name, choice, known)
            self.done += 1
        except ApiError as error:
            if error.http_status not in (404, 409):
                raise
            # Nobody else writes here: what was acknowledged must still be so.
            if known != UNKNOWN:
                raise AssertionError(f"{name} was left at {known}") from error
            self.known[name] = None if error.http_status == 404 else UNKNOWN

    async def _carry_out(self, name: str, choice: float, known: int | None) -> int | None:
        meta = ObjectMeta(name=name, namespace=self._namespace)
        value = ConfigMap(metadata=meta, data={"choice": f"{choice}{self._padding}"})
        if known is None:
            stored = await self._client.create(value)
        elif choice < 0.2:
            await self._client.delete(ConfigMap, name, self._namespace)
            return None
        else:
            stored = await self._client.update(value)
        return int(stored.metadata.resource_version)


def transport_of(plane: Plane, port: int | None = None) -> HttpTransport:
    config = load_cluster_config(plane.kubeconfig)
    if port is not None:
        config = replace(config, server=f"https://127.0.0.1:{port}")
    return HttpTransport(config)


def client_of(transport: Transport) -> Client:
    policy = RetryPolicy(attempts=2, first_seconds=0.02, most_seconds=0.2)
    return Client(transport, policy=policy, requests_per_second=None)


async def truth(client: Client, namespace: str) -> dict[str, tuple[str, int]]:
    metas = [item.metadata for item in (await client.list(ConfigMap, namespace=namespace)).items]
    return {
        f"{meta.namespace}/{meta.name}": (meta.uid, int(meta.resource_version)) for meta in metas
    }


async def through(
    direct: Client,
    watched: Client,
    trouble: Callable[[Writers], Awaitable[None]],
    *,
    padding: int = 0,
    metrics: MetricRegistry | None = None,
) -> None:
    """Changes and informers while there is trouble; everything must add up after it."""
    namespace = f"faults-{next(_numbers)}"
    await direct.create(Namespace(metadata=ObjectMeta(name=namespace)))
    policy = RetryPolicy(first_seconds=0.05, most_seconds=0.5)
    shared = InformerMetrics(metrics)
    informers = [
        Informer(
            watched,
            ConfigMap,
            namespace=namespace,
            page_size=50,
            policy=policy,
            stream_list=stream,
            metrics=shared,
        )
        for stream in (False, True)
    ]
    histories = [History() for _ in informers]
    for history, informer in zip(histories, informers, strict=True):
        history.follow(informer)
    tasks = [asyncio.create_task(informer.run()) for informer in informers]
    try:
        async with Writers(direct, namespace, padding).busy() as writers:
            await asyncio.gather(*(informer.synced() for informer in informers))
            await trouble(writers)
        true = await truth(direct, namespace)
        for history, informer in zip(histories, informers, strict=True):
            for _ in range(500):
                if history.state == true:
                    break
                await asyncio.sleep(0.02)
            history.check(informer, true)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    # What was acknowledged is there, and nothing else.
    for name, version in writers.known.items():
        found = true.get(f"{namespace}/{name}")
        if version != UNKNOWN:
            assert (found[1] if found else None) == version, name


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a story; a machine that has much else to do gets its time."""

    async def timed() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await work

    asyncio.run(timed())


async def more(writers: Writers, changes: int) -> None:
    """Waits for so many more changes."""
    so_far = writers.done
    await until(lambda: writers.done > so_far + changes)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


# aiohttp leaves a socket to the collector when a timeout hits while it connects.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_server_killed_under_load_loses_nothing(plane: Plane) -> None:
    async def trouble(writers: Writers) -> None:
        for _ in range(2):
            await more(writers, 200)
            plane.kill()
            await asyncio.sleep(0.2)
            await asyncio.to_thread(plane.restart)
        await more(writers, 200)

    async def whole() -> None:
        transport = transport_of(plane)
        try:
            client = client_of(transport)
            await through(client, client, trouble)
        finally:
            await transport.close()

    run(whole())


@pytest.mark.parametrize("how", ["cut", "slow"])
def test_a_bad_line_to_the_server_loses_nothing(plane: Plane, how: str) -> None:
    async def whole() -> None:
        direct = transport_of(plane)
        port = urlsplit(load_cluster_config(plane.kubeconfig).server).port
        assert port is not None
        async with proxy_to(port) as (proxy, own_port):
            watched = transport_of(plane, own_port)
            draw = rng.stream(1, "proxy")

            async def cutting(writers: Writers) -> None:
                while writers.done < 500 or proxy.cuts < 10:
                    await asyncio.sleep(draw.uniform(0, 0.2))
                    proxy.cut(draw, 0.5)

            async def holding(writers: Writers) -> None:
                await until(lambda: writers.done > 100)
                proxy.hold()
                await until(lambda: writers.done > 600)
                proxy.release()

            try:
                trouble = cutting if how == "cut" else holding
                # More than sockets hold on the way: the server itself must cope.
                padding = 0 if how == "cut" else 20_000
                await through(client_of(direct), client_of(watched), trouble, padding=padding)
            finally:
                await watched.close()
                await direct.close()

    run(whole())


class Sleepy:
    """A way to a server for one who reads watches only now and then."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.send = transport.send
        self.close = transport.close

    async def open(self, request: Request) -> Stream:
        stream = await self._transport.open(request)
        read = stream.read

        async def later() -> list[bytes]:
            await asyncio.sleep(0.1)
            return await read()

        stream.read = later  # type: ignore[method-assign]
        return stream


def test_a_log_that_is_always_too_short_is_listed_past() -> None:
    metrics = registry()

    async def whole() -> None:
        async with EmbeddedControlPlane(Options(limits=HistoryLimits(changes=20))) as server:
            direct, watched = server.transport(), Sleepy(server.transport())

            async def stumbling(writers: Writers) -> None:
                await more(writers, 800)

            await through(client_of(direct), client_of(watched), stumbling, metrics=metrics)

    run(whole())
    lists = next(
        float(line.split()[1])
        for line in metrics.expose().decode().splitlines()
        if line.startswith("koord_informer_lists_total{")
    )
    assert lists > 2
