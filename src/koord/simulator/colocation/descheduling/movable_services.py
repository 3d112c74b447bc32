# SPDX-License-Identifier: Apache-2.0
"""What a day has beside its steps where services may move: API server, scheduler, descheduler."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from koord.simulator.colocation.descheduling.load_account import LoadAccount
from koord.simulator.colocation.descheduling.rounds import DeschedulerRounds
from koord.simulator.colocation.descheduling.service_api import ServiceApi
from koord.simulator.colocation.descheduling.service_replicas import ServiceSlots
from koord.simulator.colocation.descheduling.service_scheduler import ServiceScheduler
from koord.simulator.colocation.descheduling.workloads import deployments

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.base.clock import VirtualClock
    from koord.simulator.colocation.inputs.scenario import Scenario
    from koord.simulator.colocation.results.result import Floats, Ints, Singles
    from koord.simulator.colocation.workload.services import (
        MachineCapacities,
        ServiceDemands,
        ServicePods,
    )


class DeschedulingMode(StrEnum):
    """Who moves pods of services."""

    NONE = "none"
    ONE_BY_ONE = "one-by-one"
    PLANNED = "planned"


class MovableServices:
    """Services as Deployments, whose pods a descheduler may move.

    Args:
        mode: how it moves them.
        clock: of the loop.
        seed: of names.
        stopped: whether nobody wants more of the day.
    """

    def __init__(
        self,
        mode: DeschedulingMode,
        clock: VirtualClock,
        seed: int,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._mode, self._clock = mode, clock
        self.api = ServiceApi(clock, seed, stopped)
        self._cluster: ServiceScheduler | None = None

    async def prepare(self) -> None:
        """The API server is there; before the day is made."""
        await self.api.start()

    def cluster(
        self, scenario: Scenario, fleet: MachineCapacities, pods: ServicePods
    ) -> ServiceScheduler:
        """Nodes and batch tasks of the day; its services come with :meth:`start`."""
        self._scenario, self._pods = scenario, pods
        self._deployments = deployments(scenario, pods)
        self.slots = ServiceSlots(pods, self._deployments)
        self.account = LoadAccount(pods, len(fleet.cpus), scenario)
        self._cluster = ServiceScheduler(scenario, fleet, pods, self.slots, self.api, self._clock)
        return self._cluster

    async def start(self) -> None:
        """Services run, the scheduler knows them, and rounds begin."""
        cluster = self._of_day()
        names = [node.metadata.name for node in cluster.nodes]
        await self.api.create_services(
            self._scenario, self._deployments, names, self._pods.machine.tolist(),
            cluster.scheduler_name, self.slots,
        )  # fmt: skip
        await cluster.start()
        if self._mode is not DeschedulingMode.NONE:
            planned = self._mode is DeschedulingMode.PLANNED
            rounds = DeschedulerRounds(
                self._scenario, cluster, self.api, self._clock, planned=planned
            )
            await rounds.start()
        self._began = self._clock.monotonic_seconds()

    def redirect(self, demands: ServiceDemands) -> None:
        """What pods that are not ready would serve is served by others."""
        self.slots.redirect(demands)

    def measured(self, usage: Ints) -> None:
        """What each row of services used, milli-cores and bytes ``[2, rows]``."""
        self._of_day().measured(usage)

    def record(self, services: Singles, system: Floats, cpus: Floats) -> None:
        """Takes a step into the account.

        Args:
            services: cores that each row of services got.
            system: cores that each machine's own programs got.
            cpus: of each machine.
        """
        self.account.step(services, system, cpus)

    def check(self) -> None:
        """Raises where nobody wants more, or a part has failed; see :meth:`ServiceApi.check`."""
        self.api.check()

    async def close(self) -> None:
        """Ends everything."""
        await self.api.close()

    def _of_day(self) -> ServiceScheduler:
        assert self._cluster is not None, "the day has been made"
        return self._cluster
