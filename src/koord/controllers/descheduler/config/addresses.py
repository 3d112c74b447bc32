# SPDX-License-Identifier: Apache-2.0
"""Addresses that a configuration names to serve on.

Rule: docs/reference/descheduling.md#configuration.
"""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koord.controllers.scheduler.config.field_path import FieldPath

PORT = 10_251
_EVERYWHERE = "0.0.0.0"
_EXPECTED = "HOST:PORT, :PORT or an IP address"
_HIGHEST = 65_535


def read_address(text: str, at: FieldPath) -> str:
    """``HOST:PORT`` of an address; ``:PORT`` is every address, a bare IP has the default port.

    Raises:
        KoordError: a port that is none, or a host that nobody knows.
    """
    if _is_ip(text):
        return joined(text.strip("[]"), PORT)
    host, colon, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port[:6]) <= _HIGHEST
    at.need(bool(colon) and is_port, text, _EXPECTED)
    host = host.strip("[]") or _EVERYWHERE
    at.need(_is_ip(host) or _resolves(host), text, f"{_EXPECTED}, of a host that can be looked up")
    return joined(host, int(port))


def joined(host: str, port: int) -> str:
    """Host and port as one writes them, IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parted(address: str) -> tuple[str, int]:
    """Host and port of what :func:`joined` made."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _is_ip(text: str) -> bool:
    try:
        ip_address(text.strip("[]"))
    except ValueError:
        return False
    return True


def _resolves(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None))
    except OSError:
        return False
