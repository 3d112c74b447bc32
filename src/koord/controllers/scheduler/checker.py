# SPDX-License-Identifier: Apache-2.0
"""Compares what the scheduler believes with what the API says, and says where they differ.

The informers' caches are the API's word as far as it has arrived; the node table is added up anew
from it. Differences that stay are faults of the scheduler: they are logged and counted, and nothing
is repaired behind anybody's back.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.base import log
from koord.controllers.scheduler.feed import is_over

if TYPE_CHECKING:
    from koord.controllers.scheduler.scheduler import Scheduler

_LOG = log.get("scheduler")
PERIOD_SECONDS = 60.0
KINDS = ("node", "pod", "requested", "queue")


def drift(scheduler: Scheduler) -> dict[str, list[str]]:
    """By kind, what differs; all empty where cache and API agree.

    ``node``: known to one side only. ``pod``: counts on another node than the API says, or
    nowhere, or is not in the API. ``requested``: a node whose requested amounts are not the sum of
    its pods'. ``queue``: a pod that waits for this scheduler and is in no queue.
    """
    world = scheduler.world
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    nodes = {name for name, _ in world.view(Node).items()}
    found["node"] = sorted(nodes.symmetric_difference(world.table.names()))
    pods = dict(world.view(Pod).items())
    counted = world.accounts.pods()
    for key, pod in pods.items():
        uid, node = pod.metadata.uid, pod.spec.node_name
        info = counted.get(uid)
        if is_over(pod):
            continue
        if node in nodes:
            if info is None or world.table.name(info.row) != node:
                found["pod"].append(key)
        elif not node and info is None and _waits(scheduler, pod):
            found["queue"].append(key)
    found["pod"] += [
        info.key
        for info in counted.values()
        if info.key not in pods
        and info.uid not in scheduler.feed.assumed
        and scheduler.loop.parts.stand_ins.of(info.pod) is None
    ]  # fmt: skip
    found["requested"] = _sums(scheduler)
    return found


def _waits(scheduler: Scheduler, pod: Pod) -> bool:
    """Whether a pod ought to be in the queue and is not."""
    meta = pod.metadata
    served = pod.spec.scheduler_name in scheduler.deciders
    return served and meta.deletion_timestamp is None and scheduler.queue.get(meta.uid) is None


def _sums(scheduler: Scheduler) -> list[str]:
    table = scheduler.world.table
    wrong = []
    for name in table.names():
        row = table.row(name)
        assert row is not None
        total = np.zeros(len(table.resources), np.int64)
        for info in table.pods[row].values():
            index, amounts = info.shape.vector(table)
            total[index] += amounts
        for plugin in scheduler.plugins:
            if hasattr(plugin, "counted_twice"):
                for resource, amount in plugin.counted_twice(row).items():
                    total[table.resource(resource)] -= amount
        if (total != table.requested[:, row]).any():
            wrong.append(name)
    return wrong


async def run(scheduler: Scheduler) -> None:
    """Compares once a period; what differs twice in a row is told of."""
    before: dict[str, list[str]] = {kind: [] for kind in KINDS}
    while True:
        await asyncio.sleep(PERIOD_SECONDS)
        now = drift(scheduler)
        for kind in KINDS:
            stays = [name for name in now[kind] if name in before[kind]]
            scheduler.metrics.drift(kind, len(stays))
            if stays:
                some = ",".join(stays[:10])
                where = log.fields(kind=kind, count=len(stays), some=some)
                _LOG.error("the cache differs from the API", extra=where)
        before = now
