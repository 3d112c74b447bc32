# SPDX-License-Identifier: Apache-2.0
"""Netlink messages of nf_tables as bytes: linux/netlink.h, linux/netfilter/nfnetlink.h.

pyroute2 has no expression that looks into a map or at a socket's cgroup, so these few are here.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

REQUEST, ACK, DUMP, CREATE, APPEND = 0x1, 0x4, 0x300, 0x400, 0x800
ERROR, DONE = 2, 3
INET: Final = 1
_NESTED, _TYPE = 0x8000, 0x3FFF
_HEADER, _FAMILY, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBH"), struct.Struct("=HH")
_SUBSYSTEM: Final = 10
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11


class NetlinkMessage(NamedTuple):
    """One message of the kernel.

    Attributes:
        kind: of nf_tables, or ``ERROR`` and ``DONE``.
        sequence: that of the request.
        body: what follows the headers; of an error, its number first.
    """

    kind: int
    sequence: int
    body: bytes


def attribute(kind: int, payload: bytes) -> bytes:
    """One attribute, padded."""
    length = _ATTRIBUTE.size + len(payload)
    return _ATTRIBUTE.pack(length, kind) + payload + bytes(-length % 4)


def nested(kind: int, *inner: bytes) -> bytes:
    """An attribute of attributes."""
    return attribute(kind | _NESTED, b"".join(inner))


def text(kind: int, value: str) -> bytes:
    """A text that ends in a NUL."""
    return attribute(kind, value.encode("ascii") + b"\0")


def number(kind: int, value: int) -> bytes:
    """32 bits in network order."""
    return attribute(kind, struct.pack(">I", value & 0xFFFFFFFF))


def request(kind: int, flags: int, sequence: int, *attributes: bytes) -> bytes:
    """A request about tables of the family inet."""
    body = _FAMILY.pack(INET, 0, 0) + b"".join(attributes)
    head = _HEADER.pack(
        _HEADER.size + len(body), _SUBSYSTEM << 8 | kind, flags | REQUEST, sequence, 0
    )
    return head + body


def batch(messages: Iterable[bytes]) -> bytes:
    """Messages that take effect together, or not at all."""
    return _edge(_BATCH_BEGIN) + b"".join(messages) + _edge(_BATCH_END)


def _edge(kind: int) -> bytes:
    body = struct.pack("=BB", 0, 0) + struct.pack(">H", _SUBSYSTEM)
    return _HEADER.pack(_HEADER.size + len(body), kind, REQUEST, 0, 0) + body


def messages(data: bytes) -> Iterator[NetlinkMessage]:
    """The messages of what was received; a cut one ends it."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, _, sequence, _ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size or at + length > len(data):
            return
        skipped = _HEADER.size if kind in (ERROR, DONE) else _HEADER.size + _FAMILY.size
        plain = kind if kind in (ERROR, DONE) else kind & 0xFF
        yield NetlinkMessage(plain, sequence, data[at + skipped : at + length])
        at += length + (-length % 4)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and payload of each attribute; a cut one ends it."""
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size or at + length > len(data):
            return
        yield kind & _TYPE, data[at + _ATTRIBUTE.size : at + length]
        at += length + (-length % 4)


def first(data: bytes, *path: int) -> bytes | None:
    """The payload of the first attribute along a path; None where there is none."""
    for kind in path:
        found = next((payload for its, payload in attributes(data) if its == kind), None)
        if found is None:
            return None
        data = found
    return data
