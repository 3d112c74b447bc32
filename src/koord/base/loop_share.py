# SPDX-License-Identifier: Apache-2.0
"""What large objects may take of an event loop: a third of the time, or a ninth, one by one.

A pod of a quarter of a megabyte wakes whoever watches pods at once, and each of them decodes it and
works out what it asks for: tens of milliseconds for every one, in which nobody else is served. Who
does such work asks here first. After a piece of it that took so long, others have the loop for
twice as long, before the next piece of anybody begins. So whoever asks for little waits for one
piece at most, and not for all of them. While several tenants are served it is eight times: then
hardly anyone meets two pieces between a pod's creation and its binding.

Time is the loop's. On virtual time work takes none, and nobody waits.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

LARGE_BYTES = 32 << 10
"""JSON from which on an object is large: less is decoded and looked at in a few milliseconds."""
OTHERS = 2.0
"""How many times as long as a piece took others have the loop after it."""
OTHERS_CROWDED = 8.0
"""The same while several tenants are served."""
_LONGEST_SECONDS = 0.1  # What took longer has waited for something too.


class LoopShare:
    """The share of one event loop; see the head of this file."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()  # Whoever came first goes first.
        self._free_at = 0.0
        self._crowded_until = 0.0

    def crowded(self, seconds: float) -> None:
        """Several tenants are served, and for so long from now on."""
        self._crowded_until = asyncio.get_running_loop().time() + seconds

    def free(self) -> bool:
        """Whether large work may be done at once, before the next ``await``."""
        return not self._turn.locked() and self._free_at <= asyncio.get_running_loop().time()

    async def wait(self) -> None:
        """Waits until large work may be done; it is done before the next ``await``."""
        async with self.aside():
            pass

    @property
    def others(self) -> float:
        """How many times as long as a piece takes now others have the loop after it."""
        crowded = asyncio.get_running_loop().time() < self._crowded_until
        return OTHERS_CROWDED if crowded else OTHERS

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """Around large work of another thread: until that is done nobody's large work begins."""
        time = asyncio.get_running_loop().time
        async with self._turn:
            while (seconds := self._free_at - time()) > 0:
                await asyncio.sleep(seconds)
            yield

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Around large work: it is followed by more time of others."""
        time = asyncio.get_running_loop().time
        begun = time()
        try:
            yield
        finally:
            self.used(time() - begun)

    def used(self, seconds: float) -> None:
        """Large work has taken so long until now."""
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now) + self.others * min(seconds, _LONGEST_SECONDS)


_shares: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopShare] = WeakKeyDictionary()


def loop_share() -> LoopShare:
    """That of the running loop."""
    loop = asyncio.get_running_loop()
    found = _shares.get(loop)
    if found is None:
        found = _shares[loop] = LoopShare()
    return found
