# SPDX-License-Identifier: Apache-2.0
"""Bad quotas and trees of quotas, and every line that is said of each."""

from __future__ import annotations

from pathlib import Path

from koord.check.runner import check
from tests.check.conftest import Lines

HEAD = "apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: ElasticQuota\n"
PARENT = "quota.scheduling.koordinator.sh/parent"
IS_PARENT = "quota.scheduling.koordinator.sh/is-parent"


def quota(name: str, labels: str, spec: str) -> str:
    return f"{HEAD}metadata: {{name: {name}, labels: {{{labels}}}}}\nspec: {spec}\n---\n"


ROOT = quota("root", f'{IS_PARENT}: "true"', "{min: {cpu: 10}, max: {cpu: 50}}")
CHILD = quota("a", f"{PARENT}: root", "{min: {cpu: 4}, max: {cpu: 60}}")


def test_a_good_tree_has_no_problems(lines: Lines) -> None:
    assert lines(ROOT + CHILD) == []
    assert lines(CHILD + ROOT) == []


def test_the_object_of_the_root_bounds_nothing(lines: Lines) -> None:
    root = quota("koordinator-root-quota", "", "{}")
    labels = f'{IS_PARENT}: "true", {PARENT}: koordinator-root-quota'
    assert lines(root + quota("a", labels, "{min: {cpu: 1}, max: {cpu: 5}}")) == []


def test_min_above_max(lines: Lines) -> None:
    assert lines(quota("a", "", "{min: {cpu: 10}, max: {cpu: 5}}")) == [
        "4: error: ElasticQuota a: spec.min.cpu: got '10', expected no more than the spec's max"
    ]


def test_a_negative_amount(lines: Lines) -> None:
    assert lines(quota("a", "", '{max: {memory: "-1Gi"}}')) == [
        "4: error: ElasticQuota a: spec.max.memory: got '-1Gi', expected a quantity of 0 or more"
    ]


def test_a_min_without_a_max(lines: Lines) -> None:
    assert lines(quota("a", "", "{min: {cpu: 1, memory: 1Gi}, max: {cpu: 5}}")) == [
        "4: warning: ElasticQuota a: spec.min.memory: got 'memory', "
        "expected a resource that spec.max has too"
    ]


def test_a_parent_that_does_not_exist(lines: Lines) -> None:
    assert lines(ROOT + CHILD.replace("parent: root", "parent: rooot")) == [
        f"8: warning: ElasticQuota a: metadata.labels[{PARENT}]: got 'rooot', "
        "expected the name of a quota of the files, such as root"
    ]


def test_a_parent_that_is_none(lines: Lines) -> None:
    assert lines(ROOT.replace('"true"', '"false"') + CHILD) == [
        f"8: warning: ElasticQuota a: metadata.labels[{PARENT}]: got 'root', "
        f'expected a group with the label {IS_PARENT}: "true"'
    ]


def test_a_circle(lines: Lines) -> None:
    one = quota("b", f'{PARENT}: c, {IS_PARENT}: "true"', "{max: {cpu: 5}}")
    other = quota("c", f'{PARENT}: b, {IS_PARENT}: "true"', "{max: {cpu: 5}}")
    assert lines(one + other) == [
        f"8: error: ElasticQuota c: metadata.labels[{PARENT}]: got 'b', "
        "expected a parent that is not below the group"
    ]


def test_minimums_that_add_up_to_more_than_the_parents(lines: Lines) -> None:
    sibling = quota("b", f"{PARENT}: root", "{min: {cpu: 7}, max: {cpu: 60}}")
    assert lines(ROOT + CHILD + sibling) == [
        "14: warning: ElasticQuota b: spec.min.cpu: got '11 together', "
        "expected minimums of a, b that add up to at most 10, the min of root"
    ]


def test_other_resources_than_the_parents(lines: Lines) -> None:
    assert lines(ROOT + CHILD.replace("cpu: 60", "cpu: 60, memory: 1Gi")) == [
        "9: warning: ElasticQuota a: spec.max: got 'cpu, memory', "
        "expected the resources that the max of its parent root has: cpu"
    ]


def test_a_tree_other_than_the_parents(lines: Lines) -> None:
    tree = "quota.scheduling.koordinator.sh/tree-id"
    root = ROOT.replace("labels: {", f"labels: {{{tree}: x, ")
    assert lines(root + CHILD.replace("labels: {", f"labels: {{{tree}: y, ")) == [
        f"8: warning: ElasticQuota a: metadata.labels[{tree}]: got 'y', "
        "expected x, the tree of its parent root"
    ]


def test_a_name_that_is_used_twice(lines: Lines, tmp_path: Path) -> None:
    assert lines(ROOT + CHILD + CHILD) == []
    assert lines(ROOT + CHILD + CHILD.replace("cpu: 60", "cpu: 61")) == [
        "13: warning: ElasticQuota a: metadata.name: got 'a', "
        "expected a name used once in the file; line 6 has it already"
    ]
    other = CHILD.replace("{name: a,", "{name: a, namespace: other,")
    assert lines(ROOT + CHILD + other) == [
        "13: error: ElasticQuota other/a: metadata.name: got 'a', "
        "expected a name that is not taken (by ElasticQuota default/a)"
    ]


def test_an_annotation_that_counts_as_none(lines: Lines) -> None:
    key = "quota.scheduling.koordinator.sh/shared-weight"
    weight = CHILD.replace("labels: {", f"annotations: {{{key}: '[1]'}}, labels: {{")
    assert lines(ROOT + weight) == [
        f"8: error: ElasticQuota a: metadata.annotations[{key}]: got [1], expected an object"
    ]


def test_switches_and_weights_that_count_as_none(lines: Lines) -> None:
    key = "quota.scheduling.koordinator.sh"
    switch = CHILD.replace("labels: {", f"labels: {{{key}/is-parent: 'yes', ")
    assert lines(ROOT + switch) == [
        f"8: error: ElasticQuota a: metadata.labels[{key}/is-parent]: "
        "got 'yes', expected true or false"
    ]
    weight = '{"cpu": "-4"}'
    weighed = CHILD.replace(
        "labels: {", f"annotations: {{{key}/shared-weight: '{weight}'}}, labels: {{"
    )
    assert lines(ROOT + weighed) == [
        f"8: error: ElasticQuota a: metadata.annotations[{key}/shared-weight].cpu: "
        "got '-4', expected a weight of 0 or more"
    ]


def test_trees_that_span_files(tmp_path: Path) -> None:
    (tmp_path / "root.yaml").write_text(ROOT)
    (tmp_path / "child.yaml").write_text(CHILD)
    assert check([str(tmp_path / "root.yaml"), str(tmp_path / "child.yaml")]).problems == []
    alone = check([str(tmp_path / "child.yaml")]).problems
    assert [(each.line, each.severity, each.value) for each in alone] == [(3, "warning", "root")]


def test_a_quota_of_the_guide(lines: Lines) -> None:
    guide = """\
apiVersion: quota.koordinator.sh/v1alpha1
kind: ElasticQuota
metadata: {name: team, namespace: a}
spec:
  hard: {cpu: 5}
  min: {cpu: 6}
  max: {cpu: 8}
"""
    assert lines(guide) == [
        "1: warning: ElasticQuota a/team: apiVersion: got 'quota.koordinator.sh/v1alpha1', "
        "expected scheduling.sigs.k8s.io/v1alpha1: the other kind is there only after "
        "`koord crds install --guide` or with the chart's crds.guide, and in `koord up`",
        "6: error: ElasticQuota a/team: spec.min.cpu: got '6', "
        "expected no more than the spec's max and hard",
    ]


def test_quotas_of_pods(lines: Lines) -> None:
    pod = """\
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {quota.scheduling.koordinator.sh/name: NAME}}
spec: {containers: [{name: c, image: i}]}
---
"""
    path = "Pod p: metadata.labels[quota.scheduling.koordinator.sh/name]"
    assert lines(pod) == []  # nobody knows which quotas there are
    assert lines(pod.replace("NAME", "a") + ROOT + CHILD) == []
    assert lines(pod.replace("NAME", "aa") + ROOT + CHILD) == [
        f"3: warning: {path}: got 'aa', expected the name of a quota of the files, such as a"
    ]
    assert lines(pod.replace("NAME", "root") + ROOT + CHILD) == [
        f"3: warning: {path}: got 'root', "
        "expected a quota without is-parent: admission refuses its pods"
    ]


def test_profiles_of_trees(lines: Lines) -> None:
    text = """\
apiVersion: quota.koordinator.sh/v1alpha1
kind: ElasticQuotaProfile
metadata: {name: p, namespace: a}
spec:
  quotaName: root
  resourceRatio: "1.5"
  nodeSelector: {matchExpressions: [{key: k, operator: Has}]}
"""
    assert lines(text) == [
        "6: error: ElasticQuotaProfile a/p: spec.resourceRatio: got '1.5', "
        "expected a number above 0, at most 1",
        "7: error: ElasticQuotaProfile a/p: spec.nodeSelector.matchExpressions[0].operator: "
        "got 'Has', expected one of In, NotIn, Exists, DoesNotExist",
    ]
