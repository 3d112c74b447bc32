# SPDX-License-Identifier: Apache-2.0
"""One run: a fresh API server with nodes, a scheduler in a process of its own, and a stopwatch."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks.peer import koordinator
from benchmarks.peer.nodes import node
from benchmarks.peer.rows import Row
from koord.api.kinds.pod import Pod
from koord.api.kinds.registry import KINDS
from koord.base.documents import Document
from koord.kube.client import Client
from koord.kube.errors import TransportError
from koord.kube.transport.messages import Request

POD = next(kind for kind in KINDS if kind.name == "Pod")
CREATORS = 32
OTHERS = "others"
_TICKS = os.sysconf("SC_CLK_TCK")
# What a scheduler does in so long, once all pods are bound, says whether it still writes.
QUIET_SECONDS, QUIET_SHARE = 1.0, 0.05
# It is waited for at most so long.
MOST_QUIET_SECONDS = 120.0
# Without a newly bound pod for so long a run is given up.
STALLED_SECONDS = 60.0
# Meanwhile it is looked so often whether its scheduler has ended.
_LOOK_SECONDS = 1.0


class Run(NamedTuple):
    """What one run gave.

    Attributes:
        bound: how many pods got a node, of how many.
        per_second: of the wall clock, from the first create to the last binding.
        p50_seconds: from a pod's create to its binding as a watch sees it.
        p99_seconds: the same.
        cpu_seconds: of the scheduler's process, from the first create until it has written all
            that it has to say of these pods, events included.
        after_seconds: the part of ``cpu_seconds`` that came after the last binding.
        busy: cores in use by each program until the last binding, on average; by
            :data:`OTHERS` those of all that has no part in this.
        decision_seconds: the part of ``cpu_seconds`` that deciding took; NaN where the scheduler
            does not say.
        events: that the cluster got meanwhile.
        ended: whether the scheduler's process ended before all pods were bound.
    """

    bound: int
    wanted: int
    per_second: float
    p50_seconds: float
    p99_seconds: float
    cpu_seconds: float
    after_seconds: float
    busy: Mapping[str, float]
    decision_seconds: float = float("nan")
    events: int = 0
    ended: bool = False


def cpu_seconds(process: int) -> float:
    """What a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def machine_seconds() -> float:
    """What all processes together have used, as far as CPUs were not idle."""
    amounts = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    # Idle and waiting for a disk; guests are in user time already.
    return (sum(amounts[:8]) - amounts[3] - amounts[4]) / _TICKS


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _Spec(msgspec.Struct):
    node_name: str = msgspec.field(default="", name="nodeName")


class _Seen(msgspec.Struct):
    metadata: _Meta
    spec: _Spec


class _CountMeta(msgspec.Struct):
    remaining: int = msgspec.field(default=0, name="remainingItemCount")


class _Count(msgspec.Struct):
    metadata: _CountMeta
    items: list[msgspec.Raw] = []


class Watcher:
    """Notes when a watch shows each pod bound."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.bound: dict[str, float] = {}
        self.changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Watcher:
        listed = await self._client.list(Pod, lenient=True)
        self._task = asyncio.create_task(self._watch(listed.resource_version))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _watch(self, version: str) -> None:
        while True:
            with suppress(TransportError):
                watch = self._client.watch(_Seen, kind=POD, resource_version=version)
                async with watch as batches:
                    async for batch in batches:
                        now = time.perf_counter()
                        for event in batch:
                            seen = event.object
                            if seen is not None and seen.spec.node_name:
                                meta = seen.metadata
                                self.bound.setdefault(f"{meta.namespace}/{meta.name}", now)
                            version = event.resource_version
                        self.changed.set()

    async def wait_for(self, keys: Iterable[str], process: Any = None) -> bool:
        """Waits until these are bound, and says whether they are.

        Gives up when no more are bound, however much is tried, or the scheduler has ended, where
        it is given.
        """
        left, bound = set(keys), len(self.bound)
        stalled = time.monotonic() + STALLED_SECONDS
        while True:
            left.difference_update(self.bound)
            if not left:
                return True
            now = time.monotonic()
            if len(self.bound) > bound:
                bound, stalled = len(self.bound), now + STALLED_SECONDS
            if now > stalled or (process is not None and process.ended()):
                return False
            self.changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self.changed.wait()


async def create(client: Client, path: str, documents: list[Document]) -> dict[str, float]:
    """Creates objects as fast as the server takes them; when each was sent, by key."""
    sent: dict[str, float] = {}
    waiting = iter(documents)

    async def work() -> None:
        for document in waiting:
            meta = document["metadata"]
            where = path.format(namespace=meta.get("namespace", ""))
            body = msgspec.json.encode(document)
            sent[f"{meta.get('namespace', '')}/{meta['name']}"] = time.perf_counter()
            await client.request(Request("POST", where, body=body))

    await asyncio.gather(*(work() for _ in range(CREATORS)))
    return sent


NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/{namespace}/pods"


async def fill(client: Client, row: Row) -> None:
    """Makes the nodes, and what the pods are about."""
    await create(client, NODES, [node(number) for number in range(row.nodes)])
    if row.scenario.objects is not None:
        objects = (*koordinator.common(), *row.scenario.objects(row.nodes, row.pods))
        for path, group in itertools.groupby(objects, key=itemgetter(0)):
            await create(client, path, [document for _, document in group])


def percentile(sorted_values: list[float], share: float) -> float:
    """The value below which a share of them lies."""
    if not sorted_values:
        return float("nan")
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]


async def events_there(client: Client) -> int:
    """How many events a cluster has: of a list of one the server says how many more there are."""
    answer = await client.request(Request("GET", "/api/v1/events", (("limit", "1"),)))
    found = msgspec.json.decode(answer.body, type=_Count)
    return len(found.items) + found.metadata.remaining


async def quiet(process: int, client: Client) -> int:
    """Waits until a program does next to nothing any more, and the cluster has no more events.

    Where servers are slow a scheduler that writes its events is nearly idle.

    Returns:
        How many events there are.
    """
    begin, before = time.monotonic(), (cpu_seconds(process), await events_there(client))
    while time.monotonic() - begin < MOST_QUIET_SECONDS:
        await asyncio.sleep(QUIET_SECONDS)
        now = cpu_seconds(process), await events_there(client)
        if now[0] - before[0] <= QUIET_SHARE * QUIET_SECONDS and now[1] == before[1]:
            break
        before = now
    return before[1]


async def settle(client: Client, row: Row, process: Any) -> None:
    """Makes the pods that are there before, and waits until the scheduler rests."""
    scenario = row.scenario
    if scenario.before is not None:
        async with Watcher(client) as watcher:
            count = int(row.pods * scenario.before_share)
            documents = [scenario.before(f"before-{number:06}") for number in range(count)]
            sent = await create(client, PODS, documents)
            if scenario.before_bound:
                await watcher.wait_for(sent, process)
            else:
                await asyncio.sleep(3.0)
    await quiet(process.pid, client)


async def measure(client: Client, row: Row, process: Any, others: dict[str, int]) -> Run:
    """Runs a scenario against a scheduler that is up and rests.

    Args:
        client: of an API server with nodes.
        row: what to schedule.
        process: its process id, how to ask it for its decision seconds, and whether it has ended.
        others: process ids of what else works, by name.
    """
    async with Watcher(client) as watcher:
        told = await events_there(client)
        programs = {**others, process.name: process.pid}
        used, decided = cpu_seconds(process.pid), await process.decision_seconds()
        worked = {name: cpu_seconds(pid) for name, pid in programs.items()}
        whole = machine_seconds()
        documents = [row.scenario.pod(f"measured-{number:06}") for number in range(row.pods)]
        began = time.perf_counter()
        sent = await create(client, PODS, documents)
        complete = await watcher.wait_for(sent, process)
        last = time.perf_counter() - began
        whole = machine_seconds() - whole
        worked = {name: cpu_seconds(pid) - worked[name] for name, pid in programs.items()}
        worked[OTHERS] = max(0.0, whole - sum(worked.values()))
        events = await quiet(process.pid, client) - told
        used = cpu_seconds(process.pid) - used
        decided = await process.decision_seconds() - decided
        bound = {key: watcher.bound[key] for key in sent if key in watcher.bound}
    waits = sorted(moment - sent[key] for key, moment in bound.items())
    wall = max(bound.values(), default=began) - began
    return Run(
        len(bound), row.pods, len(bound) / wall if wall else 0.0,
        percentile(waits, 0.5), percentile(waits, 0.99), used, used - worked[process.name],
        {name: seconds / last for name, seconds in worked.items()}, decided, events,
        not complete and process.ended(),
    )  # fmt: skip
