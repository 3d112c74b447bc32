# SPDX-License-Identifier: Apache-2.0
"""Kept connections of HTTP/1.1 for writes: requests of one caller at a time on each, small answers.

A scheduler's day is thousands of small POSTs to one server. aiohttp spends half a millisecond on
each, on sessions, cookies, redirects and streams that these have no use for; it stays the way for
reads, watches and proxies. The framing is RFC 9112's, and so is the order of answers where several
requests are sent in one go (9.3.2 there).
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

_MOST_HEAD_BYTES, _MOST_BODY_BYTES = 256 << 10, 64 << 20
# Go's servers close a connection that is idle for longer than three minutes at least.
_IDLE_SECONDS = 60.0
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?: [^\r\n]*)?")
# What is looked at, of all that a server says.
_FIELDS = {
    name.encode(): name
    for name in (
        "connection", "content-length", "content-type", "retry-after", "transfer-encoding",
        "warning",
    )
}  # fmt: skip
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
_FIELD_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*").fullmatch
_TARGET = re.compile(r"/[\x21-\x7e]*").fullmatch
_WITHOUT_BODY = (204, 304)


class RawResponse(NamedTuple):
    """An answer as it came over the connection.

    Attributes:
        headers: values of those that matter here by name in lower case.
    """

    status: int
    headers: Mapping[str, list[str]]
    body: bytes


class Connection(asyncio.Protocol):
    """A connection that carries the requests of one caller at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[list[RawResponse]] | None = None
        # Those that have come to what was asked last, and how many are to come in all.
        self._answers: list[RawResponse] = []
        self._expected = 0
        self._buffer = bytearray()
        self._head: tuple[int, dict[str, list[str]]] | None = None
        self._chunks: list[bytes] = []
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the transport that the event loop has connected."""
        # Not every loop's transports inherit from asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    @property
    def usable(self) -> bool:
        """Whether another request may be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def request(self, requests: bytes, number: int = 1) -> list[RawResponse]:
        """Sends whole requests in one write and waits for the whole answers.

        Args:
            requests: one after the other.
            number: how many these are.

        Returns:
            Answers in the order of the requests. Where the connection breaks after the first they
            are fewer: whether the other requests had an effect is unknown.

        Raises:
            OSError: the connection broke before the first answer.
            ValueError: the first answer is no HTTP.
        """
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("Server disconnected")
        self._waiter = asyncio.get_running_loop().create_future()
        self._answers, self._expected = [], number
        try:
            self._transport.write(requests)
            return await self._waiter
        except BaseException:
            # Half of an answer may still come: nobody else must take it for theirs.
            self.close()
            raise
        finally:
            self._waiter = None

    def close(self) -> None:
        """Ends the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Takes bytes of answers."""
        if self._waiter is None or self._waiter.done():
            self.close()  # Nobody asked.
            return
        self._buffer += data
        try:
            while not self._waiter.done() and (answer := self._read(ended=False)) is not None:
                self._take_answer(answer)
        except ValueError as error:
            self.fail(error)

    def eof_received(self) -> None:
        """The server sends no more."""

    def connection_lost(self, error: Exception | None) -> None:
        """The connection has ended; what still waits for an answer fails."""
        self._transport = None
        if self._waiter is None or self._waiter.done():
            return
        if error is None:
            try:
                answer = self._read(ended=True)
                if answer is not None:
                    self._take_answer(answer)
            except ValueError as wrong:
                error = wrong
        self.fail(error or ConnectionResetError("Server disconnected"))

    def _take_answer(self, answer: RawResponse) -> None:
        assert self._waiter is not None
        self._head = None
        self._answers.append(answer)
        whole = len(self._answers) == self._expected
        if whole:
            self._waiter.set_result(self._answers)
        if "close" in ",".join(answer.headers.get("connection", ())).lower():
            self.fail(ConnectionResetError("Server disconnected"))
        elif whole and self._buffer:
            self.close()  # Nobody asked for more.

    def fail(self, error: Exception) -> None:
        """Gives up the answers that are waited for, if any are, and ends the connection."""
        if self._waiter is not None and not self._waiter.done():
            if self._answers:
                self._waiter.set_result(self._answers)
            else:
                self._waiter.set_exception(error)
        self.close()

    def _read(self, *, ended: bool) -> RawResponse | None:
        """The answer in the buffer, once it is whole."""
        while self._head is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > _MOST_HEAD_BYTES:
                    raise ValueError("the head of the answer is too long")
                return None
            status, headers = _read_head(bytes(self._buffer[:end]))
            del self._buffer[: end + 4]
            if status >= 200:  # Others announce the answer.
                self._head = status, headers
        status, headers = self._head
        body = self._body(status, headers, ended)
        return None if body is None else RawResponse(status, headers, body)

    def _body(self, status: int, headers: dict[str, list[str]], ended: bool) -> bytes | None:
        if status in _WITHOUT_BODY:
            return b""
        if coding := headers.get("transfer-encoding"):
            if coding != ["chunked"]:
                raise ValueError(f"transfer coding {', '.join(coding)}")
            return self._chunked()
        lengths = set(headers.get("content-length", ()))
        if not lengths:
            # The body goes on to the end of the connection.
            return self._take(len(self._buffer)) if ended else None
        length = lengths.pop()
        if lengths or not length.isdecimal() or int(length) > _MOST_BODY_BYTES:
            raise ValueError(f"Content-Length {length}")
        return self._take(int(length)) if len(self._buffer) >= int(length) else None

    def _chunked(self) -> bytes | None:
        while True:
            end = self._buffer.find(b"\r\n")
            if end < 0:
                return None
            size_text = _SIZE.fullmatch(bytes(self._buffer[:end]))
            if size_text is None:
                raise ValueError("a chunk without a size")
            size = int(size_text[1], 16)
            if size == 0:
                # Trailers, if any, end with an empty line.
                last = self._buffer.find(b"\r\n\r\n", end)
                if last < 0:
                    return None
                del self._buffer[: last + 4]
                chunks, self._chunks = self._chunks, []
                return b"".join(chunks)
            if len(self._buffer) < end + 2 + size + 2:
                return None
            if size > _MOST_BODY_BYTES or self._buffer[end + 2 + size : end + 4 + size] != b"\r\n":
                raise ValueError("a chunk that is too long")
            self._chunks.append(bytes(self._buffer[end + 2 : end + 2 + size]))
            del self._buffer[: end + 4 + size]

    def _take(self, length: int) -> bytes:
        taken = bytes(self._buffer[:length])
        del self._buffer[:length]
        return taken


class ConnectionPool:
    """Those to one server.

    Args:
        host: name or address.
        port: of the server.
        tls: None for plain TCP.
        server_hostname: the name the server must prove; empty for the host.
        connect_seconds: for TCP and TLS together.
    """

    def __init__(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        server_hostname: str,
        connect_seconds: float,
    ) -> None:
        self._where = (host, port)
        self._tls = tls
        self._name = (server_hostname or host) if tls is not None else None
        self._connect_seconds = connect_seconds
        self._idle: list[Connection] = []
        self._closed = False
        # Until when, in the event loop's time, an answer has to be there. One timer serves all.
        self._deadlines: dict[Connection, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def idle(self) -> Connection | None:
        """The idle connection that was used last; None if there is none."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            kept = self._idle.pop()
            if kept.usable and now - kept.idle_since < _IDLE_SECONDS:
                return kept
            kept.close()
        return None

    async def acquire(self) -> Connection:
        """An idle connection, the last used first, or a new one.

        Raises:
            OSError, TimeoutError: there is none to be had; nothing was sent.
        """
        loop = asyncio.get_running_loop()
        kept = self.idle()
        if kept is not None:
            return kept
        made = Connection()
        try:
            async with asyncio.timeout(self._connect_seconds):
                await loop.create_connection(
                    lambda: made, *self._where, ssl=self._tls, server_hostname=self._name
                )
        except BaseException:
            # Given up just when it was there: asyncio would wait for the server's farewell.
            made.close()
            raise
        return made

    async def exchange(
        self,
        connection: Connection,
        requests: bytes,
        most_seconds: float | None = None,
        number: int = 1,
    ) -> list[RawResponse]:
        """Sends requests, waits for their answers and takes the connection back.

        Args:
            connection: from :meth:`idle` or :meth:`acquire`.
            requests: the whole of them.
            most_seconds: until the last answer is there; None for no limit.
            number: how many requests these are.

        Returns:
            Answers in order; fewer where the connection broke, or time was up, after the first.

        Raises:
            OSError: the connection broke; TimeoutError is one.
            ValueError: the first answer is no HTTP.
        """
        if most_seconds is not None:
            loop = asyncio.get_running_loop()
            self._deadlines[connection] = deadline = loop.time() + most_seconds
            if self._timer is None or deadline < self._timer.when():
                self._arm(loop, deadline)
        try:
            answers = await connection.request(requests, number)
        finally:
            self._deadlines.pop(connection, None)
        self.release(connection)
        return answers

    def _arm(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(deadline, self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for connection, deadline in list(self._deadlines.items()):
            if deadline <= now:
                connection.fail(TimeoutError())
        left = [deadline for deadline in self._deadlines.values() if deadline > now]
        if left:
            self._arm(loop, min(left))

    def release(self, connection: Connection) -> None:
        """Keeps a connection for the next request, if it can be."""
        if self._closed or not connection.usable:
            connection.close()
            return
        connection.idle_since = asyncio.get_running_loop().time()
        self._idle.append(connection)

    def close(self) -> None:
        """Ends those that are idle; the others end when they are given back."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()


def header_lines(headers: Mapping[str, str]) -> bytes:
    """Headers as sent.

    Raises:
        ValueError: one that cannot be sent, or would say more than one thing.
    """
    for name, value in headers.items():
        if not _FIELD_VALUE(value):
            raise ValueError(f"header {name}")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")


def request_bytes(method: str, target: str, headers: bytes, body: bytes) -> bytes:
    """A request as sent.

    Args:
        method: HTTP verb in capitals.
        target: path and query, encoded.
        headers: see :func:`header_lines`; all but the length.
        body: may be empty.

    Raises:
        ValueError: a path that cannot be sent, or would say more than one thing.
    """
    if not _TARGET(target):
        raise ValueError(f"path: {target!r}")
    return b"%b %b HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (
        method.encode("latin-1"), target.encode("latin-1"), headers, len(body), body,
    )  # fmt: skip


def _read_head(head: bytes) -> tuple[int, dict[str, list[str]]]:
    first, *rest = head.split(b"\r\n")
    status = _STATUS.fullmatch(first)
    if status is None:
        raise ValueError("the answer is no HTTP")
    headers: dict[str, list[str]] = {}
    for line in rest:
        name, colon, value = line.partition(b":")
        if not colon or not name or name != name.strip():
            raise ValueError("a header without a name")
        field = _FIELDS.get(name.lower())
        if field is not None:
            headers.setdefault(field, []).append(value.strip().decode("latin-1"))
    return int(status[1]), headers
