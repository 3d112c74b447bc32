# SPDX-License-Identifier: Apache-2.0
"""Pods come to and leave one node at random: every answer is that of the plain model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.scheduler.plugins.nodenumaresource.objects.allocation_annotation import (
    NUMAAllocation,
)
from koord.kernels.cpuset import CPUSet
from tests.controllers.scheduler.plugins.nodenumaresource.cluster import Cluster, cpus
from tests.models import numa_plugin as model
from tests.models.topology import Machine

SHAPES = [(1, 1, 4, 2), (2, 1, 4, 2), (2, 2, 2, 2), (1, 3, 3, 1), (2, 1, 2, 4)]
POLICIES = ["", "BestEffort", "Restricted", "SingleNUMANode"]
GIB = 1 << 30


@st.composite
def nodes(draw: st.DrawFn) -> dict[str, Any]:
    shape = draw(st.sampled_from(SHAPES))
    total = shape[0] * shape[1] * shape[2] * shape[3]
    return {
        "shape": shape,
        "reserved": draw(st.sets(st.integers(0, total - 1), max_size=3)),
        "label": draw(st.sampled_from(["None", "None", "FullPCPUsOnly", "SpreadByPCPUs"])),
        "policy": draw(st.sampled_from(POLICIES)),
        "strategy": draw(st.sampled_from(["LeastAllocated", "MostAllocated"])),
        "ratio": draw(st.sampled_from([1.0, 1.0, 1.5])),
    }


BIND = st.sampled_from(["", "", "FullPCPUs", "SpreadByPCPUs"])
PODS = st.fixed_dictionaries(
    {
        "milli": st.sampled_from([500, 1000, 2000, 3000, 4000, 6000, 8000]),
        "gib": st.integers(1, 12),
        "qos": st.sampled_from(["LSR", "LSR", "LSE", "LS", ""]),
        "required": BIND,
        "preferred": BIND,
        "exclusive": st.sampled_from(["", "PCPULevel", "NUMANodeLevel"]),
        "numa": st.sampled_from(["", "", "", *POLICIES]),
        "alone": st.sampled_from(["", "", "Preferred", "Required"]),
    }
)
STEPS = st.lists(st.tuples(PODS, st.integers(0, 5)), max_size=14)


def built(spec: Mapping[str, Any]) -> tuple[Cluster, model.Node]:
    rows = cpus(*spec["shape"])
    machine = Machine.of((r["id"], r["core"], r["socket"], r["node"]) for r in rows)
    ratio, zones = spec["ratio"], {}
    for zone in sorted(set(machine.node.values())):
        number = sum(node == zone for node in machine.node.values())
        lost = sum(machine.node[cpu] == zone for cpu in spec["reserved"])
        milli = (number - lost) * 1000
        zones[zone] = {"cpu": round(milli * ratio) if ratio > 1 else milli, "memory": 16 * GIB}
    cluster = Cluster()
    labels = {
        "node.koordinator.sh/cpu-bind-policy": spec["label"],
        "node.koordinator.sh/numa-allocate-strategy": spec["strategy"],
        "node.koordinator.sh/numa-topology-policy": spec["policy"],
    }
    notes = {}
    if ratio > 1:
        notes["node.koordinator.sh/resource-amplification-ratio"] = f'{{"cpu":{ratio}}}'
    total = int(len(rows) * ratio)
    reserved = {"reservedCPUs": str(CPUSet.from_ids(spec["reserved"]))}
    cluster.node(
        "n0", spec["shape"], labels=labels, annotations=notes, cpu=str(total), reservation=reserved
    )
    node = model.Node(
        machine, zones, frozenset(spec["reserved"]), spec["label"], spec["policy"],
        spec["strategy"], ratio, total * 1000,
    )  # fmt: skip
    return cluster, node


def wanted(pod: Mapping[str, Any]) -> model.Pod | None:
    """The pod as the model takes it; None for one that the plugin refuses before any node."""
    requests = {"cpu": pod["milli"], "memory": pod["gib"] * GIB}
    plain = model.Pod(requests, policy=pod["numa"], alone=pod["alone"])
    if pod["qos"] not in ("LSR", "LSE"):
        return plain
    if pod["milli"] % 1000:
        return None
    working = pod["required"] or pod["preferred"] or "FullPCPUs"
    return model.Pod(
        requests, True, pod["required"], working, pod["exclusive"] or "None",
        pod["numa"], pod["alone"],
    )  # fmt: skip


@given(nodes(), STEPS)
def test_every_answer_is_the_models(spec: dict[str, Any], steps: list[Any]) -> None:
    cluster, node = built(spec)
    there: list[str] = []
    for number, (pod, leaves) in enumerate(steps):
        info = cluster.info(
            f"p{number}", f"{pod['milli']}m", f"{pod['gib']}Gi", qos=pod["qos"],
            required=pod["required"], preferred=pod["preferred"], exclusive=pod["exclusive"],
            numa=pod["numa"], alone=pod["alone"],
        )  # fmt: skip
        requested_amounts = wanted(pod)
        said = cluster.place(info)
        if requested_amounts is None:
            assert said == "0/1 nodes are available: the requested CPUs must be integer."
            continue
        reason, expected, zones = model.judge(node, requested_amounts)
        if reason:
            assert info.row == -1
            lines = sorted(f"1 {line}" for line in set(reason.split(", ")))
            assert said == f"0/1 nodes are available: {', '.join(lines)}."
            continue
        assert info.row == 0, said
        held = info.allocations.get("NodeNUMAResource", NUMAAllocation())
        assert set(held.cpus) == expected
        assert held.zones == zones
        settle(node, info.uid, requested_amounts, expected, zones)
        there.append(info.uid)
        if leaves == 0:
            gone = there.pop(len(there) // 2)
            cluster.remove(gone)
            leave(node, gone)


def settle(
    node: model.Node, uid: str, pod: model.Pod, cpus: set[int], zones: dict[int, dict[str, int]]
) -> None:
    if cpus:
        node.state.add(uid, cpus, pod.exclusive)
    HELD[id(node), uid] = (zones, pod.milli)
    for zone, row in zones.items():
        there = node.used.setdefault(zone, {})
        for name, amount in row.items():
            there[name] = there.get(name, 0) + amount
    node.requested_milli += pod.milli


def leave(node: model.Node, uid: str) -> None:
    zones, milli = HELD.pop((id(node), uid))
    node.state.release(uid)
    for zone, row in zones.items():
        for name, amount in row.items():
            node.used[zone][name] -= amount
        if not any(node.used[zone].values()):
            del node.used[zone]  # as if no pod had been there
    node.requested_milli -= milli


HELD: dict[tuple[int, str], tuple[dict[int, dict[str, int]], int]] = {}
