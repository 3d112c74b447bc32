# SPDX-License-Identifier: Apache-2.0
"""The loop that reports the Device. Rule: docs/reference/reports.md#when-the-device-is-written."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from koord.agent.report.device_object import device_changes, device_object
from koord.agent.report.publisher import PublishAttempt
from koord.base import log

if TYPE_CHECKING:
    from koord.agent.metrics.collection_loop import CollectionLoop
    from koord.agent.report.publisher import Publisher
    from koord.agent.states.snapshot import SnapshotSource
    from koord.api.kinds.device import Device
    from koord.base.clock import Clock
    from koord.base.supervision import Supervisor
    from koord.kube.informers.informer import Informer

_LOG = log.get("agent.report")
# A driver that does not answer has no GPU to give; half a list of the others would take cards away.
_ANSWERS, _LISTS = "gpu", ("xpu", "rdma")


class DeviceReporter:
    """Writes what the collectors found of devices.

    Args:
        states: the node.
        advisor: what was found, and by which collectors.
        existing: the object in the API.
        publisher: the way out.
        clock: of conditions.
        interval_seconds: between two looks; more than 0.
        supervisor: told of failures.
    """

    def __init__(
        self,
        states: SnapshotSource,
        advisor: CollectionLoop,
        existing: Informer[Device],
        publisher: Publisher,
        clock: Clock,
        interval_seconds: float,
        supervisor: Supervisor,
    ) -> None:
        self._states = states
        self._advisor = advisor
        self._existing = existing
        self._publisher = publisher
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._supervisor = supervisor
        self._malformed: list[str] = []

    async def run(self) -> None:
        """Looks again and again until cancelled."""
        await self._existing.synced()
        while True:
            await asyncio.sleep(self._interval_seconds)
            with self._supervisor.round("Device"), PublishAttempt(self._supervisor, "Device"):
                await self.report()

    async def report(self) -> None:
        """One look; writes if something changed."""
        node = self._states.snapshot().node.value
        if node is None or not self._have_all_collected() or not self._existing.served:
            return
        now = datetime.fromtimestamp(int(self._clock.wall_seconds()), UTC)
        malformed: list[str] = []
        wanted = device_object(node, self._advisor.facts, now, malformed.append)
        self._log_malformed(malformed)
        there = self._existing.get(wanted.metadata.name)
        if there is not None or wanted.spec.devices:
            await self._publisher.publish(wanted, there, device_changes)

    def _have_all_collected(self) -> bool:
        """Whether every collector of devices had its say since the start."""
        collector_states = self._advisor.collector_states
        lists = [collector_states[name] for name in _LISTS if name in collector_states]
        answered = _ANSWERS not in collector_states or collector_states[_ANSWERS].ran
        return answered and all(standing.good_rounds for standing in lists)

    def _log_malformed(self, malformed: list[str]) -> None:
        """Each thing that makes no sense once, and again when it made sense in between."""
        for line in malformed:
            if line not in self._malformed:
                _LOG.warning(line)
        self._malformed = malformed
