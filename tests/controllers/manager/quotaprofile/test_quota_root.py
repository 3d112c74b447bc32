# SPDX-License-Identifier: Apache-2.0
"""Roots of quota trees: sums, ratios, and what of it is worth a write."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import ElasticQuota, ElasticQuotaProfile, Node, decode_as
from koord.api.draft import Draft
from koord.base.errors import KoordError
from koord.controllers.manager.quotaprofile import quota_root
from koord.kernels.quantity import Quantity

KEYS = "quota.scheduling.koordinator.sh/"


def node(name: str, zone: str, ready: bool = True, cordoned: bool = False, **amounts: str) -> Node:
    document = {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"zone": zone}},
        "spec": {"unschedulable": cordoned},
        "status": {
            "allocatable": amounts or {"cpu": "10", "memory": "1000", "storage": "1000"},
            "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
        },
    }  # fmt: skip
    return decode_as(document, Node)


def profile(ratio: str | None = None, keys: str | None = None, **spec: Any) -> ElasticQuotaProfile:
    notes = {} if keys is None else {f"{KEYS}resource-keys": keys}
    document = {
        "apiVersion": "quota.koordinator.sh/v1alpha1", "kind": "ElasticQuotaProfile",
        "metadata": {"name": "p", "namespace": "n", "annotations": notes,
                     "labels": {f"{KEYS}tree-id": "7"}},
        "spec": {"quotaName": "root", "nodeSelector": {"matchLabels": {"zone": "a"}},
                 **({"resourceRatio": ratio} if ratio is not None else {}), **spec},
    }  # fmt: skip
    return decode_as(document, ElasticQuotaProfile)


NODES = [node("1", "a"), node("2", "a", ready=False), node("3", "b")]


def texts(amounts: dict[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def test_the_example_of_the_spec() -> None:
    found = quota_root.root(profile(), NODES)
    assert texts(found.min) == {"cpu": "20", "memory": "2k"}
    assert texts(found.max) == dict.fromkeys(("cpu", "memory"), "4611686018427387")
    assert texts(found.total) == {"cpu": "20", "memory": "2k", "storage": "2k"}
    assert texts(found.unschedulable) == {"cpu": "10", "memory": "1k", "storage": "1k"}
    found = quota_root.root(profile("0.9"), NODES)
    assert texts(found.min) == {"cpu": "18", "memory": "1800"}
    assert texts(found.unschedulable) == {"cpu": "9", "memory": "900", "storage": "900"}


@pytest.mark.parametrize(
    ("ratio", "memory", "cpu", "disk"),
    [
        # 2**53 + 1 bytes: the first whole number that no double has.
        (None, "9007199254740993", "9007199254740993m", "9007199254740993"),
        ("1", "8Pi", "9007199254740992m", "9007199254740992"),
        # Out of range is 1, and no less a ratio.
        ("2", "8Pi", "9007199254740992m", "9007199254740992"),
        ("0.5", "4Pi", "4503599627370496m", "4503599627370496"),
        ("0.1", "900719925474099", "900719925474099m", "900719925474099"),
    ],
)
def test_amounts_beyond_the_whole_numbers_of_doubles(
    ratio: str | None, memory: str, cpu: str, disk: str
) -> None:
    whole: dict[str, Any] = {
        "memory": "9007199254740993",
        "cpu": "9007199254740993m",
        "disk": "9007199254740993",
    }
    there = [node("1", "a", cordoned=True, **whole)]
    found = quota_root.root(profile(ratio), there)
    assert texts(found.total) == {"memory": memory, "cpu": cpu, "disk": disk}
    assert texts(found.unschedulable) == texts(found.total)
    assert texts(found.min) == {"memory": memory, "cpu": cpu}


def test_without_a_ratio_amounts_are_kept_as_they_are_written() -> None:
    there = [node("1", "a", cpu="1500m", memory="3Gi"), node("2", "a", cpu="500m", memory="1Gi")]
    assert texts(quota_root.root(profile(), there).total) == {"cpu": "2", "memory": "4Gi"}


def test_labels_of_the_profile_give_way_to_those_of_the_tree() -> None:
    labels = {"mine": "1", f"{KEYS}profile": "x", f"{KEYS}tree-id": "9", f"{KEYS}is-root": "no"}
    assert quota_root.root(profile(quotaLabels=labels), NODES).labels == {
        "mine": "1", f"{KEYS}profile": "x", f"{KEYS}tree-id": "7", f"{KEYS}is-root": "true",
    }  # fmt: skip


@pytest.mark.parametrize("ratio", ["0", "-1", "1.1", "x", "", "nan", "inf"])
def test_a_ratio_out_of_range_is_one(ratio: str) -> None:
    assert texts(quota_root.root(profile(ratio), NODES).min) == {"cpu": "20", "memory": "2000"}


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [('["storage","gpu"]', {"storage": "2k", "gpu": "0"}),
     ("no JSON", {"cpu": "20", "memory": "2k"}), ("[3]", {"cpu": "20", "memory": "2k"})],
)  # fmt: skip
def test_the_resources_that_count(keys: str, wanted: dict[str, str]) -> None:
    assert texts(quota_root.root(profile(keys=keys), NODES).min) == wanted


@pytest.mark.parametrize("keys", ["[]", "null"])
def test_an_empty_list_of_resources_bounds_none(keys: str) -> None:
    found = quota_root.root(profile(keys=keys), NODES)
    assert (found.min, found.max) == ({}, {})
    assert texts(found.total) == {"cpu": "20", "memory": "2k", "storage": "2k"}


def test_a_cordoned_node_counts_and_takes_no_pods() -> None:
    found = quota_root.root(profile(), [node("1", "a", cordoned=True)])
    assert found.total == found.unschedulable


def test_selectors_that_select_nothing_or_nonsense() -> None:
    assert quota_root.root(profile(nodeSelector=None), NODES).total == {}
    wrong = {"matchExpressions": [{"key": "zone", "operator": "Like", "values": ["a"]}]}
    with pytest.raises(KoordError, match=r"spec\.nodeSelector"):
        quota_root.root(profile(nodeSelector=wrong), NODES)


@given(
    amounts=st.lists(
        st.tuples(st.integers(0, 2**40), st.integers(0, 2**40), st.booleans()), max_size=4
    ),
    percent=st.integers(1, 100),
)
def test_sums_and_ratios_are_those_of_exact_arithmetic(
    amounts: list[tuple[int, int, bool]], percent: int
) -> None:
    nodes = [
        node(str(i), "a", ready, cpu=f"{cpu}m", memory=str(memory))
        for i, (cpu, memory, ready) in enumerate(amounts)
    ]
    found = quota_root.root(profile(f"{percent / 100}"), nodes)
    for only_lost, got in ((False, found.total), (True, found.unschedulable)):
        of = [(cpu, memory) for cpu, memory, ready in amounts if not (only_lost and ready)]
        ratio = percent / 100
        for index, (name, read) in enumerate((("cpu", "milli"), ("memory", "value"))):
            total = sum(each[index] for each in of)
            have = getattr(got[name], read)() if name in got else 0
            # Doubles are off by less than one unit at these sizes, and are cut.
            assert abs(have - int(total * Fraction(ratio))) <= 1


@given(percent=st.integers(1, 100), extra=st.booleans())
def test_what_was_written_is_not_written_again(percent: int, extra: bool) -> None:
    wanted = quota_root.root(profile(f"{percent / 100}"), NODES)
    there = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": "root", "namespace": "n", "labels": {"other": "x"}},
        "spec": {"min": {"cpu": "1", "gone": "1"}, "max": {}},
    }  # fmt: skip
    change = quota_root.changes(decode_as(there, ElasticQuota), wanted)
    after = Draft(_patched(there, change), ElasticQuota).object
    assert quota_root.changes(after, wanted) == {}
    assert after.spec.min == wanted.min
    assert after.spec.max == wanted.max
    assert after.metadata.labels == {"other": "x", **wanted.labels}
    if extra:
        after.metadata.annotations[f"{KEYS}total-resource"] = '{"memory": "nonsense"}'
        assert set(quota_root.changes(after, wanted)) == {"metadata"}


def _patched(document: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    found = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = _patched(found.get(key), value)
    return found


def test_the_name_of_a_tree() -> None:
    made = profile()
    assert quota_root.tree_id(made) == str(quota_root.fnv1a("n/p"))
    made.metadata.namespace = ""
    assert quota_root.tree_id(made) == str(quota_root.fnv1a("/p"))


@pytest.mark.parametrize(
    ("text", "number"),
    # The vectors that were published with the hash.
    [("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8)],
)
def test_the_hash_is_the_published_one(text: str, number: int) -> None:
    assert quota_root.fnv1a(text) == number
