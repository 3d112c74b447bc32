# SPDX-License-Identifier: Apache-2.0
"""Brings a day's work to an API server: settings, services, then jobs as they arrive."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from koord.base import faults, log
from koord.kube.errors import ApiError, TransportError
from koord.simulator.live import initial_config, workload

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.kube.client import Client

FIELD_MANAGER = "koord-up"
_EXISTS = 409
_RETRY_SECONDS = 5.0
_LOG = log.get("simulator.live")


class WorkloadGenerator:
    """Creates the objects of :mod:`workload`.

    Args:
        client: the way to the API server.
        clock: jobs come by its monotonic time.
        nodes: how many machines there are.
        seed: of the jobs.
    """

    def __init__(self, client: Client, clock: Clock, nodes: int, seed: int) -> None:
        self._client = client
        self._clock = clock
        self._nodes = nodes
        self._seed = seed
        self.submitted = 0
        """Batch tasks whose job the server has taken."""

    async def prepare(self) -> None:
        """Writes slo-controller-config and the services.

        Raises:
            ApiError: the server refuses them.
        """
        await self._client.apply(
            initial_config.config_map(), field_manager=FIELD_MANAGER, force=True
        )
        for document in workload.deployments(self._nodes):
            await self._client.apply(document, field_manager=FIELD_MANAGER, force=True)

    async def run(self) -> None:
        """Submits jobs until cancelled; one that cannot be written now is tried again."""
        start = self._clock.monotonic_seconds()
        for arrival in workload.arrivals(self._seed, self._nodes):
            ahead = start + arrival.seconds - self._clock.monotonic_seconds()
            await asyncio.sleep(max(ahead, 0.0))
            document = workload.job(arrival)
            while not await self._submit(document):
                await asyncio.sleep(_RETRY_SECONDS)
            self.submitted += arrival.tasks

    async def _submit(self, document: dict[str, Any]) -> bool:
        try:
            faults.point("simulator.live.submit")
            await self._client.create(document, field_manager=FIELD_MANAGER)
        except (ApiError, TransportError) as error:
            # There already: from an earlier run on the same data, or an answer that was lost.
            if isinstance(error, ApiError) and error.http_status == _EXISTS:
                return True
            told = log.fields(job=document["metadata"]["name"], error=error)
            _LOG.warning("job could not be submitted", extra=told)
            return False
        return True
