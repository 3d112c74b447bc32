# SPDX-License-Identifier: Apache-2.0
"""What a ClusterColocationProfile makes of a pod, against the model; once and for ever."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from koord.api import ClusterColocationProfile, decode_as
from koord.api.kinds.meta import ObjectMeta
from koord.controllers.cluster.colocation_profiles import effect
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
    found = effect.labels_after(profile(spec).spec, labels)
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
    once = effect.labels_after(made, labels), effect.annotations_after(made, notes)
    assert effect.labels_after(made, once[0]) == once[0]
    assert effect.annotations_after(made, once[1]) == once[1]
    assert effect.change(made, ObjectMeta(labels=once[0], annotations=once[1])) == {}


def test_a_suffix_is_added_once_and_only_to_labels_that_are_there() -> None:
    made = profile({"labelSuffixes": {"app": "-canary", "none": "-x"}}).spec
    for labels in ({"app": "web"}, {"app": "web-canary"}):
        assert effect.labels_after(made, labels) == {"app": "web-canary"}


def test_a_change_names_what_differs_and_the_profiles_patch_comes_last() -> None:
    made = profile(
        {
            "labels": {"a": "1", "b": "2"}, "annotations": {"n": "1"}, "qosClass": "BE",
            "patch": {"metadata": {"labels": {"b": "3"}}, "spec": {"terminationGracePeriod": 1}},
        }
    ).spec  # fmt: skip
    found = effect.change(made, ObjectMeta(labels={"a": "1"}))
    assert found == {
        "metadata": {
            "labels": {"b": "3", "koordinator.sh/qosClass": "BE"}, "annotations": {"n": "1"},
        },
        "spec": {"terminationGracePeriod": 1},
    }  # fmt: skip
