# SPDX-License-Identifier: Apache-2.0
"""Histories of a cluster and its manager, held against the plain formula.

Nodes and pods come and go, agents report, fall silent or talk nonsense, clocks jump, the ConfigMap
is wrong, writes meet conflicts, the manager starts anew. After each step every node shows what the
formula allows for what is known, but for moves below the threshold; and nothing was written that
had not moved past it. Until a ConfigMap is right, nodes keep what they show while reports count.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Coroutine
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from koord.api import ConfigMap, Node, NodeMetric, Pod, crds
from koord.api.timestamps import seconds_text
from koord.base import faults
from koord.base.clock import VirtualClock, VirtualLoop
from koord.base.rng import stream
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kernels.quantity import Rounding
from koord.kube import crds as installing
from koord.kube.errors import ApiError, Status, TransportError
from koord.kube.patches import Patch
from tests.controllers.manager.noderesource.scene import BATCH, CONFIG, NAMESPACE, Scene, shown
from tests.models import noderesource as model
from tests.models import overcommit
from tests.profiles import examples
from tests.simulator.simulated_cluster import START, World

HELD = "node.koordinator.sh/thirdPartyAllocations"
STRATEGY = "node.koordinator.sh/colocation-strategy"
GI = 1 << 30
PAUSE = 300
# A clock that jumped is looked at again after so long.
BLUR = 11.0
SETTLE = 20.0
# What a system takes; most moves are small.
_PERMILLE = st.sampled_from([0, 15, 20, 25, 30, 150, 300])
_WRONG = ["{", '{"degradeTimeMinutes":0}', '{"enable":"perhaps"}', "[]"]
_KINDS = ("nodemetrics", "noderesourcetopologies", "devices")


class Report(NamedTuple):
    """What an agent told.

    Attributes:
        at: when.
        system: CPU milli and memory bytes.
        pods: by name, usage and priority class.
        risen: by how much the system uses more than in the report before, that the manager knows.
    """

    at: float
    system: tuple[int, int]
    pods: dict[str, tuple[int, int, str]]
    risen: tuple[int, int]


class JumpingClock(VirtualClock):
    """Wall time may jump; what is waited for does not notice."""

    def jump(self, seconds: float) -> None:
        self._wall_start_seconds += seconds


class Histories(RuleBasedStateMachine):
    """See the head of this file."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = JumpingClock(START)
        self.runner = asyncio.Runner(loop_factory=lambda: VirtualLoop(self.clock))
        self.plane = EmbeddedControlPlane(Options(clock=self.clock, seed=1))
        self.nodes: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {}
        self.held: dict[str, tuple[int, int]] = {}
        self.off: set[str] = set()
        self.reports: dict[str, Report] = {}
        self.pods: dict[str, dict[str, overcommit.Pod]] = {}
        self.strategy: dict[str, Any] = {}
        self.known = False
        self.kept: dict[str, tuple[int, int] | None] = {}
        self.count = 0
        self.last: dict[str, float] = {}
        self.scene = self.do(self._open())

    async def _open(self) -> Scene:
        await self.plane.__aenter__()
        scene = Scene(World(self.plane, self.clock))
        wanted = [crd for crd in crds() if crd["spec"]["names"]["plural"] in _KINDS]
        names = [name async for name, _ in installing.install(scene.client, wanted)]
        await installing.wait_established(scene.client, names, 10)
        return scene

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    @initialize(seed=st.integers(0, 2**16), rate=st.sampled_from([0.0, 0.3]))
    def begin(self, seed: int, rate: float) -> None:
        conflict = ApiError(Status(reason="Conflict", message="made up", code=409))
        rules = {
            "noderesource.write": faults.FaultRule(rate, conflict),
            "noderesource.reconcile": faults.FaultRule(rate / 3, TransportError("gone", sent=True)),
        }
        self.injected = faults.inject(faults.FaultPlan(seed, rules))
        self.injected.__enter__()
        self.draw = stream(seed, "histories")
        self.configure(60, 65, 15, 0.1, True)
        for cores in (32, 16):
            self.node_joins(cores, 4 * cores, 1)
        self.do(self._start())
        for name in self.nodes:
            self._tell(name, (20, 20), 0, [], None)

    async def _start(self) -> None:
        scene = self.scene
        self.kept = {name: shown(await scene.node(name)) for name in self.nodes}
        await scene.start()
        scene.patched = self._patched
        self.last = dict.fromkeys(self.nodes, self.clock.monotonic_seconds())
        self.known = self.strategy.get("readable", True)
        if self.strategy.get("gone"):
            self.strategy = {"enable": False, "readable": True, "gone": True, **_DEFAULTS}
        await scene.settle(SETTLE)

    def teardown(self) -> None:
        if hasattr(self, "injected"):
            self.injected.__exit__(None, None, None)

        async def end() -> None:
            await self.scene.stop()
            await self.plane.__aexit__(None, None, None)

        self.do(end())
        self.runner.close()

    # What happens.

    @rule(cores=st.integers(2, 64), memory=st.integers(4, 256), kept=st.sampled_from([0, 1]))
    @precondition(lambda self: len(self.nodes) < 3)
    def node_joins(self, cores: int, memory: int, kept: int) -> None:
        self.count += 1
        name = f"n{self.count}"
        capacity, allocatable = (
            {"cpu": str(cores - less), "memory": f"{memory - less}Gi", "pods": "110"}
            for less in (0, kept)
        )
        meta = {"name": name}
        status = {"capacity": capacity, "allocatable": allocatable}
        self.do(
            self.scene.client.create(
                {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}
            )
        )
        self.nodes[name] = (
            (cores * 1000, memory * GI), ((cores - kept) * 1000, (memory - kept) * GI)
        )  # fmt: skip
        self.pods[name] = {}
        self.last[name] = self.clock.monotonic_seconds()

    def some(self) -> str | None:
        return self.draw.choice(sorted(self.nodes)) if self.nodes else None

    @rule(with_report=st.booleans())
    @precondition(lambda self: len(self.nodes) > 1)
    def node_leaves(self, with_report: bool) -> None:
        name = self.some()
        assert name is not None
        self.do(self.scene.client.delete(Node, name))
        if with_report and name in self.reports:
            self.do(self.scene.client.delete(NodeMetric, name))
        self.reports.pop(name, None)
        del self.nodes[name], self.pods[name]
        self.off.discard(name)
        self.held.pop(name, None)

    @rule(
        share=st.tuples(_PERMILLE, _PERMILLE),
        age=st.sampled_from([0, 0, 0, 10, 700, 5000, -60]),
        speaks=st.lists(st.booleans(), min_size=4, max_size=4),
        stranger=st.sampled_from([None, None, "koord-batch", "koord-prod", ""]),
    )
    @precondition(lambda self: bool(self.nodes))
    def agent_reports(
        self, share: tuple[int, int], age: int, speaks: list[bool], stranger: str | None
    ) -> None:
        name = self.some()
        assert name is not None
        self._tell(name, share, age, speaks, stranger)

    def _tell(
        self, name: str, share: tuple[int, int], age: int, speaks: list[bool], stranger: str | None
    ) -> None:
        capacity = self.nodes[name][0]
        system = capacity[0] * share[0] // 1000, capacity[1] * share[1] // 1000
        used: dict[str, tuple[int, int, str]] = {}
        for speaking, (key, pod) in zip(speaks, self.pods[name].items(), strict=False):
            if speaking:
                of = "koord-prod" if pod.high else "koord-batch"
                used[key] = (pod.request[0] // 2, pod.request[1] // 3, of)
        if stranger is not None:
            used["stranger"] = (700, GI, stranger)
        at = float(int(self.clock.wall_seconds())) - age
        status = {
            "updateTime": seconds_text(at),
            "nodeMetric": {"systemUsage": _usage(system), "nodeUsage": _usage(system)},
            "podsMetric": [
                {"namespace": "default", "name": key, "priority": of, "podUsage": _usage((c, m))}
                for key, (c, m, of) in used.items()
            ],
        }
        self.do(self._report(name, status))
        before = self.reports.get(name)
        if before is not None and before[:3] == (at, system, used):
            return
        risen = (0, 0)
        if before is not None:
            cpu, memory = (max(0, n - o) for n, o in zip(system, before.system, strict=True))
            risen = cpu, memory
        self.reports[name] = Report(at, system, used, risen)

    @rule(without=st.sampled_from(["updateTime", "nodeMetric"]))
    @precondition(lambda self: bool(self.reports))
    def agent_talks_nonsense(self, without: str) -> None:
        name = self.draw.choice(sorted(self.reports))
        self.do(self._report(name, {without: None}))
        del self.reports[name]

    async def _report(self, name: str, status: dict[str, Any]) -> None:
        client = self.scene.client
        try:
            await client.get(NodeMetric, name)
        except ApiError:
            api = "slo.koordinator.sh/v1alpha1"
            await client.create({"apiVersion": api, "kind": "NodeMetric",
                                 "metadata": {"name": name}, "spec": {}})  # fmt: skip
        change = Patch.merge({"status": status})
        await client.patch(NodeMetric, name, change, subresource="status")

    @rule()
    @precondition(lambda self: bool(self.reports))
    def report_is_deleted(self) -> None:
        name = self.draw.choice(sorted(self.reports))
        self.do(self.scene.client.delete(NodeMetric, name))
        del self.reports[name]
        self.last[name] = float("-inf")

    @rule(
        cpu=st.integers(0, 4000), memory=st.integers(0, 8),
        of=st.sampled_from(["LS", "LSE", "BE", "LSR"]),
    )  # fmt: skip
    @precondition(lambda self: bool(self.nodes))
    def pod_comes(self, cpu: int, memory: int, of: str) -> None:
        name = self.some()
        assert name is not None
        self.count += 1
        key = f"p{self.count}"
        requests = {"cpu": f"{cpu}m", "memory": f"{memory}Gi"}
        container = {"name": "c", "image": "i", "resources": {"requests": requests}}
        meta = {"name": key, "namespace": "default", "labels": {"koordinator.sh/qosClass": of}}
        spec = {"nodeName": name, "containers": [container]}
        self.do(
            self.scene.client.create(
                {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
            )
        )
        request = cpu, memory * GI
        self.pods[name][key] = overcommit.Pod(key, "Pending", qos_label=of, request=request)

    @rule(ends=st.booleans())
    @precondition(lambda self: any(self.pods.values()))
    def pod_goes(self, ends: bool) -> None:
        name = self.draw.choice([n for n in sorted(self.pods) if self.pods[n]])
        key = self.draw.choice(sorted(self.pods[name]))
        client = self.scene.client
        if ends:
            change = Patch.merge({"status": {"phase": "Succeeded"}})
            self.do(client.patch(Pod, key, change, namespace="default", subresource="status"))
        else:
            self.do(client.delete(Pod, key, "default", grace_period_seconds=0))
        del self.pods[name][key]

    @rule(
        cpu=st.sampled_from([30, 60, 90]), memory=st.sampled_from([30, 65]),
        minutes=st.sampled_from([1, 15]), share=st.sampled_from([0.05, 0.1, 0.4]),
        enable=st.sampled_from([True, True, True, False]),
    )  # fmt: skip
    def configure(self, cpu: int, memory: int, minutes: int, share: float, enable: bool) -> None:
        strategy = {
            "enable": enable, "cpuReclaimThresholdPercent": cpu,
            "memoryReclaimThresholdPercent": memory, "degradeTimeMinutes": minutes,
            "resourceDiffThreshold": share, "updateTimeThresholdSeconds": PAUSE,
        }  # fmt: skip
        self.do(self.scene.configure(strategy))
        self.strategy = {**strategy, "readable": True}
        self.known = True

    @rule(text=st.sampled_from(_WRONG), start=st.booleans())
    @precondition(lambda self: not self.strategy.get("gone"))
    def mistake(self, text: str, start: bool) -> None:
        self.do(self.scene.configure(text))
        self.strategy["readable"] = False
        self.manager_starts_anew(start)

    @rule()
    @precondition(lambda self: not self.strategy.get("gone"))
    def configuration_is_deleted(self) -> None:
        """The last one stays in force until the next start."""
        self.do(self.scene.client.delete(ConfigMap, CONFIG, NAMESPACE))
        self.strategy["readable"] = self.strategy["gone"] = True

    @rule(cpu=st.integers(0, 5000), memory=st.integers(0, 4), kind=st.sampled_from("ahx"))
    @precondition(lambda self: bool(self.nodes))
    def annotate(self, cpu: int, memory: int, kind: str) -> None:
        name = self.some()
        assert name is not None
        self.held.pop(name, None)
        self.off.discard(name)
        entry = {"name": "x", "priority": "koord-batch",
                 "resources": {BATCH[0]: str(cpu), BATCH[1]: f"{memory}Gi"}}  # fmt: skip
        values: dict[str, str | None] = {HELD: None, STRATEGY: None}
        if kind == "h":
            values[HELD] = json.dumps({"allocations": [entry]})
            self.held[name] = cpu, memory * GI
        elif kind == "x":
            values |= {HELD: "{", STRATEGY: '{"enable":false}'}
            self.off.add(name)
        self.do(self.scene.annotate(name, annotations=values))

    @rule(seconds=st.sampled_from([1, 30, 61, 280, 901]))
    def time_passes(self, seconds: int) -> None:
        self.do(self.scene.settle(seconds))

    @rule(seconds=st.sampled_from([-7200, -50, 50, 7200]))
    def wall_clock_jumps(self, seconds: int) -> None:
        self.clock.jump(seconds)

    @rule(chance=st.sampled_from([True, False, False]))
    def manager_starts_anew(self, chance: bool) -> None:
        # A start costs more than all else here.
        if not chance:
            return
        quiet = self.known and self.strategy["readable"] and not self.strategy.get("gone")
        quiet = quiet and not any(any(told.risen) for told in self.reports.values())
        self.do(self.scene.stop())
        self.scene.writes.clear()
        before = self._stale()
        self.reports = {name: told._replace(risen=(0, 0)) for name, told in self.reports.items()}
        self.do(self._start())
        if quiet and before == self._stale():
            assert self.scene.writes == []

    # What has to be.

    def _stale(self) -> list[str]:
        now, minutes = self.clock.wall_seconds(), self.strategy["degradeTimeMinutes"]
        return sorted(n for n, told in self.reports.items() if now > told.at + minutes * 60)

    async def _patched(self, before: Node, after: Node) -> None:
        """Every write of a node's status is worth it."""
        name, now = before.metadata.name, self.clock.monotonic_seconds()
        share = self.strategy["resourceDiffThreshold"]
        old, new = before.status.allocatable, after.status.allocatable
        far = any(
            model.moved(_milli(old, resource), _milli(new, resource), share)
            for resource in {*old, *new}
        )
        late = now - self.last.get(name, now) > PAUSE
        assert far or late, (name, old, new)
        assert old != new
        self.last[name] = now

    @invariant()
    def nodes_show_what_the_formula_allows(self) -> None:
        self.do(self.scene.settle(SETTLE))
        for name in self.nodes:
            self._check(name, self.do(self.scene.node(name)))

    def _check(self, name: str, node: Node) -> None:
        told, now = self.reports.get(name), self.clock.wall_seconds()
        strategy = self.strategy if self.known else _DEFAULTS
        left = None if told is None else told.at + strategy["degradeTimeMinutes"] * 60 - now
        got, before = shown(node), self.kept.get(name)
        self.kept[name] = got
        if left is not None and -BLUR < left < 0:
            return
        if not self.known:
            age = None if told is None else math.ceil(now - told.at)
            here = overcommit.Node(*self.nodes[name], {}, age_seconds=age)
            assert got == overcommit.kept(before, here), (name, got, before)
            return
        if not strategy["enable"] or name in self.off or told is None or (left or 0) < 0:
            assert got is None, (name, got)
            return
        allowed = self._allowed(name, told)
        assert allowed is not None
        held = self.held.get(name, (0, 0))
        wanted = tuple(max(0, a - h) for a, h in zip(allowed, held, strict=True))
        assert got is not None, (name, wanted)
        share = strategy["resourceDiffThreshold"]
        for have, want in zip(got, wanted, strict=True):
            assert not model.moved(have * 1000, want * 1000, share), (name, got, wanted)

    def _allowed(self, name: str, told: Report) -> tuple[int, int] | None:
        pods = self.pods[name]
        metrics = {key: overcommit.Metric((c, m), of) for key, (c, m, of) in told.pods.items()}
        return overcommit.batch(
            overcommit.Node(
                *self.nodes[name],
                self.strategy,
                system=told.system,
                risen=told.risen,
                pods=list(pods.values()),
                metrics={key: metric for key, metric in metrics.items() if key in pods},
                dangling=[metric for key, metric in metrics.items() if key not in pods],
            )
        )


_DEFAULTS: dict[str, Any] = {
    "cpuReclaimThresholdPercent": 60, "memoryReclaimThresholdPercent": 65,
    "degradeTimeMinutes": 15, "resourceDiffThreshold": 0.1,
}  # fmt: skip


def _usage(amounts: tuple[int, int]) -> dict[str, Any]:
    return {"resources": {"cpu": f"{amounts[0]}m", "memory": str(amounts[1])}}


def _milli(amounts: Any, name: str) -> int | None:
    return amounts[name].milli(Rounding.UP) if name in amounts else None


TestHistories = Histories.TestCase
# An example is a manager among informers on virtual time: half a second of CPU each.
TestHistories.settings = settings(max_examples=examples(0.25), stateful_step_count=15)
