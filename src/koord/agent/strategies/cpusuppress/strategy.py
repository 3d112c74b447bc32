# SPDX-License-Identifier: Apache-2.0
"""Keeps best-effort pods within what services leave, by their CPUs or by their quota.

Rule: docs/reference/strategies.md#cpu-suppression. Claims: ``quota`` and ``cpuset`` are scopes of
their own. What best-effort cgroups have unsuppressed is claimed in any case, for what a file said
before may be what an earlier suppression left there; suppression is a cap on top.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.agent.executor.claim import Claim, Layer
from koord.agent.strategies import one_node, readings
from koord.agent.strategies.cpusuppress import (
    cpu_selection,
    decision,
    machine_cpus,
    usage_columns,
)
from koord.agent.strategies.cpusuppress.machine_cpus import (
    MachineCPUs,
    classified,
    has_allocation,
)
from koord.api.protocol.topology import kubelet_cpu_manager_policy
from koord.base.errors import Code, KoordError
from koord.kernels.cpuset import CPUSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.agent.strategies.options import StrategyOptions
    from koord.agent.strategies.strategy import Actuators, Tick
    from koord.api.kinds.node import Node
    from koord.api.kinds.slo_strategies import ResourceThresholdStrategy
    from koord.api.kinds.topology import NodeResourceTopology

CFS_QUOTA, CPUSET = "cfsQuota", "cpuset"
_QUOTA_FILE, _CPUS_FILE = "cpu.cfs_quota_us", "cpuset.cpus"
_RECOVERED = "what best-effort pods may have unsuppressed"
_SUPPRESSED = "what services leave to best-effort pods"
# A cgroup that is new has its parents' CPUs, which are the right ones until they change; of pods
# that come and go the list of pods tells.
_LIST_AGAIN_SECONDS = 10.0


class _CPUSetTarget(NamedTuple):
    """CPUs of best-effort cgroups.

    Attributes:
        machine: what they have unsuppressed, and of which pods and topology that is true.
        target: what they are narrowed to; empty is not at all.
        first: the first level that is narrowed.
        managed: whether containers of pods with CPUs of their own are left alone.
    """

    machine: MachineCPUs
    target: CPUSet = CPUSet()
    first: int = machine_cpus.ROOT
    managed: bool = False


class CPUSuppress:
    """Claims the CPUs or the CPU quota of best-effort pods.

    What it stated stays while the node's usage is not measured, there is no pod, or pods are older
    than ``readings.TO_SUPPRESS`` allows.
    """

    name = "cpusuppress"
    gate = "BECPUSuppress"

    def __init__(self, options: StrategyOptions) -> None:
        self.interval_seconds = options.cpu_suppress_interval_seconds
        self._options = options
        self._before_milli = decision.UNKNOWN
        self._of: tuple[object, object] = (None, None)
        self._machine: MachineCPUs | None = None
        self._pod_rows = usage_columns.PodRows(())
        self._static: tuple[NodeResourceTopology, bool] | None = None
        self._bounds: tuple[Node, ResourceThresholdStrategy, decision.SuppressBounds] | None = None
        self._picked: tuple[MachineCPUs, int, int, CPUSet] | None = None
        self._wanted: _CPUSetTarget | None = None
        self._levels: list[list[str]] = []
        self._claims: list[Claim] = []
        self._listed_seconds = 0.0

    def run(self, tick: Tick, hands: Actuators) -> Mapping[str, object]:
        """One round; see the protocol."""
        config = readings.thresholds(tick)
        machine = self._machine_cpus(tick)
        if self._options.gates.enabled("BECPUManager"):
            return self._recover(tick, hands, machine, "left to BECPUManager", managed=True)
        if not config.enable:
            return self._recover(tick, hands, machine, "disabled")
        readings.check_fresh(tick, readings.TO_SUPPRESS)
        if not tick.snapshot.pods.value:
            return {"state": "no pods on this node"}
        milli, figures = self._allowed(tick, config)
        if config.cpu_suppress_policy == CFS_QUOTA:
            return {"policy": CFS_QUOTA, **figures, **self._by_quota(tick, hands, machine, milli)}
        return {"policy": CPUSET, **figures, **self._by_cpus(tick, hands, machine, milli)}

    def stop(self, hands: Actuators) -> None:
        """Takes all claims back."""
        self._before_milli = decision.UNKNOWN
        self._wanted = None
        hands.executor.withdraw(self.name)

    def _allowed(
        self, tick: Tick, config: ResourceThresholdStrategy
    ) -> tuple[int, dict[str, object]]:
        use = usage_columns.usage(tick, self._pod_rows)
        allowed = decision.allowed(use, self._bounds_of(tick, config))
        now, before = one_node.amount(allowed.milli), self._before_milli
        milli = one_node.amount(decision.smoothed(one_node.row(now), one_node.row(before)))
        self._before_milli = now
        service_cores, be_cores = float(allowed.service_cores[0]), float(allowed.be_cores[0])
        self._options.instruments.used(service_cores, be_cores)
        return milli, {
            "allowed_milli": milli,
            "measured_milli": now,
            "service_cores": round(service_cores, 3),
            "be_cores": round(be_cores, 3),
            "system_milli": int(allowed.system_milli[0]),
        }

    def _bounds_of(self, tick: Tick, config: ResourceThresholdStrategy) -> decision.SuppressBounds:
        """The same while the node and the settings are the same objects."""
        node, known = readings.node(tick), self._bounds
        if known is None or known[0] is not node or known[1] is not config:
            known = self._bounds = (node, config, usage_columns.bounds(tick, config))
        return known[2]

    def _by_quota(
        self, tick: Tick, hands: Actuators, machine: MachineCPUs | None, milli: int
    ) -> dict[str, object]:
        root = tick.machine.layout.best_effort
        current = _number(hands.executor.current(_QUOTA_FILE, root))
        if current is None:
            raise KoordError(root, _QUOTA_FILE, None, "a quota", Code.UNREADABLE)
        capacity = self._bounds_of(tick, readings.thresholds(tick)).capacity_milli
        target, write = decision.quotas(one_node.row(milli), one_node.row(current), capacity)
        quota = one_node.amount(target) if write.all() else current
        cap = Claim(_QUOTA_FILE, root, quota, _SUPPRESSED, Layer.CAP)
        hands.executor.state(self.name, "quota", [_unlimited(root), cap])
        self._options.instruments.suppressed(CFS_QUOTA, quota / decision.PERIOD_US)
        self._give_back(tick, hands, machine)
        return {"quota_us": quota}

    def _by_cpus(
        self, tick: Tick, hands: Actuators, machine: MachineCPUs | None, milli: int
    ) -> dict[str, object]:
        root = tick.machine.layout.best_effort
        hands.executor.state(self.name, "quota", [_unlimited(root)])
        if machine is None:
            raise KoordError("NodeResourceTopology", "", None, "this node's", Code.NOT_FOUND)
        old = _cpus(hands.executor.current(_CPUS_FILE, root), machine)
        lsr, shared = decision.cpu_counts(
            one_node.row(milli),
            one_node.row(len(old)),
            one_node.row(machine.count),
            one_node.row(len(machine.lsr)),
            one_node.row(len(machine.shared)),
        )
        target = self._pick(machine, one_node.amount(lsr), one_node.amount(shared))
        if not target:
            return {"cpus": str(old), "note": "fewer than 2 CPUs are left to choose from"}
        # Under its static policy the kubelet looks after the upper levels itself.
        first = machine_cpus.CONTAINERS if self._kubelet_is_static(tick) else machine_cpus.ROOT
        self._state_cpus(tick, hands, _CPUSetTarget(machine, target, first))
        self._options.instruments.suppressed(CPUSET, float(len(target)))
        return {"cpus": str(target)}

    def _machine_cpus(self, tick: Tick) -> MachineCPUs | None:
        """None while nobody reported the node's topology, without which only quotas are set."""
        reported, pods = tick.snapshot.topology.value, tick.snapshot.pods.value
        if self._of[0] is not pods or self._of[1] is not reported:
            self._of = (pods, reported)
            topology = tick.machine.topology
            self._machine = None if reported is None else classified(topology, reported, pods)
            self._pod_rows = usage_columns.PodRows(pods)
        return self._machine

    def _kubelet_is_static(self, tick: Tick) -> bool:
        reported = tick.snapshot.topology.value
        assert reported is not None, "checked when the CPUs were classified"
        if self._static is None or self._static[0] is not reported:
            policy = kubelet_cpu_manager_policy(reported).policy
            self._static = (reported, policy == "static")
        return self._static[1]

    def _pick(self, machine: MachineCPUs, lsr: int, shared: int) -> CPUSet:
        """So many CPUs of those that LSR pods hold, and of the others; the same while they are."""
        if self._picked is None or self._picked[:3] != (machine, lsr, shared):
            ids = cpu_selection.pick(machine.lsr, lsr) + cpu_selection.pick(machine.shared, shared)
            self._picked = (machine, lsr, shared, CPUSet.from_ids(ids))
        return self._picked[3]

    def _recover(
        self,
        tick: Tick,
        hands: Actuators,
        machine: MachineCPUs | None,
        why: str,
        *,
        managed: bool = False,
    ) -> dict[str, object]:
        self._before_milli = decision.UNKNOWN
        unlimited = _unlimited(tick.machine.layout.best_effort)
        hands.executor.state(self.name, "quota", [unlimited])
        self._give_back(tick, hands, machine, managed=managed)
        return {"state": why, "cpus": str(machine.best_effort) if machine else "unknown"}

    def _give_back(
        self, tick: Tick, hands: Actuators, machine: MachineCPUs | None, *, managed: bool = False
    ) -> None:
        """States the unsuppressed CPUs."""
        if machine is not None and machine.best_effort:
            self._state_cpus(tick, hands, _CPUSetTarget(machine, managed=managed))

    def _state_cpus(self, tick: Tick, hands: Actuators, wanted: _CPUSetTarget) -> None:
        """Claims the CPUs of all best-effort cgroups, which are listed when something changes."""
        age = tick.now_seconds - self._listed_seconds
        if wanted != self._wanted or age >= _LIST_AGAIN_SECONDS:
            levels = machine_cpus.cgroups_under(
                tick.machine.hierarchy, tick.machine.layout.best_effort
            )
            # The very same claims are nothing new to the executor, without a look at each.
            if (wanted, levels) != (self._wanted, self._levels):
                self._claims = _claims(tick, wanted, levels)
            self._wanted, self._levels = wanted, levels
            self._listed_seconds = tick.now_seconds
        hands.executor.state(self.name, "cpuset", self._claims)


def _unlimited(root: str) -> Claim:
    """The base of the quota: whatever another agent may have left in the file is not one."""
    return Claim(_QUOTA_FILE, root, -1, _RECOVERED)


def _claims(tick: Tick, wanted: _CPUSetTarget, levels: list[list[str]]) -> list[Claim]:
    if wanted.managed:
        own = {pod.directory for pod in tick.snapshot.pods.value if has_allocation(pod)}
        inner = levels[machine_cpus.CONTAINERS]
        narrowed = [p for p in inner if p.rpartition("/")[0] not in own]
        levels = [*levels[: machine_cpus.CONTAINERS], narrowed]
    whole, some = str(wanted.machine.best_effort), str(wanted.target)
    claims = [Claim(_CPUS_FILE, path, whole, _RECOVERED) for level in levels for path in level]
    if wanted.target:
        capped = (path for level in levels[wanted.first :] for path in level)
        claims += [Claim(_CPUS_FILE, path, some, _SUPPRESSED, Layer.CAP) for path in capped]
    return claims


def _cpus(text: str | None, machine: MachineCPUs) -> CPUSet:
    """The CPUs of the class now; a directory that says nothing has what its parents have."""
    try:
        found = CPUSet.parse_wire(text or "")
    except ValueError:
        found = CPUSet()
    return found or machine.best_effort


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
