# SPDX-License-Identifier: Apache-2.0
"""What NodeNUMAResource says of one pod and one node, the slow way: real picks, every zone mask.

Zones are 0..k-1, amounts in base units, CPU in milli. No reservations here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tests.models import numa, topology
from tests.models.topology import Machine, Request, State

NOT_ENOUGH = "not enough cpus available to satisfy request"
CONFLICT = "node(s) cpu bind policy conflicts with pod's required cpu bind policy"
IMPLIED = {"FullPCPUsOnly": "FullPCPUs", "SpreadByPCPUs": "SpreadByPCPUs"}


@dataclass
class Node:
    """One node; ``zones`` is what each zone offers after reserved CPUs and amplification."""

    machine: Machine
    zones: dict[int, dict[str, int]]
    reserved: frozenset[int] = frozenset()
    label: str = "None"
    policy: str = ""
    strategy: str = "LeastAllocated"
    ratio: float = 1.0
    allocatable_milli: int = 0
    requested_milli: int = 0
    state: State = field(init=False)
    used: dict[int, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.state = State(self.machine)

    def threads(self) -> int:
        return self.machine.most_threads()


@dataclass
class Pod:
    """What a pod asks for; ``bound`` is what its QoS class and policies make of it."""

    requests: dict[str, int]
    bound: bool = False
    required: str = ""
    preferred: str = ""
    exclusive: str = "None"
    policy: str = ""
    alone: str = ""

    @property
    def milli(self) -> int:
        return self.requests.get("cpu", 0)


def judge(node: Node, pod: Pod) -> tuple[str, set[int], dict[int, dict[str, int]]]:
    """A reason, or the CPUs and zone amounts that the pod gets."""
    if node.policy and pod.policy and node.policy != pod.policy:
        return "node(s) NUMA Topology policy not match", set(), {}
    policy = pod.policy or node.policy
    implied = IMPLIED.get(node.label, "")
    bound = pod.bound or (bool(implied) and pod.milli > 0)
    if bound and pod.milli % 1000:
        return "the requested CPUs must be integer", set(), {}
    if pod.milli and node.ratio > 1:
        bound_milli = 1000 * len(node.state.records)
        use = node.requested_milli
        if use >= bound_milli > 0:
            use += math.ceil(bound_milli * node.ratio) - bound_milli
        asked = math.ceil(pod.milli * node.ratio) if bound else pod.milli
        if asked > node.allocatable_milli - use:
            return "Insufficient amplified cpu", set(), {}
    required, bind = "", pod.preferred
    if bound:
        required = implied or pod.required
        if pod.required and pod.required != required:
            return CONFLICT, set(), {}
        bind = required or pod.preferred
        if required == "FullPCPUs" and pod.milli // 1000 % node.threads():
            return "node(s) requested cpus not multiple cpus per core", set(), {}
    if not policy:
        return allocate(node, pod, bound, bind, bool(required), None)
    if not node.zones:
        return "node(s) missing NUMA resources", set(), {}
    return aligned(node, pod, bound, bind, bool(required), policy)


def left(node: Node) -> dict[int, dict[str, int]]:
    counts = {
        zone: sum(node.machine.node[cpu] == zone for cpu in node.state.records)
        for zone in node.zones
    }
    return numa.available(node.zones, node.used, {}, counts, node.ratio)


def ask(node: Node, pod: Pod, count: int, bind: str, required: bool) -> Request:
    return Request(
        count, bind or "Default", required, pod.exclusive, node.strategy, 1, node.reserved
    )


def binding(node: Node, pod: Pod, bound: bool, bind: str, required: bool) -> numa.Binding | None:
    if not bound:
        return None
    free = topology.available(node.state, ask(node, pod, 0, bind, required))
    counts = {zone: sum(node.machine.node[c] == zone for c in free) for zone in node.zones}
    full = bind == "FullPCPUs"
    return numa.Binding(pod.milli // 1000, counts, required, full, node.threads())


def aligned(
    node: Node, pod: Pod, bound: bool, bind: str, required: bool, policy: str
) -> tuple[str, set[int], dict[int, dict[str, int]]]:
    free, cpus = left(node), binding(node, pod, bound, bind, required)
    judged = {zone: dict(row) for zone, row in free.items()}
    if cpus is not None and required:
        for zone, row in judged.items():
            if row.get("cpu"):
                row["cpu"] = min(row["cpu"], 1000 * cpus.bindable[zone])
    scored = dict(pod.requests)
    if bound and node.ratio > 1:
        scored["cpu"] = math.ceil(pod.milli * node.ratio)
    hints = numa.generate_hints(
        node.zones, judged, pod.requests, [(free, cpus)], None, policy == "Restricted"
    )
    hints = _scored(node, judged, scored, hints)
    alone = pod.alone or ("Required" if pod.policy else "")
    statuses = [node.state.numa_status(zone) for zone in sorted(node.zones)]
    everything = (1 << len(node.zones)) - 1
    best, admitted, reasons = numa.admit(policy, everything, [hints], alone == "Required", statuses)
    if not admitted:
        return ", ".join(reasons), set(), {}
    return allocate(node, pod, bound, bind, required, best.affinity)


def _scored(
    node: Node,
    judged: dict[int, dict[str, int]],
    scored: dict[str, int],
    hints: dict[str, list[numa.Hint]],
) -> dict[str, list[numa.Hint]]:
    def points(mask: int) -> int:
        zones = [zone for zone in node.zones if mask >> zone & 1]
        names = {name for row in node.zones.values() for name in row}
        have = {r: sum(node.zones[z].get(r, 0) for z in zones) for r in names}
        free = {r: sum(judged[z].get(r, 0) for z in zones) for r in names}
        used = {r: max(0, have[r] - free[r]) for r in names}
        return numa.score(False, {"cpu": 1, "memory": 1}, used, have, scored)

    return {
        name: [
            numa.Hint(hint.affinity, hint.preferred, hint.unsatisfied, points(hint.affinity or 0))
            for hint in found
        ]
        for name, found in hints.items()
    }


def allocate(
    node: Node, pod: Pod, bound: bool, bind: str, required: bool, mask: int | None
) -> tuple[str, set[int], dict[int, dict[str, int]]]:
    cpus = binding(node, pod, bound, bind, required)
    zones: dict[int, dict[str, int]] = {}
    if mask is not None:
        zones, missing = numa.distribute(left(node), pod.requests, mask, cpus)
        if missing:
            return ", ".join(f"Insufficient NUMA {name}" for name in missing), set(), {}
    if not bound:
        return "", set(), zones
    count = pod.milli // 1000
    free = topology.available(node.state, ask(node, pod, 0, bind, required))
    if len(free) < count:
        return NOT_ENOUGH, set(), {}
    if not zones:
        answer = topology.pick(node.state, ask(node, pod, count, bind, required))
        return answer.reason, answer.cpus, zones
    picked: set[int] = set()
    for zone in sorted(zones):
        of_zone = frozenset(cpu for cpu, there in node.machine.node.items() if there == zone)
        here = free & of_zone
        request = ask(node, pod, min(len(here), zones[zone].get("cpu", 0) // 1000), bind, required)
        request.within = of_zone
        answer = topology.pick(node.state, request)
        if answer.reason:
            return answer.reason, set(), {}
        picked |= answer.cpus
    return ("", picked, zones) if len(picked) == count else (NOT_ENOUGH, set(), {})
