# SPDX-License-Identifier: Apache-2.0
"""Several connections on one socket: frames with the number of their connection.

A frame is the connection's number and the payload's length, four bytes each, big endian, and the
payload. Who sends may cut a connection's bytes anywhere.
Rule: docs/reference/delivery.md#connections-on-one-socket.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PLUGIN_CONNECTION, RUNTIME_CONNECTION = 1, 2
"""What the runtime calls of the plugin, and what the plugin calls of the runtime."""

MOST_PAYLOAD_BYTES = (4 << 20) + 10
"""The longest frame that a peer may send: one whole message of ttrpc."""

SENT_PAYLOAD_BYTES = 4096
"""The longest frame sent: runtimes read a frame into a buffer of this size and fail of a longer."""

_HEAD = struct.Struct(">II")


class ProtocolError(Exception):
    """The peer sent what cannot be; the connection is of no use any more. One line says what."""


class FrameReader:
    """Turns bytes, however they are cut, into payloads; holds one incomplete frame at most."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Numbers of connections and payloads of the frames that are whole now.

        Raises:
            ProtocolError: a frame is longer than :data:`MOST_PAYLOAD_BYTES`.
        """
        self._held += data
        at = 0
        while len(self._held) - at >= _HEAD.size:
            connection, length = _HEAD.unpack_from(self._held, at)
            if length > MOST_PAYLOAD_BYTES:
                expected = f"at most {MOST_PAYLOAD_BYTES}"
                raise ProtocolError(f"frame: got {length} bytes, expected {expected}")
            end = at + _HEAD.size + length
            if len(self._held) < end:
                break
            yield connection, bytes(self._held[at + _HEAD.size : end])
            at = end
        del self._held[:at]


def frames_of(connection: int, message: bytes) -> bytes:
    """One message of a connection in frames of its own, each short enough for any peer."""
    parts = []
    for at in range(0, len(message), SENT_PAYLOAD_BYTES):
        payload = message[at : at + SENT_PAYLOAD_BYTES]
        parts += [_HEAD.pack(connection, len(payload)), payload]
    return b"".join(parts)
