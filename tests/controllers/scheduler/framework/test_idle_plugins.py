# SPDX-License-Identifier: Apache-2.0
"""Plugins are left out where they have nothing to do for a shape."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from koord.controllers.cluster.pods import PodInfo, PodShape
from koord.controllers.scheduler.decision.decider import Decider
from koord.controllers.scheduler.framework.accounts import Accounts
from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
from tests.controllers.scheduler.pods import info, node, pod, table


class Watcher:
    """Notes what it is asked; cares for labelled pods only."""

    name = "Watcher"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def idle_points(self, shape: PodShape) -> Collection[str]:
        return () if shape.labels else ("pre_filter", "reserve", "pod_added")

    def pre_filter(self, cycle: Any) -> None:
        self.asked.append("pre_filter")

    def reserve(self, cycle: Any, row: int) -> None:
        self.asked.append("reserve")

    def unreserve(self, cycle: Any, row: int) -> None:
        self.asked.append("unreserve")

    def pod_added(self, row: int, pod: PodInfo) -> None:
        self.asked.append("added")

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        self.asked.append("removed")


def test_only_pods_that_concern_a_plugin_reach_it() -> None:
    nodes, watcher = table(node("a")), Watcher()
    accounts = Accounts(nodes, [watcher])
    decider = Decider(nodes, accounts, ProfilePlugins(pre_filter=[watcher], reserve=[watcher]))
    for name, labels in (("plain", {}), ("labelled", {"app": "x"})):
        decision = decider.decide(info(pod(name, labels=labels)))
        assert decider.assume(decision) is None
        decider.retract(decision)
        expected = ["pre_filter", "reserve", "added", "removed", "unreserve"] if labels else []
        assert watcher.asked == expected
