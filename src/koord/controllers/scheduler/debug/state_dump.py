# SPDX-License-Identifier: Apache-2.0
"""What the scheduler holds in memory, as plain data for its debug endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.kinds.node import Node

if TYPE_CHECKING:
    from koord.controllers.scheduler.queue.queued_pod import QueuedPod
    from koord.controllers.scheduler.scheduler import Scheduler


def queue(scheduler: Scheduler, limit: int = 1000) -> dict[str, Any]:
    """Who waits where, the first of each part."""
    waiting = scheduler.queue.waiting()
    return {
        "pending": scheduler.queue.pending(),
        "inFlight": [pod.info.key for pod in scheduler.queue.in_flight()[:limit]],
        "waiting": [_queued(pod) for pod in waiting[:limit]],
        "notShown": max(0, len(waiting) - limit),
        "waitingOnPermit": [info.key for info in scheduler.world.waiting()],
        "nominated": {
            node: [info.key for info in scheduler.queue.nominator.on_node(node)]
            for node in scheduler.queue.nominator.nodes()
        },
    }


def cache(scheduler: Scheduler) -> dict[str, Any]:
    """Every node with what it has, what is requested, and how many pods."""
    table = scheduler.world.table
    nodes = {}
    for name in table.names():
        row = table.row(name)
        assert row is not None
        nodes[name] = {"pods": len(table.pods[row]), **_amounts(scheduler, row)}
    assumed = sorted(info.key for info in scheduler.feed.assumed.values())
    return {"nodes": nodes, "assumed": assumed, "version": table.version}


def node(scheduler: Scheduler, name: str) -> dict[str, Any]:
    """One node: the answer of ``/apis/v1/nodes/NAME``.

    Raises:
        KeyError: there is no such node.
    """
    table = scheduler.world.table
    row = table.row(name)
    if row is None:
        raise KeyError(f"cannot find node {name}")
    used = [
        {"pod": info.key, "hostIP": port.host_ip, "hostPort": port.host_port,
         "protocol": port.protocol or "TCP"}
        for info in table.pods[row].values()
        for container in info.pod.spec.containers
        for port in container.ports
        if port.host_port
    ]  # fmt: skip
    amounts = _amounts(scheduler, row)
    offered, requested = amounts["allocatable"], amounts["requested"]
    remaining = {each: offered.get(each, 0) - amount for each, amount in requested.items()}
    return {
        "nodeName": name,
        "pods": sorted(info.key for info in table.pods[row].values()),
        **amounts,
        "nonZeroRequested": {
            "cpu": int(table.nonzero[0, row]), "memory": int(table.nonzero[1, row])
        },
        "remaining": remaining,
        "usedPorts": used,
        "problem": scheduler.world.invalid.message(Node, name),
        "contradictions": scheduler.world.contradictions.of_pods(table.pods[row]),
    }  # fmt: skip


def _amounts(scheduler: Scheduler, row: int) -> dict[str, dict[str, int]]:
    table = scheduler.world.table
    offered = zip(table.resources, table.allocatable[:, row].tolist(), strict=True)
    return {
        "allocatable": {resource: amount for resource, amount in offered if resource},
        "requested": table.requested_by_name(row),
    }


def _queued(pod: QueuedPod) -> dict[str, Any]:
    return {
        "pod": pod.info.key,
        "place": pod.place.name.lower(),
        "attempts": pod.attempts,
        "unschedulablePlugins": sorted(pod.unschedulable_plugins),
        "pendingPlugins": sorted(pod.pending_plugins),
        "gatedBy": pod.gated_by,
        "priority": pod.info.priority,
    }
