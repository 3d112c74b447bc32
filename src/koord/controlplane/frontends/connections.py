# SPDX-License-Identifier: Apache-2.0
"""Accepts connections, no more than there is room for, and ends those that never say hello."""

from __future__ import annotations

import asyncio
import resource
import socket
from asyncio.sslproto import SSLProtocol
from traceback import clear_frames
from typing import TYPE_CHECKING

from koord.base import log

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

# A watch is a connection: some for each of a thousand clients.
MOST_CONNECTIONS = 4_096
# Files that the rest of the process may open meanwhile.
_OTHER_FILES = 256
# As kube-apiserver, whose TLS handshake belongs to the request.
HANDSHAKE_SECONDS = 32.0
# For the other side to agree that a connection ends, before it ends anyway.
_FAREWELL_SECONDS = 2.0
# What each TLS connection of this process sets aside to read into: two records. asyncio's own is a
# quarter of a megabyte, which idle ones would have too: a gigabyte for as many as there may be.
TLS_READ_BYTES = 32 << 10
# Until it is tried again to accept where the process has no more files.
_PAUSE_SECONDS = 1.0
_log = log.get("controlplane")


def most_connections() -> int:
    """How many connections this process takes: :data:`MOST_CONNECTIONS` if its files allow it."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return min(MOST_CONNECTIONS, max(files - _OTHER_FILES, files // 2))


class Acceptor:
    """Takes connections from a listening socket; what comes beyond the most is closed at once.

    Args:
        make: the protocol of a new connection; calls its argument when the connection has ended.
        most: connections at a time, those in their handshake included.
    """

    def __init__(
        self,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        make: Callable[[Callable[[], None]], asyncio.Protocol],
        most: int,
    ) -> None:
        listener.setblocking(False)
        if tls is not None:
            SSLProtocol.max_size = min(SSLProtocol.max_size, TLS_READ_BYTES)
        self._listener = listener
        self._tls = tls
        self._make = make
        self._most = most
        self._open: set[int] = set()  # numbers of connections
        self._taken = 0
        self._greeting: set[asyncio.Task[None]] = set()
        self._full = False
        self._work: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        """Connections that are open."""
        return len(self._open)

    def start(self) -> None:
        """Begins to accept."""
        self._work = asyncio.get_running_loop().create_task(self._accept())

    async def stop(self) -> None:
        """Accepts nothing more; connections that are past their handshake go on."""
        tasks = [*self._greeting, *([self._work] if self._work is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                _log.warning("cannot accept connections", extra=log.fields(why=str(error)))
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if len(self._open) >= self._most:
                self._refuse(connection)
                continue
            self._full = False
            self._taken += 1
            self._open.add(self._taken)
            task = loop.create_task(self._greet(connection, self._taken))
            self._greeting.add(task)
            task.add_done_callback(self._greeting.discard)

    def _refuse(self, connection: socket.socket) -> None:
        connection.close()
        if not self._full:  # Once until there is room again.
            self._full = True
            _log.warning("connections are refused", extra=log.fields(open=len(self._open)))

    async def _greet(self, connection: socket.socket, number: int) -> None:
        protocol = self._make(lambda: self._open.discard(number))
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol,
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_SECONDS if self._tls else None,
                ssl_shutdown_timeout=_FAREWELL_SECONDS if self._tls else None,
            )
        except BaseException as error:
            # No TLS, or none in time: whoever it was has nothing to be told in.
            self._open.discard(number)
            connection.close()
            if not isinstance(error, Exception):
                raise
            _let_go(error)


def _let_go(error: BaseException) -> None:
    """Frees what a handshake held, which is a quarter of a megabyte, and not when all else is
    looked through: the error is known to whom it has passed, and these to the error.
    """
    clear_frames(error.__traceback__)
    error.__traceback__ = None
