# SPDX-License-Identifier: Apache-2.0
"""The CPU picker as its rules read: lists of groups, sorted, tried one after the other.

Nothing here is fast. `Machine` is a table of online CPUs; `State` keeps records by CPU id; `pick`
follows the rules from "give back" to "required policy".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K")

FULL, SPREAD, DEFAULT = "FullPCPUs", "SpreadByPCPUs", "Default"
NONE, PCPU, NODE = "None", "PCPULevel", "NUMANodeLevel"
NOT_ENOUGH = "not enough cpus available to satisfy request"


@dataclass(frozen=True)
class Machine:
    """Core, socket and node of each CPU id; a core is the pair (socket, core)."""

    core: dict[int, tuple[int, int]]
    socket: dict[int, int]
    node: dict[int, int]

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int, int]]) -> Machine:
        """Rows of (cpu, core, socket, node)."""
        rows = list(rows)
        return cls(
            {cpu: (socket, core) for cpu, core, socket, _ in rows},
            {cpu: socket for cpu, _, socket, _ in rows},
            {cpu: node for cpu, _, _, node in rows},
        )

    def threads(self, core: tuple[int, int]) -> int:
        return sum(1 for other in self.core.values() if other == core)

    def most_threads(self) -> int:
        return max(Counter(self.core.values()).values())

    def node_socket(self, node: int) -> int:
        """A node that spans sockets counts with the socket of its lowest core."""
        return min(self.core[cpu] for cpu in self.core if self.node[cpu] == node)[0]


@dataclass
class Record:
    refs: int
    exclusive: str


@dataclass
class State:
    machine: Machine
    pods: dict[str, tuple[frozenset[int], str]] = field(default_factory=dict)
    records: dict[int, Record] = field(default_factory=dict)

    def add(self, uid: str, cpus: Iterable[int], exclusive: str = NONE) -> bool:
        if uid in self.pods:
            return False
        mine = frozenset(cpu for cpu in cpus if cpu in self.machine.core)
        self.pods[uid] = (mine, exclusive)
        for cpu in mine:
            self.records[cpu] = Record(self.ref_count(cpu) + 1, exclusive)
        return True

    def release(self, uid: str) -> bool:
        if uid not in self.pods:
            return False
        cpus, _ = self.pods.pop(uid)
        _give_back(self.records, cpus)
        return True

    def ref_count(self, cpu: int) -> int:
        return self.records[cpu].refs if cpu in self.records else 0

    def numa_status(self, node: int) -> str:
        spread = [{self.machine.node[cpu] for cpu in cpus} for cpus, _ in self.pods.values()]
        here = [nodes for nodes in spread if node in nodes]
        if not here:
            return "idle"
        return "single" if all(len(nodes) == 1 for nodes in here) else "shared"

    def after_giving_back(self, sets: Iterable[Iterable[int]]) -> dict[int, Record]:
        records = {cpu: Record(r.refs, r.exclusive) for cpu, r in self.records.items()}
        for cpus in sets:
            _give_back(records, cpus)
        return records


def _give_back(records: dict[int, Record], cpus: Iterable[int]) -> None:
    for cpu in cpus:
        if cpu in records:
            records[cpu].refs -= 1
            if records[cpu].refs == 0:
                del records[cpu]


@dataclass
class Request:
    count: int
    bind: str = DEFAULT
    required: bool = False
    exclusive: str = NONE
    strategy: str = "LeastAllocated"
    max_ref_count: int = 1
    reserved: frozenset[int] = frozenset()
    preferred: frozenset[int] = frozenset()
    preemptible: tuple[frozenset[int], ...] = ()
    within: frozenset[int] | None = None


@dataclass
class Answer:
    cpus: set[int] = field(default_factory=set)
    passes: list[str] = field(default_factory=list)
    reason: str = ""


def available(state: State, ask: Request) -> set[int]:
    records = state.after_giving_back([ask.preferred, *ask.preemptible])
    busy = {cpu for cpu, record in records.items() if record.refs >= max(1, ask.max_ref_count)}
    free = set(state.machine.core) - busy - ask.reserved
    if ask.required:
        free = bindable(state.machine, ask.bind, free)
    return free if ask.within is None else free & ask.within


def bindable(machine: Machine, bind: str, free: set[int]) -> set[int]:
    by_core = _grouped(sorted(free), machine.core.__getitem__)
    if bind == FULL:
        whole = [cpus for core, cpus in by_core.items() if len(cpus) == machine.threads(core)]
        return {cpu for cpus in whole for cpu in cpus}
    if bind == SPREAD:
        return {cpus[0] for cpus in by_core.values()}
    return free


def meets(machine: Machine, bind: str, cpus: set[int]) -> bool:
    cores = {machine.core[cpu] for cpu in cpus}
    if bind == FULL:
        return sum(machine.threads(core) for core in cores) == len(cpus)
    return bind != SPREAD or len(cores) == len(cpus)


def pick(state: State, ask: Request) -> Answer:
    free = available(state, ask)
    records = state.after_giving_back([ask.preferred, *ask.preemptible])
    answer = Answer()
    first = free & ask.preferred
    left = max(ask.count, 0)
    if first:
        half = Take(state.machine, first, records, ask, min(left, len(first)))
        half.run()
        answer.cpus |= half.result
        answer.passes += ["preferred:" + name for name in half.passes]
        left -= len(half.result)
        free -= first
    if left > 0:
        rest = Take(state.machine, free, records, ask, left)
        if not rest.run():
            return Answer(reason=NOT_ENOUGH)
        answer.cpus |= rest.result
        answer.passes += rest.passes
    if ask.required and not meets(state.machine, ask.bind, answer.cpus):
        return Answer(reason=f"insufficient CPUs to satisfy required cpu bind policy {ask.bind}")
    return answer


class Take:
    """One run of the accumulator over a set of free CPUs."""

    def __init__(
        self, machine: Machine, free: set[int], records: dict[int, Record], ask: Request, need: int
    ) -> None:
        self.machine, self.ask, self.need = machine, ask, need
        self.free = set(free)
        self.result: set[int] = set()
        self.passes: list[str] = []
        shared = ask.max_ref_count > 1
        self.refs = {cpu: r.refs if shared else 0 for cpu, r in records.items()}
        held = {cpu for cpu, r in records.items() if r.exclusive == ask.exclusive}
        self.blocked_cores = {machine.core[c] for c in held if ask.exclusive == PCPU}
        self.blocked_nodes = {machine.node[c] for c in held if ask.exclusive == NODE}

    def run(self) -> bool:
        if self.need > len(self.free):
            return False
        if self.need < 1:
            return True
        single = self.machine.most_threads() == 1
        if (self.ask.bind == FULL or single) and self.whole_cores():
            return True
        if self.ask.bind != FULL and self.spread_in_one_place():
            return True
        return self.fall_back(True) or self.fall_back(False)

    def take(self, cpus: Iterable[int], name: str) -> None:
        for cpu in cpus:
            self.result.add(cpu)
            self.free.remove(cpu)
            self.need -= 1
            if self.ask.exclusive == PCPU:
                self.blocked_cores.add(self.machine.core[cpu])
            if self.ask.exclusive == NODE:
                self.blocked_nodes.add(self.machine.node[cpu])
            if name not in self.passes:
                self.passes.append(name)

    # Order.

    def ref(self, cpu: int) -> int:
        return self.refs.get(cpu, 0)

    def by_strategy(self, free: int) -> int:
        return free if self.ask.strategy == "MostAllocated" else -free

    def unblocked(self, cores: bool, nodes: bool) -> list[int]:
        """Free CPUs, ascending, outside blocked cores and blocked nodes."""
        return [
            cpu
            for cpu in sorted(self.free)
            if not (cores and self.machine.core[cpu] in self.blocked_cores)
            and not (nodes and self.machine.node[cpu] in self.blocked_nodes)
        ]

    def full_cores(self, cpus: list[int]) -> list[list[int]]:
        """Cores whose CPUs are all among these, in core order."""
        cores = _grouped(cpus, self.machine.core.__getitem__)
        full = [core for core in cores if len(cores[core]) == self.machine.threads(core)]
        full.sort(key=lambda core: (-len(cores[core]), sum(map(self.ref, cores[core])), core))
        return [cores[core] for core in full]

    # Whole cores.

    def whole_cores(self) -> bool:
        return (
            self.full_cores_in_node(True)
            or self.full_cores_in_node(False)
            or self.full_cores_in_socket()
            or self.full_cores_across_sockets()
        )

    def full_cores_in_node(self, filtered: bool) -> bool:
        cpus = self.unblocked(cores=False, nodes=filtered)
        in_socket = Counter(self.machine.socket[cpu] for cpu in cpus)
        nodes = _grouped(self.full_cores(cpus), lambda core: self.machine.node[core[0]])

        def order(node: int) -> tuple[int, int, int]:
            free = in_socket[self.machine.node_socket(node)]
            return self.by_strategy(_size(nodes[node])), self.by_strategy(free), node

        name = "full-cores-in-node" + ("" if filtered else "-ignoring-exclusivity")
        return self.first_that_fits([nodes[node] for node in sorted(nodes, key=order)], name)

    def full_cores_in_socket(self) -> bool:
        sockets = self.sockets_of_full_cores()
        ordered = sorted(sockets, key=lambda s: (self.by_strategy(_size(sockets[s])), s))
        return self.first_that_fits([sockets[s] for s in ordered], "full-cores-in-socket")

    def sockets_of_full_cores(self) -> dict[int, list[list[int]]]:
        cores = self.full_cores(sorted(self.free))
        return _grouped(cores, lambda core: self.machine.socket[core[0]])

    def first_that_fits(self, groups: list[list[list[int]]], name: str) -> bool:
        for cores in groups:
            if _size(cores) >= self.need:
                too_large = self.take_fitting(cores, name)
                if self.need > 0:
                    self.take(too_large[0][: self.need], name)
                return True
        return False

    def take_fitting(self, cores: list[list[int]], name: str) -> list[list[int]]:
        too_large = []
        for core in cores:
            if len(core) <= self.need:
                self.take(core, name)
            else:
                too_large.append(core)
        return too_large

    def full_cores_across_sockets(self) -> bool:
        name = "full-cores-across-sockets"
        sockets = self.sockets_of_full_cores()
        aside = []
        for socket in sorted(sockets, key=lambda s: (-_size(sockets[s]), s)):
            if _size(sockets[socket]) > self.need:
                aside.append(socket)
            else:
                self.take(_flat(sockets[socket]), name)
        for socket in sorted(aside, key=lambda s: (_size(sockets[s]), s)):
            self.take_fitting(sockets[socket], name)
        return self.need == 0

    # Spread over the cores of one node or socket.

    def spread_in_one_place(self) -> bool:
        return (
            self.cpus_in_node(True)
            or self.cpus_in_node(False)
            or self.cpus_in_socket(True)
            or self.cpus_in_socket(False)
        )

    def cpus_in_node(self, filtered: bool) -> bool:
        cpus = self.unblocked(cores=filtered, nodes=filtered)
        nodes = _grouped(cpus, self.machine.node.__getitem__)
        in_socket = Counter(self.machine.socket[cpu] for cpu in cpus)

        def order(node: int) -> tuple[int, int, int]:
            free = in_socket[self.machine.node_socket(node)]
            return self.by_strategy(len(nodes[node])), self.by_strategy(free), node

        groups = [self.listed(nodes[node], filtered) for node in sorted(nodes, key=order)]
        return self.first_spread(groups, "one-per-core-in-node" if filtered else "cpus-in-node")

    def cpus_in_socket(self, filtered: bool) -> bool:
        cpus = self.unblocked(cores=filtered, nodes=False)
        sockets = {
            socket: self.listed(group, filtered)
            for socket, group in _grouped(cpus, self.machine.socket.__getitem__).items()
        }
        ordered = sorted(sockets, key=lambda s: (self.by_strategy(len(sockets[s])), s))
        name = "one-per-core-in-socket" if filtered else "cpus-in-socket"
        return self.first_spread([sockets[s] for s in ordered], name)

    def listed(self, cpus: list[int], one_per_core: bool) -> list[int]:
        cpus = sorted(cpus, key=lambda cpu: (self.ref(cpu), cpu))
        if not one_per_core:
            return cpus
        return [group[0] for group in _grouped(cpus, self.machine.core.__getitem__).values()]

    def first_spread(self, groups: list[list[int]], name: str) -> bool:
        for cpus in groups:
            if len(cpus) >= self.need:
                self.take(self.spread(cpus)[: self.need], name)
                return True
        return False

    def spread(self, cpus: list[int]) -> list[int]:
        if len(cpus) <= self.machine.most_threads():
            return cpus
        out: list[int] = []
        while cpus:
            seen: set[tuple[int, int]] = set()
            deferred = []
            for cpu in cpus:
                core = self.machine.core[cpu]
                (deferred if core in seen else out).append(cpu)
                seen.add(core)
            cpus = deferred
        return out

    # Any CPUs.

    def fall_back(self, filtered: bool) -> bool:
        free = self.unblocked(cores=filtered, nodes=filtered)
        cores = _grouped(free, self.machine.core.__getitem__)
        in_socket = Counter(self.machine.socket[cpu] for cpu in free)
        in_node = Counter(self.machine.node[cpu] for cpu in free)
        taken = Counter(self.machine.socket[cpu] for cpu in self.result)

        def order(core: tuple[int, int]) -> tuple[object, ...]:
            cpus = cores[core]
            socket, node = self.machine.socket[cpus[0]], self.machine.node[cpus[0]]
            return (
                -taken[socket],
                self.by_strategy(in_socket[socket]),
                self.by_strategy(in_node[node]),
                len(cpus),
                socket,
                sum(map(self.ref, cpus)),
                core,
            )

        flat = [cpu for core in sorted(cores, key=order) for cpu in self.listed(cores[core], False)]
        name = "fallback" + ("" if filtered else "-ignoring-exclusivity")
        self.take(self.spread(flat)[: self.need], name)
        return self.need == 0


def _grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _size(cores: list[list[int]]) -> int:
    return sum(map(len, cores))


def _flat(cores: list[list[int]]) -> list[int]:
    return [cpu for core in cores for cpu in core]
