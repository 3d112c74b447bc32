# SPDX-License-Identifier: Apache-2.0
"""koord-webhook as a process among 200 profiles, 1,000 quotas, 10,000 namespaces, 20,000 pods.

Its CPU is gated against a bare aiohttp server's under the same load in the same run, which does
nothing but decode the body; its memory in bytes a pod, and as a whole above a bare interpreter's.
How long a review holds the loop is gated in CPU time, since what a client sees is the machine's
other work too: ``python -m benchmarks.admission_process`` prints that.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.admission_cluster import namespaces, profiles, quotas
from benchmarks.admission_load import bodies
from benchmarks.admission_process import above_bare, asked, bare_server, cluster, webhook
from benchmarks.conftest import Record
from benchmarks.ratio import Ratio
from koord.api.codec import decode_json
from koord.api.kinds.cluster import Namespace
from koord.api.kinds.profile import ClusterColocationProfile
from koord.api.kinds.quota import ElasticQuota
from koord.controllers.webhook.all_reviews import review_service
from koord.controllers.webhook.server.review_service import ReviewService
from tests.controllers.webhook.pods.scene import BATCH, Scene

NAMESPACES, PODS = 10_000, 20_000
SECONDS, REVIEWS = 2.0, 2_000
MOST_MIB, BYTES_A_POD = 120, 1_536


def test_reviews_beside_a_large_cluster(record: Record, tmp_path: Path) -> None:
    with ExitStack() as held:
        api = held.enter_context(cluster(tmp_path, NAMESPACES, PODS))
        ours = held.enter_context(webhook(tmp_path, api))
        bare = held.enter_context(bare_server())
        resident = above_bare(ours.pid)
        for each in (ours, bare):
            asked(each, 0.5)  # what is made once
        mine, theirs = asked(ours, SECONDS), asked(bare, SECONDS)
    print(mine, theirs, resident // 1024)
    assert mine["refused"] == 0
    assert resident < MOST_MIB * 1024
    cost = Ratio(mine["cpu_us"] / 1e6, theirs["cpu_us"] / 1e6)
    record("admission: a pod's review by all rules, against bare aiohttp", cost, 0.25)


def test_memory_a_pod(tmp_path: Path) -> None:
    found = []
    for number, pods in enumerate((PODS // 2, PODS * 3 // 2)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with cluster(folder, 40, pods) as api, webhook(folder, api) as serving:
            found.append(above_bare(serving.pid))
    slope = (found[1] - found[0]) * 1024 / PODS
    print(f"admission: {slope:.0f} bytes a pod")
    assert slope < BYTES_A_POD


def test_the_longest_reviews(record: Record) -> None:
    service, reviews = _service(), list(bodies())

    async def ours() -> list[float]:
        return [await _spent(service, *reviews[at % len(reviews)]) for at in range(REVIEWS)]

    def plain() -> list[float]:
        return [_plain(reviews[at % len(reviews)][1]) for at in range(REVIEWS)]

    asyncio.run(ours())
    longest = Ratio(_p99(asyncio.run(ours())), _p99(plain()))
    record("admission: CPU of the longest of 100 reviews (JSON read and written: 1)", longest, 0.1)


async def _spent(service: ReviewService, path: str, body: bytes) -> float:
    began = time.thread_time()
    answer = await service.answer(path, body)
    spent = time.thread_time() - began
    assert answer.status == 200, answer.body
    return spent


def _plain(body: bytes) -> float:
    began = time.thread_time()
    json.dumps(json.loads(body))
    return time.thread_time() - began


def _p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)]


def _service() -> ReviewService:
    """All handlers among the same objects, in this process."""
    scene = Scene()
    service = review_service(scene.dependencies)
    kinds: tuple[tuple[Any, Any], ...] = (
        (Namespace, namespaces(400)), (ClusterColocationProfile, profiles()),
        (ElasticQuota, quotas()),
    )  # fmt: skip
    for kind, documents in kinds:
        for each in documents:
            scene.put(decode_json(json.dumps(each).encode(), kind, ""))
    scene.put(BATCH)
    return service
