# SPDX-License-Identifier: Apache-2.0
"""The cache: every change has an exact inverse, and no card is given out beyond what it has."""

from __future__ import annotations

import json

from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from koord.controllers.scheduler.plugins.deviceshare.names import GPU, RESOURCES
from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import (
    CardAllocation,
)
from koord.controllers.scheduler.plugins.deviceshare.objects.device import read_device
from koord.controllers.scheduler.plugins.deviceshare.state.cache import DeviceCache
from tests.controllers.scheduler.plugins.deviceshare.clusters import Cluster, Offer, device, gpus
from tests.models import device_cache as model

WIDTH = len(RESOURCES[GPU])
CARDS = 4
TOTAL = (100, 100, 16 << 30, 0, 0, 0)


def some(core: int) -> tuple[int, ...]:
    return (core, core, core << 20, 0, 0, 0)


holdings = st.dictionaries(st.integers(0, CARDS), st.integers(0, 120), max_size=3).map(
    lambda found: tuple(
        CardAllocation(GPU, minor, some(core)) for minor, core in sorted(found.items())
    )
)
uids = st.sampled_from("abcdef")


class Counted(RuleBasedStateMachine):
    """Any pods come and go, owners of reservations among them, in any order."""

    @initialize()
    def begin(self) -> None:
        self.cache = DeviceCache()
        self.cache.open(0, "n")
        self.cache.set_inventory(0, read_device(device("n", *gpus(CARDS))), None, honour=False)
        self.model = model.Node({(GPU, minor): TOTAL for minor in range(CARDS)})

    @rule(uid=uids, held=holdings, sits_in=st.just("") | uids)
    def add(self, uid: str, held: tuple[CardAllocation, ...], sits_in: str) -> None:
        self.cache.add(0, uid, f"default/{uid}", held, sits_in)
        if uid not in self.model.pods:
            cards = {(GPU, each.minor): each.amounts for each in held}
            self.model.pods[uid] = model.Pod(cards, sits_in if sits_in != uid else "")

    @rule(uid=uids)
    def drop(self, uid: str) -> None:
        self.cache.drop(0, uid)
        self.model.pods.pop(uid, None)

    @rule()
    def unplug(self) -> None:
        self.cache.remove_device(0)
        self.cache.set_inventory(0, read_device(device("n", *gpus(CARDS))), None, honour=False)

    @invariant()
    def used_is_the_model_s(self) -> None:
        table = self.cache.tables[GPU].native
        columns = [table.used(0, place) for place in range(WIDTH)]
        for minor in range(CARDS + 1):
            want = self.model.used((GPU, minor))
            got = tuple(column[minor] if minor < len(column) else 0 for column in columns)
            assert got == want

    @invariant()
    def remained_is_the_model_s(self) -> None:
        for uid in "abcdef":
            assert self.cache.remaining(0, uid) == self.model.remained(uid)

    @precondition(lambda self: not self.model.pods)
    @invariant()
    def nothing_is_left_of_nobody(self) -> None:
        assert self.cache.nodes[0].owners == {}
        assert self.cache.nodes[0].functions == {}


TestCounted = Counted.TestCase
TestCounted.settings = settings(stateful_step_count=20)


class Placed(RuleBasedStateMachine):
    """Pods are placed by the plugin, some into reservations, and leave again."""

    @initialize(scoring=st.sampled_from(["LeastAllocated", "MostAllocated"]))
    def begin(self, scoring: str) -> None:
        self.cluster = Cluster()
        self.cluster.add("n", *gpus(CARDS))
        self.pods: list = []

    @rule(percent=st.sampled_from([10, 30, 50, 100, 200]))
    def place(self, percent: int) -> None:
        info = self.cluster.pod(gpu=percent)
        self.cluster.place(info)
        if info.row >= 0:
            self.pods.append(info)

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), percent=st.sampled_from([10, 50, 100]),
          policy=st.sampled_from(["", "Aligned", "Restricted"]))  # fmt: skip
    def place_in(self, data, percent: int, policy: str) -> None:
        # A reserve pod sits in no other one. Labels give matching pods a shape of their own.
        holders = [info for info in self.pods if "Reservation" not in info.allocations]
        assume(holders)
        holder = data.draw(st.sampled_from(holders))
        info = self.cluster.pod(gpu=percent, labels={"matches": holder.uid, "policy": policy})
        self.cluster.place(info, offers={0: [Offer(holder.uid, policy)]}, sits=holder.uid)
        if info.row >= 0:
            self.pods.append(info)

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def leave(self, data) -> None:
        info = data.draw(st.sampled_from(self.pods))
        self.pods.remove(info)
        self.cluster.accounts.drop(info)

    @rule(percent=st.sampled_from([50, 100, 300]))
    def what_if(self, percent: int) -> None:
        before = self.state()
        with self.cluster.accounts.what_if():
            for info in list(self.pods):
                self.cluster.accounts.drop(info)
            self.cluster.place(self.cluster.pod(gpu=percent))
        assert self.state() == before

    def state(self) -> str:
        table = self.cluster.plugin.cache.tables[GPU].native
        return json.dumps([table.used(0, place) for place in range(WIDTH)])

    @invariant()
    def no_card_is_given_twice(self) -> None:
        pods = {
            info.uid: model.Pod(
                {(GPU, each.minor): each.amounts for each in info.allocations["DeviceShare"]},
                sits.uid if (sits := info.allocations.get("Reservation")) else "",
            )
            for info in self.pods
        }
        node = model.Node({(GPU, minor): TOTAL for minor in range(CARDS)}, pods)
        for minor in range(CARDS):
            used = node.used((GPU, minor))
            assert all(amount <= total for amount, total in zip(used, TOTAL, strict=True))


TestPlaced = Placed.TestCase
TestPlaced.settings = settings(stateful_step_count=15)
