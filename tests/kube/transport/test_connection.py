# SPDX-License-Identifier: Apache-2.0
"""Answers cut anywhere are read whole or refused; what goes wrong is told as over aiohttp."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kube.errors import TransportError
from koord.kube.transport.config import ClusterConfig
from koord.kube.transport.connection import Connection, RawResponse, header_lines, request_bytes
from koord.kube.transport.http import HttpTransport
from koord.kube.transport.messages import PipeliningTransport, Request, Response
from tests.kube.harness import Answerer, Heard, RawServer, Speaker, raw_server, run
from tests.kube.transport.test_http import babble, cut, cut_in_the_body, hello, over_http
from tests.kube.transport.tls import Authority

POST = Request("POST", "/api/v1/pods", body=b"{}", timeout_seconds=5.0)


class Line(asyncio.Transport):
    """The other end of a connection, without a socket."""

    def __init__(self) -> None:
        super().__init__()
        self.sent, self.aborted = b"", False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(data)

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


def answer_to(
    pieces: list[bytes], *, ends: bool = False
) -> tuple[RawResponse | Exception, Connection]:
    """What a connection makes of an answer in pieces."""

    async def main() -> tuple[RawResponse | Exception, Connection]:
        connection = Connection()
        connection.connection_made(Line())
        asked = asyncio.create_task(connection.request(b"POST"))
        await asyncio.sleep(0)
        for piece in pieces:
            if connection.usable:
                connection.data_received(piece)
        if ends:
            connection.connection_lost(None)
        await asyncio.wait({asked}, timeout=0.01 if not asked.done() else None)
        if not asked.done():
            asked.cancel()
            return TimeoutError(), connection
        error = asked.exception()
        return (error if isinstance(error, Exception) else asked.result()[0]), connection

    return asyncio.run(main())


def pieces(text: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(text) + 1) for cut in cuts} | {0, len(text)})
    return [text[low:high] for low, high in itertools.pairwise(places)]


def counted(body: bytes, chunks: list[int]) -> bytes:
    head = b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\nWarning: a:b \r\nX: 1\r\n\r\n"
    return head % len(body) + body


def chunked(body: bytes, chunks: list[int]) -> bytes:
    parts = b"".join(
        b"%x;note\r\n%b\r\n" % (len(part), part) for part in pieces(body, chunks) if part
    )
    head = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n"
    return head + b"warning: a:b\r\n\r\n" + parts + b"0\r\nTrailer: 1\r\n\r\n"


def to_the_end(body: bytes, chunks: list[int]) -> bytes:
    return b"HTTP/1.0 201 Created\r\nX: 1\r\nWARNING: a:b\r\n\r\n" + body


NUMBERS = st.lists(st.integers(0, 400), max_size=6)


@given(st.binary(max_size=200), st.sampled_from([counted, chunked, to_the_end]), NUMBERS, NUMBERS)
def test_an_answer_is_read_however_it_comes(
    body: bytes, framed: Callable[[bytes, list[int]], bytes], chunks: list[int], cuts: list[int]
) -> None:
    text = framed(body, chunks)
    answer, connection = answer_to(pieces(text, cuts), ends=framed is to_the_end)
    assert isinstance(answer, RawResponse), answer
    assert (answer.status, answer.body, answer.headers["warning"]) == (201, body, ["a:b"])
    assert connection.usable == (framed is not to_the_end)


@given(
    st.lists(st.tuples(st.binary(max_size=60), st.sampled_from([counted, chunked])), min_size=1),
    NUMBERS,
    st.integers(0, 5),
    st.booleans(),
)
def test_answers_to_several_requests_come_in_order(
    told: list[tuple[bytes, Callable[[bytes, list[int]], bytes]]],
    cuts: list[int],
    missing: int,
    closes: bool,
) -> None:
    """As many as came whole; all, where the connection lives on."""
    framed = [frame(body, [7]) for body, frame in told]
    text, number = b"".join(framed), len(told) + missing

    async def main() -> tuple[list[RawResponse] | Exception, bool]:
        connection = Connection()
        connection.connection_made(Line())
        asked = asyncio.create_task(connection.request(b"POST" * number, number))
        await asyncio.sleep(0)
        for piece in pieces(text, cuts):
            connection.data_received(piece)
        if missing and closes:
            connection.connection_lost(None)
        elif missing:
            connection.fail(TimeoutError())
        return await asked, connection.usable

    answers, usable = asyncio.run(main())
    assert isinstance(answers, list)
    assert [each.body for each in answers] == [body for body, _ in told]
    assert usable == (missing == 0)


@pytest.mark.parametrize("end", [b"", b"HTTP/1.1 201"])
def test_a_server_may_close_before_it_has_answered_all(end: bytes) -> None:
    last = b"HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 1\r\n\r\n2"

    async def main() -> tuple[list[bytes], bool]:
        connection = Connection()
        connection.connection_made(Line())
        asked = asyncio.create_task(connection.request(b"POST" * 4, 4))
        await asyncio.sleep(0)
        connection.data_received(counted(b"1", []) + last + end)
        return [each.body for each in await asked], connection.usable

    assert asyncio.run(main()) == ([b"1", b"2"], False)


@given(st.binary(min_size=1, max_size=50), st.sampled_from([counted, chunked]), st.integers(0, 999))
def test_an_answer_that_breaks_off_is_none(
    body: bytes, framed: Callable[[bytes, list[int]], bytes], end: int
) -> None:
    text = framed(body, [3])
    answer, _ = answer_to([text[: end % len(text)]], ends=True)
    assert isinstance(answer, ConnectionResetError)


@pytest.mark.parametrize(
    "text",
    [
        b"\x16\x03\x01 what is this\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n : x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcdef",
        b"x" * (300 << 10),
    ],
)
def test_what_is_no_http_is_refused(text: bytes) -> None:
    answer, connection = answer_to([text])
    assert isinstance(answer, ValueError)
    assert not connection.usable


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n", False),
    ],
)
def test_a_connection_is_kept_where_it_may_be(text: bytes, kept: bool) -> None:
    answer, connection = answer_to([text])
    assert isinstance(answer, RawResponse)
    assert connection.usable == kept


@pytest.mark.parametrize(
    ("target", "value"), [("/a b", "x"), ("/a\r\nX: 1", "x"), ("a", "x"), ("/a", "x\r\nY: 1")]
)
def test_a_request_says_one_thing(target: str, value: str) -> None:
    with pytest.raises(ValueError, match=r"path|header"):
        request_bytes("POST", target, header_lines({"X": value}), b"")


def test_writes_share_connections_and_say_who_asks() -> None:
    async def work(transport: HttpTransport, server: RawServer) -> list[Heard]:
        for method in ("POST", "PUT", "PATCH", "DELETE", "POST"):
            await transport.send(Request(method, "/api/v1/pods", (("a", "b c"),), b'{"a":1}'))
        return server.heard

    speakers: set[int] = set()

    async def answerer(heard: Heard, speaker: Speaker) -> None:
        speakers.add(id(speaker._writer))
        await speaker.answer(b"{}", 201)

    heard = over_http(answerer, work)
    assert len(speakers) == 1
    assert {each.target for each in heard} == {"/api/v1/pods?a=b+c"}
    assert {each.body for each in heard} == {b'{"a":1}'}
    first = heard[0].headers
    assert (first["authorization"], first["content-type"]) == ("Bearer t0", "application/json")
    assert (first["accept"], first["accept-encoding"]) == ("application/json", "identity")
    assert first["user-agent"].startswith("koord/")
    assert first["host"].startswith("127.0.0.1:")


async def _fails(transport: HttpTransport, server: RawServer) -> TransportError:
    with pytest.raises(TransportError) as caught:
        await transport.send(POST)
    return caught.value


@pytest.mark.parametrize("answerer", [cut, cut_in_the_body, babble])
def test_trouble_after_sending_may_have_had_effect(answerer: Answerer) -> None:
    error = over_http(answerer, _fails)
    assert error.sent
    assert "POST /api/v1/pods" in str(error)
    assert "\n" not in str(error)


def test_each_write_has_its_own_time_over_kept_connections() -> None:
    silent = {"/slow", "/slower"}

    async def answerer(heard: Heard, speaker: Speaker) -> None:
        if heard.target not in silent:
            await speaker.answer(b"{}")

    async def work(transport: HttpTransport, server: RawServer) -> list[object]:
        fill = [Request("POST", "/quick", body=b"{}") for _ in range(4)]
        await asyncio.gather(*map(transport.send, fill))
        asked = [
            transport.send(Request("POST", path, body=b"{}", timeout_seconds=seconds))
            for path, seconds in (("/slower", 0.3), ("/slow", 0.1), ("/quick", 0.1))
        ]
        began = asyncio.get_running_loop().time()
        first, *others = map(asyncio.ensure_future, asked)
        (slow, quick) = await asyncio.gather(*others, return_exceptions=True)
        assert not first.done()
        (slower,) = await asyncio.gather(first, return_exceptions=True)
        assert asyncio.get_running_loop().time() - began >= 0.3
        # Nobody else gets an answer that comes late.
        again = await transport.send(Request("POST", "/quick", body=b"{}", timeout_seconds=5.0))
        return [slow, quick, slower, again]

    slow, quick, slower, again = over_http(answerer, work)
    for late in (slow, slower):
        assert isinstance(late, TransportError)
        assert late.sent
        assert str(late).endswith("no answer in time")
    for answer in (quick, again):
        assert isinstance(answer, Response)
        assert answer.status == 200


def test_a_kept_connection_that_the_server_closed_is_not_used() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        await speaker.answer(b"{}")
        speaker.cut()

    async def work(transport: HttpTransport, server: RawServer) -> int:
        for _ in range(3):
            assert (await transport.send(POST)).status == 200
            await asyncio.sleep(0.02)
        return len(server.heard)

    assert over_http(answerer, work) == 3


def test_nobody_there_is_surely_not_sent() -> None:
    async def main() -> TransportError:
        async with raw_server(cut) as server:
            pass
        transport = HttpTransport(ClusterConfig(server.url))
        error = await _fails(transport, server)
        await transport.close()
        return error

    error = run(main())
    assert not error.sent
    assert str(error).endswith("POST /api/v1/pods: Connection refused")


def test_a_path_that_cannot_be_sent_is_not() -> None:
    async def work(transport: HttpTransport, server: RawServer) -> int:
        with pytest.raises(TransportError) as caught:
            await transport.send(Request("POST", "/a b", body=b"{}"))
        assert not caught.value.sent
        return len(server.heard)

    assert over_http(hello, work) == 0


def test_a_write_may_be_given_up() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        if heard.target == "/slow":
            await asyncio.sleep(60)
        await speaker.answer(b"{}")

    async def work(transport: HttpTransport, server: RawServer) -> int:
        slow = asyncio.create_task(transport.send(Request("POST", "/slow")))
        await asyncio.sleep(0.02)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        late = Request("POST", "/slow", timeout_seconds=0.05)
        with pytest.raises(TransportError, match="no answer in time"):
            await transport.send(late)
        return (await transport.send(POST)).status

    assert over_http(answerer, work, connections=1) == 200


def test_closing_lets_nothing_begin() -> None:
    async def work(transport: HttpTransport, server: RawServer) -> None:
        await transport.send(POST)
        await transport.close()
        with pytest.raises(TransportError, match="closed") as caught:
            await transport.send(POST)
        assert not caught.value.sent

    over_http(hello, work)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


def _over_tls(authority: Authority, **options: Any) -> Response | TransportError:
    async def main() -> Response | TransportError:
        async with raw_server(hello, ssl=authority.server_context()) as server:
            transport = HttpTransport(ClusterConfig(server.url, **options))
            try:
                return await transport.send(POST)
            except TransportError as error:
                return error
            finally:
                await transport.close()

    return run(main())


def test_tls(authority: Authority) -> None:
    client = {
        "client_certificate": str(authority.client_certificate),
        "client_key": str(authority.client_key),
    }
    pem = authority.ca.read_text()
    for options in (
        {"ca": pem}, {"verify": False}, {"ca": pem, "tls_server_name": "api.example.com"},
    ):  # fmt: skip
        answer = _over_tls(authority, **options, **client)
        assert isinstance(answer, Response), answer
        assert answer.status == 200
    for options in ({}, {"ca": pem, "tls_server_name": "other.example.com"}):
        error = _over_tls(authority, **options, **client)
        assert isinstance(error, TransportError)
        assert not error.sent
        assert "certificate: " in str(error)


def test_a_server_below_a_path_is_asked_there() -> None:
    async def main() -> str:
        async with raw_server(hello) as server:
            transport = HttpTransport(ClusterConfig(f"{server.url}/k8s/c1"))
            await transport.send(POST)
            await transport.close()
            return server.heard[0].target

    assert run(main()) == "/k8s/c1/api/v1/pods"


def _posts(number: int, seconds: float | None = 5.0) -> list[Request]:
    body = b"{}"
    return [
        Request("POST", f"/api/v1/events/{at}", body=body, timeout_seconds=seconds)
        for at in range(number)
    ]


def _ends(outcomes: list[Response | TransportError]) -> list[int | str]:
    return [
        each.status if isinstance(each, Response) else str(each).rpartition(": ")[2]
        for each in outcomes
    ]


def test_writes_in_one_go_share_a_connection_and_have_answers_of_their_own() -> None:
    speakers: set[int] = set()

    async def answerer(heard: Heard, speaker: Speaker) -> None:
        speakers.add(id(speaker._writer))
        number = int(heard.target.rpartition("/")[2])
        await speaker.answer(b"%d" % number, 409 if number == 2 else 201)

    async def work(transport: HttpTransport, server: RawServer) -> list[Any]:
        assert isinstance(transport, PipeliningTransport)
        assert transport.pipelines
        again = [await transport.send_all(_posts(4)) for _ in range(2)]
        assert [heard.target for heard in server.heard[:4]] == [each.path for each in _posts(4)]
        return again

    for outcomes in over_http(answerer, work):
        assert _ends(outcomes) == [201, 201, 409, 201]
        assert [each.body for each in outcomes] == [b"0", b"1", b"2", b"3"]
    assert len(speakers) == 1


def test_writes_in_one_go_of_a_connection_that_breaks_fail_from_there_on() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        if heard.target.endswith("/2"):
            speaker.cut()
        else:
            await speaker.answer(b"{}", 201)

    async def work(transport: HttpTransport, server: RawServer) -> list[Any]:
        return await transport.send_all(_posts(4))

    outcomes = over_http(answerer, work)
    assert [isinstance(each, TransportError) for each in outcomes[2:]] == [True, True]
    assert all(each.sent for each in outcomes[2:])
    assert [str(each).split()[2] for each in outcomes[2:]] == [
        "/api/v1/events/2:", "/api/v1/events/3:",
    ]  # fmt: skip
    # A reset may take away answers that had come.
    assert _ends(outcomes[:2])[0] in (201, _ends(outcomes)[2])


def test_writes_in_one_go_keep_the_answers_that_came_in_time() -> None:
    async def answerer(heard: Heard, speaker: Speaker) -> None:
        if heard.target.endswith("/2"):
            await asyncio.sleep(60)
        await speaker.answer(b"{}", 201)

    async def work(transport: HttpTransport, server: RawServer) -> list[Any]:
        outcomes = await transport.send_all(_posts(4, seconds=0.2))
        assert (await transport.send(POST)).status == 201
        return outcomes

    ends = _ends(over_http(answerer, work))
    assert ends[:2] == [201, 201]
    assert all("no answer" in str(end) for end in ends[2:])


def test_writes_in_one_go_to_nobody_are_surely_not_sent() -> None:
    async def main() -> list[Any]:
        async with raw_server(cut) as server:
            pass
        transport = HttpTransport(ClusterConfig(server.url))
        outcomes = await transport.send_all(_posts(2))
        await transport.close()
        return [*outcomes, *(await transport.send_all(_posts(1)))]

    for each in run(main()):
        assert isinstance(each, TransportError)
        assert not each.sent


def test_a_proxy_gets_requests_one_by_one() -> None:
    assert not HttpTransport(ClusterConfig("http://a", proxy_url="http://b")).pipelines
