# SPDX-License-Identifier: Apache-2.0
"""What a watch has read is decoded a little at a time, large objects each alone."""

from __future__ import annotations

import asyncio
import json

from koord.api.kinds.registry import KINDS
from koord.base.loop_share import LARGE_BYTES
from koord.kube.codec.decoder import decoder_of
from koord.kube.requests.watch import Watch

CONFIG_MAP = next(kind for kind in KINDS if kind.name == "ConfigMap")


class Given:
    """A stream that has read all of it at once."""

    def __init__(self, lines: list[bytes]) -> None:
        self._readings = [lines, []]

    async def read(self) -> list[bytes]:
        return self._readings.pop(0)

    async def close(self) -> None:
        pass


def line(number: int, size: int) -> bytes:
    metadata = {"name": f"c{number}", "resourceVersion": str(number)}
    value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
             "data": {"a": "x" * size}}  # fmt: skip
    return json.dumps({"type": "ADDED", "object": value}).encode()


def portions(*sizes: int) -> list[tuple[list[int], bool]]:
    """The versions of each batch, and whether it was called large."""

    async def run() -> list[tuple[list[int], bool]]:
        stream = Given([line(number, size) for number, size in enumerate(sizes, 1)])

        async def opening() -> Given:
            return stream

        found = []
        watch = Watch(opening, decoder_of(CONFIG_MAP, dict))
        async with watch:
            async for batch in watch:
                versions = [int(each.resource_version) for each in batch]
                found.append((versions, watch.large))
        return found

    return asyncio.run(run())


def test_small_events_stay_together_and_large_ones_come_alone() -> None:
    large = LARGE_BYTES
    assert portions(1, 1, 1) == [([1, 2, 3], False)]
    assert portions(1, large, 1, 1) == [([1], False), ([2], True), ([3, 4], False)]
    assert portions(large, large) == [([1], True), ([2], True)]
    third = large // 3
    assert portions(third, third, third, 1) == [([1, 2], False), ([3, 4], False)]
