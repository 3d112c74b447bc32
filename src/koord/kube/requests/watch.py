# SPDX-License-Identifier: Apache-2.0
"""A watch in progress: batches of typed events."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from koord.base import faults
from koord.base.loop_share import LARGE_BYTES, loop_share

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from koord.kube.codec.decoder import Decoder, WatchEvent
    from koord.kube.codec.page_reader import PageReader
    from koord.kube.errors import ApiError
    from koord.kube.transport.messages import Stream

T = TypeVar("T")


class Watch(Generic[T]):
    """What :meth:`koord.kube.client.Client.watch` gives: entered, then read in batches.

    Iteration ends when the server ends the watch. It raises ApiError where the server says why
    (410: the version is too old), and TransportError where the connection breaks.

    Args:
        opening: begins the watch.
        decoder: of its events.
        lenient: an event whose object does not decode is given without it, and is no error.
        reader: makes the objects, see :meth:`koord.kube.codec.decoder.Decoder.events`.
        prompt: large objects do not wait for the loop's share of them.

    Attributes:
        large: the last batch was large: what is done with it belongs to that share.
    """

    def __init__(
        self,
        opening: Callable[[], Awaitable[Stream]],
        decoder: Decoder[T],
        lenient: bool = False,
        reader: PageReader[T] | None = None,
        prompt: bool = False,
    ) -> None:
        self._opening = opening
        self._decoder = decoder
        self._lenient = lenient
        self._reader = reader
        self._stream: Stream | None = None
        self._failure: ApiError | None = None
        self._prompt = prompt
        self._lines: list[bytes] = []  # read, and not yet decoded
        self.large = False

    async def __aenter__(self) -> Self:
        self._stream = await self._opening()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[WatchEvent[T]]:
        if self._failure is not None:
            raise self._failure
        if self._stream is None:
            raise StopAsyncIteration
        faults.point("kube.watch")
        lines = self._lines or await self._stream.read()
        if not lines:
            raise StopAsyncIteration
        lines, self._lines, self.large = _portion(lines)
        # Events before an error count; the error comes with the next reading.
        if self.large:
            share = loop_share()
            await self.turn()
            with share.taken():
                events, failure = self._decoder.events(lines, self._reader)
        else:
            events, failure = self._decoder.events(lines, self._reader)
        self._failure = failure
        if failure is not None and not events:
            raise failure
        if not self._lenient:
            for event in events:
                if event.unreadable is not None:
                    raise event.unreadable.error
        return events

    async def turn(self) -> None:
        """Waits until something large may be done; others have the loop meanwhile."""
        if self._prompt:
            await asyncio.sleep(0)
        else:
            await loop_share().wait()


def _portion(lines: list[bytes]) -> tuple[list[bytes], list[bytes], bool]:
    """The first lines that are not large together, or one that is; the others; whether it is."""
    size = 0
    for number, line in enumerate(lines):
        size += len(line)
        if size >= LARGE_BYTES:
            return (lines[:number], lines[number:], False) if number else (
                lines[:1], lines[1:], True
            )  # fmt: skip
    return lines, [], False
