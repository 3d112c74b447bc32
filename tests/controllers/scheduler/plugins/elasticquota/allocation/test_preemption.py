# SPDX-License-Identifier: Apache-2.0
"""Preemption inside a quota and reclaim across quotas: who goes, who stays, what is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from koord.api.codec import convert
from koord.api.kinds.workloads import PodDisruptionBudget
from koord.controllers.cluster.pods import PodInfo
from tests.controllers.scheduler.plugins.elasticquota.harness import Cluster
from tests.controllers.scheduler.plugins.elasticquota.objects import pod, quota
from tests.controllers.scheduler.pods import node


def in_a_loop(test: Callable[..., None]) -> Callable[[], None]:
    """Runs a plain test where bindings may start tasks."""

    def run() -> None:
        async def inside() -> None:
            test()

        asyncio.run(inside())

    run.__name__ = test.__name__
    return run


def ranked(name: str, priority: int, cpu: str, group: str = "a", **more: Any) -> PodInfo:
    return pod(name, group, cpu=cpu, priority=priority, **more)


def running(name: str, priority: int, cpu: str, on: str = "n", **more: Any) -> PodInfo:
    start = more.pop("start", "2026-01-01T00:00:00Z")
    return ranked(name, priority, cpu, nodeName=on, status={"startTime": start}, **more)


def plan(cluster: Cluster, wanted: PodInfo) -> tuple[str, list[str]] | None:
    """The node and the victims of the best plan; nothing may be left of the dry runs."""
    decision = cluster.decider.decide(wanted)
    assert decision.diagnosis is not None
    before = [cluster.placed(), cluster.quota.groups.tree("").used("a")]
    found = cluster.quota.preemption.find(decision.cycle, decision.diagnosis).candidate
    assert before == [cluster.placed(), cluster.quota.groups.tree("").used("a")]
    if found is None:
        return None
    return cluster.world.table.name(found.row), [v.pod.metadata.name for v in found.victims]


def with_quota(cpu: str, **args: Any) -> Cluster:
    cluster = Cluster(**args)
    cluster.put(node("n", cpu="10"), quota("a", min={"cpu": cpu}, max={"cpu": cpu}))
    return cluster


@in_a_loop
def test_only_lesser_pods_of_the_quota_go_and_no_more_than_needed() -> None:
    cluster = with_quota("6")
    cluster.put(quota("b", max={"cpu": "9"}))
    cluster.put(running("old", 1, "2"), running("young", 1, "2", start="2026-01-02T00:00:00Z"))
    cluster.put(running("equal", 5, "2"), running("other", 0, "1", group="b"))
    wanted = ranked("p", 5, "2")
    cluster.put(wanted)
    assert plan(cluster, wanted) == ("n", ["young"])
    assert plan(cluster, ranked("big", 5, "4")) == ("n", ["old", "young"])
    assert plan(cluster, ranked("huge", 5, "5")) is None
    assert plan(cluster, ranked("mean", 1, "2")) is None


@in_a_loop
def test_a_full_node_is_no_reason_to_take_pods_that_the_quota_allows() -> None:
    """Here the quota has room and the node has not; a pod of another quota is in the way."""
    cluster = with_quota("9")
    cluster.put(quota("b", max={"cpu": "9"}))
    cluster.put(running("other", 0, "6", group="b"), running("mine", 0, "4"))
    assert plan(cluster, ranked("p", 5, "4")) == ("n", ["mine"])
    assert plan(cluster, ranked("p", 5, "5")) is None


@in_a_loop
def test_quota_is_asked_even_where_all_victims_are_gone() -> None:
    """Koordinator evicts them all and then refuses the pod again."""
    cluster = with_quota("4")
    cluster.put(node("m", cpu="10"), running("lesser", 1, "1"), running("peer", 5, "3", on="m"))
    assert plan(cluster, ranked("p", 5, "2")) is None
    assert plan(cluster, ranked("p", 5, "1")) == ("n", ["lesser"])


@in_a_loop
def test_some_pods_are_never_taken() -> None:
    cluster = Cluster()
    cluster.put(node("n", cpu="10"), quota("a", min={"cpu": "4"}, max={"cpu": "4"}))
    cluster.put(running("strict", 1, "4", strict=True), running("stray", 1, "6", group=""))
    assert plan(cluster, ranked("p", 5, "1")) is None
    stray = pod("q", cpu="1", priority=5)
    assert plan(cluster, stray) is None
    cluster = Cluster(disable_default_quota_preemption=False)
    cluster.put(node("n", cpu="6"), quota("a"), running("stray", 1, "6", group=""))
    assert plan(cluster, stray) == ("n", ["stray"])


def budget(name: str, allowed: int, selector: dict[str, Any]) -> PodDisruptionBudget:
    document = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed},
    }
    return convert(document, PodDisruptionBudget, name)


@in_a_loop
def test_pods_that_a_budget_protects_are_spared_first() -> None:
    cluster = with_quota("4")
    cluster.put(running("first", 1, "2", labels={"app": "web"}), running("second", 2, "2"))
    assert plan(cluster, ranked("p", 5, "2")) == ("n", ["first"])
    cluster.views.view(PodDisruptionBudget).put(budget("b", 0, {"matchLabels": {"app": "web"}}))
    assert plan(cluster, ranked("p", 5, "2")) == ("n", ["second"])
    cluster.put(node("m", cpu="10"), quota("a", min={"cpu": "6"}, max={"cpu": "6"}))
    cluster.put(running("third", 4, "2", on="m"))
    # A node where no budget breaks goes before one with lesser victims.
    cluster.remove(running("second", 2, "2"))
    cluster.put(running("peer", 5, "2"))
    assert plan(cluster, ranked("p", 5, "2")) == ("m", ["third"])


@in_a_loop
def test_the_node_is_chosen_as_kubernetes_does() -> None:
    cluster = Cluster()
    cluster.put(quota("a", min={"cpu": "12"}, max={"cpu": "12"}))
    cluster.put(*(node(name, cpu="4") for name in "xyz"))
    late = "2026-01-03T00:00:00Z"
    cluster.put(running("x1", 3, "4", on="x"))
    cluster.put(running("y1", 2, "2", on="y"), running("y2", 2, "2", on="y"))
    cluster.put(running("z1", 2, "4", on="z"))
    assert plan(cluster, ranked("p", 5, "4")) == ("z", ["z1"])
    cluster.put(running("y3", 2, "4", on="x", start=late))
    cluster.remove(running("x1", 3, "4", on="x"))
    assert plan(cluster, ranked("p", 5, "4")) == ("x", ["y3"])


def crowded(**args: Any) -> Cluster:
    """A cluster of 10 CPUs that b has borrowed, of which a owns 6."""
    cluster = Cluster(**args)
    cluster.put(node("n", cpu="10"), quota("a", min={"cpu": "6"}, max={"cpu": "10"}))
    cluster.put(quota("b", min={"cpu": "4"}, max={"cpu": "10"}))
    for i in range(5):
        cluster.put(running(f"b{i}", 10 - i, "2", group="b"))
    return cluster


@in_a_loop
def test_what_was_borrowed_is_reclaimed_on_demand() -> None:
    wanted = ranked("p", 0, "4")
    cluster = crowded()
    cluster.put(wanted)
    assert plan(cluster, wanted) is None
    cluster = crowded(enable_reclaim=True)
    cluster.put(wanted)
    # The priority of those who borrow does not count against the owner.
    assert plan(cluster, wanted) == ("n", ["b3", "b4"])


@in_a_loop
def test_reclaim_ends_where_the_others_share_begins() -> None:
    cluster = crowded(enable_reclaim=True)
    wanted = ranked("p", 0, "8")
    cluster.put(wanted)
    # Of a's 8 the tree grants 6: its minimum. More would take what b owns.
    assert cluster.quota.groups.tree("").runtime("a") == {"cpu": 6000}
    assert plan(cluster, wanted) is None
    fitting = ranked("q", 0, "6")
    cluster.remove(wanted)
    cluster.put(fitting)
    assert plan(cluster, fitting) == ("n", ["b2", "b3", "b4"])
    cluster.remove(running("b4", 6, "2", group="b"))
    cluster.put(running("strict", 0, "2", group="b", strict=True))
    assert plan(cluster, fitting) == ("n", ["b1", "b2", "b3"])


@in_a_loop
def test_reclaim_stays_in_its_tree() -> None:
    cluster = crowded(enable_reclaim=True, gates="MultiQuotaTree=true")
    cluster.put(quota("c", labels={"tree-id": "t", "is-root": "true"}, max={"cpu": "9"},
                      notes={"total-resource": {"cpu": "9"}}))  # fmt: skip
    assert cluster.quota.admission.check(ranked("p", 0, "4", group="c")) is None
    assert plan(cluster, ranked("p", 0, "4", group="c")) is None


@in_a_loop
def test_post_filter_says_what_it_did() -> None:
    cluster = with_quota("4")
    cluster.put(running("lesser", 1, "3"), ranked("p", 5, "2"))
    cluster.put(ranked("never", 5, "2", preemptionPolicy="Never"), ranked("mean", 0, "2"))
    assert cluster.run() == ["lesser"]
    assert cluster.said("lesser") == "Preempted by pod p on node n"
    assert cluster.said("p").endswith("exceedDimensions: [cpu].")
    assert cluster.said("never").endswith("preemption: not eligible due to preemptionPolicy=Never.")
    assert cluster.said("mean").endswith(
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def leaving(pod: PodInfo) -> PodInfo:
    """A pod that somebody deletes."""
    pod.pod.metadata.deletion_timestamp = datetime(2026, 1, 2, tzinfo=UTC)
    return pod


BY_SCHEDULER = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


@pytest.mark.parametrize("conditions", [[], [BY_SCHEDULER]])
@pytest.mark.parametrize("strict", [False, True])
def test_no_further_pod_goes_while_one_of_the_quota_is_leaving(
    conditions: list[dict[str, str]], strict: bool
) -> None:
    """On the node that is promised to a pod, whoever deletes it."""

    @in_a_loop
    def run() -> None:
        cluster = with_quota("4")
        cluster.put(running("lesser", 1, "2"))
        gone = ranked(
            "gone", 1, "2", nodeName="n", strict=strict, status={"conditions": conditions}
        )
        cluster.put(leaving(gone), ranked("p", 5, "2", status={"nominatedNodeName": "n"}))
        assert cluster.run() == ["gone", "lesser"]
        assert cluster.said("p").endswith(
            "preemption: not eligible due to a terminating pod on the nominated node."
        )
        assert [about for about, _, _ in cluster.told.events] == ["p"]

    run()


@in_a_loop
def test_pods_that_leave_from_elsewhere_are_not_waited_for() -> None:
    """Of another quota, of no lower priority, on another node: they free nothing for the pod."""
    cluster = with_quota("4")
    cluster.put(node("m", cpu="10"), quota("b", max={"cpu": "9"}))
    cluster.put(leaving(running("other", 1, "1", group="b")), leaving(running("equal", 5, "1")))
    cluster.put(leaving(running("afar", 1, "1", on="m")))
    cluster.put(running("lesser", 1, "2"))
    cluster.put(ranked("p", 5, "2", status={"nominatedNodeName": "n"}))
    cluster.run()
    assert cluster.said("lesser") == "Preempted by pod p on node n"


@pytest.mark.parametrize("reason", ["spec.min[cpu]", "ancestor"])
def test_what_no_victim_can_change_is_not_tried(reason: str) -> None:
    @in_a_loop
    def run() -> None:
        cluster = Cluster()
        broken = {"min": {"cpu": "-1"}} if reason != "ancestor" else {"parent": "nobody"}
        cluster.put(node("n"), quota("a", **broken), ranked("p", 5, "1"))
        cluster.put(running("lesser", 1, "1"))
        assert cluster.run() == ["lesser"]
        assert reason in cluster.said("p")
        assert "Preemption is not helpful for scheduling" in cluster.said("p")

    run()


@in_a_loop
def test_what_is_freed_for_a_pod_is_kept_for_it() -> None:
    cluster = with_quota("4")
    low = running("low", 1, "4")
    cluster.put(low, ranked("high", 9, "4"))
    assert cluster.run() == ["low"]
    assert cluster.said("low") == "Preempted by pod high on node n"
    # The victim goes while its taker still waits: others of the quota come too late.
    cluster.remove(low)
    cluster.put(ranked("thief", 5, "1"), ranked("urgent", 10, "1"))
    preemption = cluster.quota.admission
    assert preemption.check(ranked("high", 9, "4")) is None
    assert preemption.check(ranked("urgent", 10, "1")) is None
    refusal = preemption.check(ranked("thief", 5, "1"))
    assert refusal is not None
    assert "used: cpu:4, pod's request: cpu:1" in refusal.reason
    assert cluster.quota.groups.tree("").used("a") == {"cpu": 0}
    cluster.remove(ranked("high", 9, "4"))
    assert preemption.check(ranked("thief", 5, "1")) is None
    assert cluster.run() == ["thief", "urgent"]
