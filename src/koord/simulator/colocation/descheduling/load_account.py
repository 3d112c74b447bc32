# SPDX-License-Identifier: Apache-2.0
"""Minutes of machines in which services alone use much of the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.simulator.colocation.node_model.cpu_contention import summed

if TYPE_CHECKING:
    from koord.simulator.colocation.inputs.scenario import Scenario
    from koord.simulator.colocation.results.result import Floats, Singles
    from koord.simulator.colocation.workload.services import ServicePods

HOT_PERCENT = (65, 80)
"""Above which share of its CPUs a machine counts as hot."""
_MINUTE_SECONDS = 60


class LoadAccount:
    """Counts node-minutes by how much of the CPU services use, means over whole minutes.

    Args:
        pods: of services; where they are now.
        machines: how many.
        scenario: its steps.
    """

    def __init__(self, pods: ServicePods, machines: int, scenario: Scenario) -> None:
        self._pods, self._machines = pods, machines
        self._steps = round(_MINUTE_SECONDS / scenario.step_seconds)
        self._sum = np.zeros(machines)
        self._done = 0
        self._hot = np.zeros(len(HOT_PERCENT), np.int64)
        self._minutes = 0
        self.by_minute: list[list[int]] = []

    def step(self, services: Singles, cpus: Floats) -> None:
        """Adds a step: cores that each row of services got."""
        self._sum += summed(self._pods.machine, services, self._machines) / cpus
        self._done += 1
        if self._done % self._steps == 0:
            percent = 100.0 * self._sum / self._steps
            counts = [int(np.count_nonzero(percent > most)) for most in HOT_PERCENT]
            self._hot += counts
            self._minutes += 1
            self.by_minute.append(counts)
            self._sum[:] = 0.0

    def percent(self) -> Floats:
        """Node-minutes above each of :data:`HOT_PERCENT`, of all."""
        found: Floats = 100.0 * self._hot / max(self._minutes * self._machines, 1)
        return found
