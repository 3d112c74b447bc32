# SPDX-License-Identifier: Apache-2.0
"""When the Device is written: not before all was looked for, and once more when all is gone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from koord.agent.metrics.collector import MachineInventory
from koord.agent.report.devices import DeviceReporter
from koord.agent.report.publisher import Publisher
from koord.agent.states.snapshot import SnapshotPart, Timestamped
from koord.agent.states.state_store import StateStore
from koord.api import crds
from koord.api.kinds.device import Device
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.node import Node
from koord.base.clock import VirtualClock
from koord.base.supervision import Supervisor
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.client import Client
from koord.kube.crds import install
from koord.kube.errors import ApiError
from tests.agent.report.test_device_object import gpu, xpu, xpus
from tests.kube.harness import run_virtual


class Cache:
    """The Device as it is in the API, read anew at each look."""

    served = True

    def __init__(self) -> None:
        self.there: Device | None = None

    def get(self, _name: str) -> Device | None:
        return self.there


def test_a_device_of_a_node() -> None:
    clock = VirtualClock(1_700_000_000.0)
    had = SimpleNamespace(ran=True, good_rounds=1)
    none = SimpleNamespace(ran=False, good_rounds=0)
    failed = SimpleNamespace(ran=True, good_rounds=0)

    async def story() -> None:
        async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as plane:
            client = Client(plane.transport(), requests_per_second=None)
            async for _ in install(client, crds()):
                pass
            store, cache, facts = StateStore(clock), Cache(), MachineInventory()
            store.put(SnapshotPart.NODE, Node(metadata=ObjectMeta(name="n1", uid="u1")))
            eyes = SimpleNamespace(facts=facts, collector_states={"gpu": none, "xpu": none})
            reporter = DeviceReporter(
                store, cast("Any", eyes), cast("Any", cache), Publisher(client, store), clock,
                3.0, Supervisor("test", clock=clock),
            )  # fmt: skip

            async def reported() -> list[str] | None:
                await reporter.report()
                try:
                    cache.there = await client.get(Device, "n1")
                except ApiError:
                    return None
                return [device.id for device in cache.there.spec.devices]

            eyes.collector_states = {"gpu": failed, "xpu": had}
            assert await reported() is None, "a node that never had a device has no object"
            facts.gpus = Timestamped((gpu(0),), 0.0)
            eyes.collector_states = {"gpu": none, "xpu": had}
            assert await reported() is None, "GPUs may be there that nobody has looked for"
            eyes.collector_states = {"gpu": had, "xpu": failed}
            assert await reported() is None, "the files may list cards in the place of GPUs"
            eyes.collector_states = {"gpu": had, "xpu": had}
            assert await reported() == ["GPU-0"]
            facts.xpus = Timestamped(xpus(xpu(0, "1"), xpu(1)), 0.0)
            assert await reported() == ["x-0", "x-1"]
            facts.gpus = facts.xpus = Timestamped((), 0.0)
            assert await reported() == [], "the last one is gone"
            assert cache.there is not None
            assert cache.there.metadata.labels == {"app.kubernetes.io/managed-by": "Koordinator"}
            assert cache.there.metadata.annotations == {}
            version = cache.there.metadata.resource_version
            await reported()
            assert cache.there.metadata.resource_version == version, "and nothing more is written"

    run_virtual(story(), clock)
