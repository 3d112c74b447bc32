# SPDX-License-Identifier: Apache-2.0
"""What profiles make of documents: order, all of one or nothing, and no profile is ever changed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from koord.api import codec
from koord.api.kinds.cluster import PriorityClass
from koord.api.kinds.meta import ObjectMeta
from koord.controllers.cluster.colocation_profiles.profile_index import ProfileIndex
from koord.controllers.webhook.profiles.application import (
    PODS,
    RESERVATIONS,
    AppliedProfiles,
    ProfileTarget,
    apply,
)
from tests.controllers.cluster.colocation_profiles.test_effect import profile

Document = dict[str, Any]
CLASSES = {
    "koord-batch": PriorityClass(
        metadata=ObjectMeta(name="koord-batch"), value=5000,
        preemption_policy="PreemptLowerPriority",
    ),
    "plain": PriorityClass(metadata=ObjectMeta(name="plain"), value=7),
}  # fmt: skip


def applied(document: Document, *specs: Document, target: ProfileTarget = PODS) -> AppliedProfiles:
    index = ProfileIndex()
    for number, spec in enumerate(specs):
        index.put(profile(spec, f"p{number}"))
    selected = index.selected({})
    before = deepcopy(document)
    documents = [codec.to_document(usable.profile) for usable in selected]
    found = apply(document, selected, CLASSES, target, "Pod p")
    assert document == before
    assert [codec.to_document(usable.profile) for usable in selected] == documents
    return found


def test_every_field_does_what_it_says() -> None:
    found = applied(
        {
            "metadata": {"labels": {"team": "search", "app": "web"}},
            "spec": {"preemptionPolicy": "x"},
        },
        {
            "labels": {"a": "1"}, "annotations": {"b": "2"}, "labelKeysMapping": {"team": "cost"},
            "annotationKeysMapping": {"b": "c"}, "labelSuffixes": {"app": "-v2", "none": "-x"},
            "schedulerName": "koord-scheduler", "qosClass": "BE",
            "priorityClassName": "koord-batch", "koordinatorPriority": 1111,
            "patch": {"spec": {"terminationGracePeriodSeconds": 5}},
        },
    )  # fmt: skip
    assert found.document == {
        "metadata": {
            "labels": {
                "team": "search", "cost": "search", "app": "web-v2", "a": "1",
                "koordinator.sh/qosClass": "BE", "koordinator.sh/priority": "1111",
            },
            "annotations": {"b": "2", "c": "2"},
        },
        "spec": {
            "schedulerName": "koord-scheduler", "priorityClassName": "koord-batch",
            "priority": 5000, "preemptionPolicy": "PreemptLowerPriority",
            "terminationGracePeriodSeconds": 5,
        },
    }  # fmt: skip
    assert not found.failures
    assert "labels[koordinator.sh/qosClass] = BE" in [each.text for each in found.effects]
    assert {each.source for each in found.effects} == {"ClusterColocationProfile p0"}


def test_an_unset_preemption_policy_of_the_class_is_copied_too() -> None:
    found = applied({"spec": {"preemptionPolicy": "Never"}}, {"priorityClassName": "plain"})
    assert found.document["spec"] == {"priorityClassName": "plain", "priority": 7}


def test_later_profiles_see_and_override_earlier_ones() -> None:
    found = applied(
        {}, {"labels": {"a": "1", "b": "1"}}, {"labels": {"b": "2"}, "labelSuffixes": {"a": "-x"}}
    )
    assert found.document["metadata"]["labels"] == {"a": "1-x", "b": "2"}


def test_a_patch_merges_lists_by_their_keys() -> None:
    pod = {"spec": {
        "containers": [{"name": "main", "image": "i", "env": [{"name": "A", "value": "1"}]}],
        "tolerations": [{"key": "x"}],
    }}  # fmt: skip
    patch = {"spec": {
        "containers": [{"name": "main", "env": [{"name": "B", "value": "2"}]}],
        "tolerations": [{"key": "y"}],
    }}  # fmt: skip
    spec = applied(pod, {"patch": patch}).document["spec"]
    assert spec["tolerations"] == [{"key": "y"}]
    [container] = spec["containers"]
    assert container["image"] == "i"
    assert sorted(each["name"] for each in container["env"]) == ["A", "B"]


def test_of_a_profile_whose_patch_does_not_fit_nothing_is_applied() -> None:
    good, wrong = {"labels": {"good": "1"}}, {"$patch": "unheard-of"}
    for patch in (wrong, {"spec": {"containers": "none"}}, {"metadata": {"labels": {"a": 1}}}):
        found = applied({"metadata": {}}, good, {"labels": {"bad": "1"}, "patch": patch}, good)
        assert found.document["metadata"]["labels"] == {"good": "1"}
        [(usable, error)] = found.failures
        assert usable.profile.metadata.name == "p1"
        assert str(error).startswith("ClusterColocationProfile p1: spec.patch")


def test_what_a_patch_brings_is_the_objects_own() -> None:
    container = {"name": "sidecar", "resources": {"requests": {"cpu": "1"}}}
    index = ProfileIndex()
    index.put(profile({"patch": {"spec": {"containers": [container]}}}))
    selected = index.selected({})
    first = apply({}, selected, {}, PODS, "Pod p").document
    first["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    second = apply({}, selected, {}, PODS, "Pod p").document
    assert second["spec"]["containers"] == [container]


def test_a_reservations_scheduler_and_class_go_to_its_template() -> None:
    spec = {
        "schedulerName": "koord-scheduler", "priorityClassName": "koord-batch", "qosClass": "BE",
        "patch": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "new"}]}}}},
    }  # fmt: skip
    template = {"spec": {"containers": [{"name": "c", "image": "old"}]}}
    given = {"spec": {"template": template, "owners": []}}
    found = applied(given, spec, target=RESERVATIONS).document
    assert found["metadata"] == {"labels": {"koordinator.sh/qosClass": "BE"}}
    assert found["spec"]["template"]["spec"] == {
        "schedulerName": "koord-scheduler", "priorityClassName": "koord-batch", "priority": 5000,
        "preemptionPolicy": "PreemptLowerPriority", "containers": [{"name": "c", "image": "new"}],
    }  # fmt: skip


def test_a_reservation_without_a_template_gets_none() -> None:
    found = applied({"spec": {"owners": []}}, {"schedulerName": "s", "qosClass": "BE"},
                    target=RESERVATIONS)  # fmt: skip
    assert found.document["spec"] == {"owners": []}
