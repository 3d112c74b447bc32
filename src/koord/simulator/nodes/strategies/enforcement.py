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

from koord.agent.strategies.eviction.api import ApiEvictor
from koord.agent.strategies.options import StrategyOptions
from koord.base import log
from koord.simulator.nodes.strategies import wishes
from koord.simulator.nodes.strategies.burst import Bursts
from koord.simulator.nodes.strategies.evict import Evictions
from koord.simulator.nodes.strategies.hosts import Host, whole
from koord.simulator.nodes.strategies.members import FEATURES, Member, Members
from koord.simulator.nodes.strategies.settings import Setting, setting
from koord.simulator.nodes.strategies.suppress import Suppression
from koord.simulator.nodes.strategies.table import Table
from koord.simulator.nodes.strategies.windows import Windows
from koord.simulator.nodes.strategies.wishes import Round

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.agent.states.pods import PodState
    from koord.agent.strategies.eviction.api import Evictions as Api
    from koord.agent.strategies.eviction.api import Recorder
    from koord.api.kinds.nodeslo import NodeSLOSpec
    from koord.base.clock import Clock
    from koord.base.gates import FeatureGates
    from koord.simulator.nodes.machine import Machine
    from koord.simulator.nodes.strategies.table import Floats
    from koord.simulator.nodes.usage import Load


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
        machines: Sequence[Machine],
        load: Load,
        gates: FeatureGates,
        client: Api,
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self._machines = machines
        self._load = load
        self._client, self._recorder, self._clock = client, recorder, clock
        rows = len(machines)
        self.wanted = Table(Setting._fields, [Setting()] * rows)
        self.hosts = Table(Host._fields, [Host()] * rows)
        self._last_setting: tuple[NodeSLOSpec, Setting] | None = None
        self._members = Members([], [])
        suppresses = gates.enabled("BECPUSuppress") and not gates.enabled("BECPUManager")
        self.suppression = Suppression([whole(each) for each in machines], enabled=suppresses)
        self._bursts = Bursts() if gates.enabled("CPUBurst") else None
        options = StrategyOptions(gates=gates)
        open_ = {name for name in FEATURES if gates.enabled(name)}
        cpu = {name: build for name, build in wishes.CPU_FEATURES.items() if name in open_}
        memory = {name: build for name, build in wishes.MEMORY_FEATURES.items() if name in open_}
        # The first round for want of CPU waits too, as in the agent.
        start = clock.monotonic_seconds()
        self._evictions = (
            Evictions(rows, options.cpu_evict_cool_seconds, cpu, start),
            Evictions(rows, options.memory_evict_cool_seconds, memory, float("-inf")),
        )
        self._windows = Windows(rows) if cpu else Windows(0)
        self._has_windows = bool(cpu)
        self._evictors: dict[int, ApiEvictor] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self.evicted: dict[tuple[int, str], int] = {}
        self.evictions: deque[Eviction] = deque(maxlen=_REMEMBERED_EVICTIONS)

    @property
    def idle(self) -> bool:
        """Whether no machine has, or lately had, a NodeSLO."""
        return not self.wanted["known"].any()

    async def run(self) -> None:
        """Sends evictions until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            await asyncio.Event().wait()

    def set_slo(self, row: int, spec: NodeSLOSpec | None) -> None:
        """What a machine's NodeSLO says; None for none any more.

        While there is none the members may be out of date: they are to be set before a turn.
        """
        self.wanted.put(row, Setting() if spec is None else self._setting(spec))
        if spec is None:
            self.suppression.forget(row)
        if self.idle:
            # No turn comes that would give back what was held.
            if self._bursts is not None:
                self._bursts.reset()
            self._load.release()

    def set_members(self, members: Sequence[Member], nodes: Sequence[int]) -> None:
        """Replaces the pods, in the order of the load's rows."""
        self._members = Members(members, nodes)
        if self._bursts is not None:
            self._bursts.set_members(self._members, self._clock.monotonic_seconds())
        self._load.hold(*self._held())
        for row, evictor in self._evictors.items():
            here = np.flatnonzero(self._members.node == row).tolist()
            evictor.observe(members[at].state for at in here)

    def step(self) -> None:
        """One turn: reads usage, decides, and holds down what comes next."""
        now = self._clock.monotonic_seconds()
        reading = self._load.read(self._clock.wall_seconds())
        suppression, members = self.suppression, self._members
        limit = suppression.limit_milli()
        if self._has_windows:
            figures, node, rows = members.figures, members.node, len(self._machines)
            tier = np.where(figures["tier"] > 0, reading.pod_cpu, 0.0)
            labelled = np.where(figures["labelled"] > 0, figures["batch_milli"], 0)
            self._windows.append(
                self._clock.wall_seconds(),
                reading.node_cpu,
                np.trunc(1000 * np.bincount(node, tier, rows)),
                np.bincount(node, labelled, rows).astype(np.int64),
                limit,
            )
        suppression.step(reading, members, self.hosts, self.wanted)
        if self._bursts is not None and (self.wanted["raises"].any() or self._bursts.any_raised):
            self._bursts.step(reading, suppression.cpus["all"], self.wanted, now)
        self._load.hold(*self._held())
        round_ = Round(reading, members, self.hosts, self.wanted, self._windows, limit)
        for each in self._evictions:
            for row, feature, pod in each.step(round_, self._evictor, now):
                self._tell(row, feature, pod)

    def _setting(self, spec: NodeSLOSpec) -> Setting:
        """The settings of a spec; a manager writes the same one to machine after machine."""
        if self._last_setting is None or self._last_setting[0] != spec:
            self._last_setting = spec, setting(spec)
        return self._last_setting[1]

    def _held(self) -> tuple[Floats, Floats]:
        """What the load is held down to; see :meth:`Load.hold`."""
        raised = np.ones(len(self._members))
        if self._bursts is not None:
            raised = self._bursts.factors()
        node, wanted = self._members.node, self.wanted
        # Suppression by quota limits all best-effort pods together, so that each has none.
        by_quota = (wanted["known"] & wanted["enabled"] & wanted["by_quota"]) > 0
        free = (self._members.figures["tier"] > 0) & by_quota[node]
        return self.suppression.tier_cores(wanted["known"]), np.where(free, np.inf, raised)

    def _evictor(self, row: int) -> ApiEvictor:
        if row not in self._evictors:
            made = ApiEvictor(self._client, self._recorder, self._clock)
            self._evictors[row] = made
            if self._tasks is not None:
                self._tasks.create_task(made.run())
        return self._evictors[row]

    def _tell(self, row: int, feature: str, pod: PodState) -> None:
        self.evicted[row, feature] = self.evicted.get((row, feature), 0) + 1
        self.evictions.append(Eviction(self._clock.wall_seconds(), row, feature, pod.key))
        told = log.fields(node=self._machines[row].name, pod=pod.key, feature=feature)
        _LOG.info("evicting", extra=told)
