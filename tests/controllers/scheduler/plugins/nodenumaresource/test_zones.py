# SPDX-License-Identifier: Apache-2.0
"""Pods and nodes with a NUMA topology policy; amplified nodes; joint alignment with devices."""

from __future__ import annotations

from typing import Any

import pytest

from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.framework.topology_manager import FREE, Alignment, ZoneAffinity
from koord.controllers.scheduler.plugins.nodenumaresource.objects.allocation_annotation import (
    recorded_allocation,
)
from koord.kernels.numa import Hint, Provider, Zones
from tests.controllers.scheduler.plugins.nodenumaresource.cluster import STATUS, Cluster
from tests.controllers.scheduler.plugins.nodenumaresource.test_plugin import SHORT, one

GIB = 1 << 30
POLICY = "node.koordinator.sh/numa-topology-policy"
RATIO = "node.koordinator.sh/resource-amplification-ratio"


def aligned(policy: str, shape: tuple[int, int, int, int] = (2, 1, 4, 2), **more: Any) -> Cluster:
    cluster = Cluster()
    cluster.node("n0", shape, labels={POLICY: policy} if policy else {}, **more)
    return cluster


def zones(cluster: Cluster, name: str) -> Any:
    pod = cluster.world.accounts.get(f"uid-{name}")
    assert pod is not None
    return pod.allocations["NodeNUMAResource"].zones


def test_one_zone_for_cpus_and_memory() -> None:
    cluster = aligned("SingleNUMANode")
    info = cluster.info("a", "4", "4Gi")
    assert cluster.place(info) == "0-3"
    assert cluster.changes(info).annotations[STATUS] == (
        '{"cpuset":"0-3","numaNodeResources":[{"node":0,"resources":{"cpu":"4","memory":"4Gi"}}]}'
    )
    assert cluster.put("b", "6", "14Gi", qos="LS") == ""
    assert zones(cluster, "b") == {1: {"cpu": 6000, "memory": 14 * GIB}}
    both = "cpu prefer [11] among [11],memory prefer [11] among [11]"
    assert cluster.put("c", "2", "13Gi") == one(f"Unaligned NUMA Hint cause {both}")
    assert cluster.put("d", "7", "1Gi", qos="LS") == one(
        "Unsatisfied NUMA cpu", "Unsatisfied NUMA memory"
    )
    assert cluster.put("e", "4", "12Gi") == "4-7"


def test_a_pod_that_needs_both_zones() -> None:
    cluster = aligned("SingleNUMANode")
    assert "Unaligned NUMA Hint cause" in cluster.put("a", "10", "4Gi")
    cluster = aligned("Restricted")
    assert cluster.put("b", "10", "4Gi") == "0-4,8-12"
    half = {"cpu": 5000, "memory": 2 * GIB}
    assert zones(cluster, "b") == {0: half, 1: half}
    cluster = aligned("Restricted")
    assert cluster.put("whole", "10", "4Gi", required="FullPCPUs") == "0-3,8-13"


def test_shared_cpus_are_split_to_the_milli() -> None:
    cluster = aligned("Restricted")
    for name, cpu in (("a", "7"), ("b", "6")):
        assert cluster.put(name, cpu, "1Gi", qos="LS") == ""
    assert cluster.put("c", "2500m", "1Gi", qos="LS") == ""
    assert sum(row.get("cpu", 0) for row in zones(cluster, "c").values()) == 2500


def test_best_effort_takes_what_there_is() -> None:
    cluster = aligned("BestEffort")
    assert cluster.put("a", "6", "1Gi") == "0-5"
    assert cluster.put("b", "6", "1Gi") == "8-13"
    assert cluster.put("c", "4", "1Gi") == "6-7,14-15"
    assert zones(cluster, "c").keys() == {0, 1}
    assert cluster.put("d", "1", "1Gi") == one("Insufficient NUMA cpu")


def test_the_pods_policy_and_the_nodes() -> None:
    cluster = aligned("Restricted")
    refused = cluster.refusals(cluster.info("a", "2", numa="SingleNUMANode"))
    assert refused[0] == Rejection(
        "NodeNUMAResource", ("node(s) NUMA Topology policy not match",), unresolvable=True
    )
    cluster = aligned("")
    assert cluster.put("b", "4", numa="SingleNUMANode") == "0-3"
    cluster = aligned("", zones=False)
    assert cluster.put("c", "4", numa="SingleNUMANode") == one("node(s) missing NUMA resources")
    assert cluster.put("d", "4") == "0-3"


def test_wide_and_narrow_pods_keep_off_each_other() -> None:
    cluster = aligned("")
    narrow = {"numa": "Restricted", "alone": "Required"}
    assert cluster.put("a", "4", **narrow) == "0-3"
    assert "Unaligned NUMA Hint" in cluster.put("wide", "10", **narrow)
    assert cluster.put("b", "4", **narrow) == "8-11"
    cluster = aligned("")
    assert cluster.put("wide", "10", **narrow) == "0-4,8-12"
    assert "Unaligned NUMA Hint" in cluster.put("c", "2", numa="SingleNUMANode")
    assert cluster.put("d", "2", numa="SingleNUMANode", alone="Preferred") == "6-7"


def test_a_machine_of_one_zone_assigns_no_zone() -> None:
    cluster = aligned("SingleNUMANode", (1, 1, 4, 2))
    assert cluster.put("a", "4") == "0-3"
    assert zones(cluster, "a") == {}


def test_hugepages_are_aligned_too() -> None:
    more = {"node-1": {"hugepages-2Mi": "1Gi"}}
    cluster = aligned("SingleNUMANode", more=more)
    assert cluster.put("a", "2", requests={"hugepages-2Mi": "512Mi"}) == "8-9"
    assert zones(cluster, "a")[1]["hugepages-2Mi"] == 512 << 20
    assert "Unsatisfied NUMA hugepages-2Mi" in cluster.put(
        "b", "2", requests={"hugepages-2Mi": "768Mi"}
    )


def test_zones_that_are_not_numbered_from_zero() -> None:
    rows = [
        {"id": cpu, "core": cpu // 2, "socket": 0, "node": 2 + 8 * (cpu // 4)} for cpu in range(8)
    ]
    cluster = Cluster()
    cluster.node("n0", rows, labels={POLICY: "SingleNUMANode"})
    assert cluster.put("a", "4") == "0-3"
    assert zones(cluster, "a").keys() == {2}
    assert cluster.put("b", "4") == "4-7"
    assert zones(cluster, "b").keys() == {10}


def test_more_zones_than_can_be_reasoned_about() -> None:
    rows = [{"id": cpu, "core": cpu, "socket": 0, "node": cpu} for cpu in range(20)]
    cluster = Cluster()
    cluster.node("n0", rows, labels={POLICY: "Restricted"})
    assert cluster.put("a", "1") == one("node(s) Insufficient NUMA Node resources")


def test_more_cpus_than_can_be_reasoned_about(caplog: pytest.LogCaptureFixture) -> None:
    cluster = aligned("Restricted")
    assert cluster.put("a", "3G") == one("node(s) Insufficient NUMA Node resources")
    assert not caplog.records


def test_a_node_that_cannot_be_judged_is_no_node_without_resources(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """More memory is held by the pods of n0 than can be added up; n1 goes on taking pods."""
    cluster = Cluster()
    for name in ("n0", "n1"):
        cluster.node(name, labels={POLICY: "Restricted"})
    for name in ("x", "y", "z"):
        held = {"numaNodeResources": [{"node": 0, "resources": {"memory": "4Ei"}}]}
        info = cluster.info(name, "1", held=held)
        info.allocations["NodeNUMAResource"] = recorded_allocation(info.pod)
        cluster.world.accounts.add(0, info)
    assert cluster.put("a", "12") == "0-5,8-13"
    message = cluster.put("b", "12")
    assert "1 node(s) NUMA resources could not be judged (ValueError: " in message
    assert "Insufficient NUMA" not in message
    (record,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert record.getMessage() == "the zones of a node could not be judged"
    assert record.exc_info is not None


def test_amplified_cpus() -> None:
    """Bound CPUs count one and a half times, others as they are."""
    cluster = Cluster()
    cluster.node("n0", (1, 1, 4, 2), annotations={RATIO: '{"cpu":1.5}'}, cpu="12")
    assert cluster.put("a", "4") == "0-3"
    assert cluster.put("b", "7", qos="LS") == one("Insufficient amplified cpu")
    assert cluster.put("c", "6", qos="LS") == ""
    assert cluster.put("d", "1") == one("Insufficient amplified cpu")
    cluster.remove("uid-c")
    assert cluster.put("e", "4") == "4-7"


def test_a_ratio_that_cannot_be_read() -> None:
    cluster = Cluster()
    cluster.node("n0", (1, 1, 4, 2), annotations={RATIO: "much"})
    assert cluster.put("a", "4") == one("node(s) invalid CPU amplification ratio")
    assert cluster.put("b", qos="LS") == ""


class Cards:
    """A provider with two cards in zone 1."""

    name = "Cards"

    def __init__(self, hints: dict[str, Any], refusal: Rejection | None = None) -> None:
        self._hints = hints
        self._refusal = refusal
        self.requested_amounts: list[tuple[int, ...] | None] = []

    def hints(self, cycle: Cycle, row: int, zones: Zones) -> Provider:
        return Provider(self._hints)

    def allocate(
        self, cycle: Cycle, row: int, affinity: tuple[int, ...] | None
    ) -> Rejection | None:
        self.requested_amounts.append(affinity)
        return self._refusal


def joint(cluster: Cluster, cards: Cards, cpu: str = "4") -> Alignment:
    cycle = Cycle(cluster.info("j", cpu), cluster.world.table)
    assert cluster.plugin.pre_filter(cycle) is None
    alignment = Alignment.of(cycle)
    alignment.join(cards)
    alignment.join(cards)
    return alignment


def test_cpus_follow_the_cards() -> None:
    cards = Cards({"gpu": [Hint(0b10, True, False, 500)]})
    alignment = joint(aligned("SingleNUMANode"), cards)
    assert alignment.decide(0) == ZoneAffinity((1,))
    assert alignment.decide(0) == ZoneAffinity((1,))
    assert cards.requested_amounts == [(1,)]


def test_what_any_provider_refuses_is_refused() -> None:
    cluster = aligned("SingleNUMANode")
    no = Rejection("Cards", ("Insufficient gpu devices",))
    assert joint(cluster, Cards({"gpu": [Hint(0b10, True)]}, no)).decide(0) == no
    unaligned = joint(cluster, Cards({"gpu": [Hint(0b11, True)]})).decide(0)
    assert isinstance(unaligned, Rejection)
    assert unaligned.reasons[0].startswith("Unaligned NUMA Hint cause")


def test_nothing_is_aligned_without_a_policy() -> None:
    assert joint(aligned(""), Cards({"gpu": [Hint(0b10, True)]})).decide(0) == FREE


@pytest.mark.parametrize("policy", ["", "SingleNUMANode"])
def test_short_of_cpus_in_the_words_of_the_policy(policy: str) -> None:
    cluster = aligned(policy, (2, 1, 1, 2))
    assert cluster.put("a", "2", "1Gi") == "0-1"
    assert cluster.put("b", "2", "1Gi") == "2-3"
    expected = (SHORT,) if not policy else ("Unsatisfied NUMA cpu", "Unsatisfied NUMA memory")
    assert cluster.put("c", "2", "1Gi") == one(*expected)
