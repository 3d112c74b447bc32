# SPDX-License-Identifier: Apache-2.0
"""Keeps best-effort pods within what services leave, by their CPUs or by their quota.

Rule: docs/reference/strategies.md#cpu-suppression. Claims: ``quota`` and ``cpuset`` are scopes of
their own. What best-effort cgroups have unsuppressed is claimed in any case, for what a file said
before may be what an earlier suppression left there; suppression is a cap on top.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.agent.executor.claim import Claim, Layer
from koord.agent.strategies import readings
from koord.agent.strategies.cpusuppress import cpus, decision, directories, inputs
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
    from koord.agent.strategies.strategy import Hands, Tick
    from koord.api.kinds.slo_strategies import ResourceThresholdStrategy

CFS_QUOTA, CPUSET = "cfsQuota", "cpuset"
_QUOTA_FILE, _CPUS_FILE = "cpu.cfs_quota_us", "cpuset.cpus"
_RECOVERED = "what best-effort pods may have unsuppressed"
_SUPPRESSED = "what services leave to best-effort pods"
# A cgroup that is new has its parents' CPUs, which are the right ones until they change; of pods
# that come and go the list of pods tells.
_LIST_AGAIN_SECONDS = 10.0


class _Wanted(NamedTuple):
    """CPUs of best-effort cgroups.

    Attributes:
        machine: what they have unsuppressed, and of which pods and topology that is true.
        target: what they are narrowed to; empty is not at all.
        first: the first level that is narrowed.
        managed: whether containers of pods with CPUs of their own are left alone.
    """

    machine: MachineCPUs
    target: CPUSet = CPUSet()
    first: int = directories.ROOT
    managed: bool = False


class CPUSuppress:
    """The strategy; see :class:`koord.agent.strategies.strategy.Strategy`.

    What it stated stays while the node's usage is not measured, or pods are older than
    ``readings.TO_SUPPRESS`` allows.
    """

    name = "cpusuppress"
    gate = "BECPUSuppress"

    def __init__(self, options: StrategyOptions) -> None:
        self.interval_seconds = options.cpu_suppress_interval_seconds
        self._options = options
        self._before_milli = decision.UNKNOWN
        self._of: tuple[object, object] = (None, None)
        self._machine: MachineCPUs | None = None
        self._listed: frozenset[str] = frozenset()
        self._best_effort: frozenset[str] = frozenset()
        self._picked: tuple[MachineCPUs, int, int, CPUSet] | None = None
        self._wanted: _Wanted | None = None
        self._claims: list[Claim] = []
        self._listed_seconds = 0.0

    def run(self, tick: Tick, hands: Hands) -> Mapping[str, object]:
        """One round; see the protocol."""
        config = readings.thresholds(tick)
        machine = self._machine_cpus(tick)
        if self._options.gates.enabled("BECPUManager"):
            return self._recover(tick, hands, machine, "left to BECPUManager", managed=True)
        if not config.enable:
            return self._recover(tick, hands, machine, "disabled")
        readings.check_fresh(tick, readings.TO_SUPPRESS)
        if not tick.snapshot.pods.value:
            raise KoordError("pods", "", "none", "pods on this node", Code.NOT_FOUND)
        milli, told = self._allowed(tick, config)
        if config.cpu_suppress_policy == CFS_QUOTA:
            return {"policy": CFS_QUOTA, **told, **self._by_quota(tick, hands, machine, milli)}
        return {"policy": CPUSET, **told, **self._by_cpus(tick, hands, machine, milli)}

    def stop(self, hands: Hands) -> None:
        """Takes all claims back."""
        self._before_milli = decision.UNKNOWN
        self._wanted = None
        hands.executor.withdraw(self.name)

    def _allowed(
        self, tick: Tick, config: ResourceThresholdStrategy
    ) -> tuple[int, dict[str, object]]:
        use = inputs.usage(tick, self._listed, self._best_effort)
        found = decision.allowed(use, inputs.bounds(tick, config))
        now, before = int(found.milli[0]), self._before_milli
        milli = int(decision.smoothed(_one(now), _one(before))[0])
        self._before_milli = now
        services = float(found.service_cores[0])
        self._options.instruments.used(services, float(found.be_cores[0]))
        return milli, {
            "allowed_milli": milli,
            "measured_milli": now,
            "service_cores": round(services, 3),
            "be_cores": round(float(found.be_cores[0]), 3),
            "system_milli": int(found.system_milli[0]),
        }

    def _by_quota(
        self, tick: Tick, hands: Hands, machine: MachineCPUs | None, milli: int
    ) -> dict[str, object]:
        root = tick.machine.layout.best_effort
        current = _number(hands.executor.current(_QUOTA_FILE, root))
        if current is None:
            raise KoordError(root, _QUOTA_FILE, None, "a quota", Code.UNREADABLE)
        capacity = inputs.bounds(tick, readings.thresholds(tick)).capacity_milli
        target, write = decision.quotas(_one(milli), _one(current), capacity)
        quota = int(target[0]) if bool(write[0]) else current
        cap = Claim(_QUOTA_FILE, root, quota, _SUPPRESSED, Layer.CAP)
        hands.executor.state(self.name, "quota", [_unlimited(root), cap])
        self._options.instruments.suppressed(CFS_QUOTA, quota / decision.PERIOD_US)
        self._give_back(tick, hands, machine)
        return {"quota_us": quota}

    def _by_cpus(
        self, tick: Tick, hands: Hands, machine: MachineCPUs | None, milli: int
    ) -> dict[str, object]:
        root = tick.machine.layout.best_effort
        hands.executor.state(self.name, "quota", [_unlimited(root)])
        if machine is None:
            raise KoordError("NodeResourceTopology", "", None, "this node's", Code.NOT_FOUND)
        old = _cpus(hands.executor.current(_CPUS_FILE, root), machine)
        lsr, shared = decision.cpu_counts(
            _one(milli),
            _one(len(old)),
            _one(machine.count),
            _one(len(machine.lsr)),
            _one(len(machine.shared)),
        )
        target = self._pick(machine, int(lsr[0]), int(shared[0]))
        if not target:
            return {"cpus": str(old), "note": "fewer than 2 CPUs are left to choose from"}
        # Under its static policy the kubelet looks after the upper levels itself.
        first = directories.CONTAINERS if _kubelet_is_static(tick) else directories.ROOT
        self._state_cpus(tick, hands, _Wanted(machine, target, first))
        self._options.instruments.suppressed(CPUSET, float(len(target)))
        return {"cpus": str(target)}

    def _machine_cpus(self, tick: Tick) -> MachineCPUs | None:
        """None while nobody reported the node's topology, without which only quotas are set."""
        reported, pods = tick.snapshot.topology.value, tick.snapshot.pods.value
        if self._of[0] is not pods or self._of[1] is not reported:
            self._of = (pods, reported)
            topology = tick.machine.topology
            self._machine = None if reported is None else classified(topology, reported, pods)
            self._listed = frozenset(pod.uid for pod in pods)
            self._best_effort = inputs.best_effort_uids(pods)
        return self._machine

    def _pick(self, machine: MachineCPUs, lsr: int, shared: int) -> CPUSet:
        """So many CPUs of those that LSR pods hold, and of the others; the same while they are."""
        if self._picked is None or self._picked[:3] != (machine, lsr, shared):
            ids = cpus.pick(machine.lsr, lsr) + cpus.pick(machine.shared, shared)
            self._picked = (machine, lsr, shared, CPUSet.from_ids(ids))
        return self._picked[3]

    def _recover(
        self,
        tick: Tick,
        hands: Hands,
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
        self, tick: Tick, hands: Hands, machine: MachineCPUs | None, *, managed: bool = False
    ) -> None:
        """States the unsuppressed CPUs."""
        if machine is not None and machine.best_effort:
            self._state_cpus(tick, hands, _Wanted(machine, managed=managed))

    def _state_cpus(self, tick: Tick, hands: Hands, wanted: _Wanted) -> None:
        """Claims the CPUs of all best-effort cgroups, which are listed when something changes."""
        age = tick.now_seconds - self._listed_seconds
        if wanted != self._wanted or age >= _LIST_AGAIN_SECONDS:
            self._wanted, self._listed_seconds = wanted, tick.now_seconds
            self._claims = _claims(tick, wanted)
        hands.executor.state(self.name, "cpuset", self._claims)


def _kubelet_is_static(tick: Tick) -> bool:
    reported = tick.snapshot.topology.value
    assert reported is not None, "checked when the CPUs were classified"
    return kubelet_cpu_manager_policy(reported).policy == "static"


def _unlimited(root: str) -> Claim:
    """The base of the quota: whatever another agent may have left in the file is not one."""
    return Claim(_QUOTA_FILE, root, -1, _RECOVERED)


def _claims(tick: Tick, wanted: _Wanted) -> list[Claim]:
    levels = directories.beneath(tick.machine.hierarchy, tick.machine.layout.best_effort)
    if wanted.managed:
        own = {pod.directory for pod in tick.snapshot.pods.value if has_allocation(pod)}
        inner = levels[directories.CONTAINERS]
        levels[directories.CONTAINERS] = [p for p in inner if p.rpartition("/")[0] not in own]
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


def _one(value: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([value], np.int64)
