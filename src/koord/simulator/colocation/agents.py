# SPDX-License-Identifier: Apache-2.0
"""The agents of all machines within a step: suppression by the agent's own decision, every second.

What everybody wants stands still within a step and jumps between two. The agents do not see that
jump before it is there: in every second they act on what was used in the second before the last,
as an agent whose samples and rounds are out of step at worst does, and what they decide holds from
the next second on. So best-effort pods keep what they had for two whole seconds after services
came to want more, and part of it for a third.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.agent.gates import feature_gates
from koord.api.codec import convert
from koord.api.kinds.pod import Pod
from koord.api.protocol import keys
from koord.api.protocol.qos import QoSClass
from koord.simulator.colocation.evicting import Evicting, Residents
from koord.simulator.colocation.machines import Grants, Tier, best_effort, room
from koord.simulator.nodes.strategies.hosts import Host, HostCPUs
from koord.simulator.nodes.strategies.members import Members, member
from koord.simulator.nodes.strategies.settings import Setting, setting
from koord.simulator.nodes.strategies.suppress import Suppression
from koord.simulator.nodes.strategies.table import Table
from koord.simulator.nodes.usage import Reading

if TYPE_CHECKING:
    from koord.api.kinds.nodeslo import NodeSLOSpec
    from koord.simulator.colocation.machines import Cores, Wants
    from koord.simulator.colocation.result import Floats, Ints
    from koord.simulator.colocation.scenario import Scenario, SchedulingDelay
    from koord.simulator.colocation.services import Fleet

ROUND_SECONDS = 1.0
"""Between two rounds: the agent's default."""
_ENOUGH = 0.99


class Turn(NamedTuple):
    """A step of all machines: means over its seconds, and the share of them that batch pods were
    suppressed for, which is less than 99 % of what they wanted."""

    grants: Grants
    suppressed: Floats


class Agents:
    """What the agents of all machines have set.

    Args:
        scenario: the agents' feature gates, and what a busy machine costs.
        fleet: the machines.
        cores: their CPUs.
        slo: the NodeSLO of all machines.
    """

    def __init__(self, scenario: Scenario, fleet: Fleet, cores: Cores, slo: NodeSLOSpec) -> None:
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
        pods = [member(_pod("services", QoSClass.LS)), member(_pod("batch", QoSClass.BE))]
        self._members = Members(
            [each for each in pods for _ in range(rows)], [*range(rows), *range(rows)]
        )
        hosts = [
            Host(1, 1000 * count, memory)
            for count, memory in zip(fleet.cpus.tolist(), fleet.memory_bytes.tolist(), strict=True)
        ]
        self._hosts: Table[Host] = Table(Host._fields, hosts)
        self._wanted: Table[Setting] = Table(Setting._fields, [setting(slo)] * rows)
        self._evicting = Evicting(gates, pods[0], self._hosts, self._wanted, scenario.step_seconds)
        self._before: Grants | None = None
        self._services = np.empty(0)

    def tier(self) -> Tier:
        """What best-effort pods may have now, as ``cpu_counts`` of suppression shares it out."""
        cpus, count = self._suppression.cpus, self._suppression.count
        bound = count * cpus["lsr"] // np.maximum(cpus["lsr"] + cpus["shared"], 1)
        quota = self._suppression.tier_cores(self._wanted["known"])
        return Tier((count - bound).astype(np.float64), bound.astype(np.float64), quota)

    def step(self, wants: Wants) -> Turn:
        """A step, second by second."""
        left = room(self._cores, wants)
        enough = wants.batch * _ENOUGH
        total = [np.zeros(len(wants.batch)) for _ in Grants._fields]
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
        mean = Grants(*(sum_ / self._rounds for sum_ in total))
        return Turn(mean, suppressed / self._rounds)

    @property
    def evicts(self) -> bool:
        """Whether the agents may evict at all."""
        return self._evicting.active

    def evicted(
        self, here: Residents, grants: Grants, offered: Ints, now_seconds: float
    ) -> set[str]:
        """Names of the tasks that the agents evict at the end of a step.

        Args:
            here: what runs.
            grants: what the step was like.
            offered: milli-cores and bytes that machines offer, ``[2, machines]``; -1 for none.
            now_seconds: since the start.
        """
        self._hosts["cpu_2"][:], self._hosts["memory_2"][:] = offered
        return self._evicting.step(here, grants, self._suppression.limit_milli(), now_seconds)

    def _round(self, seen: Grants, now: Grants) -> bool:
        """A round of suppression upon what was seen.

        Returns:
            Whether rounds to come will change nothing: what is used now is what this round and the
            one before saw, and neither changed anything.
        """
        services = seen.shared + seen.bound
        tier = self._suppression
        count, quota = tier.count.copy(), tier.quota_us.copy()
        tier.step(_reading(seen, services), self._members, self._hosts, self._wanted)
        same = np.array_equal(services, self._services)
        self._services = services
        return (
            same
            and np.array_equal(services, now.shared + now.bound)
            and np.array_equal(count, tier.count)
            and np.array_equal(quota, tier.quota_us)
        )


def _reading(grants: Grants, services: Floats) -> Reading:
    """What agents measure: CPU only, for no more is asked here."""
    pods = np.concatenate([services, grants.batch])
    none = np.empty(0)
    return Reading(pods, none, none, grants.used, none, grants.system, none)


def _pod(name: str, qos: QoSClass) -> Pod:
    container: dict[str, object] = {"name": "main"}
    if qos is not QoSClass.BE:
        container["resources"] = {"requests": {"cpu": "1"}}
    meta = {"name": name, "uid": name, "namespace": "default", "labels": {keys.QOS_CLASS: str(qos)}}
    return convert({"metadata": meta, "spec": {"containers": [container]}}, Pod, f"Pod {name}")
