# SPDX-License-Identifier: Apache-2.0
"""An agent, the API server and a machine in virtual time, and what happens to them by lot."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from koord.agent.app import Agent, AgentServices
from koord.agent.options import AgentOptions
from koord.agent.states.pod_state import PodState, pod_state
from koord.agent.write_history import RecordedWrite
from koord.api import definitions
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.nodeslo import NodeSLO
from koord.api.kinds.pod import Pod
from koord.base import rng
from koord.base.clock import VirtualClock, VirtualLoop
from koord.base.faults import FaultRule, inject
from koord.base.metrics import registry
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kernels.cgroup_parse import Version
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.dry_run import DryRun
from koord.kube.errors import ApiError
from koord.kube.events import EventRecorder
from koord.kube.patches import Patch
from tests.agent.day import population
from tests.agent.day.failing import FailingTransport, Moody
from tests.agent.day.plant import Plant
from tests.agent.day.population import NODE
from tests.descriptors import descriptors

START = 1_900_000_000.0
STEP_SECONDS = 60
GATES = ("CPUEvict", "BECPUEvict", "MemoryEvict", "BEMemoryEvict", "CgroupReconcile",
         "SystemConfig", "CPUNormalization", "PSICollector", "AuditEvents")  # fmt: skip
_FAULTS = {
    name: FaultRule(0.3, OSError(13, "Permission denied"))
    for name in ("executor.write", "executor.first_look", "executor.read_back",
                 "executor.journal.write", "executor.journal.rename", "host.read", "audit.write",
                 "agent.prediction.rename")
}  # fmt: skip
_MOST_PODS = 6
# An interval that begins anew, and a try that fails at its end.
_REPORT_SECONDS = 90


def options(folder: Path, step: int = STEP_SECONDS) -> AgentOptions:
    """Flags of an agent that looks once a step."""
    return replace(
        AgentOptions(),
        node_name=NODE, pods_from="apiserver", disable_query_kubelet_config=True,
        only_evict_by_api=True, feature_gates=",".join(f"{gate}=true" for gate in GATES),
        collect_res_used_interval=step, collect_sys_metric_outdated_interval=3 * step,
        collect_node_cpu_info_interval=600, collect_node_storage_info_interval=600,
        psi_collector_interval=step, reconcile_interval_seconds=step,
        cpu_suppress_interval_seconds=step, cpu_evict_interval_seconds=step,
        memory_evict_interval_seconds=step, node_topology_sync_interval=step,
        runtime_hooks_reconcile_interval=step, prediction_training_interval=5 * step,
        audit_log_dir=str(folder / "audit"), audit_max_disk_space_mb=2,
        prediction_checkpoint_filepath=str(folder / "checkpoints"),
        report_class_summary=True,
    )  # fmt: skip


class World:
    """What the day acts on.

    Attributes:
        deeds: everything that the executor told of, in order.
        late: evictions that were begun on stale data.
        sizes: of the agent's objects at quiet moments, by type.
    """

    def __init__(
        self, folder: Path, version: Version, seed: int, step: int, plane: EmbeddedControlPlane,
        clock: VirtualClock, dry_run: bool = False,
    ) -> None:  # fmt: skip
        self.draw = rng.stream(seed, "day")
        self.clock, self.plane, self.step = clock, plane, step
        self.plant = Plant(folder / "machine", version, rng.stream(seed, "plant"))
        self.admin = Client(plane.transport(), "admin", requests_per_second=None)
        self.transport = FailingTransport(plane.transport(), rng.stream(seed, "transport"))
        self.faults = Moody(seed, dict(_FAULTS))
        self.metrics = registry()
        told = DryRun(self.metrics) if dry_run else None
        client = Client(self.transport, "koordlet", requests_per_second=None, dry_run=told)
        self.events = EventRecorder(client, "koordlet", host=NODE, clock=clock)
        self.options = replace(options(folder, step), dry_run=dry_run)
        around = AgentServices(client, self.events, None, self.metrics, clock)
        self.descriptors = descriptors()
        self.agent = Agent(self.options, self.plant.machine, around)
        self.pods: dict[str, PodState] = {}
        self.deeds: list[RecordedWrite] = []
        self.late: list[str] = []
        self.sizes: list[Counter[str]] = []
        self.evictions = 0
        self._number = 0
        self._listen()

    def _listen(self) -> None:
        note, evict = self.agent.owners.note, self.agent.evictor.evict

        def noted(told: Any, at_seconds: float) -> None:
            note(told, at_seconds)
            self.deeds += self.agent.owners.last(1)

        def evicted(pod: PodState, feature: str, message: str) -> Any:
            now = self.clock.monotonic_seconds()
            age = self.agent.store.snapshot().pods.age_seconds(now)
            seen = self.agent.advisor.collector_states["node"].good_seconds
            if age > 30 or now - seen > 2 * self.step:
                self.late.append(f"{pod.key} by {feature}: pods {age} s, node {now - seen} s")
            self.evictions += 1
            return evict(pod, feature, message)

        self.agent.owners.note = noted  # type: ignore[method-assign]
        self.agent.evictor.evict = evicted  # type: ignore[method-assign]

    # -- what is there ------------------------------------------------------------------------

    async def prepare(self) -> None:
        names = [name async for name, _ in installing.install(self.admin, definitions.crds())]
        await installing.wait_established(self.admin, names, 60)
        for document in definitions.priority_classes():
            await self.admin.create(document)
        amounts = {"cpu": "4", "memory": "16Gi", "kubernetes.io/batch-cpu": "3000",
                   "kubernetes.io/batch-memory": "8Gi"}  # fmt: skip
        status = {"capacity": amounts, "allocatable": amounts}
        await self.admin.create(Node(metadata=ObjectMeta(name=NODE)))
        await self.admin.patch(Node, NODE, Patch.merge({"status": status}), subresource="status")
        await self.admin.create(NodeSLO(metadata=ObjectMeta(name=NODE)))
        await self.admin.create(NodeMetric(metadata=ObjectMeta(name=NODE)))
        self.plant.advance(self.step)

    async def live(self) -> None:
        """Kernel and kubelet: counters move, pods that are to go go."""
        while True:
            await asyncio.sleep(self.step)
            for item in (await self.admin.list(Pod)).items:
                if item.metadata.deletion_timestamp:
                    await self.remove(item.metadata.name)
            self.plant.advance(self.step)

    async def add(self) -> None:
        if len(self.pods) >= _MOST_PODS:
            return
        self._number += 1
        name = f"p{self._number}"
        document, status = population.pod(name, self.draw)
        await self.admin.create(document, "default")
        made = await self.admin.patch(
            Pod, name, Patch.merge({"status": status}), "default", "status"
        )
        self.pods[name] = pod_state(made, self.plant.machine.layout)
        self.plant.start(self.pods[name])

    async def remove(self, name: str) -> None:
        self.plant.end(self.pods.pop(name))
        with suppress(ApiError):
            await self.admin.delete(Pod, name, "default", grace_period_seconds=0)

    # -- what happens -------------------------------------------------------------------------

    async def hour(self, events: int = 8) -> None:
        """Things happen for 45 minutes, then a quarter of quiet."""
        happenings: list[Callable[[float], Awaitable[None]]] = [
            self._come, self._come, self._come, self._go, self._slo, self._annotate, self._cut,
            self._away, self._refuse, self._fail, self._truncate, self._press,
        ]  # fmt: skip
        for _ in range(events):
            seconds = self.draw.uniform(0.3, 1.7) * 45 * 60 / events / 2
            await self.draw.choice(happenings)(seconds)
            await asyncio.sleep(seconds)
        self.plant.pressed = False
        await asyncio.sleep(15 * 60)

    async def _come(self, _: float) -> None:
        await self.add()

    async def _go(self, _: float) -> None:
        if self.pods:
            await self.remove(self.draw.choice(sorted(self.pods)))

    async def _slo(self, _: float) -> None:
        change = Patch.merge({"spec": population.slo(self.draw)})
        await self.admin.patch(NodeSLO, NODE, change)

    async def _annotate(self, _: float) -> None:
        annotations = population.node_annotations(self.draw)
        await self.admin.patch(Node, NODE, Patch.merge({"metadata": {"annotations": annotations}}))

    async def _cut(self, _: float) -> None:
        await self.transport.cut()

    async def _away(self, seconds: float) -> None:
        self.transport.gone = True
        await self.transport.cut()
        await asyncio.sleep(seconds)
        self.transport.gone = False
        await asyncio.sleep(_REPORT_SECONDS)
        if self.options.dry_run:
            return
        metric = await self.admin.get(NodeMetric, NODE)
        assert metric.status.update_time is not None
        age = self.clock.wall_seconds() - metric.status.update_time.timestamp()
        assert age <= _REPORT_SECONDS, "no report after an outage"

    async def _refuse(self, seconds: float) -> None:
        self.transport.rate = 0.5
        await asyncio.sleep(seconds)
        self.transport.rate = 0.0

    async def _fail(self, seconds: float) -> None:
        names = set(self.draw.sample(sorted(_FAULTS), 2))
        with self.faults.while_on(names):
            await asyncio.sleep(seconds)

    async def _truncate(self, _: float) -> None:
        self.plant.truncate()

    async def _press(self, seconds: float) -> None:
        self.plant.pressed = True
        await asyncio.sleep(seconds)
        self.plant.pressed = False


Check = Callable[[World], Awaitable[None]]


def play(
    folder: Path, version: Version, seed: int, hours: int, quiet: Check, step: int = STEP_SECONDS,
    dry_run: bool = False,
) -> World:  # fmt: skip
    """A day of an agent; ``quiet`` is called at every quiet moment and after the stop."""
    clock = VirtualClock(START)

    async def whole() -> World:
        async with EmbeddedControlPlane(Options(clock=clock, seed=seed)) as plane:
            world = World(folder, version, seed, step, plane, clock, dry_run)
            await world.prepare()
            with inject(world.faults):
                await _run(world, hours, quiet)
            return world

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(whole())


async def _run(world: World, hours: int, quiet: Check) -> None:
    tasks = [asyncio.create_task(each()) for each in (world.events.run, world.live)]
    agent = asyncio.create_task(world.agent.run())
    await world.agent.ready()
    for _ in range(hours):
        await world.hour()
        assert not agent.done(), agent.exception()
        await quiet(world)
    for task in (agent, *tasks):
        task.cancel()
    await asyncio.gather(agent, *tasks, return_exceptions=True)
