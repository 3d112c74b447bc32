# SPDX-License-Identifier: Apache-2.0
"""The way from a decision to the API and back, each part against the way it went before.

CPU seconds of one thread, taken in turn, the least of some rounds.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
import pytest

from benchmarks.conftest import Record
from benchmarks.ratio import Ratio
from benchmarks.scheduler_inprocess import _pod
from koord.api.kinds.pod import Pod
from koord.base.clock import SystemClock
from koord.base.documents import Document
from koord.controllers.manager.feature_gates import feature_gates
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.webhook.all_reviews import review_call, review_service
from koord.controllers.webhook.certificates.certificate_keeper import MUTATING, VALIDATING
from koord.controllers.webhook.certificates.webhook_configuration import WebhookAddress, desired
from koord.controllers.webhook.framework.default_configurations import (
    NAMESPACE,
    SERVICE,
    default_configurations,
)
from koord.controllers.webhook.framework.handler import HandlerDependencies
from koord.controllers.webhook.handler_makers import all_makers, enabled_makers
from koord.controllers.webhook.options import WebhookOptions
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.controlplane.subresources.plain_binding import PlainBindings
from koord.kube.client import Client
from koord.kube.transport.config import ClusterConfig
from koord.kube.transport.http import HttpTransport
from koord.kube.transport.messages import Request
from tests.kube.transport.tls import Authority

if TYPE_CHECKING:
    from koord.controllers.cluster.views import InformerViews
    from koord.controlplane.admission.webhook_client import LocalWebhook

ROUNDS = 5


async def _in_turn(
    ours: Callable[[], Awaitable[int]], reference: Callable[[], Awaitable[int]]
) -> Ratio:
    """Each does some pieces of work and says how many."""
    best = [float("inf"), float("inf")]
    for _ in range(ROUNDS):
        for side, work in enumerate((ours, reference)):
            start = time.thread_time()
            done = await work()
            best[side] = min(best[side], (time.thread_time() - start) / done)
    return Ratio(*best)


def test_plain_bindings(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 200

    async def main() -> Ratio:
        async with EmbeddedControlPlane(Options(port=None, seed=1)) as plane:
            client = Client(plane.transport(), requests_per_second=None)
            path = "/api/v1/namespaces/default/pods"
            for number in range(2 * ROUNDS * size + 1):
                await client.request(Request("POST", path, body=msgspec.json.encode(_pod(number))))
            waiting = iter((await client.list(Pod)).items)
            # From the first of a namespace on they are plain.
            await client.bind(next(waiting), "node-0")

            async def bind() -> int:
                for _ in range(size):
                    await client.bind(next(waiting), "node-0")
                return size

            async def the_long_way() -> int:
                with monkeypatch.context() as patch:
                    patch.setattr(PlainBindings, "bind", lambda *_: None)
                    return await bind()

            return await _in_turn(bind, the_long_way)

    record("controlplane: bind a pod, in process", asyncio.run(main()), 1.6)


def test_bindings_beside_webhooks(record: Record) -> None:
    """Those of koord, as ``koord up`` has them: none is for bindings, so that they stay plain."""
    size = 200

    async def main() -> Ratio:
        async with (
            EmbeddedControlPlane(Options(port=None, seed=1)) as asked,
            EmbeddedControlPlane(Options(port=None, seed=1)) as alone,
        ):
            sides = []
            for plane in (asked, alone):
                client = Client(plane.transport(), requests_per_second=None)
                path = "/api/v1/namespaces/default/pods"
                for number in range(ROUNDS * size + 1):
                    body = msgspec.json.encode(_pod(number))
                    await client.request(Request("POST", path, body=body))
                if plane is asked:
                    await _configure(client)
                waiting = iter((await client.list(Pod)).items)
                await client.bind(next(waiting), "node-0")
                sides.append(_binder(client, waiting, size))
            return await _in_turn(*sides)

    record("controlplane: bind a pod beside koord's webhooks", asyncio.run(main()), 0.7)


def test_creates_beside_webhooks(record: Record) -> None:
    """Reviews are handed over in the process, against JSON in and out and a wait, as over TLS."""
    size, path = 100, "/api/v1/namespaces/default/pods"

    async def main() -> Ratio:
        async with EmbeddedControlPlane(Options(port=None, seed=1)) as plane:
            client = Client(plane.transport(), requests_per_second=None)
            given = HandlerDependencies(
                client, cast("InformerViews", LocalViews()), feature_gates(), WebhookOptions(),
                SystemClock(), lambda *_: None,
            )  # fmt: skip
            service = review_service(given)
            await _configure(client)
            numbers = itertools.count()

            async def over_json(url_path: str, review: Document) -> Document:
                await asyncio.sleep(0)
                answer = await service.answer(url_path, msgspec.json.encode(review))
                assert answer.status == 200
                document: Document = msgspec.json.decode(answer.body)
                return document

            def creating(call: LocalWebhook) -> Callable[[], Awaitable[int]]:
                async def create() -> int:
                    plane.admission.register_local(f"{NAMESPACE}/{SERVICE}", call)
                    for _ in range(size):
                        body = msgspec.json.encode(_pod(next(numbers)))
                        made = await client.request(Request("POST", path, body=body))
                        assert made.status == 201
                    return size

                return create

            return await _in_turn(creating(review_call(service)), creating(over_json))

    record("controlplane: create a pod beside koord's webhooks", asyncio.run(main()), 1.15)


async def _configure(client: Client) -> None:
    """Entries of all handlers that have something to say with the gates' defaults."""
    paths = enabled_makers(all_makers(), feature_gates(), WebhookOptions()).keys()
    address = WebhookAddress(SERVICE, NAMESPACE)
    for kind, document in zip((MUTATING, VALIDATING), default_configurations(), strict=True):
        await client.create(desired(document, paths, address, b""), kind=kind)


def _binder(client: Client, waiting: Iterator[Pod], size: int) -> Callable[[], Awaitable[int]]:
    async def bind() -> int:
        for _ in range(size):
            await client.bind(next(waiting), "node-0")
        return size

    return bind


class _Answering(asyncio.Protocol):
    """Says Created to whatever is asked; a request of these comes in one piece."""

    def __init__(self, everybody: set[asyncio.Transport]) -> None:
        self._everybody = everybody

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._everybody.add(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._everybody.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"}"):
            self._transport.write(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}")


@contextmanager
def _server(authority: Authority) -> Iterator[str]:
    """A server on a thread of its own."""
    loop = asyncio.new_event_loop()
    context = authority.server_context(ask=False)
    everybody: set[asyncio.Transport] = set()
    serving = loop.create_server(lambda: _Answering(everybody), "127.0.0.1", 0, ssl=context)
    made = loop.run_until_complete(serving)

    async def gone() -> None:
        made.close()
        for transport in set(everybody):
            transport.abort()
        while everybody:
            await asyncio.sleep(0)

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"https://127.0.0.1:{made.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(gone())
        loop.close()


def test_writes_over_tls(record: Record, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    body = b'{"kind":"Binding","target":{"kind":"Node","name":"node-1"}}'
    post = Request("POST", "/api/v1/namespaces/a/pods/b/binding", body=body, timeout_seconds=9.0)
    size, side_by_side = 30, 16

    async def main(url: str) -> Ratio:
        transport = HttpTransport(ClusterConfig(url, ca=str(authority.ca)))

        async def ours() -> None:
            for _ in range(size):
                assert (await transport.send(post)).status == 201

        async def aiohttps() -> None:
            for _ in range(size):
                async with asyncio.timeout(9.0), await transport._start(post) as answer:
                    assert answer.status == 201
                    await answer.read()

        async def together(work: Callable[[], Awaitable[None]]) -> int:
            await asyncio.gather(*(work() for _ in range(side_by_side)))
            return size * side_by_side

        try:
            return await _in_turn(lambda: together(ours), lambda: together(aiohttps))
        finally:
            await transport.close()

    with _server(authority) as url:
        record("kube: a write over TLS, against aiohttp", asyncio.run(main(url)), 1.5)
