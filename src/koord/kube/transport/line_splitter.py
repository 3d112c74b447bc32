# SPDX-License-Identifier: Apache-2.0
"""A stream of bytes cut into lines, whatever chunks it comes in."""

from __future__ import annotations

from koord.kube.errors import TransportError

MOST_BYTES = 64 << 20


class LineSplitter:
    """Gives whole lines; holds the beginning of one whose end has not come.

    Args:
        most_bytes: how long a line may be. Objects are 1.5 MB at most, in etcd's default.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._held: list[bytes] = []
        self._held_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk, without line ends and without blank ones.

        Raises:
            TransportError: a line is longer than allowed.
        """
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._held:
            # Chunks of a long line are joined once, when its end comes.
            lines[0] = b"".join((*self._held, lines[0]))
            self._held.clear()
            self._held_bytes = 0
        if rest:
            self._held.append(rest)
            self._held_bytes += len(rest)
            if self._held_bytes > self._most_bytes:
                raise TransportError(f"a watch event is longer than {self._most_bytes} bytes")
        return [line for line in lines if line and not line.isspace()]

    def finish(self) -> None:
        """The stream has ended.

        Raises:
            TransportError: in the middle of a line.
        """
        if self._held and not b"".join(self._held).isspace():
            raise TransportError("the watch ended in the middle of an event")
