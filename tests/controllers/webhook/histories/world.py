# SPDX-License-Identifier: Apache-2.0
"""The embedded server on virtual time, replicas of admission beside it, and tenants."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from koord.api import definitions
from koord.api.kinds.registry import KINDS
from koord.base.clock import VirtualClock, VirtualLoop
from koord.controllers.scheduler.app import App as Scheduler
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from koord.controllers.webhook.certificates import (
    key_material,
    renewal,
)
from koord.controllers.webhook.certificates.certificate_keeper import MUTATING, VALIDATING
from koord.controllers.webhook.framework.default_configurations import (
    NAMESPACE,
    default_configurations,
)
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube import crds
from koord.kube.client import Client
from koord.kube.events import EventRecorder
from tests.controllers.webhook.histories.checks import (
    Ledger,
    check_charges,
    check_counted,
    check_now,
)
from tests.controllers.webhook.histories.connection import LateConnection
from tests.controllers.webhook.histories.replica import AdmissionReplica, ReplicaCaller
from tests.controllers.webhook.histories.tenants import Tenants

START = 1_900_000_000.0
_LATE_SECONDS = 3.0
_TRIES_SECONDS = 120.0
# A whole rotation takes minutes here: everything in the ten-thousandth of its time.
_AUTHORITY, _CERTIFICATE = timedelta(minutes=14), timedelta(minutes=8)
_KEYS = 6


class AdmissionWorld:
    """What a history acts on.

    Args:
        plane: the server, started.
        caller: how it reaches replicas.
        clock: the time there.
        draw: lots.
    """

    def __init__(
        self,
        plane: EmbeddedControlPlane,
        caller: ReplicaCaller,
        clock: VirtualClock,
        draw: random.Random,
    ) -> None:
        self._plane, self._caller, self._clock, self._draw = plane, caller, clock, draw
        self.client = Client(plane.transport(), "tenant", requests_per_second=None)
        self.tenants = Tenants(self.client, draw)
        self._ledger = Ledger(plane.store, caller.configured)
        self._leader = 0

    async def install(self) -> None:
        """Definitions, priority classes, both configurations, two replicas."""
        names = [name async for name, _ in crds.install(self.client, definitions.crds())]
        await crds.wait_established(self.client, names, 30.0)
        classes = next(kind for kind in KINDS if kind.name == "PriorityClass")
        async for _ in crds.install(self.client, definitions.priority_classes(), classes):
            pass
        await self.client.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        # Whatever no replica answers is refused: then nothing passes unseen.
        documents = default_configurations(failure_policy="Fail")
        for kind, document in zip((MUTATING, VALIDATING), documents, strict=True):
            await self.client.create(document, kind=kind)
        self._caller.replicas = [self._replica(0), self._replica(1)]
        await self._quiet()
        await self.tenants.begin()

    async def play(self, steps: int) -> None:
        """So many steps of several tenants at a time, with what goes wrong between them."""
        for _ in range(steps):
            self._lots()
            rush, number = self._draw.random() < 0.3, self._draw.randint(1, 4)
            acts = [self.tenants.act(taking=rush) for _ in range(number)]
            if self._draw.random() < 0.12:
                acts.append(self._restart())
            await asyncio.gather(*acts)
            check_now(self._plane.store, self._caller, self.tenants)
            await asyncio.sleep(self._draw.choice((0.0, 0.5, 3.0, 12.0, 60.0)))
        for each in self._caller.replicas:
            each.connection.faulty = False
        await self._quiet()
        check_now(self._plane.store, self._caller, self.tenants)
        check_charges(self._ledger, self._caller)
        await self._count()
        check_counted(self._plane.store)

    async def end(self) -> None:
        """Ends the replicas."""
        for each in self._caller.replicas:
            await each.end()

    async def _count(self) -> None:
        """Has the scheduler count what quotas use."""
        client = Client(self._plane.transport(), "koord-scheduler", requests_per_second=None)
        events, plugins = EventRecorder(client, "scheduler", clock=self._clock), Registry(())
        scheduler = Scheduler(client, shipped(plugins), self._clock, events, registry=plugins)
        task = asyncio.create_task(scheduler.run())
        await scheduler.ready()
        await asyncio.sleep(30.0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def _replica(self, number: int) -> AdmissionReplica:
        connection = LateConnection(self._plane.transport(), self._draw, _LATE_SECONDS)
        return AdmissionReplica(connection, self._clock, lambda: self._leader in (number, 2))

    def _lots(self) -> None:
        for each in self._caller.replicas:
            each.connection.faulty = self._draw.random() < 0.4
        if self._draw.random() < 0.1:
            # For a while two may believe that they lead.
            self._leader = self._draw.choice((0, 1, 2))

    async def _restart(self) -> None:
        await asyncio.sleep(self._draw.uniform(0, 0.4))
        number = self._draw.randrange(2)
        await self._caller.replicas[number].end()
        await asyncio.sleep(self._draw.choice((0.0, 0.5, 20.0)))
        self._caller.replicas[number] = self._replica(number)

    async def _quiet(self) -> None:
        """Waits until both serve and have seen everything."""
        async with asyncio.timeout(_TRIES_SECONDS):
            while not all(each.serving for each in self._caller.replicas):
                await asyncio.sleep(1.0)
        await asyncio.sleep(100.0)


def live(seed: int, steps: int) -> None:
    """One history.

    Raises:
        AssertionError: what does not hold.
    """
    clock, draw = VirtualClock(START), random.Random(seed)

    async def whole() -> None:
        caller = ReplicaCaller(clock, draw)
        async with EmbeddedControlPlane(Options(clock=clock, seed=seed, webhooks=caller)) as plane:
            world = AdmissionWorld(plane, caller, clock, draw)
            try:
                await world.install()
                await world.play(steps)
            finally:
                await world.end()

    with _short_lives(), asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        runner.run(whole())


@contextmanager
def _short_lives() -> Iterator[None]:
    """Certificates that last minutes, of keys that are there already, without a thread."""
    keys = iter(range(10**9))

    def authority(now: datetime) -> tuple[bytes, bytes]:
        return key_material.new_authority(now, _AUTHORITY)

    def certificate(key: bytes, signers: bytes, name: str, now: datetime) -> tuple[bytes, bytes]:
        return key_material.new_certificate(key, signers, name, now, _CERTIFICATE)

    async def at_once(work: Any, *arguments: Any) -> Any:
        return work(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(renewal, "new_authority", authority)
        patch.setattr(renewal, "new_certificate", certificate)
        patch.setattr(renewal, "AUTHORITY_AHEAD", _AUTHORITY / 2)
        patch.setattr(renewal, "CERTIFICATE_AHEAD", _CERTIFICATE / 2)
        patch.setattr(renewal, "FORMER_TRUSTED", timedelta(minutes=2))
        patch.setattr(asyncio, "to_thread", at_once)
        pool = _keys()
        patch.setattr(rsa, "generate_private_key", lambda *_: pool[next(keys) % len(pool)])
        yield


@cache
def _keys() -> list[rsa.RSAPrivateKey]:
    return [rsa.generate_private_key(65_537, 2048) for _ in range(_KEYS)]
