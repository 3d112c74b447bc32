# SPDX-License-Identifier: Apache-2.0
"""Writes to a server with a journal and prints what was acknowledged, until it is killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.transport.messages import MERGE_PATCH, Request

PATH = "/api/v1/namespaces/default/configmaps"
WORKERS, NAMES = 8, 50
GONE = "gone"


def name_of(worker: int, turn: int) -> str:
    """What a worker writes in its turn."""
    return f"w{worker}-{turn % NAMES}"


async def write(data: Path) -> None:
    """Creates, patches and deletes config maps; prints worker, turn and version (or gone)."""
    async with EmbeddedControlPlane(Options(data=data)) as plane:
        transport = plane.transport()

        async def worker(number: int) -> None:
            turn = 0
            while True:
                version = await one(name_of(number, turn), turn)
                print(number, turn, version, flush=True)
                turn += 1

        async def one(name: str, turn: int) -> str:
            body = msgspec.json.encode({"metadata": {"name": name}, "data": {"turn": str(turn)}})
            answer = await transport.send(Request("POST", PATH, body=body))
            if answer.status == 409:
                patch = msgspec.json.encode({"data": {"turn": str(turn)}})
                answer = await transport.send(
                    Request("PATCH", f"{PATH}/{name}", body=patch, content_type=MERGE_PATCH)
                )
                if turn % 3 == 0:
                    answer = await transport.send(Request("DELETE", f"{PATH}/{name}"))
                    return GONE
            version: str = msgspec.json.decode(answer.body)["metadata"]["resourceVersion"]
            return version

        await asyncio.gather(*(worker(number) for number in range(WORKERS)))


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1])))
