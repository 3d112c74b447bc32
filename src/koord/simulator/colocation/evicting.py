# SPDX-License-Identifier: Apache-2.0
"""Whom the agents evict, by their own decisions, where their feature gates are open.

Agents look every second; here their rounds come once a step, upon what the step was like, and what
was measured in each of its seconds is its mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.agent.strategies.eviction.evictor import Fate
from koord.agent.strategies.options import StrategyOptions
from koord.simulator.nodes.strategies.evict import Evictions
from koord.simulator.nodes.strategies.members import Member, Members, member
from koord.simulator.nodes.strategies.windows import ROUND_SECONDS, Windows
from koord.simulator.nodes.strategies.wishes import CPU_FEATURES, MEMORY_FEATURES, Round
from koord.simulator.nodes.usage import Reading

if TYPE_CHECKING:
    from koord.agent.states.pods import PodState
    from koord.api.kinds.pod import Pod
    from koord.base.gates import FeatureGates
    from koord.simulator.colocation.machines import Grants
    from koord.simulator.colocation.result import Floats, Ints
    from koord.simulator.nodes.strategies.hosts import Host
    from koord.simulator.nodes.strategies.settings import Setting
    from koord.simulator.nodes.strategies.table import Table


class Residents(NamedTuple):
    """What runs and what it uses: a row a machine, or a row a batch task.

    Attributes:
        tasks: the pods of tasks.
        machine: where each task runs.
        task_cores, task_bytes: what each uses.
        service_bytes: what the services of each machine hold.
        held_bytes: what is in use on each machine.
    """

    tasks: list[Pod]
    machine: Ints
    task_cores: Floats
    task_bytes: Floats
    service_bytes: Floats
    held_bytes: Floats


class Evicting:
    """The rounds of all agents.

    Args:
        gates: which features are open.
        services: stands for the services of a machine.
        hosts: the machines; what they offer is kept up to date by the owner.
        wanted: their settings.
        step_seconds: between two rounds.
    """

    def __init__(
        self,
        gates: FeatureGates,
        services: Member,
        hosts: Table[Host],
        wanted: Table[Setting],
        step_seconds: float,
    ) -> None:
        cpu = {name: build for name, build in CPU_FEATURES.items() if gates.enabled(name)}
        memory = {name: build for name, build in MEMORY_FEATURES.items() if gates.enabled(name)}
        self.active = bool(cpu or memory)
        self._services, self._hosts, self._wanted = services, hosts, wanted
        self._seconds = round(step_seconds / ROUND_SECONDS)
        rows, options = len(hosts), StrategyOptions(gates=gates)
        self._rounds = (
            Evictions(rows, options.cpu_evict_cool_seconds, cpu, 0.0),
            Evictions(rows, options.memory_evict_cool_seconds, memory, float("-inf")),
        )
        self._windows = Windows(rows if cpu else 0)
        self._has_windows = bool(cpu)
        self._known: dict[str, Member] = {}

    def step(
        self, here: Residents, grants: Grants, limit_milli: Floats, now_seconds: float
    ) -> set[str]:
        """The rounds at the end of a step.

        Args:
            here: what runs.
            grants: what the step was like.
            limit_milli: what best-effort pods of each machine may use.
            now_seconds: since the start.

        Returns:
            Names of the tasks that are evicted.
        """
        rows = len(self._hosts)
        self._known = {pod.metadata.name: self._member(pod) for pod in here.tasks}
        members = Members(
            [*[self._services] * rows, *self._known.values()],
            [*range(rows), *here.machine.tolist()],
        )
        reading = _reading(here, grants)
        if self._has_windows:
            self._append(members, reading, grants, limit_milli, now_seconds)
        round_ = Round(reading, members, self._hosts, self._wanted, self._windows, limit_milli)
        evictor = _Evictor()
        for each in self._rounds:
            each.step(round_, lambda _: evictor, now_seconds)
        return evictor.gone

    def _member(self, pod: Pod) -> Member:
        return self._known.get(pod.metadata.name) or member(pod)

    def _append(
        self,
        members: Members,
        reading: Reading,
        grants: Grants,
        limit_milli: Floats,
        now_seconds: float,
    ) -> None:
        asked = np.bincount(members.node, members.figures["batch_milli"], len(self._hosts))
        used = np.trunc(1000 * grants.batch)
        for second in range(self._seconds, 0, -1):
            at = now_seconds - (second - 1) * ROUND_SECONDS
            self._windows.append(at, reading.node_cpu, used, asked.astype(np.int64), limit_milli)


class _Evictor:
    """Takes note of who goes: a pod that is evicted is gone at once."""

    def __init__(self) -> None:
        self.gone: set[str] = set()

    def evict(self, pod: PodState, feature: str, message: str) -> Fate:
        self.gone.add(pod.pod.metadata.name)
        return Fate.STARTED

    def fate(self, uid: str) -> Fate | None:
        return Fate.UNDER_WAY if uid in self.gone else None


def _reading(here: Residents, grants: Grants) -> Reading:
    services = grants.shared + grants.bound
    cpu = np.concatenate([services, here.task_cores])
    memory = np.concatenate([here.service_bytes, here.task_bytes])
    none = np.empty(0)
    return Reading(cpu, memory, none, grants.used, here.held_bytes, grants.system, none)
