# SPDX-License-Identifier: Apache-2.0
"""What a ClusterColocationProfile makes of a pod, against the model; once and for ever."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from koord.api import ClusterColocationProfile, decode_as
from koord.api.kinds.cluster import Namespace
from koord.api.kinds.meta import ObjectMeta
from koord.base.errors import KoordError
from koord.controllers.manager.colocationprofile import pod_mutation
from tests.models import colocation_profile

_KEYS = st.sampled_from(("a", "b", "c", "d"))
_TEXTS = st.sampled_from(("v", "w", "v-x", ""))
_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(_KEYS, _TEXTS, max_size=2),
        "labelKeysMapping": st.dictionaries(_KEYS, _KEYS, max_size=3),
        "labelSuffixes": st.dictionaries(_KEYS, st.sampled_from(("-x", "-y", "")), max_size=2),
        "annotations": st.dictionaries(_KEYS, _TEXTS, max_size=2),
        "annotationKeysMapping": st.dictionaries(_KEYS, _KEYS, max_size=3),
        "qosClass": st.sampled_from(("BE", "LS")),
        "koordinatorPriority": st.integers(0, 9),
    },
)
_LABELS = st.dictionaries(_KEYS, _TEXTS)


def profile(spec: dict[str, Any], name: str = "p") -> ClusterColocationProfile:
    document = {
        "apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile",
        "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip
    return decode_as(document, ClusterColocationProfile)


@given(spec=_SPECS, labels=_LABELS)
def test_labels_are_those_of_the_model(spec: dict[str, Any], labels: dict[str, str]) -> None:
    mapping, suffixes = spec.get("labelKeysMapping", {}), spec.get("labelSuffixes", {})
    assume(not any(text and labels.get(key, "").endswith(text) for key, text in suffixes.items()))
    found = pod_mutation.labels_after(profile(spec).spec, labels)
    if not set(mapping) & set(mapping.values()):
        assert found == colocation_profile.applied(spec, labels)
    # Mappings that read what others write: as if they were taken in one order or another.
    orders = permutations(mapping)
    assert found in [colocation_profile.applied(spec, labels, order) for order in orders]


@given(spec=_SPECS, labels=_LABELS, notes=_LABELS)
def test_a_second_time_changes_nothing(
    spec: dict[str, Any], labels: dict[str, str], notes: dict[str, str]
) -> None:
    made = profile(spec).spec
    once = pod_mutation.labels_after(made, labels), pod_mutation.annotations_after(made, notes)
    assert pod_mutation.labels_after(made, once[0]) == once[0]
    assert pod_mutation.annotations_after(made, once[1]) == once[1]
    assert pod_mutation.change(made, ObjectMeta(labels=once[0], annotations=once[1])) == {}


def test_a_suffix_is_added_once_and_only_to_labels_that_are_there() -> None:
    made = profile({"labelSuffixes": {"app": "-canary", "none": "-x"}}).spec
    for labels in ({"app": "web"}, {"app": "web-canary"}):
        assert pod_mutation.labels_after(made, labels) == {"app": "web-canary"}


def test_a_change_names_what_differs_and_the_profiles_patch_comes_last() -> None:
    made = profile(
        {
            "labels": {"a": "1", "b": "2"}, "annotations": {"n": "1"}, "qosClass": "BE",
            "patch": {"metadata": {"labels": {"b": "3"}}, "spec": {"terminationGracePeriod": 1}},
        }
    ).spec  # fmt: skip
    found = pod_mutation.change(made, ObjectMeta(labels={"a": "1"}))
    assert found == {
        "metadata": {
            "labels": {"b": "3", "koordinator.sh/qosClass": "BE"}, "annotations": {"n": "1"},
        },
        "spec": {"terminationGracePeriod": 1},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given_", "percent"),
    [(None, 100), (0, 0), (30, 30), ("30%", 30), ("0%", 0), ("100%", 100), ("250%", 100), (-3, 0)],
)
def test_the_share_of_pods(given_: Any, percent: int) -> None:
    spec = {} if given_ is None else {"probability": given_}
    assert pod_mutation.percent(profile(spec)) == percent


@pytest.mark.parametrize("wrong", ["30", "x%", "%", "1.5%", "-3%"])
def test_a_share_that_is_none_is_an_error(wrong: str) -> None:
    with pytest.raises(KoordError, match=r"spec\.probability"):
        pod_mutation.percent(profile({"probability": wrong}))


@given(share=st.integers(0, 100), uids=st.integers(0, 10_000))
def test_a_pod_draws_once_and_larger_shares_take_in_smaller_ones(share: int, uids: int) -> None:
    made, uid = profile({}), f"uid-{uids}"
    drawn = pod_mutation.is_drawn(made, uid, share)
    assert drawn == pod_mutation.is_drawn(made, uid, share)
    assert not drawn or pod_mutation.is_drawn(made, uid, min(share + 1, 100))
    assert not pod_mutation.is_drawn(made, uid, 0)
    assert pod_mutation.is_drawn(made, uid, 100)


@pytest.mark.parametrize("share", [1, 30, 99])
def test_the_share_is_exact_not_one_more(share: int) -> None:
    pods = 200_000
    chosen = profile({})
    drawn = sum(pod_mutation.is_drawn(chosen, f"uid-{i}", share) for i in range(pods))
    # Five standard deviations; share + 1 percent would be nine or more away.
    fraction = share / 100
    assert abs(drawn - pods * fraction) < 5 * (pods * fraction * (1 - fraction)) ** 0.5


def test_profiles_draw_apart() -> None:
    one, other = profile({}, "one"), profile({}, "other")
    both = sum(
        pod_mutation.is_drawn(one, str(i), 50) and pod_mutation.is_drawn(other, str(i), 50)
        for i in range(4000)
    )
    assert 800 < both < 1200


def test_selectors_of_pods_and_namespaces() -> None:
    pod = ObjectMeta(name="p", namespace="n", labels={"app": "web"})
    space = Namespace(metadata=ObjectMeta(name="n", labels={"team": "a"}))
    web, team = {"matchLabels": {"app": "web"}}, {"matchLabels": {"team": "a"}}
    for spec, namespace, holds in (
        ({}, space, False),
        ({"selector": {}}, None, True),
        ({"selector": web}, None, True),
        ({"selector": {"matchLabels": {"app": "x"}}}, space, False),
        ({"selector": web, "namespaceSelector": team}, space, True),
        ({"selector": web, "namespaceSelector": {}}, space, True),
        ({"selector": web, "namespaceSelector": {}}, None, True),
        ({"selector": web, "namespaceSelector": team}, None, False),
        ({"selector": web, "namespaceSelector": {"matchLabels": {"team": "b"}}}, space, False),
    ):
        assert pod_mutation.is_selected(profile(spec), pod, namespace) is holds
