# SPDX-License-Identifier: Apache-2.0
"""Addresses of pods and services, in the caller's network namespace, which must be a test's own."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

NODE_ADDRESS = "10.88.0.1"
API_ADDRESS = "10.96.0.1"
_HTTPS = 443


def ip(*arguments: str) -> None:
    """ip(8)."""
    subprocess.run(["ip", *arguments], check=True)


class PodNetwork:
    """A bridge, to which each pod is tied by a network namespace of its own."""

    def __init__(self) -> None:
        self._numbers = itertools.count(2)
        Path("/run/netns").mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "netns", "/run/netns"], check=True)
        ip("link", "set", "lo", "up")
        # Without an address of its own a bridge takes one of its ports', and another one when that
        # port goes: what pods send to the node would be lost until they ask for it anew.
        ip("link", "add", "pods", "address", "0a:58:0a:58:00:01", "type", "bridge")
        ip("addr", "add", f"{NODE_ADDRESS}/24", "dev", "pods")
        ip("link", "set", "pods", "up")

    def add(self) -> tuple[str, str]:
        """A new pod's: name of its namespace, and address."""
        number = next(self._numbers)
        name, address = f"pod{number}", f"10.88.0.{number}"
        ip("netns", "add", name)
        ip("link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", f"to-{name}", "master", "pods", "up")
        ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            ip("-n", name, "link", "set", device, "up")
        ip("-n", name, "route", "add", "default", "via", NODE_ADDRESS)
        return name, address

    def remove(self, name: str) -> None:
        """A pod's end; its cable goes with its namespace."""
        ip("netns", "del", name)


class ServiceAddresses:
    """What kube-proxy does, in user space: addresses of services lead to a ready endpoint.

    Attributes:
        endpoints: of an address and port of a service, where it leads now; changed as it changes.
    """

    def __init__(self, api_port: int) -> None:
        self.endpoints: dict[tuple[str, int], list[tuple[str, int]]] = {}
        self._loop = asyncio.new_event_loop()
        self._served: set[tuple[str, int]] = set()
        self._addresses: set[str] = set()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.lead((API_ADDRESS, _HTTPS), [("127.0.0.1", api_port)])

    def lead(self, source: tuple[str, int], endpoints: list[tuple[str, int]]) -> None:
        """Has a service's address lead to one of these."""
        self.endpoints[source] = endpoints
        if source[0] not in self._addresses:
            self._addresses.add(source[0])
            ip("addr", "add", f"{source[0]}/32", "dev", "lo")
        if source not in self._served:
            self._served.add(source)
            asyncio.run_coroutine_threadsafe(self._serve(source), self._loop).result(10)

    async def _serve(self, source: tuple[str, int]) -> None:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._forward(source, reader, writer)

        await asyncio.start_server(connected, *source)

    async def _forward(
        self,
        source: tuple[str, int],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        with suppress(OSError, IndexError):
            there, back = await asyncio.open_connection(*self.endpoints[source][0])
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        writer.close()
