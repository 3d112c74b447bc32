# SPDX-License-Identifier: Apache-2.0
"""Typed objects of what the model describes in plain numbers, and a ledger that has them all."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from koord.api.codec import convert
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.api.kinds.topology import NodeResourceTopology
from koord.api.protocol import annotation, keys
from koord.api.sloconfig.strategies import ColocationStrategy
from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache
from tests.models import overcommit as model

NOW = 1_800_000_000
NAMESPACE = "default"


def amounts(pair: model.Pair, names: tuple[str, str] = ("cpu", "memory")) -> dict[str, str]:
    return {names[0]: f"{pair[0]}m", names[1]: str(pair[1])}


def usage(pair: model.Pair) -> dict[str, Any]:
    return {"resources": amounts(pair)}


def strategy(given: dict[str, Any]) -> ColocationStrategy:
    return convert({k: v for k, v in given.items() if v is not None}, ColocationStrategy, "test")


def node(case: model.Node, name: str = "n") -> Node:
    annotations = {}
    if case.raw is not None:
        annotations[keys.RAW_ALLOCATABLE] = annotation.text(amounts(case.raw))
    reservation: dict[str, Any] = {"resources": amounts(case.reserved)}
    if case.reserved_cpus is not None:
        reservation["reservedCPUs"] = f"0-{case.reserved_cpus - 1}"
    annotations[keys.NODE_RESERVATION] = annotation.text(reservation)
    return convert(
        {
            "metadata": {"name": name, "annotations": annotations},
            "status": {
                "capacity": amounts(case.capacity),
                "allocatable": amounts(case.allocatable),
            },
        },
        Node,
        "test",
    )


def pod(each: model.Pod, node_name: str = "n", uid: str = "") -> Pod:
    labels, annotations = {}, {}
    if each.class_label is not None:
        labels[keys.PRIORITY_CLASS] = each.class_label
    if each.qos_label is not None:
        labels[keys.QOS_CLASS] = each.qos_label
    if each.numa is not None:
        zones = {"numaNodeResources": [{"node": number} for number in each.numa]}
        annotations[keys.RESOURCE_STATUS] = annotation.text(zones)
    mid = amounts(each.mid_request, ("kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"))
    mid["kubernetes.io/mid-cpu"] = str(each.mid_request[0])
    requests = amounts(each.request) | mid
    spec: dict[str, Any] = {
        "nodeName": node_name,
        "containers": [{"name": "main", "resources": {"requests": requests}}],
    }
    if each.priority is not None:
        spec["priority"] = each.priority
    return convert(
        {
            "metadata": {
                "name": each.name, "namespace": NAMESPACE, "uid": uid or each.name,
                "labels": labels, "annotations": annotations,
            },
            "spec": spec,
            "status": {"phase": each.phase, "qosClass": each.kubernetes_qos},
        },
        Pod,
        "test",
    )  # fmt: skip


def metric(case: model.Node, name: str = "n", now: float = NOW) -> NodeMetric:
    dangling = {f"gone-{at}": each for at, each in enumerate(case.dangling)}
    body: dict[str, Any] = {
        "systemUsage": usage(case.system),
        "numaUsages": [
            {"numaNodeID": zone.number, "systemUsage": usage(zone.system)}
            for zone in case.zones
            if zone.system is not None
        ],
    }
    if case.used is not None:
        body["nodeUsage"] = usage(case.used)
    status: dict[str, Any] = {
        "podsMetric": [
            {
                "name": key, "namespace": NAMESPACE, "podUsage": usage(each.used),
                "priority": each.priority,
            }
            for key, each in (case.metrics | dangling).items()
        ],
        "hostApplicationMetric": [
            {"name": f"app-{at}", "priority": priority, "usage": usage(used)}
            for at, (priority, used) in enumerate(case.hosts)
        ],
    }  # fmt: skip
    if case.body:
        status["nodeMetric"] = body
    if case.age_seconds is not None:
        moment = datetime.fromtimestamp(now - case.age_seconds, UTC)
        status["updateTime"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    if case.reclaimable is not None:
        status["prodReclaimableMetric"] = {"resource": usage(case.reclaimable)}
    return convert({"metadata": {"name": name}, "status": status}, NodeMetric, "test")


def topology(case: model.Node, name: str = "n") -> NodeResourceTopology:
    zones = [
        {
            "name": f"node-{zone.number}", "type": "Node",
            "resources": [
                {"name": key, "capacity": text, "allocatable": text, "available": text}
                for key, text in amounts(zone.allocatable).items()
            ],
        }
        for zone in case.zones
    ]  # fmt: skip
    return convert({"metadata": {"name": name}, "zones": zones}, NodeResourceTopology, "test")


def ledger(case: model.Node) -> OvercommitCache:
    """A ledger of one node, as a manager finds it that has just started."""
    found = OvercommitCache()
    put(found, case)
    found.recompute(NOW)
    return found


def put(into: OvercommitCache, case: model.Node, name: str = "n") -> None:
    into.put_node(node(case, name), strategy(case.strategy))
    for each in case.pods:
        into.put_pod(pod(each, name))
    into.put_metric(metric(case, name))
    if case.zones:
        into.put_topology(topology(case, name))


def offered(found: OvercommitCache, kind: str, name: str = "n") -> model.Pair | None:
    """What a row offers, as the model tells it."""
    offer = found.batch if kind == "batch" else found.mid
    row = found.row(name)
    assert row is not None
    if offer.degraded[row]:
        assert not offer.amounts[:, row].any()
        return None
    cpu, memory = offer.amounts[:, row].tolist()
    return cpu, memory
