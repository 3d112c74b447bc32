# SPDX-License-Identifier: Apache-2.0
"""Histories of the whole loop: machines that report, the manager, the scheduler.

Agents fall silent, clocks jump, components start anew, nodes leave, the ConfigMap is wrong. After
each step every node offers what the plain formula allows for the data at hand, but for moves below
the threshold, and nothing once they are stale; no write was below the threshold; no batch pod was
bound to a node beyond what it offered. A manager that starts with a wrong ConfigMap leaves what
nodes show until the data are stale.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from koord.api import ConfigMap, Node, Pod
from koord.base.clock import VirtualLoop
from koord.base.rng import stream
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from tests.controllers.manager.noderesource.scene import CONFIG, NAMESPACE, shown
from tests.controllers.manager.noderesource.test_histories import JumpingClock, _milli
from tests.loop.fleetworld import FleetWorld
from tests.models import noderesource as model
from tests.models import overcommit
from tests.simulator.world import START

MACHINES, MOST_PODS = 2, 6
PAUSE = 300
STALE_MINUTES = 2
# A clock that jumped is looked at again after so long.
BLUR = 12.0
# A report and what comes of it are no one instant.
TRIES = 4
_ANY = 2**60


class LoopHistories(RuleBasedStateMachine):
    """See the head of this file."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = JumpingClock(START)
        self.runner = asyncio.Runner(loop_factory=lambda: VirtualLoop(self.clock))
        self.plane = EmbeddedControlPlane(Options(clock=self.clock, seed=1))
        self.strategy: dict[str, Any] = {}
        self.pods: list[str] = []
        self.count = 0
        self.last: dict[str, float] = {}
        # What the ConfigMap says: a strategy, "wrong" or "gone"; whether the manager knows one.
        self.says, self.known = "strategy", True
        self.kept: dict[str, tuple[int, int] | None] = {}
        self.jumped = False
        self.do(self.plane.__aenter__())
        self.world = FleetWorld(self.plane, self.clock, MACHINES)
        self.world.changed = self._changed  # type: ignore[method-assign]
        self.do(self.world.open())

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed: int) -> None:
        self.draw = stream(seed, "loop")
        self.configure(65, 0.1, True)
        self.do(self.world.start_manager())
        self.do(self.world.start_scheduler())
        self.do(self.world.speak())
        for batch in (True, False, True):
            self.pod_comes(batch, 3)

    def teardown(self) -> None:
        async def end() -> None:
            await self.world.close()
            await self.plane.__aexit__(None, None, None)

        self.do(end())
        self.runner.close()

    # What happens.

    @rule(batch=st.sampled_from([True, True, False]), cores=st.integers(1, 6))
    @precondition(lambda self: len(self.pods) < MOST_PODS)
    def pod_comes(self, batch: bool, cores: int) -> None:
        self.count += 1
        self.pods.append(f"p{self.count}")
        self.do(self.world.submit(self.pods[-1], batch, cores))

    @rule()
    @precondition(lambda self: bool(self.pods))
    def pod_goes(self) -> None:
        name = self.pods.pop(self.draw.randrange(len(self.pods)))
        self.do(self.world.client.delete(Pod, name, "default", grace_period_seconds=0))

    @rule()
    @precondition(lambda self: not self.world.silent)
    def agents_stop(self) -> None:
        self.do(self.world.silence())

    @rule()
    @precondition(lambda self: self.world.silent)
    def agents_return(self) -> None:
        self.do(self.world.speak())

    @rule(seconds=st.sampled_from([5, 61, 130]))
    def time_passes(self, seconds: int) -> None:
        self.do(asyncio.sleep(seconds))

    @rule(seconds=st.sampled_from([-3600, -50, 50, 3600]))
    def wall_clock_jumps(self, seconds: int) -> None:
        self.clock.jump(seconds)
        self.jumped = True

    @rule()
    def manager_starts_anew(self) -> None:
        self.do(self.world.scene.stop())
        self.last.clear()
        self.known = self.says != "wrong"
        if self.says == "gone":
            self.strategy = {**self.strategy, "enable": False}
        self.kept = {node.metadata.name: shown(node) for node in self.do(self.world.nodes())}
        self.do(self.world.start_manager())

    @rule()
    def scheduler_starts_anew(self) -> None:
        self.do(self.world.stop_scheduler())
        self.do(self.world.start_scheduler())

    @rule()
    def node_leaves(self) -> None:
        names = [node.metadata.name for node in self.do(self.world.nodes())]
        if len(names) > 1:
            gone = self.draw.choice(names)
            self.do(self.world.client.delete(Node, gone))
            self.last.pop(gone, None)
            self.kept.pop(gone, None)

    @rule(
        cpu=st.sampled_from([30, 60, 90]), share=st.sampled_from([0.05, 0.1, 0.4]),
        enable=st.sampled_from([True, True, False]),
    )  # fmt: skip
    def configure(self, cpu: int, share: float, enable: bool) -> None:
        self.strategy = {
            "enable": enable, "cpuReclaimThresholdPercent": cpu, "resourceDiffThreshold": share,
            "degradeTimeMinutes": STALE_MINUTES, "updateTimeThresholdSeconds": PAUSE,
            "metricReportIntervalSeconds": 60, "metricAggregateDurationSeconds": 60,
        }  # fmt: skip
        self.do(self.world.scene.configure(self.strategy))
        self.says, self.known = "strategy", True

    @rule(
        text=st.sampled_from(["{", '{"degradeTimeMinutes":0}', '{"enable":"perhaps"}', None]),
        start=st.booleans(), jump=st.booleans(),
    )  # fmt: skip
    def mistake(self, text: str | None, start: bool, jump: bool) -> None:
        """The last good one stays in force, also where the ConfigMap is gone."""
        if text is not None:
            self.do(self.world.scene.configure(text))
        elif self.says != "gone":
            self.do(self.world.client.delete(ConfigMap, CONFIG, NAMESPACE))
        self.says = "gone" if text is None else "wrong"
        if start:
            self.manager_starts_anew()
        if start and jump:
            self.wall_clock_jumps(3600)

    # What has to be.

    async def _changed(self, before: Node, after: Node) -> None:
        """Every write of a node's status is worth it."""
        name, now = before.metadata.name, self.clock.monotonic_seconds()
        share = self.strategy["resourceDiffThreshold"]
        old, new = before.status.allocatable, after.status.allocatable
        far = any(
            model.moved(_milli(old, resource), _milli(new, resource), share)
            for resource in {*old, *new}
        )
        late = name in self.last and now - self.last[name] > PAUSE
        if not far and not late:
            self.world.wrong.append(f"{name} was written for nothing: {old} to {new}")
        self.last[name] = now

    @invariant()
    def nothing_goes_wrong(self) -> None:
        self.do(asyncio.sleep(BLUR))
        assert self.world.wrong == []

    @invariant()
    def nodes_offer_what_the_formula_allows(self) -> None:
        for node in self.do(self.world.nodes()):
            found = ""
            for _ in range(TRIES):
                found = self.do(self._differs(node.metadata.name))
                if not found:
                    break
                self.do(asyncio.sleep(BLUR / 2))
            assert not found
        self.jumped = False

    async def _differs(self, name: str) -> str:
        node = await self.world.scene.node(name)
        got, known = shown(node), await self.world.formula(node, self.strategy)
        if not self.known:
            return self._not_kept(name, got, known)
        least = overcommit.batch(known)
        # How far the system's use rose since the report before is the manager's to know.
        known.risen = (_ANY, _ANY)
        most = overcommit.batch(known)
        if got is None or least is None or most is None:
            return "" if got is least is None else f"{name} shows {got} where {least} is allowed"
        share = self.strategy["resourceDiffThreshold"]
        for have, low, high in zip(got, least, most, strict=True):
            near = low if have < low else high
            if not low <= have <= high and model.moved(have * 1000, near * 1000, share):
                return f"{name} shows {got} where {least} to {most} is allowed"
        return ""

    def _not_kept(self, name: str, got: Any, known: overcommit.Node) -> str:
        before = self.kept.get(name)
        allowed = overcommit.kept(before, known)
        # For a moment after a jump reports were stale that count again by now, or new ones came.
        if got == allowed or (self.jumped and got is None):
            self.kept[name] = got
            return ""
        return f"{name} shows {got} where {allowed} is to stay of {before}"


SOAKS = os.environ.get("KOORD_PROFILE") == "soak"
TestLoopHistories = LoopHistories.TestCase
# Every example is a cluster that starts and runs for minutes; the parts have histories of their
# own, with as many examples as everything else.
TestLoopHistories.settings = (
    settings(stateful_step_count=7) if SOAKS else settings(max_examples=25, stateful_step_count=10)
)
