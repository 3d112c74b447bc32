# SPDX-License-Identifier: Apache-2.0
"""A cluster's DNS, as far as names of services go."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Mapping

_HEAD = 12
_ADDRESS, _INTERNET = 1, 1
_ANSWERED, _NO_SUCH_NAME = 0x8180, 0x8183
_SECONDS = 5


def answer(query: bytes, names: Mapping[str, str]) -> bytes:
    """What to say to one question (RFC 1035).

    Args:
        query: a datagram.
        names: addresses by ``NAME.NAMESPACE``.

    Raises:
        ValueError: it is no question.
    """
    try:
        labels, at = [], _HEAD
        while length := query[at]:
            labels.append(query[at + 1 : at + 1 + length].decode("ascii"))
            at += 1 + length
        kind, _ = struct.unpack_from(">HH", query, at + 1)
    except (IndexError, UnicodeDecodeError, struct.error):
        raise ValueError(f"got {query!r}, expected a question") from None
    name = ".".join(labels).lower().removesuffix(".cluster.local")
    address = names.get(name.removesuffix(".svc")) if name.endswith(".svc") else None
    records = b""
    if address is not None and kind == _ADDRESS:
        # Its name is the question's.
        records = struct.pack(">HHHIH", 0xC000 | _HEAD, _ADDRESS, _INTERNET, _SECONDS, 4)
        records += socket.inet_aton(address)
    flags = _NO_SUCH_NAME if address is None else _ANSWERED
    head = struct.pack(">HHHHH", flags, 1, 1 if records else 0, 0, 0)
    return query[:2] + head + query[_HEAD : at + 5] + records


def serve(address: str, names: Callable[[], Mapping[str, str]]) -> None:
    """Answers on port 53 of an address, by the names of that moment; never returns."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 53))
        while True:
            query, asker = server.recvfrom(512)
            try:
                server.sendto(answer(query, names()), asker)
            except ValueError:
                continue
