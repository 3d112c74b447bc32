# SPDX-License-Identifier: Apache-2.0
"""ttrpc as far as NRI has it: calls of one request and one response each.

A message is a head of ten bytes (length and stream, four bytes each, big endian; kind; flags) and
a body. A caller's streams are odd and rise.
Rule: docs/reference/delivery.md#calls.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from google.protobuf.message import DecodeError

from koord.delivery.nri.messages import TTRPC
from koord.delivery.nri.multiplexer import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BODY_BYTES = 4 << 20
OK, UNKNOWN, UNIMPLEMENTED = 0, 2, 12
"""Codes of gRPC that are used here."""

_HEAD = struct.Struct(">IIBB")
_MOST_TEXT = 1000


class MessageKind(IntEnum):
    """What a message is; a stream's data, 3, is nothing that NRI sends."""

    REQUEST = 1
    RESPONSE = 2


class TtrpcMessage(NamedTuple):
    """One message."""

    stream: int
    kind: int
    body: bytes


class CallError(Exception):
    """A call was answered with a status other than OK.

    Attributes:
        code: one of gRPC's.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text or f"code {code}")
        self.code = code


class MessageReader:
    """Turns a connection's bytes, however they are cut, into messages; holds one at most."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[TtrpcMessage]:
        """The messages that are whole now.

        Raises:
            ProtocolError: one is longer than :data:`MOST_BODY_BYTES`.
        """
        self._held += data
        at = 0
        while len(self._held) - at >= _HEAD.size:
            length, stream, kind, _ = _HEAD.unpack_from(self._held, at)
            if length > MOST_BODY_BYTES:
                raise ProtocolError(f"message: got {length} bytes, expected {MOST_BODY_BYTES} most")
            end = at + _HEAD.size + length
            if len(self._held) < end:
                break
            yield TtrpcMessage(stream, kind, bytes(self._held[at + _HEAD.size : end]))
            at = end
        del self._held[:at]


def pack(message: TtrpcMessage) -> bytes:
    """A message as it is sent."""
    return _HEAD.pack(len(message.body), message.stream, message.kind, 0) + message.body


def request(stream: int, service: str, method: str, payload: bytes) -> TtrpcMessage:
    """A call."""
    body = TTRPC.Request(service=service, method=method, payload=payload)
    return TtrpcMessage(stream, MessageKind.REQUEST, body.SerializeToString())


def response(stream: int, payload: bytes, code: int = OK, text: str = "") -> TtrpcMessage:
    """The answer to the call of a stream."""
    body = TTRPC.Response(payload=payload)
    body.status.code, body.status.message = code, text[:_MOST_TEXT]
    return TtrpcMessage(stream, MessageKind.RESPONSE, body.SerializeToString())


def read_request(message: TtrpcMessage) -> Any:
    """The ``Request`` of a message.

    Raises:
        ProtocolError: it is none.
    """
    return _read(TTRPC.Request, message)


def result_of(message: TtrpcMessage) -> bytes:
    """What a call was answered.

    Raises:
        CallError: it failed.
        ProtocolError: the message is no answer.
    """
    found = _read(TTRPC.Response, message)
    if found.status.code != OK:
        raise CallError(found.status.code, found.status.message[:_MOST_TEXT])
    payload: bytes = found.payload
    return payload


def _read(kind: Any, message: TtrpcMessage) -> Any:
    try:
        return kind.FromString(message.body)
    except DecodeError:
        where = f"stream {message.stream}"
        raise ProtocolError(f"{where}: got no {kind.DESCRIPTOR.name}, expected one") from None
