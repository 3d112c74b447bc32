# SPDX-License-Identifier: Apache-2.0
"""What gates make of pods that enter: pods as they are written, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from koord.api import Pod, decode_as, transforms

_POD = """
apiVersion: v1
kind: Pod
metadata:
  name: p
  annotations: {pod.koordinator.sh/replace-resources: "RULES"}
spec:
  overhead: {cpu: 100m, example.com/a: "1"}
  resources: {requests: {cpu: "4"}}
  initContainers:
  - {name: i, resources: {requests: {cpu: 1500m, memory: 1Gi}}}
  containers:
  - name: c
    resources:
      requests: {cpu: "2", memory: 2Gi, example.com/a: "3"}
      limits: {cpu: "2", kubernetes.io/batch-cpu: "7"}
"""


def pod(text: str) -> Pod:
    return decode_as(yaml.safe_load(text), Pod)


def amounts(found: Pod) -> list[dict[str, str]]:
    """Overhead, then the init container's requests, then the container's requests and limits."""
    spec = found.spec
    lists = (
        spec.overhead,
        spec.init_containers[0].resources.requests,
        spec.containers[0].resources.requests,
        spec.containers[0].resources.limits,
    )
    return [{name: str(amount) for name, amount in each.items()} for each in lists]


@pytest.mark.parametrize(
    ("rules", "right"),
    [
        (
            "cpu:kubernetes.io/batch-cpu, memory : kubernetes.io/batch-memory",
            [
                {"example.com/a": "1", "kubernetes.io/batch-cpu": "100"},
                {"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "1Gi"},
                {
                    "example.com/a": "3",
                    "kubernetes.io/batch-cpu": "2k",
                    "kubernetes.io/batch-memory": "2Gi",
                },
                # The target is there: nothing moves.
                {"cpu": "2", "kubernetes.io/batch-cpu": "7"},
            ],
        ),
        (
            "example.com/a:,kubernetes.io/batch-cpu:,cpu:kubernetes.io/batch-cpu",
            [
                {"kubernetes.io/batch-cpu": "100"},
                {"memory": "1Gi", "kubernetes.io/batch-cpu": "1500"},
                {"memory": "2Gi", "kubernetes.io/batch-cpu": "2k"},
                {"kubernetes.io/batch-cpu": "2k"},
            ],
        ),
        (
            "a:b:c,cpu,,example.com/a:example.com/b",
            [
                {"cpu": "100m", "example.com/b": "1"},
                {"cpu": "1500m", "memory": "1Gi"},
                {"cpu": "2", "memory": "2Gi", "example.com/b": "3"},
                {"cpu": "2", "kubernetes.io/batch-cpu": "7"},
            ],
        ),
    ],
)
def test_resources_are_erased_first_and_then_moved(rules: str, right: Any) -> None:
    before = pod(_POD.replace("RULES", rules))
    kept = amounts(before)
    found = transforms.with_replaced_resources(before)
    assert amounts(found) == right
    assert amounts(before) == kept
    assert found.spec.resources is before.spec.resources


@pytest.mark.parametrize("rules", ["", "nonsense", "a:b:c"])
def test_a_pod_without_rules_is_the_same_object(rules: str) -> None:
    before = pod(_POD.replace("RULES", rules))
    assert transforms.with_replaced_resources(before) is before


@pytest.mark.parametrize(
    ("labels", "priority", "right"),
    [
        ("{}", "null", 5500),  # asks for nothing: BE, and so batch
        ("{}", "0", 5500),
        ("{}", "-3", -3),
        ("{}", "12", 12),
        ("{}", "7100", 7100),
        ("{koordinator.sh/qosClass: LSR}", "null", 9500),
        ("{koordinator.sh/priority-class: koord-mid}", "null", 7500),
        ("{koordinator.sh/priority-class: koord-free}", "0", 3500),
        ("{koordinator.sh/priority-class: koord-free}", "9100", 9100),
        ("{koordinator.sh/qosClass: SYSTEM, koordinator.sh/priority-class: x}", "null", 9500),
    ],
)
def test_a_pod_without_a_priority_gets_that_of_its_class(
    labels: str, priority: str, right: int
) -> None:
    before = pod(f"{{kind: Pod, metadata: {{labels: {labels}}}, spec: {{priority: {priority}}}}}")
    assert transforms.with_default_priority(before).spec.priority == right


@pytest.mark.parametrize(
    ("label", "said", "right"),
    [
        ("Never", "PreemptLowerPriority", "Never"),
        ("PreemptLowerPriority", "Never", "PreemptLowerPriority"),
        ("PreemptLowerPriority", None, "PreemptLowerPriority"),
        ("never", "PreemptLowerPriority", "Never"),
        (None, "PreemptLowerPriority", "Never"),
        (None, None, "Never"),
    ],
)
def test_the_label_decides_about_preemption(
    label: str | None, said: str | None, right: str
) -> None:
    key = "scheduling.koordinator.sh/preemption-policy"
    document = {
        "kind": "Pod",
        "metadata": {"labels": {key: label} if label else {}},
        "spec": {"preemptionPolicy": said} if said else {},
    }
    assert transforms.with_preemption_policy(decode_as(document, Pod)).spec.preemption_policy == (
        right
    )


def test_a_pod_that_is_as_it_should_be_is_the_same_object() -> None:
    fine = pod("{kind: Pod, spec: {priority: 9500, preemptionPolicy: Never}}")
    for transform in transforms.BY_GATE.values():
        assert transform(fine) is fine
