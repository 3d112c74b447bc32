# SPDX-License-Identifier: Apache-2.0
"""A restarted scheduler, from the bytes of complete lists to the first decision.

Pods are of realistic size and mixture (10 KB of JSON, one in five of a workload's first). What an
informer does with a page is done step by step, so that each can be timed::

    python -m benchmarks.scheduler_decisions --case restart --nodes 5000
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.base.clock import SystemClock
from koord.base.memory import garbage_collection
from koord.controllers.cluster.trimmed_pods import TrimmedPod
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from koord.controllers.scheduler.scheduler import Scheduler
from koord.kube.codec.decoder import decoder_of, no_collection
from koord.kube.codec.interner import Interner
from koord.kube.codec.page_reader import MANY, PageReader
from koord.kube.requests.options import resolve
from tests.controllers.scheduler.pods import node, pod
from tests.kube.pods import node_name, pages

PODS_A_NODE = 28
# As often as the scheduler itself takes what lists brought out of the collector's sight.
_PAGES = 10


class Split:
    """CPU seconds by step.

    Attributes:
        pods: how many were bound.
        seconds: by step, in the order of the steps.
    """

    def __init__(self) -> None:
        self.pods = 0
        self.seconds: dict[str, float] = {}

    @property
    def total(self) -> float:
        """Of all steps."""
        return sum(self.seconds.values())

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Adds what the body takes."""
        start = time.process_time()
        try:
            yield
        finally:
            self.add(name, time.process_time() - start)

    def add(self, name: str, seconds: float) -> None:
        """Adds to a step."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"{self.pods} bound pods"
        for name, seconds in {**self.seconds, "all": self.total}.items():
            yield f"  {name:12} {seconds:7.2f} s, {seconds / max(1, self.pods) * 1e6:6.1f} us a pod"


def measure(
    nodes: int,
    bodies: Iterable[bytes] | None = None,
    *,
    together: bool = True,
    pods_a_node: int = PODS_A_NODE,
) -> Split:
    """What a restart costs.

    Args:
        nodes: of the cluster.
        bodies: the pages of the list of pods; if not given, those of so many bound pods a node.
        together: pods of a page are told of together, as informers do, or one by one.
        pods_a_node: on average.

    Raises:
        RuntimeError: the pod found no node.
    """
    split = Split()
    made = bodies or pages(nodes * pods_a_node, by_key=True, nodes=nodes)
    views, world, scheduler = _scheduler()
    with split.step("nodes"):
        for index in range(nodes):
            views.view(Node).put(node(node_name(index), cpu="256", memory="2Ti", pods="500"))
    served, _ = resolve(Pod)
    decoder, sharer = decoder_of(served, TrimmedPod), Interner()
    reader = PageReader(TrimmedPod, sharer)
    reader.remember(MANY)
    with garbage_collection.collection_paused():
        for number, page in enumerate(made):
            with split.step("decode"):
                answer = decoder.page(page, reader)
            found = answer.items
            split.pods += len(found)
            if not answer.shared:
                raise RuntimeError("the page was not read as pages of pods are")
            with split.step("shapes"), no_collection():
                world.shapes.infos(found)
            with split.step("accounts"), no_collection():
                if together:
                    views.view(Pod).put_page(found)
                else:
                    for each in found:
                        views.view(Pod).put(each)
            with split.step("accounts"):
                if number % _PAGES == 0:
                    garbage_collection.freeze_new_objects()
    _decide(views, scheduler, split)
    gc.unfreeze()
    return split


def _scheduler() -> tuple[LocalViews, ClusterState, Scheduler]:
    registry, views = Registry(outside=[]), LocalViews()
    world = ClusterState(views, SystemClock())
    scheduler = Scheduler(world, shipped(registry, "koord-scheduler").profiles, registry)
    return views, world, scheduler


def _decide(views: LocalViews, scheduler: Scheduler, split: Split) -> None:
    views.view(Pod).put(pod("first", cpu="500m", memory="512Mi"))
    loop = scheduler.loop

    async def first() -> None:
        while loop.schedule(0.05) or loop.binder.pending:
            await asyncio.sleep(0)

    with split.step("first pod"):
        asyncio.run(first())
    known = scheduler.world.accounts.get("uid-first")
    if known is None:
        raise RuntimeError("the first pod was not placed")
