# SPDX-License-Identifier: Apache-2.0
"""The HTTPS server of admission: bounds on what anybody may send, health, reviews.

Whoever reaches the port may ask, as in the original; what one asks is bounded in bytes, in time and
in connections. Rule: docs/reference/admission.md#serving-and-certificates.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from koord.base import log
from koord.base.errors import MissingExtraError
from koord.kube.daemon.missing_kinds import ReadinessNote

try:
    from aiohttp import web
except ModuleNotFoundError as error:
    raise MissingExtraError("aiohttp", "kube", error.name) from None

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Collection

    from koord.controllers.webhook.server.review_service import ReviewService

MAX_BODY_BYTES = 7 * 1024 * 1024
"""Of one review, which has an object twice where it changes; controller-runtime's bound too."""
MAX_PENDING_BYTES = 64 * 1024 * 1024
"""Of all bodies that are being read at a time."""
MAX_CONNECTIONS = 1024
READ_SECONDS = 10.0
"""Until a connection's first request is there, and until a request's body is."""

_SHUTDOWN_SECONDS = 10.0
_HANDSHAKE_SECONDS = 10.0
_KEEP_ALIVE_SECONDS = 120.0
_JSON = "application/json"
_HEADERS = {"X-Content-Type-Options": "nosniff"}
_LOG = log.get("webhook")


class HTTPSServer:
    """Serves reviews and health over TLS.

    Args:
        tls: for the listening socket.
        paths: where reviews are answered, from :meth:`serve` on; until then with 503.
        ready: why it is not ready; None if it is.
        host, port: where to listen; port 0 for a free one.
    """

    def __init__(
        self,
        tls: ssl.SSLContext,
        paths: Collection[str],
        ready: Callable[[], str | None],
        host: str = "0.0.0.0",
        port: int = 0,
    ) -> None:
        self._service: ReviewService | None = None
        self._paths = frozenset(paths)
        self._tls, self._ready = tls, ready
        self._host, self._port = host, port
        self._pending_bytes = 0
        self._open = 0
        self._manager: web.Server | None = None
        self._listening: asyncio.Server | None = None
        self._reviews, self._leaving = 0, False

    @property
    def listening(self) -> bool:
        """Whether it listens."""
        return self._listening is not None

    @property
    def port(self) -> int:
        """Where it listens.

        Raises:
            RuntimeError: it does not.
        """
        if self._listening is None:
            raise RuntimeError("not started")
        port: int = self._listening.sockets[0].getsockname()[1]
        return port

    def serve(self, service: ReviewService) -> None:
        """Says who answers reviews from now on."""
        self._service = service

    async def start(self) -> None:
        """Listens.

        Raises:
            OSError: the address cannot be listened on.
        """
        loop = asyncio.get_running_loop()
        self._manager = web.Server(self._answer)
        self._listening = await loop.create_server(
            self._connection, self._host, self._port, ssl=self._tls, reuse_address=True,
            backlog=MAX_CONNECTIONS, ssl_handshake_timeout=_HANDSHAKE_SECONDS,
        )  # fmt: skip

    async def stop(self, drain_seconds: float = 0.0) -> None:
        """Takes no more connections and ends what is being answered.

        Args:
            drain_seconds: where reviews were asked for, how long it goes on answering before,
                each connection once more: API servers send reviews over connections that they
                keep, and a Service leads here for a while yet.
        """
        if self._reviews and drain_seconds:
            self._leaving = True
            await asyncio.sleep(drain_seconds)
        listening, self._listening = self._listening, None
        if listening is not None and self._manager is not None:
            listening.close()
            self._manager.pre_shutdown()  # connections on which nothing is asked
            await self._manager.shutdown(_SHUTDOWN_SECONDS)

    async def run(self) -> None:
        """Listens until cancelled."""
        if self._listening is None:
            await self.start()
        try:
            await asyncio.Event().wait()
        finally:
            await self.stop()

    def _connection(self) -> asyncio.Protocol:
        assert self._manager is not None
        return _ReviewConnection(
            self._manager, self, loop=asyncio.get_running_loop(), access_log=None,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
        )  # fmt: skip

    def opened(self) -> bool:
        """Whether one more connection is taken."""
        self._open += 1
        return self._open <= MAX_CONNECTIONS

    def closed(self) -> None:
        """A connection ended."""
        self._open -= 1

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        if isinstance(connection, _ReviewConnection):
            connection.first_request()
        path = request.path
        if path in self._paths:
            self._reviews += 1
            answer = await self._review(path, request)
            if self._leaving:
                answer.force_close()
            return answer
        if request.method not in ("GET", "HEAD"):
            return _text(HTTPStatus.NOT_FOUND, "404 page not found")
        if path == "/healthz":
            return _text(HTTPStatus.OK, "ok")
        if path == "/readyz":
            why = "stopping" if self._leaving else self._ready()
            if why and not isinstance(why, ReadinessNote):
                return _text(HTTPStatus.INTERNAL_SERVER_ERROR, why)
            return _text(HTTPStatus.OK, f"ok: {why}" if why else "ok")
        return _text(HTTPStatus.NOT_FOUND, "404 page not found")

    async def _review(self, path: str, request: web.BaseRequest) -> web.StreamResponse:
        refused = _refused(request)
        if refused is not None:
            return refused
        if self._service is None:
            return _last(HTTPStatus.SERVICE_UNAVAILABLE, "koord is starting")
        held = min(request.content_length or MAX_BODY_BYTES, MAX_BODY_BYTES)
        if self._pending_bytes + held > MAX_PENDING_BYTES:
            return _text(HTTPStatus.SERVICE_UNAVAILABLE, "too much is being read already")
        self._pending_bytes += held
        try:
            async with asyncio.timeout(READ_SECONDS):
                body = await _body(request)
        except TimeoutError:
            return _last(HTTPStatus.REQUEST_TIMEOUT, f"no whole body within {READ_SECONDS:g} s")
        finally:
            self._pending_bytes -= held
        if body is None:
            return _too_large()
        answer = await self._service.answer(path, body)
        if answer.status != HTTPStatus.OK:
            return _text(answer.status, answer.body.decode("utf-8", "replace"))
        return web.Response(body=answer.body, content_type=_JSON)


class _ReviewConnection(web.RequestHandler):
    """One connection: counted, and closed where it asks nothing."""

    __slots__ = ("_server", "_silence")

    def __init__(self, manager: Any, server: HTTPSServer, **options: Any) -> None:
        super().__init__(manager, **options)
        self._server = server
        self._silence: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self._server.opened():
            transport.close()
            return
        loop = asyncio.get_running_loop()
        self._silence = loop.call_later(READ_SECONDS, transport.close)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.first_request()
        self._server.closed()
        super().connection_lost(exc)

    def first_request(self) -> None:
        """Its first request is there."""
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None


def _refused(request: web.BaseRequest) -> web.StreamResponse | None:
    if request.method != "POST":
        return _text(HTTPStatus.METHOD_NOT_ALLOWED, "reviews are posted")
    if request.content_type != _JSON:
        return _last(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"reviews are {_JSON}")
    if (request.content_length or 0) > MAX_BODY_BYTES:
        return _too_large()
    return None


async def _body(request: web.BaseRequest) -> bytes | None:
    """The body; None if it is too large."""
    parts, size = [], 0
    while part := await request.content.readany():
        size += len(part)
        if size > MAX_BODY_BYTES:
            return None
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large() -> web.Response:
    return _last(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MAX_BODY_BYTES} bytes")


def _last(status: int, text: str) -> web.Response:
    """The last answer of a connection, whose rest nobody reads."""
    answer = _text(status, text)
    answer.force_close()
    return answer


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers=_HEADERS)
