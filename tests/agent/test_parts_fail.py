# SPDX-License-Identifier: Apache-2.0
"""Each loop, collector, strategy, hook and report of the agent fails in turn: the others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from koord.agent.app import Agent, AgentServices
from koord.agent.options import AgentOptions
from koord.agent.status import agent_status
from koord.api import definitions
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.nodeslo import NodeSLO
from koord.api.objects import decode_as
from koord.base.clock import VirtualClock, VirtualLoop
from koord.base.faults import FaultPlan, FaultRule, inject
from koord.base.metrics import registry
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kernels.cgroup_parse import Version
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.events import EventRecorder
from tests.agent.machine_tree import MachineTree
from tests.striking import Striking, UnforeseenError, loops_in_turn, rounds_in_turn, unsupervised

NODE = "n1"
GATES = (
    "Accelerators", "AuditEvents", "BECPUEvict", "BECPUSuppress", "BEMemoryEvict", "BlkIOReconcile",
    "CgroupReconcile", "CPUBurst", "NodeTopologyReport", "PSICollector", "RdtResctrl",
    "SystemConfig",
)  # fmt: skip
AMOUNTS = {"cpu": "4", "memory": "16Gi"}
MACHINE = {"metadata": {"name": NODE}, "status": {"capacity": AMOUNTS, "allocatable": AMOUNTS}}
STEP = 5
_START = 1_900_000_000.0


class Watched:
    """An agent with all it has switched on."""

    def __init__(self, plane: EmbeddedControlPlane, folder: Path, version: Version) -> None:
        self.clock = clock = plane.options.clock
        self.admin = Client(plane.transport(), "admin", requests_per_second=None)
        self.tree = MachineTree(folder / "machine", version)
        client = Client(plane.transport(), "koordlet", requests_per_second=None)
        self.events = EventRecorder(client, "koordlet", host=NODE, clock=clock)
        self.registry = registry()
        self.supervisor = Striking("koordlet", self.registry, clock)
        options = replace(
            AgentOptions(), node_name=NODE, pods_from="apiserver", only_evict_by_api=True,
            feature_gates=",".join(f"{gate}=true" for gate in GATES),
            disable_query_kubelet_config=True, audit_log_dir=str(folder / "audit"),
            prediction_checkpoint_filepath=str(folder / "checkpoints"),
            collect_res_used_interval=STEP, collect_node_cpu_info_interval=STEP,
            collect_node_storage_info_interval=STEP, psi_collector_interval=STEP,
            reconcile_interval_seconds=STEP, cpu_suppress_interval_seconds=STEP,
            cpu_evict_interval_seconds=STEP, memory_evict_interval_seconds=STEP,
            node_topology_sync_interval=STEP, runtime_hooks_reconcile_interval=STEP,
            prediction_training_interval=STEP,
        )  # fmt: skip
        around = AgentServices(client, self.events, None, self.registry, clock, self.supervisor)
        self.agent = Agent(options, self.tree.machine(), around)

    async def live(self) -> None:
        """Counters move while time passes."""
        while True:
            self.tree.stat([int(self.clock.wall_seconds() - _START) * 40 + 100] * 4)
            await asyncio.sleep(STEP)

    async def works(self) -> None:
        """Measures, decides and holds hooks' files to what they should say."""
        good = {
            name: each.good_rounds for name, each in self.agent.advisor.collector_states.items()
        }
        await asyncio.sleep(2 * STEP + 1)
        collector_states = self.agent.advisor.collector_states
        assert [
            name for name in good if good[name] and collector_states[name].good_rounds <= good[name]
        ] == []
        now = self.clock.wall_seconds()
        late = [n for n, each in self.agent.loop.rounds.items() if each.at_seconds < now - 2 * STEP]
        assert late == []


def lacks(failed: str, other: str) -> bool:
    """Strategies give a round up while what they look at is not measured, or not computed."""
    measures = failed in ("metrics", "topology") or failed.startswith("collector ")
    return measures and other.startswith("strategy ")


def _seconds(name: str) -> float:
    """Within which a part has a round."""
    return 65 if name == "checkpoints" else 2 * STEP + 1


# Without its pods, and what the cluster wants of it, an agent is of no use.
VITAL = {"cluster states", "informer of Node", "informer of NodeMetric", "informer of NodeSLO",
         "informer of Pod"}  # fmt: skip


def watched(
    folder: Path,
    version: Version,
    story: Callable[[Watched, set[asyncio.Task[None]]], Awaitable[None]],
    never: str = "",
) -> None:
    clock = VirtualClock(_START)

    async def whole() -> None:
        async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as plane:
            made = Watched(plane, folder, version)
            names = [name async for name, _ in installing.install(made.admin, definitions.crds())]
            await installing.wait_established(made.admin, names, 60)
            await made.admin.create(decode_as(MACHINE, Node))
            await made.admin.create(NodeMetric(metadata=ObjectMeta(name=NODE)))
            await made.admin.create(NodeSLO(metadata=ObjectMeta(name=NODE)))
            tasks = [
                asyncio.create_task(made.live()),
                asyncio.create_task(made.agent.run()),
            ]
            before = asyncio.all_tasks()
            tasks.append(made.supervisor.start("events", made.events.run))
            try:
                await made.agent.ready()
                await asyncio.sleep(70)
                ill = {part.name for part in made.supervisor.parts.values() if part.error}
                assert {name for name in ill if not lacks(never, name)} == ({never} - {""})
                await story(made, before)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    plan = FaultPlan(1, {f"supervised.{never}": FaultRule(1.0, UnforeseenError("never"))})
    with (
        asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner,
        inject(plan) if never else nullcontext(),
    ):
        runner.run(whole())


@pytest.mark.parametrize("version", Version, ids=["v1", "v2"])
def test_each_loop_fails_alone(tmp_path: Path, version: Version) -> None:
    async def story(made: Watched, before: set[asyncio.Task[None]]) -> None:
        assert unsupervised(made.supervisor, before) == []
        names = await loops_in_turn(made.supervisor, made.works, lacks)
        assert {
            "cluster states", "metrics", "prediction", "NodeMetric", "topology", "Device", "hooks",
            "strategies", "evictions", "events", "ages of watched parts",
        } <= set(names)  # fmt: skip
        text = made.registry.expose().decode()
        for name in names:
            assert f'koord_koordlet_failures_total{{part="{name}"}}' in text
        shown = {each["name"]: each for each in agent_status(made.agent, made.clock)["parts"]}
        assert all(shown[name]["failures"] >= 1 for name in names)

    watched(tmp_path, version, story)


def test_a_loop_that_never_begins_keeps_no_other_from_it(tmp_path: Path) -> None:
    """Each in an agent of its own; that loops of both versions are the same is seen above."""
    version = Version.V2
    running: dict[str, int] = {}

    async def healthy(made: Watched, before: set[asyncio.Task[None]]) -> None:
        running.update((name, len(p.tasks)) for name, p in made.supervisor.parts.items() if p.tasks)

    watched(tmp_path / "healthy", version, healthy)
    for number, name in enumerate(sorted(running.keys() - VITAL)):

        async def story(made: Watched, before: set[asyncio.Task[None]], name: str = name) -> None:
            parts = made.supervisor.parts
            assert {each: len(p.tasks) for each, p in parts.items() if p.tasks} == running
            assert parts[name].failures >= 6
            if name not in ("metrics", "strategies"):
                await made.works()

        watched(tmp_path / str(number), version, story, name)


@pytest.mark.parametrize("version", Version, ids=["v1", "v2"])
def test_each_round_fails_alone(tmp_path: Path, version: Version) -> None:
    async def story(made: Watched, before: set[asyncio.Task[None]]) -> None:
        names = await rounds_in_turn(made.supervisor, _seconds, made.works, set(), lacks)
        kinds = {name.split()[0] for name in names}
        assert {"collector", "strategy", "hook"} <= kinds

    watched(tmp_path, version, story)
