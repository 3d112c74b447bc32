# SPDX-License-Identifier: Apache-2.0
"""Objects of the API server as the plain model of batch and mid resources wants them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from koord.api import Node, NodeMetric, NodeResourceTopology, Pod
from koord.api.kinds.nodemetric import ResourceMap
from koord.api.protocol import keys
from koord.api.protocol.resources import BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY
from koord.kernels.quantity import Rounding
from tests.models import overcommit as model

BATCH, MID = (BATCH_CPU, BATCH_MEMORY), (MID_CPU, MID_MEMORY)
_NATIVE = ("cpu", "memory")
_GI = 1 << 30

RESERVATIONS: dict[str, tuple[model.Pair, int | None]] = {
    "{}": ((0, 0), None),
    '{"resources":{"cpu":"5","memory":"20Gi"}}': ((5000, 20 * _GI), None),
    '{"resources":{"cpu":"1500m"},"applyPolicy":"ReservedCPUsOnly"}': ((1500, 0), None),
    '{"reservedCPUs":"0-2"}': ((0, 0), 3),
    '{"resources":{"cpu":"5","memory":"3Gi"},"reservedCPUs":"1"}': ((5000, 3 * _GI), 1),
    '{"reservedCPUs":"from 1 to 3"}': ((0, 0), None),
    "{": ((0, 0), None),
}
"""Annotations of nodes that are reserved: amounts, and how many CPUs are named."""


def node(
    found: Node,
    strategy: dict[str, Any],
    metric: NodeMetric | None,
    pods: Sequence[Pod],
    topology: NodeResourceTopology | None,
    now: float,
) -> model.Node:
    """One node and all that is known of it.

    Args:
        found: the node.
        strategy: the cluster's.
        metric: what its agent said last.
        pods: those that are bound to it.
        topology: its zones.
        now: wall seconds.
    """
    status = metric.status if metric is not None else None
    told = status.update_time if status is not None else None
    info = status.node_metric if status is not None else None
    predicted = status.prod_reclaimable_metric if status is not None else None
    text = found.metadata.annotations.get(keys.NODE_RESERVATION, "{}")
    reserved, reserved_cpus = RESERVATIONS[text]
    measured_zones = info.numa_usages if info is not None else ()
    systems = {each.numa_node_id: usage(each.system_usage) for each in measured_zones}
    made = model.Node(
        pair(found.status.capacity), pair(found.status.allocatable), strategy,
        reserved=reserved, reserved_cpus=reserved_cpus,
        age_seconds=None if told is None else int(now - told.timestamp()),
        body=info is not None, system=usage(info.system_usage if info else None),
        used=usage(info.node_usage) if info else None,
        reclaimable=usage(predicted.resource) if predicted else None,
        pods=[pod(each) for each in pods],
        zones=[
            model.Zone(number, amounts, systems.get(number))
            for number, amounts in zones(topology).items()
        ],
    )  # fmt: skip
    names = {each.name for each in made.pods}
    for each in status.pods_metric if status is not None else ():
        measured = model.Metric(usage(each.pod_usage), each.priority)
        if each.name in names:
            made.metrics[each.name] = measured
        else:
            made.dangling.append(measured)
    return made


def zones(topology: NodeResourceTopology | None) -> dict[int, model.Pair]:
    """What pods may ask of each zone, by NUMA number."""
    return {
        _number(zone.name): pair({each.name: each.allocatable for each in zone.resources})
        for zone in (topology.zones if topology is not None else ())
    }


def zone_offers(topology: NodeResourceTopology) -> dict[int, model.Pair | None]:
    """What each zone shows as batch, in thousandths of a milli-core and of a byte; all of it
    the same as capacity, allocatable and available."""
    found: dict[int, model.Pair | None] = {}
    for zone in topology.zones:
        shown = {each.name: each for each in zone.resources if each.name in BATCH}
        for each in shown.values():
            assert each.capacity == each.allocatable == each.available
        there = [shown[name].allocatable for name in BATCH if name in shown]
        assert len(there) in (0, 2)
        amounts = tuple(each.milli(Rounding.UP) for each in there if each is not None)
        found[_number(zone.name)] = (amounts[0], amounts[1]) if amounts else None
    return found


def _number(zone: str) -> int:
    return int(zone.removeprefix("node-"))


def pod(found: Pod) -> model.Pod:
    """One pod, with what it asks for and where it is bound."""
    text = found.metadata.annotations.get(keys.RESOURCE_STATUS)
    bound = json.loads(text).get("numaNodeResources") if text else None
    return model.Pod(
        found.metadata.name, found.status.phase, priority=found.spec.priority,
        qos_label=found.metadata.labels.get(keys.QOS_CLASS),
        request=requested(found, _NATIVE), mid_request=requested(found, MID),
        numa=[each["node"] for each in bound] if bound else None,
    )  # fmt: skip


def requested(found: Pod, names: tuple[str, str]) -> model.Pair:
    """What a pod asks for that has not ended."""
    if found.status.phase in ("Succeeded", "Failed"):
        return 0, 0
    return pair(found.spec.containers[0].resources.requests, names)


def usage(found: ResourceMap | None) -> model.Pair:
    """What was measured."""
    return pair({} if found is None else found.resources)


def pair(amounts: Any, names: tuple[str, str] = _NATIVE) -> model.Pair:
    """CPU in milli-cores (batch and mid CPU are in them) and memory in bytes; 0 for absent ones."""
    cpu, memory = (amounts.get(name) for name in names)
    milli = names == _NATIVE
    cores = 0 if cpu is None else cpu.milli(Rounding.UP) if milli else cpu.value(Rounding.UP)
    return cores, 0 if memory is None else memory.value(Rounding.UP)
