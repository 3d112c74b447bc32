# SPDX-License-Identifier: Apache-2.0
"""EvictPodsOnReservedResources: who stands on what is held back, and when it has to go."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.base.clock import VirtualClock
from koord.controllers.cluster import transforms
from koord.controllers.descheduler.plugins.reservednode.evict_pods_on_reserved_resources import (
    EvictPodsOnReservedResourcesArgs,
)
from koord.controllers.scheduler.config.field_path import FieldPath
from tests.controllers.descheduler.world import NOW, RecordedEvictions, cluster, make, node, pod
from tests.outcomes import refusal

RESERVATION = "node.koordinator.sh/reservation"
STATUS = "scheduling.koordinator.sh/resource-status"
AT_ONCE = {"gracePeriodSeconds": 0}


class Rounds:
    """Rounds of the plugin, and what it says of nodes."""

    def __init__(self, args: dict[str, Any] | None = None, **more: Any) -> None:
        self.clock = VirtualClock(NOW)
        self.evictions = RecordedEvictions(more.pop("refuses", ()))
        self.descheduling = make(
            "deschedule", "EvictPodsOnReservedResources", args, self.evictions, clock=self.clock,
            **more,
        )  # fmt: skip
        self.said: list[tuple[str, str, str]] = []
        handle: Any = self.descheduling.profiles[0].handle
        handle.writer.warn = lambda about, reason, text: self.said.append(
            (about.metadata.name, reason, text)
        )

    def run(self, nodes: list[Node], pods: list[Pod]) -> list[str]:
        """The pods that a round evicts."""
        self.evictions.names.clear()
        assert asyncio.run(self.descheduling.run(cluster(nodes, pods))).errors == []
        return list(self.evictions.names)


def reserving(name: str = "n1", *, cpu: str = "4", **reservation: Any) -> Node:
    """A node as it enters: it offers what its reservation leaves."""
    made = node(name, cpu=cpu)
    made.metadata.annotations[RESERVATION] = json.dumps(reservation)
    return transforms.node(made)


def holding(name: str, cpus: str, **more: Any) -> Pod:
    return pod(name, annotations={STATUS: json.dumps({"cpuset": cpus})}, **more)


def test_the_cheapest_go_until_it_fits() -> None:
    # 3.5 of 4 CPUs are asked for; one is held back now, so half a CPU is too much.
    pods = [pod("prod", cpu="1500m", spec={"priority": 9500}),
            pod("free", cpu="1", spec={"priority": 3500}),
            pod("batch", cpu="1", spec={"priority": 5500})]  # fmt: skip
    rounds = Rounds(AT_ONCE)
    assert rounds.run([reserving(resources={"cpu": "1"}), node("n2")], pods) == ["free"]
    assert rounds.evictions.reasons == [
        "cpu 500m more is requested than the node's reservation leaves"
    ]
    assert rounds.said == [
        ("n1", "NodeReservationChanged", "cpu 500m more is requested than the reservation leaves; "
         "pods are evicted 0 s after the change"),
    ]  # fmt: skip
    # One that cannot go makes the next one go.
    assert Rounds(AT_ONCE, refuses={"free"}).run(
        [reserving(resources={"cpu": "1"}), node("n2")], pods
    ) == ["batch"]


def test_nothing_goes_where_it_fits() -> None:
    pods = [pod("a", cpu="2"), pod("b", cpu="1")]
    rounds = Rounds(AT_ONCE)
    assert rounds.run([reserving(resources={"cpu": "1"}), node("n2")], pods) == []
    assert rounds.said == []
    # A node that is overcommitted without a reservation is none of this plugin's.
    assert rounds.run([node("n1", cpu="1"), node("n2")], pods) == []
    assert rounds.run([reserving(cpu="2", resources={"memory": "1Gi"}), node("n2")], pods) == []


def test_batch_and_mid_resources_shrink_by_themselves() -> None:
    name = "kubernetes.io/batch-cpu"
    batch = {"containers": [{"name": "c", "resources": {"requests": {name: "3000"}}}]}
    made = reserving(resources={name: "1000"})
    assert Rounds(AT_ONCE).run([made, node("n2")], [pod("a", spec=batch)]) == []


def test_only_pods_that_ask_for_what_is_short_go() -> None:
    pods = [pod("small", cpu="0", memory="1Gi", spec={"priority": 3500}), pod("a", cpu="4")]
    rounds = Rounds(AT_ONCE)
    assert rounds.run([reserving(resources={"cpu": "1"}), node("n2", cpu="8")], pods) == ["a"]


@pytest.mark.parametrize("policy", ["", "Default", "ReservedCPUsOnly"])
def test_pods_on_reserved_cpus_go(policy: str) -> None:
    pods = [holding("a", "0-1"), holding("b", "2,5"), pod("c"), holding("d", "nonsense")]
    made = reserving(cpu="32", reservedCPUs="1-3", applyPolicy=policy)
    rounds = Rounds(AT_ONCE)
    assert rounds.run([made, node("n2")], pods) == ["a", "b"]
    assert rounds.evictions.reasons == [
        "holds CPUs 1 that the node reserves", "holds CPUs 2 that the node reserves",
    ]  # fmt: skip
    assert rounds.said[0][2].startswith("2 pods hold reserved CPUs;")


def test_reserved_cpus_only_takes_no_amounts_off() -> None:
    pods = [pod("a", cpu="4")]
    made = reserving(reservedCPUs="0-1", applyPolicy="ReservedCPUsOnly")
    assert Rounds(AT_ONCE).run([made, node("n2")], pods) == []
    made = reserving(reservedCPUs="0-1")
    assert Rounds(AT_ONCE).run([made, node("n2")], pods) == ["a"]


def test_what_leaves_reserved_cpus_counts_as_gone() -> None:
    # Two CPUs are held back by number, and as an amount: the pod that held them is enough.
    pods = [pod("cheap", cpu="1", spec={"priority": 3500}), holding("a", "0-1", cpu="3")]
    made = reserving(reservedCPUs="0-1")
    assert Rounds(AT_ONCE).run([made, node("n2")], pods) == ["a"]


def test_pods_are_told_of_before_they_go() -> None:
    nodes = [reserving(resources={"cpu": "1"}), node("n2")]
    pods = [pod("a", cpu="4")]
    rounds = Rounds()
    assert rounds.run(nodes, pods) == []
    rounds.clock.advance(299)
    assert rounds.run(nodes, pods) == []
    rounds.clock.advance(1)
    assert rounds.run(nodes, pods) == ["a"]
    assert len(rounds.said) == 1
    # Another amount is another change.
    nodes[0] = reserving(resources={"cpu": "2"})
    assert rounds.run(nodes, pods) == []
    assert len(rounds.said) == 2
    rounds.clock.advance(300)
    assert rounds.run(nodes, pods) == ["a"]


def test_what_keeps_a_pod() -> None:
    nodes = [reserving(resources={"cpu": "1"}), node("n2", cpu="1")]
    pods = [pod("a", cpu="4")]
    assert Rounds(AT_ONCE).run(nodes, pods) == []  # it fits nowhere else
    assert Rounds({**AT_ONCE, "nodeFit": False}).run(nodes, pods) == ["a"]
    for args in (
        {"paused": True}, {"dryRun": True}, {"evictableNamespaces": {"exclude": ["default"]}},
        {"podSelectors": [{"selector": {"matchLabels": {"app": "x"}}}]},
        {"nodeSelector": {"matchLabels": {"pool": "x"}}},
    ):  # fmt: skip
        assert Rounds({**AT_ONCE, "nodeFit": False, **args}).run(nodes, pods) == []
    # DefaultEvictor holds bare pods.
    bare = [pod("a", cpu="4", owner=None)]
    assert Rounds({**AT_ONCE, "nodeFit": False}).run(nodes, bare) == []


def test_a_reservation_that_cannot_be_read_is_none() -> None:
    broken = node("n1")
    broken.metadata.annotations[RESERVATION] = "{"
    assert Rounds(AT_ONCE).run([broken, node("n2")], [pod("a", cpu="4")]) == []


def test_wrong_arguments_name_their_place() -> None:
    args = {"gracePeriodSeconds": -1}
    message = refusal(EvictPodsOnReservedResourcesArgs.read, args, FieldPath("f", "args"))
    assert "args.gracePeriodSeconds: got -1" in message


@given(
    st.lists(st.tuples(st.integers(0, 8), st.sampled_from([3500, 5500, 9500])), max_size=8),
    st.integers(0, 40),
)
def test_it_takes_as_few_as_the_model(asked: list[tuple[int, int]], reserved: int) -> None:
    """By a model: in the order of priority, newest first, those that ask for something."""
    pods = [
        pod(f"p{number}", cpu=f"{cpu}00m", age=100 - number, spec={"priority": priority})
        for number, (cpu, priority) in enumerate(asked)
    ]
    order = sorted(range(len(asked)), key=lambda number: (asked[number][1], -number))
    left, expected = sum(cpu for cpu, _ in asked) - max(40 - reserved, 0), []
    for number in order:
        if left > 0 and asked[number][0]:
            left -= asked[number][0]
            expected.append(f"p{number}")
    nodes = [reserving(resources={"cpu": f"{reserved}00m"}), node("n2", cpu="64")]
    assert Rounds(AT_ONCE).run(nodes, pods) == expected
