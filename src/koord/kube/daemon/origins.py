# SPDX-License-Identifier: Apache-2.0
"""Whether a web page of somebody else's may have sent a request that proves nothing of its sender.

A browser reaches loopback under any name (DNS rebinding) and posts there from any page, without
asking first where the request is a simple one. It cannot hide either: ``Host`` is the name that it
looked up, and ``Origin`` the page's, which every request that is no plain GET carries.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

# Of another page's request a browser shows that page no answer, so those that only read are
# harmless; only on this machine, for who serves a page there is trusted to read what it may.
_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class AccessRefusal(NamedTuple):
    """Why a request is not answered: a status of HTTP, and what is told."""

    status: int
    message: str


def is_foreign(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a request to a server on loopback is to be refused.

    So it is where ``Host`` is no loopback name, where ``Origin`` is none, and where something is
    written from an origin other than the server's own, also one on this machine.

    Args:
        method: of HTTP.
        headers: of the request; keys in any case.
    """
    told = headers.get("Host")
    origin = headers.get("Origin")
    try:
        if told is not None and not is_loopback(urlsplit(f"//{told}").hostname or ""):
            return True
        if origin is None:
            return False
        page = urlsplit(origin)
        if not is_loopback(page.hostname or ""):
            return True
    except ValueError:
        return True
    return method.upper() not in _READS and page.netloc.lower() != (told or "").lower()


def is_loopback(host: str) -> bool:
    """Whether a host name or an address is this machine's loopback."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
