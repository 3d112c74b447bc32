# SPDX-License-Identifier: Apache-2.0
"""Whose quota a pod uses, several trees, what is charged and when: the worked examples."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec import structs

from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.plugins.elasticquota.state.cluster_total import ClusterTotal
from koord.controllers.scheduler.plugins.elasticquota.state.quota_ledger import TerminatingPolicy
from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import QuotaTreeOptions
from koord.kernels.quota import DEFAULT, SYSTEM, Figure, Options
from tests.controllers.scheduler.plugins.elasticquota.objects import cluster, guide, pod, quota
from tests.controllers.scheduler.pods import info, node
from tests.controllers.scheduler.pods import pod as named

TREES = QuotaTreeOptions(several_trees=True)


def place(kept, **fields: str) -> str | None:
    claim = kept.claim(pod("p", fields.pop("group", ""), **fields).shape)
    return claim.place.group if claim.place else None


def test_a_pod_finds_its_quota() -> None:
    groups, kept, _ = cluster()
    groups.put(quota("named"))
    groups.put(quota("team", "team"))
    groups.put(quota("away", "elsewhere"))
    groups.put(quota("listing", notes={"namespaces": ["listed", "team", "listed2"]}))
    groups.put(quota("also", notes={"namespaces": ["listed2"]}))
    groups.put(guide("flat", "guided"))
    groups.put(guide("extra", "guided"))
    assert place(kept, group="named", namespace="x") == "named"
    assert place(kept, namespace="team") == "team"
    assert place(kept, namespace="away") == DEFAULT
    assert place(kept, namespace="listed") == "listing"
    assert place(kept, namespace="listed2") == "also"
    assert place(kept, group="nobody", namespace="team") == DEFAULT
    assert place(kept, group="flat", namespace="guided") == "guided/flat"
    assert place(kept, namespace="guided") == "guided/extra"
    assert place(kept, group="flat", namespace="x") == DEFAULT
    for name in ("koordinator-root-quota", "koord-guide"):
        assert place(kept, group=name) == DEFAULT
    assert place(kept, group=SYSTEM) == SYSTEM


def test_without_a_default_group_only_a_label_counts() -> None:
    groups, kept, admission = cluster(settings=QuotaTreeOptions(default_group=False))
    groups.put(quota("team", "team", max={"cpu": "0"}))
    assert place(kept, namespace="team") is None
    assert place(kept, group="nobody") is None
    assert place(kept, group="team", namespace="x") == "team"
    assert admission.check(pod("p", cpu="1", namespace="team")) is None
    assert admission.check(pod("p", "team", cpu="1")) is not None


def test_pods_move_when_their_quota_comes_and_goes() -> None:
    groups, kept, _ = cluster({"cpu": 8000})
    held = pod("p", "a", cpu="2", nodeName="n")
    kept.list_pod(held)
    tree = groups.tree("")
    assert tree.used(DEFAULT)["cpu"] == 2000
    groups.put(quota("a", max={"cpu": "4"}))
    assert (tree.used(DEFAULT)["cpu"], tree.used("a")) == (0, {"cpu": 2000})
    groups.remove(quota("a"))
    assert (tree.used(DEFAULT)["cpu"], "a" in tree) == (2000, False)


def test_the_oldest_of_several_quotas_of_one_name_counts() -> None:
    groups, _, _ = cluster()
    young = quota("a", "x", created=200, max={"cpu": "1"})
    old = quota("a", "y", created=100, max={"cpu": "2"})
    assert groups.put(young) is None
    assert groups.put(old) is None
    assert groups.tree("").spec("a").max == {"cpu": 2000}
    taken = "ElasticQuota x/a: metadata.name: got 'a', expected a name that is not taken"
    assert str(groups.put(young)).startswith(taken)
    groups.remove(old)
    assert groups.tree("").spec("a").max == {"cpu": 1000}


def root(name: str, tree: str, total: dict[str, str], **labels: str):
    labels = {"is-root": "true", "tree-id": tree, **labels}
    return quota(name, labels=labels, notes={"total-resource": total}, max={"cpu": "1k"})


def test_other_trees_take_their_totals_out_of_the_default_one() -> None:
    groups, _, _ = cluster({"cpu": 100_000}, TREES)
    groups.put(root("r", "t", {"cpu": "30"}))
    groups.put(root("s", "u", {"cpu": "20"}, **{"ignore-default-tree": "true"}))
    totals = {tree_id: tree.total["cpu"] for tree_id, tree in groups.trees().items()}
    assert totals == {"": 70_000, "t": 30_000, "u": 20_000}
    groups.put(root("r", "t", {"cpu": "40"}))
    assert groups.tree("").total["cpu"] == 60_000
    groups.remove(root("r", "t", {}))
    assert sorted(groups.trees()) == ["", "u"]
    assert groups.tree("").total["cpu"] == 100_000


def test_of_several_that_give_a_trees_total_the_first_by_name_counts() -> None:
    groups, _, _ = cluster({"cpu": 100_000}, TREES)
    groups.put(root("b", "t", {"cpu": "20"}))
    groups.put(root("a", "t", {"cpu": "30"}))
    groups.put(root("c", "t", {"cpu": "40"}))
    assert (groups.tree("t").total, groups.tree("").total) == ({"cpu": 30_000}, {"cpu": 70_000})
    groups.remove(root("a", "t", {}))
    assert (groups.tree("t").total, groups.tree("").total) == ({"cpu": 20_000}, {"cpu": 80_000})


def test_a_quota_is_in_the_tree_of_those_above_it() -> None:
    groups, kept, _ = cluster(settings=TREES)
    kept.list_pod(pod("p", "leaf", cpu="1", nodeName="n"))
    groups.put(quota("leaf", parent="inner", max={"cpu": "9"}))
    groups.put(quota("inner", parent="r", max={"cpu": "9"}))
    assert groups.tree("").used("leaf") == {"cpu": 1000}
    groups.put(root("r", "t", {"cpu": "30"}))
    assert "leaf" not in groups.tree("")
    assert groups.tree("t").used("r") == groups.tree("t").used("leaf") == {"cpu": 1000}
    groups.remove(root("r", "t", {}))
    # What hung below it waits in the default tree for it to come back.
    assert groups.tree("").used("leaf") == {"cpu": 1000}
    assert groups.tree("").runtime("leaf") == {}


def test_tree_ids_count_only_with_the_gate() -> None:
    groups, _, _ = cluster({"cpu": 100_000})
    groups.put(root("r", "t", {"cpu": "30"}))
    assert list(groups.trees()) == [""]
    assert groups.tree("").total["cpu"] == 100_000


def test_the_limits_of_the_built_in_groups() -> None:
    groups, kept, admission = cluster(settings=QuotaTreeOptions(default_max={"cpu": 2000}))
    kept.list_pod(pod("p", cpu="1", nodeName="n"))
    assert admission.check(pod("q", cpu="1")) is None
    assert admission.check(pod("q", cpu="2")) is not None
    groups.put(quota(DEFAULT, "koordinator-system", max={"cpu": "9"}))
    assert admission.check(pod("q", cpu="2")) is None
    groups.remove(quota(DEFAULT, "koordinator-system"))
    assert admission.check(pod("q", cpu="2")) is not None


def test_what_the_built_in_groups_use_is_not_shared_out() -> None:
    groups, kept, _ = cluster({"cpu": 10_000})
    groups.put(quota("a", max={"cpu": "10"}))
    kept.list_pod(pod("p", "a", cpu="10"))
    kept.list_pod(pod("daemon", SYSTEM, cpu="3", nodeName="n"))
    kept.list_pod(pod("stray", cpu="2", nodeName="n"))
    kept.list_pod(pod("pending", cpu="2"))
    assert groups.tree("").runtime("a") == {"cpu": 5000}


def test_guaranteed_usage() -> None:
    """docs/reference/quota.md#guaranteed-usage."""
    groups, kept, _ = cluster(settings=QuotaTreeOptions(Options(guarantee_usage=True)))
    groups.put(quota("parent", min={"cpu": "20"}, max={"cpu": "40"}))
    groups.put(quota("A", parent="parent", min={"cpu": "10"}, max={"cpu": "40"}))
    groups.put(quota("B", parent="parent", min={"cpu": "5"}, max={"cpu": "40"}))
    tree = groups.tree("")

    def shown() -> list[int]:
        figures = (Figure.ALLOCATED, Figure.GUARANTEED)
        return [tree.figure(name, figure)["cpu"] // 1000 for name in ("A", "parent")
                for figure in figures]  # fmt: skip

    kept.list_pod(pod("p", "A", cpu="5", nodeName="n"))
    assert shown() == [5, 10, 15, 20]
    kept.list_pod(pod("q", "A", cpu="20", nodeName="n"))
    assert shown() == [25, 25, 30, 30]


def test_minimums_shrink_together_unless_switched_off() -> None:
    """docs/reference/quota.md#minimum-scaling, the tree."""
    for scaled, mins in ((True, [66_666] * 3), (False, [100_000] * 3)):
        groups, kept, _ = cluster({"cpu": 200_000}, QuotaTreeOptions(scale_min=scaled))
        groups.put(quota("p", min={"cpu": "300"}, max={"cpu": "600"}))
        for name in "abc":
            groups.put(quota(name, parent="p", min={"cpu": "100"}, max={"cpu": "600"}))
            kept.list_pod(pod(f"of-{name}", name, cpu="200"))
        tree = groups.tree("")
        assert [tree.scaled_min(name)["cpu"] for name in "abc"] == mins
        if scaled:
            assert [tree.runtime(n)["cpu"] for n in "abc"] == [66_667, 66_667, 66_666]
            groups.set_total({"cpu": 600_000})
            assert [tree.runtime(n)["cpu"] for n in "abc"] == [200_000] * 3


def deleted(info: PodInfo, at: int, grace: int | None = None) -> PodInfo:
    meta = structs.replace(
        info.pod.metadata,
        deletion_timestamp=datetime.fromtimestamp(at, UTC),
        deletion_grace_period_seconds=grace,
    )
    return PodInfo(structs.replace(info.pod, metadata=meta), info.shape)


@pytest.mark.parametrize(
    ("rule", "used"),
    [(TerminatingPolicy.AT_END, [1, 1, 1]), (TerminatingPolicy.AFTER_GRACE, [1, 1, 0]),
     (TerminatingPolicy.AT_ONCE, [0, 0, 0])],
)  # fmt: skip
def test_when_a_pod_that_is_deleted_no_longer_counts(
    rule: TerminatingPolicy, used: list[int]
) -> None:
    now = [100.0]
    groups, kept, _ = cluster(terminating=rule, now=lambda: now[0])
    groups.put(quota("a", max={"cpu": "4"}))
    running = pod("p", "a", cpu="1", nodeName="n")
    kept.list_pod(running)
    kept.place_pod(running)
    kept.list_pod(deleted(running, at=100, grace=30))
    seen = []
    for moment in (100.0, 130.0, 130.5):
        now[0] = moment
        kept.expire()
        seen.append(groups.tree("").used("a")["cpu"] // 1000)
    assert seen == used
    kept.withdraw(running)
    kept.unlist("p")
    assert groups.tree("").used("a")["cpu"] == 0


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_that_ended_are_not_charged(phase: str) -> None:
    groups, kept, _ = cluster()
    groups.put(quota("a", max={"cpu": "4"}))
    kept.list_pod(pod("p", "a", cpu="1", nodeName="n"))
    kept.list_pod(pod("p", "a", cpu="1", nodeName="n", status={"phase": phase}))
    assert groups.tree("").used("a") == groups.tree("").request("a") == {"cpu": 0}
    assert len(kept) == 0


def test_overhead_counts_unless_switched_off() -> None:
    for overhead, used in ((True, 1250), (False, 1000)):
        groups, kept, _ = cluster(overhead=overhead)
        groups.put(quota("a", max={"cpu": "4", "pods": "9"}))
        kept.list_pod(pod("p", "a", cpu="1", overhead={"cpu": "250m"}, nodeName="n"))
        assert groups.tree("").used("a") == {"cpu": used, "pods": 1}


def test_a_reservations_pod_is_checked_and_not_charged() -> None:
    groups, kept, admission = cluster({"cpu": 8000})
    groups.put(quota("a", max={"cpu": "2"}))
    notes = {"scheduling.koordinator.sh/reserve-pod": "true"}
    reserve = pod("r", "a", cpu="2", annotations=notes)
    assert admission.check(pod("big", "a", cpu="3", annotations=notes)) is not None
    kept.place_pod(reserve)
    assert groups.tree("").used("a") == {"cpu": 0}
    kept.withdraw(reserve)
    assert len(kept) == 0
    # A user's pod is charged, whatever it says of itself.
    labels = reserve.shape.labels
    kept.place_pod(info(named("p", cpu="1", labels=labels, annotations=notes)))
    assert groups.tree("").used("a") == {"cpu": 1000}


def test_what_counts_later_is_charged_from_the_start() -> None:
    groups, kept, _ = cluster({"cpu": 8000, "nvidia.com/gpu": 4})
    groups.put(quota("a", max={"cpu": "4"}))
    kept.list_pod(pod("p", "a", requests={"nvidia.com/gpu": "3"}, nodeName="n"))
    groups.put(quota("a", max={"cpu": "4", "nvidia.com/gpu": "8"}))
    assert groups.tree("").used("a") == {"cpu": 0, "nvidia.com/gpu": 3}
    assert groups.tree("").total["nvidia.com/gpu"] == 4


def test_what_no_limit_names_any_more_counts_no_longer() -> None:
    """As after a restart, which would find the quotas that there are."""
    groups, kept, _ = cluster({"cpu": 8000, "nvidia.com/gpu": 4})
    with_cards = quota("a", max={"cpu": "4", "nvidia.com/gpu": "8"})
    groups.put(with_cards)
    groups.put(guide("g", "team", hard={"cpu": "3"}))
    kept.list_pod(pod("p", "a", requests={"nvidia.com/gpu": "3"}, nodeName="n"))
    tree = groups.tree("")
    assert tree.spec("koord-guide").max == {"cpu": 8000, "nvidia.com/gpu": 4}
    groups.put(quota("a", max={"cpu": "4"}))
    assert tree.total == {"cpu": 8000}
    assert tree.spec("koord-guide").max == {"cpu": 8000}
    assert (tree.runtime("team/g"), tree.used("a")) == ({"cpu": 0}, {"cpu": 0})
    groups.put(with_cards)
    assert tree.used("a") == {"cpu": 0, "nvidia.com/gpu": 3}
    groups.remove(with_cards)
    assert tree.total == {"cpu": 8000}


def test_pods_bound_to_a_node_that_went_count_again() -> None:
    groups, kept, _ = cluster()
    groups.put(quota("a", max={"cpu": "4"}))
    running = pod("p", "a", cpu="1", nodeName="n")
    kept.list_pod(running)
    kept.place_pod(running)
    kept.withdraw(running)
    assert groups.tree("").used("a")["cpu"] == 0
    kept.expire()
    assert groups.tree("").used("a")["cpu"] == 1000


def test_a_forest_is_full_at_sixty_four_resources() -> None:
    groups, _, admission = cluster()
    for i in range(62):
        assert groups.put(quota(f"q{i}", max={f"example.com/r{i}": "1"})) is None
    error = groups.put(quota("one-too-many", max={"example.com/last": "1"}))
    assert "at most 64 different ones" in str(error)
    refusal = admission.check(pod("p", "one-too-many"))
    assert refusal is not None
    assert refusal.unresolvable


def test_resources_of_quotas_that_went_leave_room_for_others() -> None:
    total = {"cpu": 8000, "example.com/stays": 2}
    groups, kept, admission = cluster(total)
    assert groups.put(quota("stays", max={"cpu": "8", "example.com/stays": "3"})) is None
    running = pod("running", "stays", requests={"example.com/stays": "1"}, nodeName="n")
    kept.list_pod(running)
    kept.place_pod(running)
    tree = groups.tree("")
    runtime = tree.runtime("stays")
    for i in range(1_000):
        one = quota(f"q{i}", max={f"example.com/r{i}": "1"}, min={f"example.com/m{i}": "1"})
        assert groups.put(one) is None, i
        asks = pod(f"p{i}", f"q{i}", requests={f"example.com/r{i}": "1"})
        kept.list_pod(asks)
        groups.remove(one)
        kept.unlist(f"p{i}")
    assert groups.put(quota("new", max={"example.com/new": "1"})) is None
    groups.set_total({**total, "example.com/new": 1})
    assert admission.check(pod("one", "new", requests={"example.com/new": "1"})) is None
    assert admission.check(pod("two", "new", requests={"example.com/new": "2"})) is not None
    assert tree.runtime("stays") == {**runtime, "example.com/new": 0}
    assert (tree.request("stays"), tree.used("stays")) == (
        ({"cpu": 0, "example.com/stays": 1},) * 2
    )
    assert admission.check(pod("three", "stays", requests={"example.com/stays": "2"})) is not None


def test_a_quota_that_found_no_room_counts_once_another_went() -> None:
    groups, _, _ = cluster()
    there = [quota(f"q{i}", max={f"example.com/r{i}": "1"}) for i in range(62)]
    assert not any(groups.put(each) for each in there)
    late = quota("late", max={"example.com/late": "1"})
    assert groups.put(late) is not None
    groups.remove(there[5])
    assert groups.problem("late", "default") is None
    assert groups.tree("").spec("late").max == {"example.com/late": 1}


def test_node_totals_follow_nodes() -> None:
    totals = ClusterTotal()
    assert totals.put(node("a", cpu="4", memory="1Gi"))
    assert not totals.put(node("a", cpu="4", memory="1Gi", labels={"x": "y"}))
    assert totals.put(node("b", cpu="2", memory="1Gi", allocatable={"x.com/gpu": "2"}))
    assert totals.total() == {"cpu": 6000, "memory": 2 << 30, "pods": 220, "x.com/gpu": 2}
    # What is reserved on a node was taken off when it came in.
    held = {"node.koordinator.sh/reservation": '{"resources": {"cpu": "1"}}'}
    assert not totals.put(node("a", cpu="4", memory="1Gi", annotations=held))
    assert totals.put(node("a", cpu="3", memory="0", annotations=held))
    assert totals.total()["cpu"] == 5000
    assert totals.remove("b")
    assert not totals.remove("b")
    assert totals.total() == {"cpu": 3000, "memory": 0, "pods": 110}
