# SPDX-License-Identifier: Apache-2.0
"""Requests over HTTP: kept connections, TLS, credentials, watches read in batches.

Writes go over connections of our own (:mod:`koord.kube.transport.connection`), all else through
aiohttp.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit
from weakref import WeakKeyDictionary

from koord.base import log
from koord.base.distributions import koord_version
from koord.base.errors import KoordError, MissingExtraError, one_line
from koord.kube.codec.decoder import refusal
from koord.kube.errors import ApiError, TransportError
from koord.kube.transport.connection import ConnectionPool, header_lines, request_bytes
from koord.kube.transport.line_splitter import LineSplitter
from koord.kube.transport.messages import Response

try:
    import aiohttp
    from yarl import URL
except ModuleNotFoundError as error:
    raise MissingExtraError("aiohttp", "kube", error.name) from error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.kube.transport.config import ClusterConfig
    from koord.kube.transport.connection import Connection, RawResponse
    from koord.kube.transport.messages import Request

    # By protocol, since not every loop's transports can be referenced weakly. A transport lets go
    # of its protocol when the connection is lost, and is forgotten with it.
    _Transports = WeakKeyDictionary[asyncio.BaseProtocol, asyncio.Transport]

_LOG = log.get("kube")
_CONNECT_SECONDS = 10.0
_READ_BYTES = 1 << 20
_UNAUTHORIZED = 401
_READS = ("GET", "HEAD")
# 299 agent "text": the only form that Kubernetes sends.
_WARNING = re.compile(r'\s*299 \S+ "((?:[^"\\]|\\.)*)"')
_MOST_WARNINGS = 1000
# Requests of so many kinds have their headers kept; a program has a handful.
_MOST_HEADERS = 64


class HttpTransport:
    """Carries requests to one API server over HTTP/1.1.

    Use it on one event loop, and close it.

    Args:
        config: where the server is and who asks.
        connections: how many requests may be under way at once, watches not counted.
        idle_seconds: how long a watch may be silent, bookmarks included, before it is taken for
            dead. API servers send a bookmark once a minute, changes or not.
        user_agent: who asks, where a request does not say so itself.
    """

    def __init__(
        self,
        config: ClusterConfig,
        connections: int = 64,
        idle_seconds: float = 150.0,
        user_agent: str = "",
    ) -> None:
        self._config = config
        self._under_way = asyncio.Semaphore(connections)
        self._idle_seconds = idle_seconds
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._streams: set[HttpStream] = set()
        self._transports: _Transports = WeakKeyDictionary()
        self._tls: dict[tuple[str, str, str], ssl.SSLContext] = {}
        self._writes: _WriteRoute | None = None
        self._stale = False
        self._renewing = asyncio.Lock()
        self._warned: set[str] = set()
        self._user_agent = user_agent or f"koord/{koord_version()}"

    async def send(self, request: Request) -> Response:
        """Sends a request and waits for the whole answer, whatever its status."""
        seconds = request.timeout_seconds
        try:
            if request.method not in _READS and not self._config.proxy_url:
                if self._can_begin():
                    # Most writes can begin at once: no timer of their own, nothing to wait for.
                    route = self._route(self._config)
                    data = self._bytes(request, route)
                    connection = route.pool.idle()
                    if connection is not None:
                        async with self._under_way:
                            (raw,) = await route.pool.exchange(connection, data, seconds)
                        return self._raw(raw)
                async with asyncio.timeout(seconds), self._under_way:
                    route = self._route(await self._current())
                    data = self._bytes(request, route)
                    connection = await self._connection(request, route)
                    (raw,) = await route.pool.exchange(connection, data)
                    return self._raw(raw)
            async with (
                asyncio.timeout(seconds), self._under_way, await self._start(request) as answer,
            ):  # fmt: skip
                body = await answer.read()
        except TransportError:
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self._failed(error, request) from None
        return self._response(answer, body)

    @property
    def pipelines(self) -> bool:
        """See :class:`koord.kube.transport.messages.PipeliningTransport`."""
        return not self._config.proxy_url

    async def send_all(self, requests: Sequence[Request]) -> list[Response | TransportError]:
        """See :class:`koord.kube.transport.messages.PipeliningTransport`."""
        limits = [each.timeout_seconds for each in requests if each.timeout_seconds is not None]
        seconds = min(limits, default=None)
        try:
            async with self._under_way:
                async with asyncio.timeout(seconds):
                    route = self._route(await self._current())
                    data = b"".join(self._bytes(each, route) for each in requests)
                    connection = await self._connection(requests[0], route)
                # Not under the timeout above, which would take the answers away that are there.
                raw = await route.pool.exchange(connection, data, seconds, len(requests))
        except TransportError as error:
            return [error] * len(requests)
        except (OSError, ValueError) as error:
            return [self._failed(error, each) for each in requests]
        broken = ConnectionResetError("no answer before the connection ended")
        unanswered = [self._failed(broken, each) for each in requests[len(raw) :]]
        return [*map(self._raw, raw), *unanswered]

    def _can_begin(self) -> bool:
        """Whether a write need wait neither for others nor for credentials."""
        return not (self._under_way.locked() or self._stale or self._config.expired())

    async def _connection(self, request: Request, route: _WriteRoute) -> Connection:
        """One of our own for a write; it may have to be made."""
        try:
            return await route.pool.acquire()
        except OSError as error:
            # TimeoutError is one of them; that of the whole request is raised as a cancellation.
            raise self._not_sent(request, _no_connection(error)) from None

    def _bytes(self, request: Request, route: _WriteRoute) -> bytes:
        try:
            headers = route.headers(request)
            return request_bytes(
                request.method, route.prefix + _target(request), headers, request.body
            )
        except ValueError as error:
            raise self._not_sent(request, str(error)) from None

    def _not_sent(self, request: Request, why: str) -> TransportError:
        return TransportError(one_line(f"{self._where(request)}: {why}"), sent=False)

    def _raw(self, answer: RawResponse) -> Response:
        headers = answer.headers
        return self._answered(
            answer.status,
            answer.body,
            headers.get("warning", ()),
            (headers.get("retry-after") or ("",))[0],
            (headers.get("content-type") or ("",))[0],
        )

    def _route(self, config: ClusterConfig) -> _WriteRoute:
        """How writes get to the server; another where a configuration has changed.

        Connections stay unless an address or a certificate is another.
        """
        if self._closed:
            raise TransportError("the transport is closed", sent=False)
        known = self._writes
        if known is not None and known.config is config:
            return known
        tls = self._tls_of(config)
        key = (config.server, config.tls_server_name, tls)
        at = urlsplit(config.server)
        if known is not None and known.key == key:
            pool = known.pool
        else:
            if known is not None:
                known.pool.close()
            secure = tls if isinstance(tls, ssl.SSLContext) else None
            port = at.port or (443 if secure else 80)
            pool = ConnectionPool(
                at.hostname or "", port, secure, config.tls_server_name, _CONNECT_SECONDS
            )
        self._writes = _WriteRoute(config, key, pool, at.path, self._headers)
        return self._writes

    def _headers(self, request: Request, config: ClusterConfig) -> dict[str, str]:
        headers = {
            "Host": urlsplit(config.server).netloc,
            "Accept": request.accept,
            "User-Agent": request.user_agent or self._user_agent,
            # Compressing costs a server more than sending; whole collections are worth it.
            "Accept-Encoding": "gzip" if request.method == "GET" else "identity",
        }
        if config.authorization:
            headers["Authorization"] = config.authorization
        if request.body:
            headers["Content-Type"] = request.content_type
        return headers

    async def open(self, request: Request) -> HttpStream:
        """Begins a watch."""
        try:
            async with asyncio.timeout(request.timeout_seconds):
                answer = await self._start(request)
                if answer.status == 200:
                    self._response(answer, b"")
                    return HttpStream(answer, self._idle_seconds, self._streams)
                async with answer:
                    body = await answer.read()
        except TransportError:
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self._failed(error, request) from None
        raise ApiError(refusal(self._response(answer, body)))

    async def close(self) -> None:
        """Ends all connections, watches included."""
        self._closed = True
        # Who waits for an event is told; closing the session would leave them waiting.
        for stream in list(self._streams):
            await stream.close()
        if self._writes is not None:
            self._writes.pool.close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        # aiohttp no longer knows of those it has begun to close.
        for transport in list(self._transports.values()):
            transport.abort()

    async def _start(self, request: Request) -> aiohttp.ClientResponse:
        config = await self._current()
        return await self._opened().request(
            request.method,
            URL(config.server + _target(request), encoded=True),
            data=request.body or None,
            headers=self._headers(request, config),
            ssl=self._tls_of(config),
            server_hostname=config.tls_server_name or None,
            proxy=config.proxy_url or None,
            allow_redirects=False,
        )

    def _opened(self) -> aiohttp.ClientSession:
        if self._closed:
            raise TransportError("the transport is closed", sent=False)
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
            self._session = aiohttp.ClientSession(
                connector=_Connector(self._transports),
                timeout=timeout,
                read_bufsize=_READ_BYTES,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
            # aiohttp would send PUT and DELETE again on its own when a kept connection breaks;
            # what is sent twice is for the retry policy to say.
            self._session._retry_connection = False
        return self._session

    async def _current(self) -> ClusterConfig:
        """The configuration with credentials that are still good, as far as one can know."""
        if self._stale or self._config.expired():
            async with self._renewing:
                # Another request may have renewed them while this one waited.
                if self._stale or self._config.expired():
                    await self._renew()
        return self._config

    async def _renew(self) -> None:
        try:
            self._config = await asyncio.to_thread(self._config.renewed)
        except KoordError as error:
            # What worked once may work again: a plugin without network, a file being replaced.
            raise TransportError(str(error), sent=False) from None
        self._stale = False

    def _tls_of(self, config: ClusterConfig) -> ssl.SSLContext | bool:
        if not config.server.startswith("https:"):
            return True
        key = (config.ca, config.client_certificate, config.client_key)
        if key not in self._tls:
            # Only an exec plugin that gives certificates changes them: keep the latest.
            self._tls.clear()
            self._tls[key] = config.tls_context()
        return self._tls[key]

    def _response(self, answer: aiohttp.ClientResponse, body: bytes) -> Response:
        headers = answer.headers
        return self._answered(
            answer.status,
            body,
            headers.getall("Warning", []),
            headers.get("Retry-After", ""),
            headers.get("Content-Type", ""),
        )

    def _answered(
        self, status: int, body: bytes, warned: Sequence[str], after: str, content_type: str
    ) -> Response:
        if status == _UNAUTHORIZED:
            self._stale = True
        warnings = _warnings(warned) if warned else ()
        for text in warnings:
            if text not in self._warned and len(self._warned) < _MOST_WARNINGS:
                self._warned.add(text)
                _LOG.warning("the API server warns", extra=log.fields(warning=one_line(text)))
        return Response(
            status=status,
            body=body,
            content_type=content_type,
            headers={"retry-after": after} if after else {},
            warnings=warnings,
        )

    def _failed(self, error: Exception, request: Request) -> TransportError:
        # Anything that goes wrong while a connection is made comes before the request.
        sent = not isinstance(
            error,
            aiohttp.ClientConnectorError | aiohttp.ServerTimeoutError | aiohttp.InvalidURL,
        )
        return TransportError(one_line(f"{self._where(request)}: {_reason(error)}"), sent=sent)

    def _where(self, request: Request) -> str:
        return f"{self._config.server}: {request.method} {request.path}"


class _WriteRoute:
    """How writes get to the server of a configuration.

    Args:
        config: that this is for.
        key: what its connections depend on.
        pool: these.
        prefix: of all paths.
        headers_of: of a request; the same for all of one kind, and worked out once.
    """

    def __init__(
        self,
        config: ClusterConfig,
        key: object,
        pool: ConnectionPool,
        prefix: str,
        headers_of: Callable[[Request, ClusterConfig], dict[str, str]],
    ) -> None:
        self.config, self.key, self.pool, self.prefix = config, key, pool, prefix
        self._headers_of = headers_of
        self._lines: dict[tuple[str, str, str], bytes] = {}

    def headers(self, request: Request) -> bytes:
        """All headers but the length.

        Raises:
            ValueError: one that cannot be sent.
        """
        content_type = request.content_type if request.body else ""
        key = (content_type, request.accept, request.user_agent)
        lines = self._lines.get(key)
        if lines is None:
            if len(self._lines) >= _MOST_HEADERS:
                self._lines.clear()
            lines = self._lines[key] = header_lines(self._headers_of(request, self.config))
        return lines


class _Connector(aiohttp.TCPConnector):
    """Remembers the transports of its connections until these are lost.

    What is closed over TLS waits for the server's farewell, half a minute at most. A loop that
    ends before that would leave the socket open.
    """

    def __init__(self, transports: _Transports) -> None:
        super().__init__(limit=0, keepalive_timeout=60.0)
        self._transports = transports

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[aiohttp.tracing.Trace],
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.connector.Connection:
        connection = await super().connect(req, traces, timeout)
        if connection.protocol is not None and connection.transport is not None:
            self._transports[connection.protocol] = connection.transport
        return connection


class HttpStream:
    """A watch over HTTP; see :class:`koord.kube.transport.messages.Stream`."""

    def __init__(
        self, answer: aiohttp.ClientResponse, idle_seconds: float, opened: set[HttpStream]
    ) -> None:
        self._answer = answer
        self._idle_seconds = idle_seconds
        self._lines = LineSplitter()
        self._opened = opened
        # When who reads has waited for too long; None while nobody does. One timer serves all
        # readings: a timeout around each costs as much as to decode an event.
        self._silent_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        opened.add(self)

    async def read(self) -> list[bytes]:
        """Waits for events and gives all that are there, each the JSON of one watch event."""
        loop = asyncio.get_running_loop()
        while True:
            self._silent_at = loop.time() + self._idle_seconds
            if self._timer is None:
                self._timer = loop.call_at(self._silent_at, self._look, loop)
            try:
                chunk = await self._answer.content.readany()
            except TransportError:
                raise
            except (aiohttp.ClientError, OSError, ValueError) as error:
                raise TransportError(one_line(f"the watch broke: {_reason(error)}")) from None
            finally:
                self._silent_at = None
            if not chunk:
                self._lines.finish()
                return []
            if events := self._lines.feed(chunk):
                return events

    async def close(self) -> None:
        """Cuts the connection: a watch has no end of its own."""
        self._opened.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._answer.close()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Tells who reads that the watch is dead, or looks again when it may be."""
        self._timer = None
        if self._silent_at is None:
            return
        if loop.time() < self._silent_at:
            self._timer = loop.call_at(self._silent_at, self._look, loop)
            return
        text = f"the watch was silent for {self._idle_seconds:g} s"
        self._answer.content.set_exception(TransportError(text))


def _target(request: Request) -> str:
    return f"{request.path}?{_encoded(request.query)}" if request.query else request.path


# All writes of a component have the same few.
@lru_cache(maxsize=64)
def _encoded(query: tuple[tuple[str, str], ...]) -> str:
    return urlencode(query)


def _warnings(headers: Sequence[str]) -> tuple[str, ...]:
    found = (_WARNING.match(header) for header in headers)
    return tuple(re.sub(r"\\(.)", r"\1", match[1]) for match in found if match)


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ServerTimeoutError):
        return "no connection in time"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        return f"the server's certificate: {getattr(cause, 'verify_message', '') or cause}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return _no_connection(error.os_error)
    return str(error) or type(error).__name__


def _no_connection(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no connection in time"
    if isinstance(error, ssl.CertificateError):
        return f"the server's certificate: {getattr(error, 'verify_message', '') or error}"
    # asyncio puts the address, and no reason, where the system's text would be.
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    code = error.errno or 0
    return os.strerror(code) if code > 0 else error.strerror or str(error)
