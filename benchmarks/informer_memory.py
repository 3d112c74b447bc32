# SPDX-License-Identifier: Apache-2.0
"""What an informer over many pods costs: ``python -m benchmarks.informer_memory --pods 100000``.

``--of`` says what is kept of each: what koord-scheduler and koord-manager keep, what
koord-descheduler does, or all that :class:`koord.api.Pod` has. The pods are those of
``tests.kube.pods``; they come over a transport that makes each page when it
is asked for, so that the difference of resident memory before and after is the informer's: its
cache, its tables of shared parts, what the allocator keeps for it. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time

from benchmarks.resident import resident_bytes
from koord.api import Pod
from koord.controllers.cluster.trimmed_pods import TrimmedPod
from koord.controllers.descheduler.pod_projection import DeschedulerPod
from koord.kube.client import Client
from koord.kube.informers.informer import Informer
from koord.kube.transport.messages import Request, Response, Stream
from tests.kube.pods import pages

WARM_UP_PODS = 500
KEPT: dict[str, type[Pod]] = {
    "scheduler": TrimmedPod,
    "descheduler": DeschedulerPod,
    "whole": Pod,
}


class Pages:
    """A server that has only this list, and a watch on which nothing happens."""

    def __init__(self, pods: int, seed: int) -> None:
        self._pages = pages(pods, seed=seed)
        self.making_seconds = 0.0

    async def send(self, request: Request) -> Response:
        del request
        started = time.process_time()
        body = next(self._pages)
        self.making_seconds += time.process_time() - started
        return Response(200, body)

    async def open(self, request: Request) -> Stream:
        del request
        return Quiet()

    async def close(self) -> None:
        pass


class Quiet:
    async def read(self) -> list[bytes]:
        await asyncio.Event().wait()
        return []

    async def close(self) -> None:
        pass


async def synced(
    pods: int, seed: int, share: bool, project: type[Pod] | None = None
) -> tuple[Informer[Pod], float]:
    """An informer that holds so many pods, and the CPU seconds that took.

    Args:
        pods: how many.
        seed: of what they are.
        share: whether equal parts are kept once.
        project: what is kept of each; None for all that koord knows.
    """
    server = Pages(pods, seed)
    client = Client(server, requests_per_second=None)
    by_node = {"node": lambda pod: [pod.spec.node_name]}
    informer = Informer(client, Pod, share=share, project=project, indexers=by_node)
    started = time.process_time()
    task = asyncio.create_task(informer.run())
    await informer.synced()
    seconds = time.process_time() - started - server.making_seconds
    task.cancel()
    await asyncio.wait({task})
    return informer, seconds


def measure(pods: int, share: bool, project: type[Pod]) -> dict[str, float]:
    """Bytes and CPU microseconds a pod."""
    asyncio.run(synced(WARM_UP_PODS, 1, share, project))
    gc.collect()
    before = resident_bytes()
    informer, seconds = asyncio.run(synced(pods, 7, share, project))
    gc.collect()
    after = resident_bytes()
    assert len(informer) == pods
    return {
        "pods": pods,
        "bytes_a_pod": round((after - before) / pods, 1),
        "cpu_us_a_pod": round(seconds / pods * 1e6, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--plain", action="store_true", help="without sharing equal parts")
    parser.add_argument("--of", choices=KEPT, default="scheduler", help="what is kept of each pod")
    given = parser.parse_args()
    print(json.dumps(measure(given.pods, not given.plain, KEPT[given.of])))


if __name__ == "__main__":
    main()
