# SPDX-License-Identifier: Apache-2.0
"""What the agents of all machines do for the quality of pods, turn by turn.

Every turn is decided for all machines at once; a machine does nothing until it has a NodeSLO, and
nothing that its agent's feature gates leave off.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.agent.strategies.eviction.api_evictor import ApiEvictor
from koord.base import log
from koord.simulator.nodes.strategies.column_table import ColumnTable
from koord.simulator.nodes.strategies.cpu_burst import CPUBursts
from koord.simulator.nodes.strategies.cpu_suppress import Suppression
from koord.simulator.nodes.strategies.eviction_rounds import cpu_and_memory_rounds
from koord.simulator.nodes.strategies.eviction_targets import EvictionInputs
from koord.simulator.nodes.strategies.node_rows import NodeRow, whole
from koord.simulator.nodes.strategies.pod_rows import StrategyPod, StrategyPods
from koord.simulator.nodes.strategies.slo_rows import SLORow, slo_row
from koord.simulator.nodes.strategies.usage_windows import UsageWindows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.agent.states.pod_state import PodState
    from koord.agent.strategies.eviction.api_evictor import EvictionClient as Api
    from koord.agent.strategies.eviction.api_evictor import PodEventRecorder
    from koord.api.kinds.nodeslo import NodeSLOSpec
    from koord.base.clock import Clock
    from koord.base.feature_gates import FeatureGates
    from koord.simulator.nodes.agents.usage_model import PodUsageModel
    from koord.simulator.nodes.machine import SimulatedMachine
    from koord.simulator.nodes.strategies.column_table import Floats


class Eviction(NamedTuple):
    """One that was begun.

    Attributes:
        seconds: wall time.
        row: of the machine.
        feature: the agent's, by its gate.
        pod: namespace/name.
    """

    seconds: float
    row: int
    feature: str
    pod: str


_REMEMBERED_EVICTIONS = 10_000
_LOG = log.get("simulator.agents")


class Enforcement:
    """The strategies of all machines.

    Args:
        machines: in the order of the rows.
        load: what is decided upon, and held down.
        gates: of every agent.
        client: evicts.
        recorder: of events about evicted pods.
        clock: of usage, and of how long evictions are remembered.

    Attributes:
        suppression: what each machine's best-effort tier has.
        evicted: how many evictions were begun, by row of the machine and feature.
        evictions: the last 10,000 of them.
    """

    def __init__(
        self,
        machines: Sequence[SimulatedMachine],
        load: PodUsageModel,
        gates: FeatureGates,
        client: Api,
        recorder: PodEventRecorder,
        clock: Clock,
    ) -> None:
        self._machines = machines
        self._load = load
        self._client, self._recorder, self._clock = client, recorder, clock
        rows = len(machines)
        self.slos = ColumnTable(SLORow._fields, [SLORow()] * rows)
        self.nodes = ColumnTable(NodeRow._fields, [NodeRow()] * rows)
        self._last_setting: tuple[NodeSLOSpec, SLORow] | None = None
        self._pods = StrategyPods([], [])
        suppresses = gates.enabled("BECPUSuppress") and not gates.enabled("BECPUManager")
        self.suppression = Suppression([whole(each) for each in machines], enabled=suppresses)
        self._bursts = CPUBursts() if gates.enabled("CPUBurst") else None
        # The first round for want of CPU waits too, as in the agent.
        self._evictions = cpu_and_memory_rounds(gates, rows, clock.monotonic_seconds())
        self._windows = UsageWindows(rows if self._evictions[0].active else 0)
        self._evictors: dict[int, ApiEvictor] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self.evicted: dict[tuple[int, str], int] = {}
        self.evictions: deque[Eviction] = deque(maxlen=_REMEMBERED_EVICTIONS)

    @property
    def idle(self) -> bool:
        """Whether no machine has, or lately had, a NodeSLO."""
        return not self.slos["known"].any()

    async def run(self) -> None:
        """Sends evictions until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            await asyncio.Event().wait()

    def set_slo(self, row: int, spec: NodeSLOSpec | None) -> None:
        """What a machine's NodeSLO says; None for none any more.

        While there is none the pods may be out of date: they are to be set before a turn.
        """
        self.slos.put(row, SLORow() if spec is None else self._setting(spec))
        if spec is None:
            self.suppression.forget(row)
        if self.idle:
            # No turn comes that would give back what was held.
            if self._bursts is not None:
                self._bursts.reset()
            self._load.release()

    def set_pods(self, pods: Sequence[StrategyPod], nodes: Sequence[int]) -> None:
        """Replaces the pods, in the order of the load's rows."""
        self._pods = StrategyPods(pods, nodes)
        if self._bursts is not None:
            self._bursts.set_pods(self._pods, self._clock.monotonic_seconds())
        self._load.hold(*self._held())
        for row, evictor in self._evictors.items():
            here = np.flatnonzero(self._pods.node == row).tolist()
            evictor.observe(pods[at].state for at in here)

    def step(self) -> None:
        """One turn: reads usage, decides, and holds down what comes next."""
        now = self._clock.monotonic_seconds()
        reading = self._load.read(self._clock.wall_seconds())
        suppression, pods = self.suppression, self._pods
        limit = suppression.limit_milli()
        if self._evictions[0].active:
            columns, node, rows = pods.columns, pods.node, len(self._machines)
            tier = np.where(columns["tier"] > 0, reading.pod_cpu, 0.0)
            labelled = np.where(columns["labelled"] > 0, columns["batch_milli"], 0)
            self._windows.append(
                self._clock.wall_seconds(),
                reading.node_cpu,
                np.trunc(1000 * np.bincount(node, tier, rows)),
                np.bincount(node, labelled, rows).astype(np.int64),
                limit,
            )
        suppression.step(reading, pods, self.nodes, self.slos)
        if self._bursts is not None and (self.slos["raises"].any() or self._bursts.any_raised):
            self._bursts.step(reading, suppression.cpus["all"], self.slos, now)
        self._load.hold(*self._held())
        round_ = EvictionInputs(reading, pods, self.nodes, self.slos, self._windows, limit)
        for each in self._evictions:
            for row, feature, pod in each.step(round_, self._evictor, now):
                self._record_event(row, feature, pod)

    def _setting(self, spec: NodeSLOSpec) -> SLORow:
        """The settings of a spec; a manager writes the same one to machine after machine."""
        if self._last_setting is None or self._last_setting[0] != spec:
            self._last_setting = spec, slo_row(spec)
        return self._last_setting[1]

    def _held(self) -> tuple[Floats, Floats]:
        """What the load is held down to; see :meth:`PodUsageModel.hold`."""
        raised = np.ones(len(self._pods))
        if self._bursts is not None:
            raised = self._bursts.factors()
        node, slos = self._pods.node, self.slos
        # Suppression by quota limits all best-effort pods together, so that each has none.
        by_quota = (slos["known"] & slos["enabled"] & slos["by_quota"]) > 0
        free = (self._pods.columns["tier"] > 0) & by_quota[node]
        return self.suppression.tier_cores(slos["known"]), np.where(free, np.inf, raised)

    def _evictor(self, row: int) -> ApiEvictor:
        if row not in self._evictors:
            made = ApiEvictor(self._client, self._recorder, self._clock)
            self._evictors[row] = made
            if self._tasks is not None:
                self._tasks.create_task(made.run())
        return self._evictors[row]

    def _record_event(self, row: int, feature: str, pod: PodState) -> None:
        self.evicted[row, feature] = self.evicted.get((row, feature), 0) + 1
        self.evictions.append(Eviction(self._clock.wall_seconds(), row, feature, pod.key))
        told = log.fields(node=self._machines[row].name, pod=pod.key, feature=feature)
        _LOG.info("evicting", extra=told)
