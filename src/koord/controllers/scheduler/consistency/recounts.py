# SPDX-License-Identifier: Apache-2.0
"""What the scheduler itself keeps account of, counted anew from the informers' caches, in steps.

Plugins give recounts of their own (:mod:`koord.controllers.scheduler.framework.recounting`).
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.requests import PODS
from koord.controllers.scheduler.cache.event_handlers import is_over
from koord.controllers.scheduler.framework.recounting import by_row, in_slices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.scheduler import Scheduler

    Steps = Iterator[str | None]


def recounts(scheduler: Scheduler) -> dict[str, list[Steps]]:
    """By account, recounts that have not begun.

    ``node``: known to one side only. ``pod``: counts on another node than the API says, or
    nowhere, or is not in the API. ``requested``: a node whose requested amounts are not the sum of
    its pods'. ``allocation``: a bound pod that counts with other CPUs, devices or another
    reservation than are written on it. ``queue``: a pod that waits for this scheduler and is in no
    queue. Further ones are of plugins.
    """
    table = scheduler.world.table
    found: dict[str, list[Steps]] = {
        "node": [_nodes(scheduler)],
        "pod": [_listed(scheduler), _counted(scheduler)],
        "requested": [by_row(table, partial(_sums_differ, scheduler))],
        "allocation": [_allocations(scheduler)],
        "queue": [_unqueued(scheduler)],
    }
    for plugin in scheduler.plugins:
        if hasattr(plugin, "recount"):
            found.setdefault(plugin.account, []).append(plugin.recount())
    return found


def _nodes(scheduler: Scheduler) -> Steps:
    nodes = {name for name, _ in scheduler.world.view(Node).items()}
    yield from sorted(nodes.symmetric_difference(scheduler.world.table.names()))


def _keys(scheduler: Scheduler) -> list[str]:
    return [key for key, _ in scheduler.world.view(Pod).items()]


def _listed(scheduler: Scheduler) -> Steps:
    """Pods that the API has on a node."""
    world, pods, nodes = scheduler.world, scheduler.world.view(Pod), scheduler.world.view(Node)

    def look(key: str) -> str | None:
        pod = pods.get(key)
        if pod is None or is_over(pod) or not pod.spec.node_name:
            return None
        info = world.accounts.get(pod.metadata.uid)
        if nodes.get(pod.spec.node_name) is None:
            return None if info is None else key
        there = info is not None and world.table.name(info.row) == pod.spec.node_name
        return None if there else key

    yield from in_slices(_keys(scheduler), look)


def _counted(scheduler: Scheduler) -> Steps:
    """Pods that count on a node: the API has them, or they are assumed, or stand for others."""
    world, pods = scheduler.world, scheduler.world.view(Pod)
    represented_object = scheduler.loop.parts.stand_ins.of

    def look(uid: str) -> str | None:
        info = world.accounts.get(uid)
        if info is None or pods.get(info.key) is not None or uid in scheduler.feed.assumed:
            return None
        return info.key if represented_object(info.pod) is None else None

    yield from in_slices(list(world.accounts.pods()), look)


def _unqueued(scheduler: Scheduler) -> Steps:
    pods, feed = scheduler.world.view(Pod), scheduler.feed

    def look(key: str) -> str | None:
        pod = pods.get(key)
        if pod is None or pod.spec.node_name or is_over(pod):
            return None
        held = feed.holds(pod.metadata.uid)
        return key if not held and _waits(scheduler, pod) else None

    yield from in_slices(_keys(scheduler), look)


def _waits(scheduler: Scheduler, pod: Pod) -> bool:
    """Whether a pod ought to be in the queue and is not."""
    meta = pod.metadata
    served = pod.spec.scheduler_name in scheduler.deciders
    return served and meta.deletion_timestamp is None and scheduler.queue.get(meta.uid) is None


def _heard(scheduler: Scheduler, info: PodInfo) -> Pod:
    """The API's last word on a pod that counts; the pod itself where it has none yet."""
    pod = scheduler.world.view(Pod).get(info.key)
    known = pod is not None and pod.metadata.uid == info.uid and scheduler.feed.confirmed(info.uid)
    return pod if pod is not None and known else info.pod


def _sums_differ(scheduler: Scheduler, row: int) -> bool:
    """Whether what is requested on a row is not the sum over its pods."""
    table = scheduler.world.table
    total: Counter[str] = Counter()
    for info in table.pods[row].values():
        # One that is resized in place counts as what its status says by now.
        counted = info.shape.container_requests.counted(_heard(scheduler, info))
        total.update(counted.request)
        total[PODS] += 1
    for plugin in scheduler.plugins:
        if hasattr(plugin, "counted_twice"):
            for resource, amount in plugin.counted_twice(row).items():
                total[resource] -= amount
    requested = table.requested_by_name(row)
    return any(total[name] != requested.get(name, 0) for name in {*total, *requested})


def _allocations(scheduler: Scheduler) -> Steps:
    """Pods that count with something else than is written on them, from the API's last word."""
    world, feed = scheduler.world, scheduler.feed

    def look(uid: str) -> str | None:
        info = world.accounts.get(uid)
        if info is None or not info.allocations or uid in feed.assumed:
            return None
        return info.key if _is_other(scheduler, info) else None

    yield from in_slices(list(world.accounts.pods()), look)


def _is_other(scheduler: Scheduler, info: PodInfo) -> bool:
    written = scheduler.feed.written(info)
    return any(info.allocations.get(name) != held for name, held in written.items())
