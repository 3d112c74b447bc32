# SPDX-License-Identifier: Apache-2.0
"""Profiles and pods as people write them, and the pods' labels and annotations after."""

from __future__ import annotations

import pytest
import yaml

from koord.api import ClusterColocationProfile, Pod, decode_as
from koord.api.kinds.meta import ObjectMeta
from koord.controllers.cluster.colocation_profiles import effect

_PROFILE = """
apiVersion: config.koordinator.sh/v1alpha1
kind: ClusterColocationProfile
metadata:
  name: cost
spec:
  selector:
    matchLabels: {app: web}
  labels: {tier: front}
  annotations: {owner: search}
  labelKeysMapping:
    team: cost-center
    region: zone
    tier: stage
  annotationKeysMapping:
    owner: contact
    runbook: help
  labelSuffixes: {cost-center: -prod}
  qosClass: LS
  koordinatorPriority: 5500
"""

_POD = """
apiVersion: v1
kind: Pod
metadata:
  name: web-0
  labels: {app: web, team: search, zone: z1}
  annotations: {contact: nobody}
"""


def after(profile: str, pod: str) -> tuple[dict[str, str], dict[str, str]]:
    spec = decode_as(yaml.safe_load(profile), ClusterColocationProfile).spec
    meta = decode_as(yaml.safe_load(pod), Pod).metadata
    return (
        effect.labels_after(spec, meta.labels),
        effect.annotations_after(spec, meta.annotations),
    )


def test_a_mapping_copies_from_its_key_to_the_key_that_it_names() -> None:
    labels, annotations = after(_PROFILE, _POD)
    assert labels == {
        "app": "web",
        "tier": "front",
        "team": "search",
        "cost-center": "search-prod",
        # What the profile itself sets can be copied too.
        "stage": "front",
        # There is no label "region": what "zone" had is gone.
        "zone": "",
        "koordinator.sh/qosClass": "LS",
        "koordinator.sh/priority": "5500",
    }
    assert annotations == {"owner": "search", "contact": "search", "help": ""}


def test_the_patch_of_a_pod_has_the_new_keys_and_leaves_the_old_ones_alone() -> None:
    spec = decode_as(yaml.safe_load(_PROFILE), ClusterColocationProfile).spec
    pod = ObjectMeta(labels={"app": "web", "tier": "front", "team": "search"})
    assert effect.change(spec, pod) == {
        "metadata": {
            "labels": {
                "cost-center": "search-prod", "stage": "front", "zone": "",
                "koordinator.sh/qosClass": "LS", "koordinator.sh/priority": "5500",
            },
            "annotations": {"owner": "search", "contact": "search", "help": ""},
        }
    }  # fmt: skip


@pytest.mark.parametrize(
    ("mapping", "before", "right"),
    [
        ("{team: cost-center}", "{team: search}", {"team": "search", "cost-center": "search"}),
        ("{team: cost-center}", "{}", {"cost-center": ""}),
        ("{team: cost-center}", "{team: ''}", {"team": "", "cost-center": ""}),
        ("{team: cost-center}", "{cost-center: old}", {"cost-center": ""}),
        ("{team: cost-center}", "{team: a, cost-center: old}", {"team": "a", "cost-center": "a"}),
        ("{team: team}", "{team: a}", {"team": "a"}),
        ("{team: team}", "{}", {"team": ""}),
        ("{a: b, b: b}", "{a: '1', b: '2'}", {"a": "1", "b": "1"}),
        # A chain: every key has what stands at its beginning.
        ("{a: b, b: c}", "{a: '1', b: '2', c: '3'}", {"a": "1", "b": "1", "c": "1"}),
        ("{z: y, y: x}", "{x: '1', y: '2', z: '3'}", {"x": "3", "y": "3", "z": "3"}),
        # Two old keys for one new one: the last by name.
        ("{a: n, b: n}", "{a: '1', b: '2'}", {"a": "1", "b": "2", "n": "2"}),
        ("{a: n, b: n}", "{a: '1'}", {"a": "1", "n": ""}),
        # A circle begins with the first by name.
        ("{a: b, b: a}", "{a: '1', b: '2'}", {"a": "1", "b": "1"}),
    ],
)
def test_mappings_one_by_one(mapping: str, before: str, right: dict[str, str]) -> None:
    for kind in ("label", "annotation"):
        profile = f"""
        apiVersion: config.koordinator.sh/v1alpha1
        kind: ClusterColocationProfile
        metadata: {{name: p}}
        spec: {{selector: {{}}, {kind}KeysMapping: {mapping}}}
        """
        pod = f"{{apiVersion: v1, kind: Pod, metadata: {{name: p, {kind}s: {before}}}}}"
        assert after(profile, pod)[kind == "annotation"] == right
