# SPDX-License-Identifier: Apache-2.0
"""Keeps one connection to a runtime: looks for its socket, registers, and comes back.

There is never a second connection: a runtime would take it for another plugin, and refuse what
both set. Rule: docs/reference/delivery.md#registration.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from koord.base import faults, log
from koord.base.supervision import cause_of
from koord.delivery.nri.connection import RuntimeConnection
from koord.delivery.nri.messages import NRI
from koord.delivery.nri.multiplexer import ProtocolError
from koord.delivery.nri.plugin import RUNTIME_SERVICE, NriPlugin
from koord.delivery.nri.ttrpc import CallError

if TYPE_CHECKING:
    from random import Random

    from koord.delivery.nri.plugin import PluginServices

LONGEST_PAUSE_SECONDS = 60.0
"""However long a pause is told to be."""

NRI_VERSION = "v0.12.0"
_JITTER = 0.1
_LOG = log.get("agent.nri")


@dataclass(frozen=True)
class NriOptions:
    """How a runtime is reached; durations in seconds.

    Attributes:
        socket: the runtime's.
        name, index: of the plugin; a runtime calls plugins in the order of their indexes.
        connect_timeout: for the connection and registration; one that lasts longer was good.
        backoff_duration, backoff_factor, backoff_steps, backoff_cap: the first pause before
            another try, by what it grows with each failure in a row, how often, and up to what.
    """

    socket: str
    name: str = "koordlet_nri"
    index: str = "00"
    connect_timeout: float = 6.0
    backoff_duration: float = 1.0
    backoff_factor: float = 2.0
    backoff_steps: int = 2**31 - 1
    backoff_cap: float = LONGEST_PAUSE_SECONDS

    def pause_seconds(self, failures: int) -> float:
        """The pause after so many failures in a row, before its jitter."""
        cap = min(self.backoff_cap, LONGEST_PAUSE_SECONDS)
        pause = self.backoff_duration
        # The exponent is bounded: whatever factor grows at all is at the cap long before.
        for _ in range(min(failures - 1, self.backoff_steps, 1000)):
            if pause >= cap:
                break
            pause *= self.backoff_factor
        return min(pause, cap)


class NriLoop:
    """One agent's way to its runtime.

    Args:
        options: see :class:`NriOptions`.
        services: what the plugin asks.
        random: for jitter.

    Attributes:
        connected: whether the plugin is registered.
        error: why it is not.
    """

    def __init__(self, options: NriOptions, services: PluginServices, random: Random) -> None:
        self._options, self._services, self._random = options, services, random
        self._plugin = NriPlugin(services)
        self.connected = False
        self._connections = self._failures = 0
        self.error = ""

    async def run(self) -> None:
        """Connects again and again, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self._connection()
                error = "the runtime closed the connection"
            except (OSError, ProtocolError, CallError, ExceptionGroup, TimeoutError) as failure:
                error = cause_of(failure)
            good = loop.time() - began > self._options.connect_timeout
            self._failures = 1 if good else self._failures + 1
            if error != self.error:
                _LOG.warning("not connected", extra=log.fields(error=error, socket=self._socket))
            self.error = error
            pause = self._options.pause_seconds(self._failures)
            await asyncio.sleep(pause * (1 + _JITTER * self._random.random()))

    @property
    def _socket(self) -> str:
        return self._options.socket

    async def _connection(self) -> None:
        """One connection from its beginning to its end."""
        faults.point("nri.connect")
        self._plugin = NriPlugin(self._services)
        async with asyncio.timeout(self._options.connect_timeout):
            reader, writer = await asyncio.open_unix_connection(self._socket)
        connection = RuntimeConnection(reader, writer, self._plugin.handle)
        self._connections += 1
        serving = asyncio.ensure_future(connection.serve())
        try:
            await self._register(connection, serving)
            self.connected, self.error = True, ""
            await serving
        finally:
            self.connected = False
            serving.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await serving
            await connection.close()

    async def _register(self, connection: RuntimeConnection, serving: asyncio.Future[None]) -> None:
        options = self._options
        request = NRI.RegisterPluginRequest(
            plugin_name=options.name, plugin_idx=options.index, NRI_version=NRI_VERSION
        )
        registered: asyncio.Future[Any] = asyncio.ensure_future(
            connection.call(RUNTIME_SERVICE, "RegisterPlugin", request.SerializeToString())
        )
        try:
            async with asyncio.timeout(options.connect_timeout):
                first: set[asyncio.Future[Any]] = {registered, serving}
                await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if registered.done():
                registered.result()
            else:
                serving.result()
                raise ProtocolError("the runtime closed before it had registered the plugin")
        finally:
            registered.cancel()

    def status(self) -> dict[str, Any]:
        """As ``koord node status`` shows it."""
        return {
            "socket": self._socket,
            "connected": self.connected,
            "synchronized": self.connected and self._plugin.synchronized,
            "runtime": self._plugin.runtime if self.connected else "",
            "connections": self._connections,
            "error": "" if self.connected else self.error,
            **self._services.calls.status(),
        }
