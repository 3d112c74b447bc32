# SPDX-License-Identifier: Apache-2.0
"""What a step was like, as the agents' evictions see it, and who they evict."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.agent.strategies.eviction.evictor import EvictionState
from koord.simulator.nodes.agents.usage_model import UsageReading

if TYPE_CHECKING:
    from koord.agent.states.pod_state import PodState
    from koord.api.kinds.pod import Pod
    from koord.simulator.colocation.node_model.cpu_contention import CoreGrants
    from koord.simulator.colocation.results.result import Floats, Ints


class RunningTasks(NamedTuple):
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

    def reading(self, grants: CoreGrants) -> UsageReading:
        """Usage of a step: the services of each machine first, then the tasks."""
        cpu = np.concatenate([grants.shared + grants.bound, self.task_cores])
        memory = np.concatenate([self.service_bytes, self.task_bytes])
        none = np.empty(0)
        return UsageReading(cpu, memory, none, grants.used, self.held_bytes, grants.system, none)


class EvictedTasks:
    """An evictor that takes down the names of tasks: a pod that is evicted is gone at once."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def evict(self, pod: PodState, feature: str, message: str) -> EvictionState:
        """Evicts a pod."""
        self.names.add(pod.pod.metadata.name)
        return EvictionState.STARTED

    def fate(self, uid: str) -> EvictionState | None:
        """How the eviction of a pod stands."""
        return EvictionState.UNDER_WAY if uid in self.names else None
