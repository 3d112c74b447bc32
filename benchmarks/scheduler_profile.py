# SPDX-License-Identifier: Apache-2.0
"""The whole shipped profile through the scheduling loop, without an API server.

From the queue to the end of the binding: a client's writes are all that is missing. Seconds are
of this process's CPU, after a tenth of the pods has warmed what is kept, with Python's garbage
collector set as the program sets it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from msgspec import structs

from benchmarks.diverse_pods import QUOTAS
from koord.api.codec import convert
from koord.api.kinds.device import Device
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import ElasticQuota
from koord.api.kinds.reservation import Reservation
from koord.api.kinds.service import Service
from koord.api.kinds.topology import NodeResourceTopology
from koord.base.clock import SystemClock
from koord.base.memory.garbage_collection import collect_rarely
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from koord.controllers.scheduler.scheduler import Scheduler
from tests.controllers.scheduler.plugins.coscheduling.gangs import member
from tests.controllers.scheduler.plugins.deviceshare.clusters import device, gpus
from tests.controllers.scheduler.plugins.elasticquota.objects import quota
from tests.controllers.scheduler.plugins.loadaware.reports import amounts, metric
from tests.controllers.scheduler.plugins.nodenumaresource.cluster import topology
from tests.controllers.scheduler.plugins.reservation.bench import available
from tests.controllers.scheduler.pods import node, pod

GANG = 1000
# Small, so that a benchmark of many rounds does not run out of them.
_GPU = {"koordinator.sh/gpu-core": "10", "koordinator.sh/gpu-memory-ratio": "10"}
_WHOLE_GPU = {"koordinator.sh/gpu": "100"}


class Shipped:
    """koord-scheduler's profile over views that are fed by hand.

    Args:
        case: what is on the nodes beside CPU and memory, see :data:`CASES`.
        nodes: how many.
        reported: each node's usage is reported, as koordlet does; in case loadaware it always is.
    """

    def __init__(self, case: str, nodes: int, reported: bool = False) -> None:
        registry = Registry(outside=[])
        found = shipped(registry, "koord-scheduler")
        self.views = LocalViews()
        self.world = ClusterState(self.views, SystemClock())
        self.scheduler = Scheduler(self.world, found.profiles, registry)
        self.nodes = nodes
        self._reported = reported or case == "loadaware"
        self._numbers = count()
        self._template = CASES.get(case, CASES["shipped"])()
        for index in range(nodes):
            self._add_node(case, index)
        if case == "quota":
            bounds = {"cpu": "10000", "memory": "100Ti"}
            for index in range(QUOTAS):
                made = quota(f"quota-{index}", min=bounds, max=bounds)
                self.views.view(ElasticQuota).put(made)
        if case == "spread":
            document = {"metadata": {"name": "app", "namespace": "default"},
                        "spec": {"selector": {"app": "x"}}}  # fmt: skip
            self.views.view(Service).put(convert(document, Service, "Service app"))

    def _add_node(self, case: str, index: int) -> None:
        name = f"node-{index:05}"
        zone = f"zone-{index % 3}"
        labels = {"topology.kubernetes.io/zone": zone, "disk": "ssd" if index % 2 else "hdd"}
        more: dict[str, Any] = {}
        if case == "spread" and index % 10 == 0:
            more["taints"] = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
        if case in ("gpushare", "gang", "trace"):
            more["allocatable"] = {"koordinator.sh/gpu-core": "800", "koordinator.sh/gpu": "800",
                                   "koordinator.sh/gpu-memory-ratio": "800"}  # fmt: skip
            self.views.view(Device).put(device(name, *gpus(8)))
        if self._reported:
            used = amounts(8_000 + index % 7 * 1000, 64 << 30)
            self.views.view(NodeMetric).put(metric(name, time.time(), used))
        if case == "numa":
            nrt = topology(name, (2, 1, 16, 2), memory="128Gi")
            self.views.view(NodeResourceTopology).put(nrt)
        # Those of a trace are larger.
        cpu, memory = ("128", "1Ti") if case == "trace" else ("64", "256Gi")
        made = node(name, cpu, memory, labels=labels, **more)
        self.views.view(Node).put(made)
        if case == "reservation":
            notes = {"labelSelector": {"matchLabels": {"app": "x"}}}
            held = available(f"r-{index}", name, "8", "16Gi", owners=[notes], allocateOnce=False)
            self.views.view(Reservation).put(held)

    def add_pods(self, number: int) -> None:
        """Equal pods of the case, all waiting."""
        for index in (next(self._numbers) for _ in range(number)):
            meta = structs.replace(self._template.metadata, name=f"pod-{index}", uid=f"uid-{index}")
            self.views.view(Pod).put(structs.replace(self._template, metadata=meta))

    def empty(self) -> None:
        """All pods go."""
        view = self.views.view(Pod)
        for info in list(self.world.accounts.pods().values()):
            view.remove(info.key)

    async def place(self, number: int) -> float:
        """CPU seconds until so many new pods have their nodes; they are queued before.

        Raises:
            RuntimeError: not all of them fit.
        """
        self.add_pods(number)
        return await self._schedule(number)

    async def place_pods(self, pods: Iterable[Pod]) -> float:
        """The same for some pods, with what it takes to queue them."""
        start, view, number = time.process_time(), self.views.view(Pod), 0
        for each in pods:
            view.put(each)
            number += 1
        queued = time.process_time() - start
        return queued + await self._schedule(number)

    async def _schedule(self, number: int) -> float:
        loop, before = self.scheduler.loop, len(self.world.accounts.pods())
        start = time.process_time()
        while loop.schedule(0.05):
            await asyncio.sleep(0)
        while loop.binder.pending:
            await asyncio.sleep(0)
        seconds = time.process_time() - start
        placed = len(self.world.accounts.pods()) - before
        if placed != number:
            raise RuntimeError(f"{placed} of {number} pods were placed")
        return seconds


def _lsr() -> Pod:
    labels = {"koordinator.sh/qosClass": "LSR"}
    return pod("x", cpu="2", memory="1Gi", labels=labels, priority=9500)


def _labelled() -> Pod:
    return pod("x", cpu="100m", memory="128Mi", labels={"app": "x"})


def _spread() -> Pod:
    """With a required and a preferred node affinity; a Service selects it, which spreads it."""
    wanted = {"key": "disk", "operator": "In", "values": ["ssd"]}
    liked = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-1"]}
    nodes = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [wanted]}]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 10, "preference": {"matchExpressions": [liked]}}
        ],
    }
    return pod("x", cpu="100m", memory="128Mi", labels={"app": "x"},
               affinity={"nodeAffinity": nodes})  # fmt: skip


def _gang() -> Pod:
    return member("x", least=GANG, requests=_WHOLE_GPU, cpu="1")


CASES: dict[str, Callable[[], Pod]] = {
    "shipped": lambda: pod("x", cpu="500m", memory="512Mi"),
    "loadaware": lambda: pod("x", cpu="500m", memory="512Mi"),
    "numa": _lsr,
    "reservation": _labelled,
    "gpushare": lambda: pod("x", cpu="500m", memory="512Mi", requests=_GPU),
    "spread": _spread,
    "gang": _gang,
}
"""The pods of each case."""


def seconds_a_pod(case: str, nodes: int, pods: int) -> float:
    """CPU seconds from the queue to the end of a binding.

    A gang is planned at once, its pods share the time.
    """

    async def measure() -> float:
        made = Shipped(case, nodes)
        if case == "gang":
            collect_rarely()
            return await made.place(GANG) / GANG
        warm = max(10, pods // 10)
        await made.place(warm)
        collect_rarely()
        return await made.place(pods - warm) / (pods - warm)

    return asyncio.run(measure())
