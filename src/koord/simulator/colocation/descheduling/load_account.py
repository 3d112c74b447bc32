# SPDX-License-Identifier: Apache-2.0
"""Minutes of machines in which services alone use much of the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.simulator.colocation.inputs import slo_config
from koord.simulator.colocation.node_model.cpu_contention import summed

if TYPE_CHECKING:
    from koord.simulator.colocation.inputs.scenario import Scenario
    from koord.simulator.colocation.results.result import Floats, Ints, Singles
    from koord.simulator.colocation.workload.services import ServicePods

HOT_PERCENT = (65, 80)
"""Above which share of its CPUs a machine counts as hot."""
_MINUTE_SECONDS = 60


class LoadAccount:
    """Counts node-minutes by how much of the CPU services use, means over whole minutes.

    Args:
        pods: of services; where they are now.
        machines: how many.
        scenario: its steps, and the share of a machine that may be offered to batch pods.
    """

    def __init__(self, pods: ServicePods, machines: int, scenario: Scenario) -> None:
        self._pods, self._machines = pods, machines
        self._steps = round(_MINUTE_SECONDS / scenario.step_seconds)
        self._line_percent = slo_config.of(scenario).colocation.cpu_reclaim_threshold_percent or 0
        self._sum = np.zeros(machines)
        self._done = 0
        self._hot: list[list[int]] = []
        self._above_cores = self._cores = 0.0

    def step(self, services: Singles, system: Floats, cpus: Floats) -> None:
        """Adds a step.

        Args:
            services: cores that each row of services got.
            system: cores that each machine's own programs got.
            cpus: of each machine.
        """
        used = summed(self._pods.machine, services, self._machines)
        line = cpus * self._line_percent / 100
        self._above_cores += float(np.maximum(used + system - line, 0.0).sum())
        self._cores += float(cpus.sum())
        self._sum += used / cpus
        self._done += 1
        if self._done % self._steps == 0:
            percent = 100.0 * self._sum / self._steps
            self._hot.append([int(np.count_nonzero(percent > most)) for most in HOT_PERCENT])
            self._sum[:] = 0.0

    def by_minute(self) -> Ints:
        """How many machines were above each of :data:`HOT_PERCENT`, a row a minute."""
        return np.array(self._hot, np.int64).reshape(-1, len(HOT_PERCENT))

    def percent(self) -> Floats:
        """Node-minutes above each of :data:`HOT_PERCENT`, of all."""
        hot = self.by_minute()
        found: Floats = 100.0 * hot.sum(axis=0) / max(len(hot) * self._machines, 1)
        return found

    def above_line_percent(self) -> float:
        """What services and system used beyond the line up to which machines are offered to batch
        pods, of all CPU."""
        return 100.0 * self._above_cores / self._cores if self._cores else 0.0
