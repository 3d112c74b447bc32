# SPDX-License-Identifier: Apache-2.0
"""The HTTP transport against a server that cuts, stalls, babbles and compresses."""

from __future__ import annotations

import asyncio
import gc
import gzip
import logging
import socket
import ssl
import threading
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koord.base.errors import KoordError
from koord.kube.errors import ApiError, TransportError
from koord.kube.transport.config import ClusterConfig
from koord.kube.transport.http import HttpTransport
from koord.kube.transport.messages import MERGE_PATCH, Request, Response
from tests.kube.harness import Answerer, Heard, RawServer, Speaker, raw_server, run
from tests.kube.transport.tls import Authority

GET = Request("GET", "/api/v1/pods")
WATCH = Request("GET", "/api/v1/pods", (("watch", "true"),))


def over_http(
    answerer: Answerer,
    work: Callable[[HttpTransport, RawServer], Awaitable[Any]],
    **options: Any,
) -> Any:
    """What a piece of work gives over real sockets."""

    async def main() -> Any:
        async with raw_server(answerer) as server:
            transport = HttpTransport(ClusterConfig(server.url, token="t0"), **options)
            try:
                return await work(transport, server)
            finally:
                await transport.close()
                await transport.close()

    return run(main())


async def send(transport: HttpTransport, server: RawServer) -> Response:
    return await transport.send(GET)


async def fails(transport: HttpTransport, server: RawServer) -> TransportError:
    with pytest.raises(TransportError) as caught:
        await transport.send(replace_timeout(GET, 5.0))
    return caught.value


async def watches(transport: HttpTransport, server: RawServer) -> tuple[list[bytes], Any]:
    stream = await transport.open(WATCH)
    events: list[bytes] = []
    try:
        while batch := await stream.read():
            events += batch
    except TransportError as error:
        return events, error
    finally:
        await stream.close()
        await stream.close()
    return events, None


def replace_timeout(request: Request, seconds: float) -> Request:
    return Request(request.method, request.path, timeout_seconds=seconds)


def test_a_request_says_who_asks_and_what() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        await speaker.answer(b"{}", 201)

    async def work(transport: HttpTransport, server: RawServer) -> Heard:
        query = (("labelSelector", "a in (b,ç)"), ("x", "&="))
        request = Request("PATCH", "/api/v1/namespaces/a%3Ab", query, b'{"a":1}', MERGE_PATCH)
        response = await transport.send(request)
        assert (response.status, response.body) == (201, b"{}")
        return server.heard[0]

    heard = over_http(answerer, work)
    assert heard.method == "PATCH"
    assert heard.target == "/api/v1/namespaces/a%3Ab?labelSelector=a+in+%28b%2C%C3%A7%29&x=%26%3D"
    assert heard.body == b'{"a":1}'
    assert heard.headers["authorization"] == "Bearer t0"
    assert heard.headers["content-type"] == MERGE_PATCH
    assert heard.headers["accept"] == "application/json"
    assert heard.headers["user-agent"].startswith("koord/")


def test_connections_are_kept() -> None:
    speakers: set[int] = set()

    async def answerer(heard: Heard, speaker: Speaker) -> None:
        speakers.add(id(speaker._writer))
        await speaker.answer(b"{}")

    async def work(transport: HttpTransport, server: RawServer) -> None:
        for _ in range(5):
            await transport.send(GET)

    over_http(answerer, work)
    assert len(speakers) == 1


def test_a_connection_that_is_lost_is_forgotten() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        await speaker.answer(b"{}")
        speaker.cut()

    async def work(transport: HttpTransport, server: RawServer) -> int:
        for _ in range(4):
            await transport.send(GET)
            await asyncio.sleep(0.02)
        gc.collect()
        return len(transport._transports)

    # aiohttp looks at what it keeps when it needs a connection: the last is still known.
    assert over_http(answerer, work) == 1


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
def test_nothing_is_sent_again_when_a_kept_connection_breaks(method: str) -> None:
    async def once(heard: Heard, speaker: Speaker) -> None:
        if heard.target == "/first":
            await speaker.answer(b"{}")
        else:
            speaker.cut()

    async def work(transport: HttpTransport, server: RawServer) -> list[str]:
        await transport.send(Request("GET", "/first"))
        with pytest.raises(TransportError) as caught:
            await transport.send(Request(method, "/second"))
        assert caught.value.sent
        return [heard.target for heard in server.heard]

    assert over_http(once, work) == ["/first", "/second"]


def test_lists_come_compressed() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        assert heard.headers["accept-encoding"] == "gzip"
        await speaker.answer(gzip.compress(b"[1]" * 1000), 200, "Content-Encoding: gzip")

    assert over_http(answerer, send).body == b"[1]" * 1000


def test_a_refusal_is_an_answer() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        await speaker.answer(b"slow down", 429, "Retry-After: 7")

    response = over_http(answerer, send)
    assert (response.status, response.body) == (429, b"slow down")
    assert response.headers == {"retry-after": "7"}


def test_a_redirect_is_not_followed_with_the_token() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        await speaker.answer(b"", 302, "Location: http://127.0.0.1:1/")

    assert over_http(answerer, send).status == 302


def test_a_proxy_is_asked() -> None:
    async def main() -> str:
        async with raw_server(hello) as proxy:
            config = ClusterConfig("http://api.example.com:8080", proxy_url=proxy.url)
            transport = HttpTransport(config)
            await transport.send(GET)
            await transport.close()
            return proxy.heard[0].target

    assert run(main()) == "http://api.example.com:8080/api/v1/pods"


def test_warnings_are_given_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        await speaker.answer(b"{}", 200, 'Warning: 299 - "old \\"API\\""', "Warning: 199 x")

    async def work(transport: HttpTransport, server: RawServer) -> Response:
        await transport.send(GET)
        return await transport.send(GET)

    with caplog.at_level(logging.WARNING, "koord.kube"):
        response = over_http(answerer, work)
    assert response.warnings == ('old "API"',)
    told = [record.koord_fields for record in caplog.records if hasattr(record, "koord_fields")]
    assert [fields for fields in told if "warning" in fields] == [{"warning": 'old "API"'}]


async def cut(heard: Heard, speaker: Speaker) -> None:
    speaker.cut()


async def cut_in_the_body(heard: Heard, speaker: Speaker) -> None:
    await speaker.say(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    speaker.cut()


async def babble(heard: Heard, speaker: Speaker) -> None:
    await speaker.say(b"\x16\x03\x01 what is this\r\n\r\n")


async def broken_gzip(heard: Heard, speaker: Speaker) -> None:
    await speaker.answer(b"no gzip at all", 200, "Content-Encoding: gzip")


@pytest.mark.parametrize("answerer", [cut, cut_in_the_body, babble, broken_gzip])
def test_trouble_after_sending_may_have_had_effect(answerer: Answerer) -> None:
    error = over_http(answerer, fails)
    assert error.sent
    assert "GET /api/v1/pods" in str(error)
    assert "\n" not in str(error)


def test_a_server_that_does_not_answer_in_time() -> None:
    async def silent(heard: Heard, speaker: Speaker) -> None:
        await asyncio.sleep(60)

    async def work(transport: HttpTransport, server: RawServer) -> TransportError:
        with pytest.raises(TransportError) as caught:
            await transport.send(replace_timeout(GET, 0.05))
        return caught.value

    error = over_http(silent, work)
    assert error.sent
    assert "no answer in time" in str(error)


def test_nobody_there_is_surely_not_sent() -> None:
    async def main() -> TransportError:
        async with raw_server(cut) as server:
            pass
        transport = HttpTransport(ClusterConfig(server.url))
        error = await fails(transport, server)
        await transport.close()
        return error

    error = run(main())
    assert not error.sent
    assert str(error).endswith("GET /api/v1/pods: Connection refused")


def test_a_watch_gives_what_is_there_in_batches() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        await speaker.begin()
        await speaker.chunk(b'{"a":1}\n{"b":2}\n{"c"')
        await speaker.chunk(b":3}\n")
        await speaker.chunk(b"x" * 3_000_000 + b"\n")
        await speaker.chunk(b"")

    events, error = over_http(answerer, watches)
    assert events == [b'{"a":1}', b'{"b":2}', b'{"c":3}', b"x" * 3_000_000]
    assert error is None


def test_a_watch_that_is_cut_is_no_end() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        await speaker.begin()
        await speaker.chunk(b"{}\n{")
        await asyncio.sleep(0.05)
        speaker.cut()

    events, error = over_http(answerer, watches)
    assert events == [b"{}"]
    assert "the watch broke" in str(error)


def test_a_watch_that_ends_in_an_event_is_no_end() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        await speaker.begin()
        await speaker.chunk(b"{}\n{")
        await speaker.chunk(b"")

    events, error = over_http(answerer, watches)
    assert events == [b"{}"]
    assert "in the middle of an event" in str(error)


def test_a_silent_watch_is_dead() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        await speaker.begin()
        await speaker.chunk(b"{}\n")
        await asyncio.sleep(60)

    events, error = over_http(answerer, watches, idle_seconds=0.1)
    assert events == [b"{}"]
    assert "silent for 0.1 s" in str(error)


def test_a_watch_is_not_dead_that_speaks_now_and_then_or_is_not_read() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        await speaker.begin()
        for _ in range(6):
            await speaker.chunk(b"{}\n")
            await asyncio.sleep(0.08)
        await asyncio.sleep(60)

    async def work(transport: HttpTransport, server: RawServer) -> tuple[int, float]:
        stream = await transport.open(WATCH)
        loop, seen = asyncio.get_running_loop(), 0
        while seen < 3:
            seen += len(await stream.read())
        await asyncio.sleep(0.5)  # Nobody reads, and the timer finds nobody.
        while seen < 6:
            seen += len(await stream.read())
        began = loop.time()
        with pytest.raises(TransportError, match=r"silent for 0\.2 s"):
            await stream.read()
        return seen, loop.time() - began

    seen, waited = over_http(answerer, work, idle_seconds=0.2)
    assert seen == 6
    assert waited >= 0.199


def test_closing_ends_a_watch_and_lets_nothing_begin() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        await speaker.begin()
        await speaker.chunk(b"{}\n")
        await asyncio.sleep(60)

    async def work(transport: HttpTransport, server: RawServer) -> None:
        stream = await transport.open(WATCH)
        assert await stream.read() == [b"{}"]
        reading = asyncio.create_task(stream.read())
        await asyncio.sleep(0.01)
        await transport.close()
        with pytest.raises(TransportError):
            await reading
        with pytest.raises(TransportError, match="closed") as caught:
            await transport.send(GET)
        assert not caught.value.sent

    over_http(answerer, work)


def test_a_request_may_be_given_up() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        if heard.target == "/slow":
            await asyncio.sleep(60)
        await speaker.answer(b"{}")

    async def work(transport: HttpTransport, server: RawServer) -> int:
        slow = asyncio.create_task(transport.send(Request("GET", "/slow")))
        await asyncio.sleep(0.02)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        # With one connection allowed, the next request shows that it was given back.
        return (await transport.send(GET)).status

    assert over_http(answerer, work, connections=1) == 200


def test_a_refused_watch_is_an_api_error() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        await speaker.answer(b'{"kind":"Status","reason":"Expired","message":"old"}', 410)

    async def work(transport: HttpTransport, server: RawServer) -> ApiError:
        with pytest.raises(ApiError) as caught:
            await transport.open(WATCH)
        return caught.value

    error = over_http(answerer, work)
    assert (error.http_status, error.reason) == (410, "Expired")


def test_watches_do_not_use_up_the_connections() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        if "watch=true" not in heard.target:
            await speaker.answer(b"{}")
            return
        await speaker.begin()
        await speaker.chunk(b"{}\n")
        await asyncio.sleep(60)

    async def work(transport: HttpTransport, server: RawServer) -> int:
        streams = [await transport.open(WATCH) for _ in range(5)]
        for stream in streams:
            assert await stream.read() == [b"{}"]
        response = await transport.send(GET)
        for stream in streams:
            await stream.close()
        return response.status

    assert over_http(answerer, work, connections=2) == 200


def test_a_refused_token_is_renewed_for_the_next_try() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        good = heard.headers["authorization"] == "Bearer new"
        await speaker.answer(b"{}", 200 if good else 401)

    async def main() -> list[int]:
        async with raw_server(answerer) as server:
            renewals: list[ClusterConfig] = []

            def renew() -> ClusterConfig:
                renewals.append(replace(config, token="new", authorization="Bearer new"))
                return renewals[-1]

            config = ClusterConfig(server.url, token="old", reload=renew)
            transport = HttpTransport(config)
            statuses = [(await transport.send(GET)).status]
            answers = await asyncio.gather(*(transport.send(GET) for _ in range(3)))
            await transport.close()
            assert len(renewals) == 1
            return statuses + [answer.status for answer in answers]

    assert run(main()) == [401, 200, 200, 200]


def test_credentials_that_cannot_be_renewed_may_be_later() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        await speaker.answer(b"{}")

    async def main() -> tuple[bool, int]:
        async with raw_server(answerer) as server:
            outcomes: list[ClusterConfig | KoordError] = [
                KoordError("kubeconfig k", "users[a].exec", "login", "a plugin that works"),
                ClusterConfig(server.url),
            ]

            def renew() -> ClusterConfig:
                outcome = outcomes.pop(0)
                if isinstance(outcome, KoordError):
                    raise outcome
                return outcome

            transport = HttpTransport(
                ClusterConfig(server.url, expires_at_seconds=0.0, reload=renew)
            )
            with pytest.raises(TransportError, match="a plugin that works") as caught:
                await transport.send(GET)
            answer = await transport.send(GET)
            await transport.close()
            return caught.value.sent, answer.status

    assert run(main()) == (False, 200)


def test_an_expired_token_is_renewed_before_it_is_used() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        await speaker.answer(heard.headers["authorization"].encode())

    async def main() -> bytes:
        async with raw_server(answerer) as server:
            fresh = ClusterConfig(server.url, token="fresh")
            config = ClusterConfig(
                server.url, token="old", expires_at_seconds=0.0, reload=lambda: fresh
            )
            transport = HttpTransport(config)
            answer = await transport.send(GET)
            await transport.close()
            return answer.body

    assert run(main()) == b"Bearer fresh"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


async def hello(heard: Heard, speaker: Speaker) -> None:
    await speaker.answer(b"{}")


def over_tls(authority: Authority, **options: Any) -> Response | TransportError:
    async def main() -> Response | TransportError:
        async with raw_server(hello, ssl=authority.server_context()) as server:
            transport = HttpTransport(ClusterConfig(server.url, **options))
            try:
                return await transport.send(GET)
            except TransportError as error:
                return error
            finally:
                await transport.close()

    return run(main())


def test_tls(authority: Authority, tmp_path: Path) -> None:
    client = {
        "client_certificate": str(authority.client_certificate),
        "client_key": str(authority.client_key),
    }
    pem = authority.ca.read_text()
    for options in (
        {"ca": str(authority.ca)},
        {"ca": pem},
        {"verify": False},
        {"ca": pem, "tls_server_name": "api.example.com"},
    ):
        answer = over_tls(authority, **options, **client)
        assert isinstance(answer, Response), answer
        assert answer.status == 200


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({}, "certificate: "),
        ({"tls_server_name": "other.example.com"}, "not valid for 'other.example.com'"),
    ],
)
def test_a_server_that_cannot_prove_who_it_is(
    authority: Authority, options: dict[str, str], line: str
) -> None:
    ca = {"ca": str(authority.ca)} if options else {}
    error = over_tls(authority, **ca, **options)
    assert isinstance(error, TransportError)
    assert not error.sent
    assert line in str(error)
    assert "\n" not in str(error)


def test_a_server_that_wants_a_certificate(authority: Authority) -> None:
    error = over_tls(authority, ca=str(authority.ca))
    assert isinstance(error, TransportError)


def test_the_context_is_made_once(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ssl.SSLContext] = []
    original = ClusterConfig.tls_context

    def counted(config: ClusterConfig) -> ssl.SSLContext:
        made.append(original(config))
        return made[-1]

    monkeypatch.setattr(ClusterConfig, "tls_context", counted)

    async def main() -> None:
        async with raw_server(hello, ssl=authority.server_context(ask=False)) as server:
            transport = HttpTransport(ClusterConfig(server.url, ca=str(authority.ca)))
            await asyncio.gather(*(transport.send(GET) for _ in range(5)))
            await transport.close()

    run(main())
    assert len(made) == 1


class SilentServer:
    """Begins a watch over TLS, then neither reads nor writes, whatever the client does."""

    def __init__(self, authority: Authority) -> None:
        self._context = authority.server_context(ask=False)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self.port = self._listener.getsockname()[1]

    def __enter__(self) -> SilentServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        self._listener.settimeout(10)
        plain, _ = self._listener.accept()
        with self._context.wrap_socket(plain, server_side=True) as client:
            client.recv(1 << 16)
            client.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            self._ended.wait()


def test_a_server_that_says_no_farewell_leaves_no_socket_open(authority: Authority) -> None:
    async def watch(port: int) -> None:
        config = ClusterConfig(server=f"https://127.0.0.1:{port}", ca=str(authority.ca))
        transport = HttpTransport(config)
        await (await transport.open(Request("GET", "/api/v1/pods"))).close()
        await transport.close()

    with SilentServer(authority) as server, warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        asyncio.run(watch(server.port))
        gc.collect()
    assert not [each.message for each in found]
