# SPDX-License-Identifier: Apache-2.0
"""Gangs under random pods, nodes and failures: all or nothing, and nothing left behind."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.controllers.scheduler.plugins.coscheduling.state.gangs import MemberState
from tests.controllers.scheduler.plugins.coscheduling.gangs import GangWorld, bound, member, settle
from tests.controllers.scheduler.pods import node

NEEDS = {"g": 2, "h": 3, "i": 1}
MODES = {"g": "Strict", "h": "Strict", "i": "NonStrict", "n": "NonStrict"}
NEEDS["n"] = 3


class Binder:
    """Binds, or fails where it was told to."""

    name = "Binder"

    def __init__(self) -> None:
        self.fails: set[str] = set()

    async def bind(self, cycle: Any, node: str) -> bool:
        name = cycle.pod.pod.metadata.name
        if name in self.fails:
            self.fails.discard(name)
            raise OSError("the way to the server is cut")
        return True

    def events(self) -> list[Any]:
        return []


class Gangs(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.binder = Binder()
        self.world = GangWorld({"a": "5", "b": "4"}, more={"bind": [self.binder]})
        self.made = Counter[str]()
        self.nodes = 2

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        self.loop.run_until_complete(work)

    @rule(gang=st.sampled_from(sorted(NEEDS)), count=st.integers(1, 4), fails=st.booleans())
    def pods_come(self, gang: str, count: int, fails: bool) -> None:
        for _ in range(count):
            name = f"{gang}{self.made[gang]}"
            self.made[gang] += 1
            notes = {"mode": MODES[gang]}
            if fails:
                self.binder.fails.add(name)
                fails = False
            self.world.put(member(name, gang, NEEDS[gang], notes=notes))

    @rule()
    def time_passes(self) -> None:
        async def work() -> None:
            self.world.clock.advance(15.0)
            await self.world.schedule()

        self.do(work())

    @rule()
    def the_api_confirms(self) -> None:
        async def work() -> None:
            await settle()
            waits = self.world.scheduler.loop.binder.waiting
            for info in list(self.world.world.accounts.pods().values()):
                if info.uid not in waits and not info.pod.spec.node_name:
                    self.world.put(bound(info.pod, self.world.world.table.name(info.row)))

        self.do(work())

    @precondition(lambda self: self.nodes < 5)
    @rule(cpu=st.sampled_from(["1", "2", "6"]))
    def a_node_comes(self, cpu: str) -> None:
        self.world.put(node(f"n{self.nodes}", cpu=cpu))
        self.nodes += 1

    @rule(number=st.integers(0, 30))
    def a_pod_goes(self, number: int) -> None:
        pods = sorted(key for key, _ in self.world.views.view(Pod).items())
        if pods:
            self.world.views.view(Pod).remove(pods[number % len(pods)])
        self.do(settle())

    @invariant()
    def no_node_has_too_much(self) -> None:
        table = self.world.world.table
        assert (table.requested[:4] <= table.allocatable[:4]).all()

    @invariant()
    def states_are_what_counts(self) -> None:
        accounts = self.world.world.accounts
        for gang in self.world.plugin.gangs.gangs.values():
            states = Counter(each.state for each in gang.members.values())
            assert all(gang.count(state) == states[state] for state in MemberState)
            for each in gang.members.values():
                assert (each.state is not MemberState.PENDING) == (
                    accounts.get(each.uid) is not None
                )

    @invariant()
    def strict_gangs_hold_all_or_nothing(self) -> None:
        for gang in self.world.plugin.gangs.gangs.values():
            assert gang.declared is not None
            assert gang.group is not None
            if gang.declared.mode == "Strict" and not gang.group.once_satisfied:
                held = gang.count(MemberState.WAITING)
                assert not held or held >= gang.minimum or gang.group.round
                assert not gang.group.round or len(gang.group.round) >= gang.minimum

    def teardown(self) -> None:
        self.do(self.rest())
        self.loop.close()

    async def rest(self) -> None:
        """Once all is quiet, nothing waits that a plain count finds room for."""
        self.binder.fails.clear()
        for _ in range(4):
            self.world.clock.advance(400.0)
            await self.world.schedule()
        table, views = self.world.world.table, self.world.views
        assert len(list(views.view(Node).items())) == len(table)
        free = sum(
            int(table.allocatable[0, row] - table.requested[0, row]) // 2000
            for row in range(table.size)
        )
        for gang in self.world.plugin.gangs.gangs.values():
            pending = gang.count(MemberState.PENDING)
            if pending and gang.complete:
                assert free < max(gang.missing(), 1)
        await self.world.scheduler.loop.binder.close()


TestGangs = Gangs.TestCase
TestGangs.settings = settings(deadline=None)
