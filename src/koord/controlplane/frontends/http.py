# SPDX-License-Identifier: Apache-2.0
"""The server on a socket: loopback only, TLS and a token, bounded bodies, streamed watches."""

from __future__ import annotations

import asyncio
import gzip
import hmac
import os
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMethod
from aiohttp.web_protocol import RequestHandler

from koord.base import log
from koord.base.errors import Code, KoordError
from koord.controlplane.api_errors import (
    bad_request,
    failure,
    internal,
    method_not_allowed,
    unauthorized,
)
from koord.controlplane.authorization.identity import (
    ADMINISTRATOR,
    identified,
    of_certificate,
)
from koord.controlplane.authorization.impersonation import impersonated
from koord.controlplane.frontends import bodies
from koord.controlplane.frontends.connections import Acceptor, most_connections
from koord.controlplane.frontends.fair_queue import FairQueue, tenant_of
from koord.controlplane.requests import representations
from koord.controlplane.storage.watch import WatchCursor
from koord.kube.daemon.origins import is_foreign, is_loopback
from koord.kube.errors import ApiError
from koord.kube.transport.messages import JSON, Request, Response

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from koord.controlplane.authorization.account_tokens import AccountTokens
    from koord.controlplane.authorization.identity import Identity
    from koord.controlplane.server import Server

_HEADER_LIMIT_BYTES = 32 << 10
# As kube-apiserver: only what is large is worth the time.
_GZIP_FROM_BYTES = 128 << 10
# After a write to a watch, so that more events go with the next: TLS and sockets cost by the write.
# With ten watchers and few requests at a time, a server does a third more in the same CPU time
# (benchmarks.controlplane_http); the first event after a pause goes at once.
_GATHER_SECONDS = 0.005
# Paths that tell nothing and are asked by probes.
_OPEN = ("/healthz", "/livez", "/readyz", "/version")
# Encrypting and copying so much takes less than a millisecond.
_PORTION_BYTES = 256 << 10
_LIMITS: dict[str, Any] = {
    "access_log": None,
    "lingering_time": 2.0,
    "keepalive_timeout": 90.0,  # as kube-apiserver
    "auto_decompress": False,
    "max_line_size": _HEADER_LIMIT_BYTES,
    "max_field_size": _HEADER_LIMIT_BYTES,
}
_FOREIGN = failure(
    403,
    "Forbidden",
    "without a token, only requests to and from loopback count, and a page writes "
    "only where it came from",
)
_log = log.get("controlplane")
_PLAIN_HEADERS = {"Cache-Control": "no-cache, private"}


class HttpServer:
    """Serves a :class:`koord.controlplane.server.Server` over HTTP.

    Args:
        host: a loopback address.
        port: 0 for any free one.
        tls: None for plain HTTP.
        token: the administrator's; None where everybody is.
        tokens: of service accounts.
        most: connections at a time; 0 for as many as the process has files for.

    Raises:
        KoordError: the address is not a loopback one.
    """

    def __init__(
        self,
        server: Server,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        token: str | None,
        tokens: AccountTokens,
        most: int = 0,
    ) -> None:
        self._server = server
        self._host, self._port, self._tls = _loopback(host), port, tls
        self._authorization = f"Bearer {token}".encode() if token is not None else None
        self._tokens = tokens
        self._watches: set[WatchCursor] = set()
        self._queue = FairQueue()
        self._web = _WebServer(self._handle, request_factory=_request, handler_cancellation=True)
        self._most = most
        self._acceptor: Acceptor | None = None

    async def start(self) -> None:
        """Begins to listen.

        Raises:
            KoordError: the port is taken.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            listener = socket.create_server((self._host, self._port), family=family, backlog=512)
        except OSError as error:
            why = os.strerror(error.errno).lower() if error.errno else str(error)
            where = f"{self._host}:{self._port}"
            raise KoordError(where, "", why, "a free port", Code.UNREADABLE) from None
        self._port = listener.getsockname()[1]
        most = self._most or most_connections()
        self._acceptor = Acceptor(listener, self._tls, self._web.protocol, most)
        self._acceptor.start()

    async def stop(self) -> None:
        """Ends watches, waits a moment for answers under way, closes connections."""
        if self._acceptor is None:
            return
        await self._acceptor.stop()
        for watch in list(self._watches):
            await watch.close()
        self._web.pre_shutdown()
        await self._web.shutdown(timeout=2.0)
        self._acceptor = None

    @property
    def host(self) -> str:
        """The address that it listens on."""
        return self._host

    @property
    def port(self) -> int:
        """The port there."""
        return self._port

    @property
    def connections(self) -> int:
        """How many are open, those in their handshake included."""
        return self._acceptor.count if self._acceptor is not None else 0

    @property
    def url(self) -> str:
        """Where clients reach the server."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._tls else 'http'}://{host}:{self._port}"

    async def _handle(self, web_request: web.BaseRequest) -> web.StreamResponse:
        target, _, query = web_request.raw_path.partition("?")
        try:
            identity = self._identity(web_request, target)
        except ApiError as error:
            return _response(representations.refusal(error))
        if not target.startswith("/"):
            return _response(representations.refusal(bad_request("the path is not absolute")))
        try:
            body = await bodies.body_of(web_request)
        except ApiError as error:
            refused = _response(representations.refusal(error))
            refused.force_close()  # Something of it may still be on its way.
            return refused
        headers = web_request.headers
        request = Request(
            web_request.method, target, tuple(parse_qsl(query, keep_blank_values=True)), body,
            headers.get("Content-Type", JSON), headers.get("Accept", "*/*"),
            headers.get("User-Agent", ""),
        )  # fmt: skip
        await self._queue.wait(tenant_of(identity, target))
        answer = await self._server.handle(identified(request, identity))
        if isinstance(answer, WatchCursor):
            return await self._stream(web_request, answer)
        if len(answer.body) >= _GZIP_FROM_BYTES and "gzip" in headers.get("Accept-Encoding", ""):
            packed = await asyncio.to_thread(gzip.compress, answer.body, 1)
            return await _sent(web_request, answer, packed)
        return await _sent(web_request, answer)

    def _identity(self, web_request: web.BaseRequest, target: str) -> Identity:
        """Who sends a request, or whom they act as.

        Raises:
            ApiError: 401 nobody that is known; 403 a page of elsewhere, or they may not.
        """
        headers = web_request.headers
        identity = ADMINISTRATOR
        if self._authorization is None:
            if is_foreign(web_request.method, headers):
                raise _FOREIGN
        elif (user := _certified(web_request)) is not None:
            identity = user
        elif target not in _OPEN:
            given = headers.get("Authorization", "")
            if not hmac.compare_digest(given.encode("utf-8", "replace"), self._authorization):
                account = self._tokens.identity(given.removeprefix("Bearer "))
                if account is None:
                    raise unauthorized()
                identity = account
        return impersonated(identity, headers.items(), self._server.authorizer)

    async def _stream(self, web_request: web.BaseRequest, watch: WatchCursor) -> web.StreamResponse:
        response = web.StreamResponse(headers=_PLAIN_HEADERS)
        response.content_type = JSON
        response.enable_chunked_encoding()
        self._watches.add(watch)
        try:
            await response.prepare(web_request)
            while events := await watch.read():
                events.append(b"")
                await response.write(b"\n".join(events))
                await asyncio.sleep(_GATHER_SECONDS)
            await response.write_eof()
        except ConnectionError:
            pass  # The client has gone; there is nobody to tell.
        finally:
            self._watches.discard(watch)
            await watch.close()
        return response


class _Protocol(RequestHandler):
    """Words what is no HTTP as a ``Status`` too, and hangs up on who sends half a header."""

    _impatience: asyncio.TimerHandle | None = None
    when_lost: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins to wait for the first request."""
        super().connection_made(transport)
        loop = asyncio.get_running_loop()
        # Not closed: a farewell would wait for one from the other side.
        abort = getattr(transport, "abort", transport.close)
        self._impatience = loop.call_later(bodies.REQUEST_SECONDS, abort)

    def data_received(self, data: bytes) -> None:
        """Takes bytes; the wait is over once they hold a whole header."""
        super().data_received(data)
        if self._impatience is not None and self._request_count:
            self._impatience.cancel()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Ends the wait with the connection."""
        if self._impatience is not None:
            self._impatience.cancel()
        if self.when_lost is not None:
            self.when_lost()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to a request that could not be read or served."""
        if isinstance(exc, BadHttpMethod):
            refusal = method_not_allowed()
        elif status < 500:
            refusal = bad_request("the request is no HTTP")
        else:
            _log.error("request failed", exc_info=exc)
            refusal = internal("the request could not be served")
        response = _response(representations.refusal(refusal))
        response.force_close()
        return response


class _WebServer(web.Server):
    def protocol(self, when_lost: Callable[[], None]) -> _Protocol:
        made = _Protocol(self, loop=asyncio.get_running_loop(), **_LIMITS)
        made.when_lost = when_lost
        return made


def _loopback(host: str) -> str:
    host = "127.0.0.1" if host == "localhost" else host
    if not is_loopback(host):
        raise KoordError("control plane", "host", host, "a loopback address such as 127.0.0.1")
    return host


def _request(message, payload, protocol, writer, task):  # type: ignore[no-untyped-def]
    return web.BaseRequest(
        message, payload, protocol, writer, task, asyncio.get_running_loop(),
        client_max_size=bodies.BODY_LIMIT_BYTES,
    )  # fmt: skip


def _certified(web_request: web.BaseRequest) -> Identity | None:
    """Whose certificate a connection showed; None for none. OpenSSL has checked it."""
    transport = web_request.transport
    tls = transport.get_extra_info("ssl_object") if transport is not None else None
    return of_certificate(tls.getpeercert()) if tls is not None else None


async def _sent(
    web_request: web.BaseRequest, answer: Response, packed: bytes | None = None
) -> web.StreamResponse:
    """An answer to be sent; of a large one all is sent already, others being served between."""
    response = _response(answer, packed)
    body = answer.body if packed is None else packed
    if len(body) <= _PORTION_BYTES:
        return response
    stream = web.StreamResponse(status=response.status, headers=response.headers)
    stream.content_length = len(body)
    try:
        await stream.prepare(web_request)
        for start in range(0, len(body), _PORTION_BYTES):
            await stream.write(body[start : start + _PORTION_BYTES])
            await asyncio.sleep(0)
        await stream.write_eof()
    except ConnectionError:
        pass  # The client has gone; there is nobody to tell.
    return stream


def _response(answer: Response, packed: bytes | None = None) -> web.Response:
    headers = dict(_PLAIN_HEADERS)
    headers["Content-Type"] = answer.content_type
    if packed is not None:
        headers["Content-Encoding"] = "gzip"
    headers.update(answer.headers)
    response = web.Response(
        status=answer.status, body=answer.body if packed is None else packed, headers=headers
    )
    for text in answer.warnings:
        response.headers.add("Warning", f'299 - "{_quoted(text)}"')
    return response


def _quoted(text: str) -> str:
    """A text as RFC 7230 quotes it, without what could end a header line."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')
