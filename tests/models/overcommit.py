# SPDX-License-Identifier: Apache-2.0
"""Batch and mid resources by their rules, pod by pod; slow and obvious.

CPU in milli-cores, memory in bytes; what is divided among zones is a Fraction of those, rounded up
to thousandths. Rules: docs/reference/overcommit.md#batch-resources-of-a-node,
docs/reference/overcommit.md#mid-resources.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

Pair = tuple[int, int]
LOW = ("koord-batch", "koord-free")
BANDS = {"koord-prod": 9, "koord-mid": 7, "koord-batch": 5, "koord-free": 3}
OF_QOS = {"LSE": "koord-prod", "LSR": "koord-prod", "LS": "koord-prod", "SYSTEM": "koord-prod",
          "BE": "koord-batch"}  # fmt: skip
OF_KUBERNETES = {"Guaranteed": "LSR", "Burstable": "LS", "BestEffort": "BE"}
DEFAULTS: dict[str, Any] = {
    "enable": False, "cpuReclaimThresholdPercent": 60, "memoryReclaimThresholdPercent": 65,
    "cpuCalculatePolicy": "usage", "memoryCalculatePolicy": "usage", "degradeTimeMinutes": 15,
    "overcommitRatioPercent": 30, "midReclaimMode": None, "midCPUThresholdPercent": 100,
    "midMemoryThresholdPercent": 100, "midUnallocatedPercent": 0,
    "midStaticCPUReservedPercent": 0, "midStaticMemoryReservedPercent": 0,
    "batchCPUThresholdPercent": None, "batchMemoryThresholdPercent": None,
}  # fmt: skip


WHOLE = 100
SHARES = ("ReclaimThresholdPercent", "ReservedPercent", "CPUThresholdPercent",
          "MemoryThresholdPercent")  # fmt: skip


@dataclass
class Pod:
    name: str
    phase: str = "Running"
    class_label: str | None = None
    priority: int | None = None
    qos_label: str | None = None
    kubernetes_qos: str = "Burstable"
    request: Pair = (0, 0)
    mid_request: Pair = (0, 0)
    numa: list[int] | None = None

    @property
    def qos(self) -> str:
        return self.qos_label or OF_KUBERNETES[self.kubernetes_qos]

    @property
    def priority_class(self) -> str:
        found = ""
        if self.class_label is not None:
            found = self.class_label if self.class_label in BANDS else ""
        elif self.priority is not None:
            for name, thousands in BANDS.items():
                if self.priority // 1000 == thousands:
                    found = name
        return found or OF_QOS.get(self.qos, "")

    @property
    def high(self) -> bool:
        return self.priority_class not in LOW

    @property
    def asked(self) -> Pair:
        """With mid resources of mid pods (docs/reference/overcommit.md#pods-that-count)."""
        if self.priority_class != "koord-mid":
            return self.request
        cpu, memory = (a + b for a, b in zip(self.request, self.mid_request, strict=True))
        return cpu, memory


@dataclass
class Metric:
    used: Pair
    priority: str = ""


@dataclass
class Zone:
    number: int
    allocatable: Pair
    system: Pair | None = None


@dataclass
class Node:
    """Everything that one node's offer comes from.

    Attributes:
        risen: how far system usage rose since the report before.
        metrics: by pod, those that speak of one of the pods, and all others.
    """

    capacity: Pair
    allocatable: Pair
    strategy: dict[str, Any]
    raw: Pair | None = None
    reserved: Pair = (0, 0)
    reserved_cpus: int | None = None
    age_seconds: int | None = 0
    body: bool = True
    system: Pair = (0, 0)
    risen: Pair = (0, 0)
    used: Pair | None = None
    reclaimable: Pair | None = None
    hosts: list[tuple[str, Pair]] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    metrics: dict[str, Metric] = field(default_factory=dict)
    dangling: list[Metric] = field(default_factory=list)
    zones: list[Zone] = field(default_factory=list)

    def says(self, key: str) -> Any:
        value = self.strategy.get(key)
        value = DEFAULTS[key] if value is None else value
        return min(value, WHOLE) if key.endswith(SHARES) and value is not None else value


def enabled(node: Node) -> bool:
    return bool(node.says("enable"))


def degraded(node: Node) -> bool:
    if node.age_seconds is None or not node.body:
        return True
    return bool(node.age_seconds > node.says("degradeTimeMinutes") * 60)


def kept(shown: Pair | None, node: Node) -> Pair | None:
    """What a node shows that showed something, while no strategy could be read yet."""
    return None if degraded(replace(node, strategy={})) else shown


def counted(node: Node) -> list[Pod]:
    return [pod for pod in node.pods if pod.phase in ("Running", "Pending")]


def node_reserved(node: Node, r: int) -> int:
    allocatable = node.raw if node.raw is not None else node.allocatable
    kubelet = max(0, node.capacity[r] - allocatable[r])
    annotated = node.reserved[r]
    if r == 0 and node.reserved_cpus is not None:
        annotated = node.reserved_cpus * 1000
    return max(kubelet, annotated)


def hosts(node: Node, r: int, classes: tuple[str, ...]) -> int:
    return sum(used[r] for priority, used in node.hosts if priority in classes)


def system_usage(node: Node, r: int) -> int:
    """Without what rose while high pods waited to be measured, as far as they ask for it."""
    waiting = sum(p.asked[r] for p in counted(node) if p.high and p.name not in node.metrics)
    return node.system[r] - min(node.risen[r], waiting)


def share(amount: int, percent: int) -> int:
    return int(amount * (percent / 100))


def cell(
    node: Node,
    r: int,
    capacity: int,
    system: Fraction,
    reserved: Fraction,
    divide: Any,
    above: int = 0,
) -> Fraction:
    """The formula of a node, or of a zone, for one resource; ``divide`` gives a pod's share.

    Never more than what there is beyond what is held back, and beside what goes to mid (above).
    """
    request = used = larger = firm = Fraction(0)
    for pod in counted(node):
        asked = divide(pod, pod.asked[r])
        if pod.priority_class not in (*LOW, "koord-mid"):
            firm += asked
        if not pod.high:
            continue
        request += asked
        metric = node.metrics.get(pod.name)
        if metric is None:
            used += asked
            larger += asked
            continue
        measured = divide(pod, metric.used[r])
        used += asked if pod.qos == "LSE" and r == 0 else measured
        larger += max(asked, measured)
    for metric in node.dangling:
        if metric.priority not in LOW:
            used += divide(None, metric.used[r])
            larger += divide(None, metric.used[r])
    resource = ("cpu", "memory")[r]
    policy = node.says(f"{resource}CalculatePolicy")
    room = capacity - share(capacity, 100 - node.says(f"{resource}ReclaimThresholdPercent"))
    parts = 1 if divide is whole or r == 0 else 1000
    if policy == "requestRatio":
        left = max(Fraction(0), capacity - firm) * node.says("overcommitRatioPercent") / 100
        found = Fraction(math.floor(left * parts), parts)
    elif policy == "maxUsageRequest":
        found = room - system - larger
    elif policy == "request" and r == 1:
        found = room - reserved - request
    else:
        found = room - system - used
    cap = node.says("batch" + ("CPU", "Memory")[r] + "ThresholdPercent")
    if cap is not None:
        found = min(found, Fraction(share(capacity, cap)))
    return max(Fraction(0), min(found, capacity - reserved - above))


def whole(_: Pod | None, amount: int) -> Fraction:
    return Fraction(amount)


def batch(node: Node) -> Pair | None:
    """None where the names are taken off the node."""
    if not enabled(node) or degraded(node):
        return None
    found = []
    above = mid(node) or (0, 0)
    for r in (0, 1):
        reserved = node_reserved(node, r)
        system = max(system_usage(node, r) + hosts(node, r, ("koord-prod", "koord-mid")), reserved)
        value = cell(
            node, r, node.capacity[r], Fraction(system), Fraction(reserved), whole, above[r]
        )
        assert value.denominator == 1
        assert value + above[r] <= room(node, r), "more than the machine has"
        found.append(int(value))
    return found[0], found[1]


def room(node: Node, r: int) -> int:
    """What batch and mid may come to together, whatever any formula says."""
    return max(0, node.capacity[r] - node_reserved(node, r))


def up(amount: int | Fraction, by: int, r: int) -> Fraction:
    """An equal share, rounded up to a milli-core or a thousandth of a byte."""
    parts = 1 if r == 0 else 1000
    return Fraction(math.ceil(Fraction(amount) * parts / by), parts)


def zone_batch(node: Node) -> dict[int, tuple[Fraction, Fraction]]:
    """By NUMA number."""
    if not enabled(node) or degraded(node):
        return {}
    found: dict[int, list[Fraction]] = {zone.number: [] for zone in node.zones}
    count = len(node.zones)
    told = all(zone.system is not None for zone in node.zones)
    for r in (0, 1):
        reserved = up(node_reserved(node, r), count, r) if count else Fraction(0)
        in_zones = sum(zone.system[r] for zone in node.zones if zone.system) if told else 0
        rest = max(0, system_usage(node, r) - in_zones)
        rest += hosts(node, r, ("koord-prod", "koord-mid"))
        for zone in node.zones:
            own = zone.system[r] if told and zone.system is not None else 0

            def divide(pod: Pod | None, amount: int, r: int = r, zone: Zone = zone) -> Fraction:
                numbers = {each.number for each in node.zones}
                bound = numbers & set(pod.numa or []) if pod is not None else set()
                where = bound or numbers
                return up(amount, len(where), r) if zone.number in where else Fraction(0)

            system = max(own + up(rest, count, r), reserved)
            found[zone.number].append(cell(node, r, zone.allocatable[r], system, reserved, divide))
    return {number: (pair[0], pair[1]) for number, pair in found.items()}


def mid(node: Node) -> Pair | None:
    if not enabled(node) or degraded(node):
        return None
    found = []
    for r, name in ((0, "CPU"), (1, "Memory")):
        capacity = node.capacity[r]
        cap = share(capacity, node.says(f"mid{name}ThresholdPercent"))
        if node.says("midReclaimMode") == "static":
            fixed = share(capacity, node.says(f"midStatic{name}ReservedPercent"))
            found.append(min(fixed, cap, room(node, r)))
            continue
        reclaimable = node.reclaimable[r] if node.reclaimable else 0
        unused = capacity - node.used[r] if node.used else 0
        base = max(0, min(reclaimable, unused))
        taken = max(node.system[r] + hosts(node, r, ("koord-prod",)), node_reserved(node, r))
        firm = sum(
            pod.request[r] for pod in counted(node)
            if pod.priority_class not in (*LOW, "koord-mid")
        )  # fmt: skip
        unallocated = max(0, capacity - taken - firm)
        value = base + share(unallocated, node.says("midUnallocatedPercent"))
        found.append(min(value, cap, room(node, r)))
    return found[0], found[1]
