# SPDX-License-Identifier: Apache-2.0
"""The quota tree: worked examples of the rule, dense random trees against the model, admission."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kernels.quota import (
    DEFAULT,
    ROOT,
    SYSTEM,
    Charge,
    Figure,
    Forest,
    GroupSpec,
    Options,
    QuotaTree,
    Verdict,
)
from tests.models.quota import Child, ModelTree, Spec, water_fill
from tests.outcomes import KERNEL_ERRORS, refusal

MOST = 2**63 - 1


def flat(total: int, rows: dict[str, tuple[int, int, int]], **fields: object) -> QuotaTree:
    """Groups under the root from weight, request and min of one resource."""
    tree = QuotaTree({"cpu": total})
    for name, (weight, request, least) in rows.items():
        tree.add(name, max={"cpu": MOST}, weight={"cpu": weight}, min={"cpu": least}, **fields)
        tree.add_request(name, {"cpu": request})
    return tree


def cpu(tree: QuotaTree, *names: str) -> list[int]:
    return [tree.runtime(name)["cpu"] for name in names]


EXAMPLE_A = {"A": (40, 5, 10), "B": (60, 20, 15), "C": (50, 40, 20), "D": (80, 70, 15)}
BORROWERS = [f"borrower-{i:02}" for i in range(10)]


def test_shares_by_weight_and_largest_remainder() -> None:
    assert cpu(flat(100, EXAMPLE_A), *"ABCD") == [5, 20, 35, 40]


@pytest.mark.parametrize(("held", "shares"), [(45, [5, 20, 30, 45]), (0, [5, 20, 40, 15])])
def test_a_group_without_weight_keeps_its_floor(held: int, shares: list[int]) -> None:
    # The others have nothing in use, so their guarantees are their minimums; all lend.
    rows = [Child("A", 40, 5, 10), Child("B", 60, 20, 15), Child("C", 50, 40, 20),
            Child("D", 0, 70, max(15, held))]  # fmt: skip
    assert list(water_fill(100, rows).values()) == shares
    tree = flat(100, {**EXAMPLE_A, "D": (0, 70, max(15, held))}, scale_min=False)
    tree.update("D", weight={"cpu": 0, "memory": 1})
    assert cpu(tree, *"ABCD") == shares


def test_the_residual_goes_by_name() -> None:
    rows = {name: (1, 100, 8 if i < 8 else 7) for i, name in enumerate(BORROWERS)}
    tree = flat(81, {"donor": (1, 0, 3), **rows}, scale_min=False)
    shares = cpu(tree, *BORROWERS)
    assert shares == [9, 9, 9, 8, 8, 8, 8, 8, 7, 7]
    assert sum(shares) == 81


def test_requests_are_limited_by_max_before_sharing() -> None:
    tree = QuotaTree({"cpu": 96})
    for name, least, request in (("test1", 50, 120), ("test2", 40, 150)):
        tree.add(name, max={"cpu": 96}, min={"cpu": least})
        tree.add_request(name, {"cpu": request})
    assert tree.figure("test1", Figure.LIMITED_REQUEST) == {"cpu": 96}
    assert cpu(tree, "test1", "test2") == [53, 43]


@pytest.mark.parametrize(
    ("lends", "steps"),
    [(False, [(0, [60, 20, 20]), (40, [60, 40, 20]), (60, [80, 60, 20])]),
     (True, [(0, [40, 20, 20]), (40, [60, 40, 20]), (60, [80, 60, 20])])],
)  # fmt: skip
def test_a_parent_asks_for_its_children(lends: bool, steps: list[tuple[int, list[int]]]) -> None:
    tree = QuotaTree({"cpu": 100})
    # No limit is near, as in a tree that shares everything.
    tree.add("P", max={"cpu": 100}, min={"cpu": 60}, allow_lent=lends, is_parent=True)
    for name in ("c1", "c2"):
        tree.add(name, parent="P", max={"cpu": 100}, min={"cpu": 20}, allow_lent=False)
    asked = 0
    for request, shares in steps:
        tree.add_request("c1", {"cpu": request - asked})
        asked = request
        assert cpu(tree, "P", "c1", "c2") == shares


def test_a_child_may_have_more_max_than_its_parent() -> None:
    tree = QuotaTree({"cpu": 350})
    tree.add("parent", max={"cpu": 300}, is_parent=True)
    tree.add("child", parent="parent", max={"cpu": 500})
    tree.add_request("child", {"cpu": 400})
    assert tree.request("parent") == tree.request("child") == {"cpu": 400}
    assert cpu(tree, "child") == [300]


def test_requests_stop_at_limits_and_non_preemptible_ones_do_not() -> None:
    tree = QuotaTree({"cpu": 96, "memory": 160})
    limit = {"cpu": 96, "memory": 160}
    for name, parent in (("test1", ROOT), ("sub1", "test1"), ("sub1-1", "sub1")):
        tree.add(name, parent=parent, max=limit)
    tree.add_request("sub1-1", {"cpu": 70, "memory": 190})
    tree.add_request("sub1-1", {"cpu": 50, "memory": 100}, non_preemptible=True)
    assert tree.request("sub1-1") == {"cpu": 120, "memory": 290}
    for name in ("sub1", "test1"):
        assert tree.request(name) == limit
        asked = tree.figure(name, Figure.NON_PREEMPTIBLE_REQUEST)
        assert asked == {"cpu": 50, "memory": 100}


@pytest.mark.parametrize(("total", "scaled"), [(200, 50), (100, 25), (50, 0), (0, 0)])
def test_minimums_shrink_together_when_the_parent_cannot_cover_them(
    total: int, scaled: int
) -> None:
    tree = QuotaTree({"cpu": total})
    tree.add("fixed", max={"cpu": 200}, min={"cpu": 50}, scale_min=False)
    for name in ("a", "b"):
        tree.add(name, max={"cpu": 200}, min={"cpu": 50})
    least = [tree.scaled_min(name)["cpu"] for name in ("fixed", "a", "b")]
    assert least == [50, scaled, scaled]


def test_minimums_shrink_on_every_level_and_come_back() -> None:
    tree = QuotaTree({"cpu": 200_000})
    tree.add("p", max={"cpu": 600_000}, min={"cpu": 300_000}, is_parent=True)
    for name in "abc":
        tree.add(name, parent="p", max={"cpu": 600_000}, min={"cpu": 100_000})
        tree.add_request(name, {"cpu": 200_000})
    assert tree.scaled_min("p") == {"cpu": 200_000}
    assert [tree.scaled_min(name)["cpu"] for name in "abc"] == [66_666] * 3
    assert cpu(tree, *"abc") == [66_667, 66_667, 66_666]
    tree.set_total({"cpu": 600_000})
    assert tree.scaled_min("p") == {"cpu": 300_000}
    assert cpu(tree, *"abc") == [200_000] * 3


def test_what_is_in_use_is_guaranteed_up_the_tree() -> None:
    tree = QuotaTree({"cpu": 100}, options=Options(guarantee_usage=True))
    tree.add("parent", max={"cpu": 100}, min={"cpu": 20}, is_parent=True)
    for name, least in (("A", 10), ("B", 5)):
        tree.add(name, parent="parent", max={"cpu": 100}, min={"cpu": least})
    for used, figures in ((5, (5, 10, 15, 20)), (20, (25, 25, 30, 30))):
        tree.add_used("A", {"cpu": used})
        found = [
            tree.figure(name, figure)["cpu"]
            for name in ("A", "parent")
            for figure in (Figure.ALLOCATED, Figure.GUARANTEED)
        ]
        assert tuple(found) == figures


def test_a_parents_own_pods_are_guaranteed_beside_its_children() -> None:
    tree = QuotaTree({"cpu": 100}, options=Options(guarantee_usage=True))
    tree.add("parent", max={"cpu": 100}, is_parent=True)
    tree.add("child", parent="parent", max={"cpu": 100}, min={"cpu": 10})
    tree.add_used("parent", {"cpu": 7})
    assert tree.figure("parent", Figure.ALLOCATED) == {"cpu": 17}
    assert cpu(tree, "parent") == [17]


def test_a_higher_priority_takes_idle_quota_first() -> None:
    tree = QuotaTree({"cpu": 250})
    for name, priority, request in (("A", 100, 150), ("B", 50, 140)):
        tree.add(name, max={"cpu": 200}, min={"cpu": 100}, priority=priority)
        tree.add_request(name, {"cpu": request})
    assert cpu(tree, "A", "B") == [150, 100]
    tree.update("B", priority=100)
    assert cpu(tree, "A", "B") == [125, 125]


def test_system_and_default_use_comes_off_the_total_once() -> None:
    tree = QuotaTree({"cpu": 100})
    tree.add("a", max={"cpu": 200})
    tree.add_request("a", {"cpu": 200})
    for name in (SYSTEM, DEFAULT):
        tree.update(name, max={"cpu": 50})
        tree.add_request(name, {"cpu": 10})
        tree.add_used(name, {"cpu": 10})
    assert cpu(tree, ROOT, "a", SYSTEM) == [80, 80, 50]
    assert tree.request(ROOT) == {"cpu": 220}


def test_a_child_may_come_before_its_parent_and_outlive_it() -> None:
    tree = QuotaTree({"cpu": 10})
    tree.add("child", parent="parent", max={"cpu": 8})
    tree.add_request("child", {"cpu": 5})
    assert tree.runtime("child") == {}
    assert tree.admit("child", {"cpu": 1}).verdict is Verdict.DETACHED
    tree.add("parent", max={"cpu": 20}, is_parent=True)
    assert (cpu(tree, "child"), tree.request(ROOT)) == ([5], {"cpu": 5})
    tree.remove("parent")
    assert (tree.runtime("child"), tree.request(ROOT)) == ({}, {})
    assert list(tree) == [ROOT, DEFAULT, SYSTEM, "child"]


GI = 2**30


def admission_tree() -> QuotaTree:
    tree = QuotaTree({"cpu": 10_000, "memory": 8 * GI}, options=Options(check_parents=True))
    tree.add("parent", max={"cpu": 10_000, "memory": 4 * GI}, is_parent=True)
    limit = {"cpu": 8_000, "memory": 8 * GI}
    tree.add("leaf", parent="parent", max=limit, min={"cpu": 2_000})
    tree.add_request("leaf", {"cpu": 8_000, "memory": 4 * GI})
    tree.add_used("leaf", {"cpu": 6_500})
    return tree


def test_a_pod_that_fits_is_admitted() -> None:
    decision = admission_tree().admit("leaf", {"cpu": 1_500, "gpu": 4})
    assert decision
    assert (decision.reason, decision.request) == ("", {"cpu": 1_500})


def test_a_refused_pod_is_told_where_and_why() -> None:
    decision = admission_tree().admit("leaf", {"cpu": 1_501, "memory": 5 * GI})
    assert decision.verdict is Verdict.OVER_RUNTIME
    assert decision.reason == (
        "Insufficient quotas, quotaName: leaf, runtime: cpu:8,memory:4Gi, "
        "used: cpu:6500m,memory:0, pod's request: cpu:1501m,memory:5Gi, "
        "exceedDimensions: [cpu memory]"
    )


def test_a_non_preemptible_pod_must_fit_into_min() -> None:
    tree = admission_tree()
    tree.add_used("leaf", {"cpu": 1_000}, non_preemptible=True)
    tree.add_used("leaf", {"cpu": -5_000})
    assert tree.admit("leaf", {"cpu": 1_000, "memory": GI}, non_preemptible=True)
    decision = tree.admit("leaf", {"cpu": 1_001}, non_preemptible=True)
    assert decision.reason == (
        "Insufficient non-preemptible quotas, quotaName: leaf, min: cpu:2, "
        "nonPreemptibleUsed: cpu:1,memory:0, pod's request: cpu:1001m, exceedDimensions: [cpu]"
    )


def test_an_ancestor_without_room_refuses_too() -> None:
    tree = admission_tree()
    tree.add("sibling", parent="parent", max={"cpu": 8_000})
    tree.add_used("sibling", {"cpu": 2_000})
    decision = tree.admit("leaf", {"cpu": 1_500})
    assert decision.path == ("parent", "leaf")
    assert decision.reason.startswith(
        "Insufficient quotas, quotaNameTopo: [parent leaf], runtime: cpu:8,memory:4Gi, "
    )
    tree = QuotaTree({"cpu": 8_000})
    tree.add("parent", max={"cpu": 100}, is_parent=True)
    tree.add("leaf", parent="parent", max={"cpu": 900})
    tree.add_used("leaf", {"cpu": 500})
    assert not tree.admit("leaf", {"cpu": 1})


def test_a_resource_over_its_limit_does_not_stop_pods_that_do_not_ask_for_it() -> None:
    tree = QuotaTree({"cpu": 10, "gpu": 1})
    tree.add("a", max={"cpu": 10, "gpu": 1})
    tree.add_request("a", {"cpu": 5, "gpu": 2})
    tree.add_used("a", {"gpu": 2})
    assert tree.admit("a", {"cpu": 5})
    assert tree.admit("a", {"cpu": 5, "gpu": 1}).exceeded == ("gpu",)


def test_without_runtime_quota_max_is_the_limit() -> None:
    tree = QuotaTree({"cpu": 1}, options=Options(runtime_quota=False))
    tree.add("a", max={"cpu": 10})
    assert tree.admit("a", {"cpu": 10})
    assert not tree.admit("a", {"cpu": 11})


def test_other_trees_take_their_totals_from_the_default_one() -> None:
    forest = Forest({"cpu": 100, "memory": 5})
    forest.set_tree_total("42", {"cpu": 30})
    forest.set_tree_total("7", {"cpu": 50}, deducted=False)
    pool = forest.tree("42")
    assert (list(forest), forest.tree().total) == (["", "42", "7"], {"cpu": 70, "memory": 5})
    assert (pool.total, SYSTEM in pool, SYSTEM in forest.tree()) == ({"cpu": 30}, False, True)
    forest.set_tree_total("42", {"cpu": 40})
    assert forest.tree().total == {"cpu": 60, "memory": 5}
    forest.remove_tree("42")
    assert forest.tree().total == {"cpu": 100, "memory": 5}
    pool.add("still", max={"cpu": 1})
    with pytest.raises(KeyError, match="quota tree: got '42'"):
        forest.remove_tree("42")
    with pytest.raises(ValueError, match="other than the default"):
        forest.set_tree_total("", {})


def test_names_that_nothing_needs_any_more_leave_room_for_others() -> None:
    forest = Forest({"cpu": 100, "total": 5})
    tree, pool = forest.tree(), forest.tree("pool")
    tree.add("a", min={"min": 1}, max={"cpu": 60}, weight={"weight": 1})
    tree.add_request("a", {"charged": 7})
    pool.add("b", max={"pooled": 9})
    pool.add_request("b", {"pooled": 4})
    forest.set_tree_total("pool", {"pooled": 3})
    for number in range(500):
        tree.add("passing", max={f"r{number}": 1})
        tree.add_used("passing", {f"r{number}": 1})
        tree.remove("passing")
    spec = tree.spec("a")
    assert (spec.min, spec.max, spec.weight) == ({"min": 1}, {"cpu": 60}, {"weight": 1})
    assert tree.total == {"cpu": 100, "total": 5, "pooled": -3}
    assert (pool.total, pool.runtime("b")) == ({"pooled": 3}, {"pooled": 3})
    tree.update("a", max={"charged": 9})
    assert tree.request("a")["charged"] == 7
    # One call may need more than there is room for: it changes nothing.
    many = {f"s{number}": 1 for number in range(58)}
    with pytest.raises(ValueError, match="at most 64 different ones"):
        tree.add("wide", max={**many, "s58": 1, "s59": 1})
    tree.add("wide", max=many)
    assert tree.spec("wide").max == many


def test_an_explanation_adds_up() -> None:
    explanation = flat(100, EXAMPLE_A).explain("B", "cpu")
    assert [(step.pool, dict(sorted(step.grants.items()))) for step in explanation.rounds] == [
        (45, {"B": 14, "C": 12, "D": 19}),
        (9, {"C": 3, "D": 6}),
    ]
    assert explanation.shares["B"].runtime == 20
    assert str(explanation).splitlines() == [
        "koordinator-root-quota shares out 100m cpu among 4; B asks for 20m, keeps at least 15m",
        "round 1: 45m to 3 of priority 0; B is given 14m",
        "round 2: 9m to 2 of priority 0; B takes no part",
        "runtime 20m, 0 stay idle",
    ]


def test_columns_say_what_single_calls_say() -> None:
    tree = flat(100, EXAMPLE_A)
    ids = tree.ids(list("ABCD"))
    assert tree.runtime_column(ids, "cpu").tolist() == [5, 20, 35, 40]
    assert tree.runtime_column(ids, "never named").tolist() == [0, 0, 0, 0]
    tree.charge_column(ids, Charge.REQUEST, "cpu", np.array([5, 0, 0, -70]))
    assert tree.runtime_column(ids, "cpu").tolist() == cpu(tree, *"ABCD") == [10, 20, 40, 0]
    with pytest.raises(ValueError, match="one for each of 4 ids"):
        tree.charge_column(ids, Charge.USED, "cpu", [1])
    with pytest.raises(KeyError, match="id of a group"):
        tree.runtime_column(np.array([99], np.uint32), "cpu")


REFUSED = [
    (lambda t: t.add("a"), ValueError, "a name that is not taken"),
    (lambda t: t.add(""), ValueError, "a name"),
    (lambda t: t.add("b", max={"cpu": -1}), ValueError, "quota: got 'b: max.cpu=-1', expected"),
    (lambda t: t.add("b", max={"cpu": 2**63}), ValueError, "amount: .* 64 bits"),
    (lambda t: t.add("b", max={"cpu": 1.5}), ValueError, "amount: got 'cpu=1.5'"),
    (lambda t: t.add("b", parent="b"), ValueError, "quota: got 'b: parent=b', expected another"),
    (lambda t: t.add("b", parent=SYSTEM), ValueError, "a group that can have children"),
    (lambda t: t.move("a", "a/b"), ValueError, "a parent that is not below"),
    (lambda t: t.remove(ROOT), ValueError, "a group that is not built in"),
    (lambda t: t.update(ROOT, max={}), ValueError, "other than the root"),
    (lambda t: t.add_used(ROOT, {"cpu": 1}), ValueError, "can be charged to"),
    (lambda t: t.runtime("b"), KeyError, "quota: got 'b', expected a group of this tree"),
    (lambda t: t.explain("a", "gpu"), ValueError, "shares this resource out"),
    (lambda t: t.add("b", max={f"r{i}": 1 for i in range(70)}), ValueError, "at most 64"),
]


@pytest.mark.parametrize(("change", "error", "text"), REFUSED)
def test_a_refused_change_names_what_is_right(change, error, text) -> None:
    tree = QuotaTree({"cpu": 10})
    tree.add("a", max={"cpu": 10})
    tree.add("a/b", parent="a", max={"cpu": 5})
    with pytest.raises(error, match=text):
        change(tree)
    assert tree.runtime("a") == {"cpu": 0}


@st.composite
def crowded_trees(draw: st.DrawFn) -> tuple[dict[str, int], list[tuple[str, Spec, int, int]]]:
    """Trees whose groups compete: requests above minimums, totals between the two."""
    keys = ("cpu", "memory")[: draw(st.integers(1, 2))]
    groups = []
    for i in range(draw(st.integers(1, 6))):
        name = chr(ord("a") + (i * 5) % 6)
        parent = draw(st.sampled_from([ROOT, ROOT, *(group[0] for group in groups)]))
        numbers = draw(st.tuples(*[st.integers(0, 20)] * 5))
        spec = Spec(
            parent,
            min=dict.fromkeys(keys, numbers[0] // 2),
            max=dict.fromkeys(keys, numbers[1] + 15),
            weight=dict.fromkeys(keys, numbers[2] // 4),
            is_parent=draw(st.booleans()),
            allow_lent=draw(st.integers(0, 3)) > 0,
            scale_min=draw(st.integers(0, 3)) > 0,
            priority=draw(st.integers(0, 3)) // 2,
        )
        groups.append((name, spec, numbers[3] * 2, numbers[4]))
    return {key: draw(st.integers(0, 70)) for key in keys}, groups


@given(crowded_trees(), st.booleans())
def test_crowded_trees_agree_with_the_model(crowd, guarantee_usage: bool) -> None:
    total, groups = crowd
    tree = QuotaTree(total, options=Options(guarantee_usage=guarantee_usage))
    model = ModelTree(guarantee_usage=guarantee_usage)
    model.total = total
    for name, spec, request, used in groups:
        tree.add(name, GroupSpec(**vars(spec)))
        model.add(name, spec)
        for kind, charge, amount in (("request", tree.add_request, request),
                                     ("used", tree.add_used, used)):  # fmt: skip
            charge(name, dict.fromkeys(total, amount))
            model.charge(name, kind, dict.fromkeys(total, amount))
    for name, *_ in groups:
        assert tree.runtime(name) == model.runtime(name), name
        assert tree.scaled_min(name) == model.scaled_min(name), name


@given(crowded_trees(), st.randoms(use_true_random=False))
def test_the_order_of_changes_and_reads_does_not_matter(crowd, random) -> None:
    total, groups = crowd
    runtimes = []
    for _ in range(2):
        tree = QuotaTree()
        random.shuffle(groups)
        for name, spec, request, _ in groups:
            tree.add(name, GroupSpec(**vars(spec)))
            tree.add_request(name, dict.fromkeys(total, request))
            tree.runtime(random.choice(list(tree)))
        tree.set_total(total)
        runtimes.append({name: tree.runtime(name) for name in sorted(tree)})
    assert runtimes[0] == runtimes[1]


@given(st.text(max_size=5), st.dictionaries(st.text(max_size=5), st.one_of(
    st.integers(), st.floats(), st.text(max_size=3)), max_size=3))  # fmt: skip
def test_fuzzed_names_and_amounts_are_taken_or_refused(name: str, amounts: dict[str, int]) -> None:
    def use() -> None:
        tree = QuotaTree({"cpu": 5})
        tree.add(name, max=amounts)
        tree.add_request(name, amounts)
        tree.runtime(name)

    refusal(use, errors=KERNEL_ERRORS)


def test_sums_beyond_64_bits_saturate() -> None:
    tree = QuotaTree({"cpu": MOST})
    tree.add("p", max={"cpu": MOST}, min={"cpu": MOST}, is_parent=True)
    for name in "ab":
        tree.add(name, parent="p", max={"cpu": MOST}, min={"cpu": MOST})
        tree.add_request(name, {"cpu": MOST})
        tree.add_used(name, {"cpu": MOST})
    assert tree.request("p") == tree.used("p") == {"cpu": MOST}
    # Half of each minimum, as doubles see it.
    assert cpu(tree, "a", "b") == [2**62, 2**62]
    tree.remove("a")
    assert tree.request("p") == tree.used("p") == {"cpu": MOST}
    assert cpu(tree, "b") == [MOST]
