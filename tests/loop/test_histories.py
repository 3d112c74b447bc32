# SPDX-License-Identifier: Apache-2.0
"""Histories of the whole loop: machines that report, the manager, the scheduler.

Agents fall silent, clocks jump, components start anew, nodes join and leave, are reserved in part,
policies change, the ConfigMap is wrong. After each step every node and every NUMA zone of it offers
what the plain formula allows for the data at hand, but for moves below the threshold, and nothing
once they are stale; no write was below the threshold; no pod was bound to a node beyond the batch
or mid resources that it offered. A manager that starts with a wrong ConfigMap leaves what nodes
show until the data are stale.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from koord.api import ConfigMap, Node, NodeResourceTopology, Pod
from koord.base.clock import VirtualLoop
from koord.base.rng import stream
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from tests.controllers.manager.noderesource.scene import CONFIG, MID, NAMESPACE, shown
from tests.controllers.manager.noderesource.test_histories import JumpingClock, _milli
from tests.loop.fleetworld import PODS, FleetWorld
from tests.loop.reading import RESERVATIONS, zone_offers
from tests.models import noderesource as model
from tests.models import overcommit
from tests.simulator.simulated_cluster import START

MACHINES, MOST_JOINS, MOST_PODS = 2, 2, 6
PAUSE = 300
STALE_MINUTES = 2
# A clock that jumped is looked at again after so long.
BLUR = 12.0
# A report and what comes of it are no one instant.
TRIES = 4
_ANY = 2**60
_POLICIES = st.sampled_from(["usage", "request", "maxUsageRequest", "requestRatio"])
_PERCENTS = st.sampled_from([0, 20, 70, 100])
_FEW_PERCENTS = st.sampled_from([5, 30])
_STRATEGIES = st.fixed_dictionaries(
    {
        "enable": st.sampled_from([True, True, True, True, False]),
        "cpuReclaimThresholdPercent": st.sampled_from([30, 60, 90]),
        "resourceDiffThreshold": st.sampled_from([0.05, 0.1, 0.4]),
        "cpuCalculatePolicy": _POLICIES,
        "memoryCalculatePolicy": _POLICIES,
        "midUnallocatedPercent": _PERCENTS,
    },
    optional={
        "overcommitRatioPercent": _PERCENTS,
        "batchCPUThresholdPercent": _FEW_PERCENTS,
        "batchMemoryThresholdPercent": _FEW_PERCENTS,
        "midReclaimMode": st.just("static"),
        "midStaticCPUReservedPercent": _FEW_PERCENTS,
        "midStaticMemoryReservedPercent": _FEW_PERCENTS,
        "midCPUThresholdPercent": _PERCENTS,
        "midMemoryThresholdPercent": _PERCENTS,
    },
)
_ALWAYS = {
    "degradeTimeMinutes": STALE_MINUTES, "updateTimeThresholdSeconds": PAUSE,
    "metricReportIntervalSeconds": 60, "metricAggregateDurationSeconds": 60,
}  # fmt: skip
_FIRST = {
    "enable": True, "cpuReclaimThresholdPercent": 65, "resourceDiffThreshold": 0.1,
    "midUnallocatedPercent": 20,
}  # fmt: skip

Amounts = tuple[int, int]
ZONES = {f"zone {number}" for number in range(8)}
Offers = dict[str, Amounts | None]
"""By what it is, batch and mid of a node and batch of each zone, in thousandths; None for none."""


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
        self.kept: dict[str, Offers] = {}
        self.jumped = False
        self.do(self.plane.__aenter__())
        self.world = FleetWorld(self.plane, self.clock, MACHINES)
        self.world.changed = self._changed  # type: ignore[method-assign]
        self.world.zoned = self._zoned  # type: ignore[method-assign]
        self.do(self.world.open())

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed: int) -> None:
        self.draw = stream(seed, "loop")
        self.configure(_FIRST)
        self.do(self.world.start_manager())
        self.do(self.world.start_scheduler())
        self.do(self.world.speak())
        for kind in ("batch", "service", "mid", "bound"):
            self.pod_comes(kind, 3)

    def teardown(self) -> None:
        async def end() -> None:
            await self.world.close()
            await self.plane.__aexit__(None, None, None)

        self.do(end())
        self.runner.close()

    # What happens.

    @rule(kind=st.sampled_from(PODS), cores=st.integers(1, 6))
    @precondition(lambda self: len(self.pods) < MOST_PODS)
    def pod_comes(self, kind: str, cores: int) -> None:
        self.count += 1
        self.pods.append(f"p{self.count}")
        self.do(self.world.submit(self.pods[-1], kind, cores))

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
        self.known = self.says != "wrong"
        if self.says == "gone":
            self.strategy = {**self.strategy, "enable": False}
        self.kept = {
            node.metadata.name: self.do(self._offers(node)) for node in self.do(self.world.nodes())
        }
        self.do(self.world.start_manager())
        # What it finds counts as just written.
        self.last = dict.fromkeys(self.last, self.clock.monotonic_seconds())

    @rule()
    def scheduler_starts_anew(self) -> None:
        self.do(self.world.stop_scheduler())
        self.do(self.world.start_scheduler())

    @rule()
    def node_leaves(self) -> None:
        names = [node.metadata.name for node in self.do(self.world.nodes())]
        if len(names) > 1:
            gone = self.draw.choice(names)
            self.do(self.world.leave(gone))
            self.kept.pop(gone, None)
            for kind in ("", "zones of "):
                self.last.pop(kind + gone, None)

    @rule(cores=st.sampled_from([8, 24]), zones=st.sampled_from([1, 2, 4]))
    @precondition(lambda self: self.world.joined < MOST_JOINS)
    def node_joins(self, cores: int, zones: int) -> None:
        self.do(self.world.join(cores, zones))

    @rule(text=st.sampled_from(list(RESERVATIONS)))
    def node_is_reserved(self, text: str) -> None:
        names = [node.metadata.name for node in self.do(self.world.nodes())]
        self.do(self.world.reserve(self.draw.choice(names), text))

    @rule(strategy=_STRATEGIES)
    def configure(self, strategy: dict[str, Any]) -> None:
        self.strategy = {**strategy, **_ALWAYS}
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
        old, new = before.status.allocatable, after.status.allocatable
        moves = [(_milli(old, resource), _milli(new, resource)) for resource in {*old, *new}]
        self._written(before.metadata.name, moves)

    async def _zoned(self, before: NodeResourceTopology, after: NodeResourceTopology) -> None:
        old, new = zone_offers(before), zone_offers(after)
        assert old.keys() == new.keys()
        nothing = (None, None)
        moves = [
            move for zone in new
            for move in zip(old[zone] or nothing, new[zone] or nothing, strict=True)
        ]  # fmt: skip
        self._written(f"zones of {before.metadata.name}", moves)

    def _written(self, what: str, moves: list[tuple[int | None, int | None]]) -> None:
        """Every write is worth it."""
        now, share = self.clock.monotonic_seconds(), self.strategy["resourceDiffThreshold"]
        far = any(model.moved(old, new, share) for old, new in moves)
        late = what in self.last and now - self.last[what] > PAUSE
        if not far and not late:
            self.world.wrong.append(f"{what}: written for nothing: {moves}")
        self.last[what] = now

    @invariant()
    def nothing_goes_wrong(self) -> None:
        self.do(asyncio.sleep(BLUR))
        assert self.world.wrong == [], self.world.wrong

    @invariant()
    def nodes_offer_what_the_formula_allows(self) -> None:
        for node in self.do(self.world.nodes()):
            found = ""
            for _ in range(TRIES):
                found = self.do(self._differs(node.metadata.name))
                if not found:
                    break
                self.do(asyncio.sleep(BLUR / 2))
            assert not found, found
        self.jumped = False

    async def _differs(self, name: str) -> str:
        node = await self.world.scene.node(name)
        got, known = await self._offers(node), await self.world.formula(node, self.strategy)
        if not self.known:
            return self._not_kept(name, got, known)
        least = _allowed(known)
        # How far the system's use rose since the report before is the manager's to know.
        known.risen = (_ANY, _ANY)
        most = _allowed(known)
        share = self.strategy["resourceDiffThreshold"]
        assert got.keys() <= least.keys() == most.keys()
        for what in least:
            if _is_off(what, got, least, most, share):
                return f"{name} shows {got} where {what} {least[what]} to {most[what]} is allowed"
        return _disagree(got, share)

    async def _offers(self, node: Node) -> Offers:
        topology = await self.world.topology(node.metadata.name)
        zones = zone_offers(topology) if topology is not None else {}
        return {
            "batch": _thousandths(shown(node)), "mid": _thousandths(shown(node, MID)),
            **{f"zone {number}": amounts for number, amounts in zones.items()},
        }  # fmt: skip

    def _not_kept(self, name: str, got: Offers, known: overcommit.Node) -> str:
        """Until a strategy is read nodes keep what they show, while their reports count."""
        before = self.kept.get(name, {})
        for what in got:
            amounts = _something(what, got[what])
            allowed = overcommit.kept(_something(what, before.get(what)), known)
            # For a moment after a jump reports were stale that count again by now, or new came.
            if amounts != allowed and not (self.jumped and amounts is None):
                return f"{name} shows {got} where {what} {allowed} is to stay of {before}"
        self.kept[name] = got
        return ""


def _allowed(known: overcommit.Node) -> Offers:
    zones = overcommit.zone_batch(known)
    return {
        "batch": _thousandths(overcommit.batch(known)), "mid": _thousandths(overcommit.mid(known)),
        **{f"zone {zone.number}": _thousandths(zones.get(zone.number)) for zone in known.zones},
    }  # fmt: skip


def _thousandths(amounts: Any) -> Amounts | None:
    if amounts is None:
        return None
    cpu, memory = amounts
    return int(cpu * 1000), int(memory * 1000)


def _is_off(what: str, got: Offers, least: Offers, most: Offers, share: float) -> bool:
    """Whether something is shown that has moved too far from what may be."""
    here, lowest, highest = got.get(what), least[what], most[what]
    if lowest is None or highest is None:
        return _something(what, here) is not None
    if here is None:
        return True
    return any(
        not low <= have <= high and model.moved(have, low if have < low else high, share)
        for have, low, high in zip(here, lowest, highest, strict=True)
    )


def _something(what: str, amounts: Amounts | None) -> Amounts | None:
    """Zones that offer nothing keep the names, with 0."""
    return None if what in ZONES and amounts == (0, 0) else amounts


def _disagree(got: Offers, share: float) -> str:
    """Zones together offer no more than their node, unless one of them is overfull.

    What goes to mid is the node's alone: zones know nothing of it.
    """
    batch, zones = got["batch"], [got[what] for what in got if what in ZONES]
    if batch is None or not zones:
        return ""
    for r, of_batch in enumerate(batch):
        of_node = of_batch + (got["mid"] or (0, 0))[r]
        each = [zone[r] for zone in zones if zone is not None]
        # Each may lag behind by the threshold, and what is divided is rounded.
        slack = share * (of_node + sum(each)) + 1000 * len(each)
        if all(each) and sum(each) > of_node + slack:
            return f"zones offer more together than their node: {got}"
    return ""


SOAKS = os.environ.get("KOORD_PROFILE") == "soak"
TestLoopHistories = LoopHistories.TestCase
# Every example is a cluster that starts and runs for minutes; the parts have histories of their
# own, with as many examples as everything else.
TestLoopHistories.settings = (
    settings(stateful_step_count=7) if SOAKS else settings(max_examples=20, stateful_step_count=10)
)
