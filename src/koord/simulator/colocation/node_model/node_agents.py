# SPDX-License-Identifier: Apache-2.0
"""The agents of all machines: suppression every second and evictions once a step, by the agent's
own decisions.

What everybody wants stands still within a step and jumps between two. The agents do not see that
jump before it is there: in every second they act on what was used in the second before the last,
as an agent whose samples and rounds are out of step at worst does, and what they decide holds from
the next second on. So best-effort pods keep what they had for two whole seconds after services
came to want more, and part of it for a third.

Evictions, for which agents look every second too, come at the end of a step, upon what the step was
like: what was measured in each of its seconds is its mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.agent.feature_gates import feature_gates
from koord.api.codec import convert
from koord.api.kinds.pod import Pod
from koord.api.protocol import keys
from koord.api.protocol.qos import QoSClass
from koord.simulator.colocation.node_model.cpu_contention import (
    BestEffortTier,
    CoreGrants,
    best_effort,
    free_cores,
)
from koord.simulator.colocation.node_model.eviction_inputs import EvictedTasks, RunningTasks
from koord.simulator.nodes.agents.usage_model import UsageReading
from koord.simulator.nodes.strategies.column_table import ColumnTable
from koord.simulator.nodes.strategies.cpu_suppress import Suppression
from koord.simulator.nodes.strategies.eviction_rounds import cpu_and_memory_rounds
from koord.simulator.nodes.strategies.eviction_targets import EvictionInputs
from koord.simulator.nodes.strategies.node_rows import HostCPUs, NodeRow
from koord.simulator.nodes.strategies.pod_rows import StrategyPod, StrategyPods, strategy_pod
from koord.simulator.nodes.strategies.slo_rows import SLORow, slo_row
from koord.simulator.nodes.strategies.usage_windows import ROUND_SECONDS, UsageWindows

if TYPE_CHECKING:
    from koord.api.kinds.nodeslo import NodeSLOSpec
    from koord.simulator.colocation.inputs.scenario import Scenario, SchedulingDelay
    from koord.simulator.colocation.node_model.cpu_contention import CoreCounts, CoreDemand
    from koord.simulator.colocation.results.result import Floats, Ints
    from koord.simulator.colocation.workload.services import MachineCapacities

_ENOUGH = 0.99


class SuppressionResult(NamedTuple):
    """A step of all machines: means over its seconds, and the share of them that batch pods were
    suppressed for, which is less than 99 % of what they wanted."""

    grants: CoreGrants
    suppressed: Floats


class NodeAgents:
    """What the agents of all machines have set.

    Args:
        scenario: the agents' feature gates, and what a busy machine costs.
        fleet: the machines.
        cores: their CPUs.
        slo: the NodeSLO of all machines.
    """

    def __init__(
        self, scenario: Scenario, fleet: MachineCapacities, cores: CoreCounts, slo: NodeSLOSpec
    ) -> None:
        gates = feature_gates()
        for name, on in scenario.agents.feature_gates.items():
            gates.set_from(f"{name}={str(on).lower()}", "agents.featureGates")
        self._delay: SchedulingDelay = scenario.contention.scheduling_delay
        self._rounds = round(scenario.step_seconds / ROUND_SECONDS)
        self._cores = cores
        rows = len(fleet.cpus)
        cpus = [
            HostCPUs(count, bound, count - bound, count)
            for count, bound in zip(fleet.cpus.tolist(), fleet.bound_cpus.tolist(), strict=True)
        ]
        enabled = gates.enabled("BECPUSuppress") and not gates.enabled("BECPUManager")
        self._suppression = Suppression(cpus, enabled=enabled)
        # To suppression the pods of a machine are two: what all services use, and all batch pods.
        pods = [
            strategy_pod(_pod("services", QoSClass.LS)),
            strategy_pod(_pod("batch", QoSClass.BE)),
        ]
        self._pods = StrategyPods(
            [each for each in pods for _ in range(rows)], [*range(rows), *range(rows)]
        )
        nodes = [
            NodeRow(1, 1000 * count, memory)
            for count, memory in zip(fleet.cpus.tolist(), fleet.memory_bytes.tolist(), strict=True)
        ]
        self._nodes: ColumnTable[NodeRow] = ColumnTable(NodeRow._fields, nodes)
        self._slos: ColumnTable[SLORow] = ColumnTable(SLORow._fields, [slo_row(slo)] * rows)
        self._evictions = cpu_and_memory_rounds(gates, rows, cpu_last_seconds=0.0)
        self._windows = UsageWindows(rows if self._evictions[0].active else 0)
        self._service_pod = pods[0]
        self._task_pods: dict[str, StrategyPod] = {}
        self._before: CoreGrants | None = None
        self._services = np.empty(0)

    def tier(self) -> BestEffortTier:
        """What best-effort pods may have now, as ``cpu_counts`` of suppression shares it out."""
        cpus, count = self._suppression.cpus, self._suppression.count
        bound = count * cpus["lsr"] // np.maximum(cpus["lsr"] + cpus["shared"], 1)
        quota = self._suppression.tier_cores(self._slos["known"])
        return BestEffortTier((count - bound).astype(np.float64), bound.astype(np.float64), quota)

    def step(self, wants: CoreDemand) -> SuppressionResult:
        """A step, second by second."""
        left = free_cores(self._cores, wants)
        enough = wants.batch * _ENOUGH
        total = [np.zeros(len(wants.batch)) for _ in CoreGrants._fields]
        suppressed = np.zeros(len(wants.batch))
        done = 0
        while done < self._rounds:
            grants = best_effort(left, wants.batch, self.tier(), self._delay)
            settled = self._before is not None and self._round(self._before, grants)
            self._before = grants
            # Once a round has changed nothing those to come will not either.
            times = self._rounds - done if settled else 1
            for sum_, column in zip(total, grants, strict=True):
                sum_ += times * column
            suppressed += times * (grants.batch < enough)
            done += times
        mean = CoreGrants(*(sum_ / self._rounds for sum_ in total))
        return SuppressionResult(mean, suppressed / self._rounds)

    @property
    def evicts(self) -> bool:
        """Whether the agents may evict at all."""
        return any(rounds.active for rounds in self._evictions)

    def evicted(
        self, running: RunningTasks, grants: CoreGrants, offered: Ints, now_seconds: float
    ) -> set[str]:
        """Names of the tasks that the agents evict at the end of a step.

        Args:
            running: what runs.
            grants: what the step was like.
            offered: milli-cores and bytes that machines offer, ``[2, machines]``; -1 for none.
            now_seconds: since the start.
        """
        self._nodes["cpu_2"][:], self._nodes["memory_2"][:] = offered
        limit_milli, rows = self._suppression.limit_milli(), len(self._nodes)
        known = self._task_pods
        self._task_pods = {
            pod.metadata.name: known.get(pod.metadata.name) or strategy_pod(pod)
            for pod in running.tasks
        }
        pods = StrategyPods(
            [*[self._service_pod] * rows, *self._task_pods.values()],
            [*range(rows), *running.machine.tolist()],
        )
        reading = running.reading(grants)
        if self._evictions[0].active:
            requested = np.bincount(pods.node, pods.columns["batch_milli"], rows)
            columns = (np.trunc(1000 * grants.batch), requested.astype(np.int64), limit_milli)
            for second in range(self._rounds, 0, -1):
                at = now_seconds - (second - 1) * ROUND_SECONDS
                self._windows.append(at, reading.node_cpu, *columns)
        inputs = EvictionInputs(reading, pods, self._nodes, self._slos, self._windows, limit_milli)
        evicted = EvictedTasks()
        for rounds in self._evictions:
            rounds.step(inputs, lambda _: evicted, now_seconds)
        return evicted.names

    def _round(self, seen: CoreGrants, now: CoreGrants) -> bool:
        """A round of suppression upon what was seen.

        Returns:
            Whether rounds to come will change nothing: what is used now is what this round and the
            one before saw, and neither changed anything.
        """
        services = seen.shared + seen.bound
        tier = self._suppression
        count, quota = tier.count.copy(), tier.quota_us.copy()
        tier.step(_reading(seen, services), self._pods, self._nodes, self._slos)
        same = np.array_equal(services, self._services)
        self._services = services
        return (
            same
            and np.array_equal(services, now.shared + now.bound)
            and np.array_equal(count, tier.count)
            and np.array_equal(quota, tier.quota_us)
        )


def _reading(grants: CoreGrants, services: Floats) -> UsageReading:
    """What agents measure: CPU only, for no more is asked here."""
    pods = np.concatenate([services, grants.batch])
    none = np.empty(0)
    return UsageReading(pods, none, none, grants.used, none, grants.system, none)


def _pod(name: str, qos: QoSClass) -> Pod:
    container: dict[str, object] = {"name": "main"}
    if qos is not QoSClass.BE:
        container["resources"] = {"requests": {"cpu": "1"}}
    meta = {"name": name, "uid": name, "namespace": "default", "labels": {keys.QOS_CLASS: str(qos)}}
    return convert({"metadata": meta, "spec": {"containers": [container]}}, Pod, f"Pod {name}")
