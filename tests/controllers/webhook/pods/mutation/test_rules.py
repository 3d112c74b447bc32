# SPDX-License-Identifier: Apache-2.0
"""Each rule of mutation on the literal examples of the reference; twice is as once."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest

from koord.api.kinds.meta import LabelSelector, LabelSelectorRequirement
from koord.api.protocol import keys
from koord.api.protocol.priority import PriorityClass
from koord.base.errors import KoordError
from koord.controllers.webhook.pods.mutation import (
    device_resource_spec,
    extended_resource_spec,
    quota_tree_affinity,
    resource_translation,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Document = dict[str, Any]
BATCH_CPU, BATCH_MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
GPU, CORE, RATIO = (
    "koordinator.sh/gpu",
    "koordinator.sh/gpu-core",
    "koordinator.sh/gpu-memory-ratio",
)
SHARED = "koordinator.sh/gpu.shared"


def pod_of(**resources: Document) -> Document:
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "resources": resources}]},
    }


def resources_of(pod: Document, kind: str = "containers") -> Document:
    found: Document = pod["spec"][kind][0]["resources"]
    return found


def done_twice(pod: Document, rule: Callable[[Document], Iterable[str]]) -> Document:
    """The pod after a rule, which has nothing more to say of its own result."""
    changed = deepcopy(pod)
    list(rule(changed))
    again = deepcopy(changed)
    list(rule(again))
    assert again == changed
    return changed


def translated(pod: Document, of: PriorityClass = PriorityClass.BATCH) -> Document:
    return done_twice(pod, lambda each: resource_translation.translate(each, of, "Pod p"))


def test_limits_without_requests_become_both() -> None:
    found = translated(pod_of(limits={"cpu": "1", "memory": "4Gi"}))
    both = {BATCH_CPU: "1k", BATCH_MEMORY: "4Gi"}
    assert resources_of(found) == {"limits": both, "requests": both}


def test_a_missing_limit_stays_missing() -> None:
    found = translated(pod_of(requests={"cpu": "500m"}))
    assert resources_of(found) == {"requests": {BATCH_CPU: "500"}}


def test_init_containers_and_overhead_are_translated_pod_level_resources_are_not() -> None:
    pod = pod_of()
    init = {"name": "i", "resources": {"requests": {"cpu": "500m"}}}
    pod["spec"] |= {
        "initContainers": [init], "overhead": {"cpu": 1}, "resources": {"limits": {"cpu": "2"}},
    }  # fmt: skip
    found = translated(pod)
    assert resources_of(found, "initContainers") == {"requests": {BATCH_CPU: "500"}}
    assert found["spec"]["overhead"] == {BATCH_CPU: "1k"}
    assert found["spec"]["resources"] == {"limits": {"cpu": "2"}}


def test_cpu_is_rounded_up_to_whole_milli_cores_and_other_resources_stay() -> None:
    found = translated(pod_of(requests={"cpu": "100u", "nvidia.com/gpu": 1, "memory": None}))
    assert resources_of(found)["requests"] == {
        BATCH_CPU: "1", "nvidia.com/gpu": 1, "memory": None,
    }  # fmt: skip


def test_a_native_amount_takes_the_place_of_an_extended_one() -> None:
    found = translated(pod_of(requests={"cpu": "2", BATCH_CPU: "1"}))
    assert resources_of(found)["requests"] == {BATCH_CPU: "2k"}


@pytest.mark.parametrize("of", [PriorityClass.PROD, PriorityClass.NONE, PriorityClass.FREE])
def test_prod_none_and_free_are_left_alone(of: PriorityClass) -> None:
    pod = pod_of(requests={"cpu": "1"}, limits={BATCH_CPU: "1"})
    assert translated(pod, of) == pod


def test_mid_has_names_of_its_own() -> None:
    found = translated(pod_of(limits={"cpu": "1"}), PriorityClass.MID)
    assert resources_of(found)["requests"] == {"kubernetes.io/mid-cpu": "1k"}


def test_an_amount_of_cpu_that_cannot_be_counted_is_named() -> None:
    with pytest.raises(KoordError, match=r"spec\.containers\[0\]\.resources\.requests\[cpu\]"):
        list(resource_translation.translate(
            pod_of(requests={"cpu": "1e30"}), PriorityClass.BATCH, "Pod p"
        ))  # fmt: skip


def told(pod: Document) -> Document:
    return done_twice(pod, lambda each: extended_resource_spec.write_spec(each, "Pod p"))


def test_the_annotation_tells_of_containers_with_extended_resources() -> None:
    pod = pod_of(requests={BATCH_CPU: "1k", "cpu": "1"}, limits={BATCH_CPU: 1000})
    pod["spec"]["containers"].append({"name": "b", "resources": {"requests": {"cpu": "1"}}})
    pod["spec"]["initContainers"] = [
        {"name": "a", "resources": {"requests": {"kubernetes.io/mid-cpu": "5"}}}
    ]
    assert told(pod)["metadata"]["annotations"] == {
        keys.EXTENDED_RESOURCE_SPEC:
        '{"containers":{"a":{"requests":{"kubernetes.io/mid-cpu":"5"}},'
        '"c":{"limits":{"kubernetes.io/batch-cpu":"1k"},'
        '"requests":{"kubernetes.io/batch-cpu":"1k"}}}}'
    }  # fmt: skip


def test_a_stale_annotation_becomes_empty_and_one_that_says_the_same_stays() -> None:
    pod = pod_of(requests={"cpu": "1"})
    pod["metadata"]["annotations"] = {
        keys.EXTENDED_RESOURCE_SPEC: '{"containers":{"x":{"limits":{"a":1}}}}'
    }
    assert told(pod)["metadata"]["annotations"][keys.EXTENDED_RESOURCE_SPEC] == "{}"
    pod = pod_of(requests={BATCH_CPU: "1"})
    said = '{ "containers": {"c": {"requests": {"kubernetes.io/batch-cpu": 1}}}}'
    pod["metadata"]["annotations"] = {keys.EXTENDED_RESOURCE_SPEC: said}
    assert told(pod) == pod


def test_an_annotation_that_cannot_be_read_is_refused() -> None:
    pod = pod_of()
    pod["metadata"]["annotations"] = {keys.EXTENDED_RESOURCE_SPEC: "{"}
    with pytest.raises(KoordError, match="extended-resource-spec"):
        list(extended_resource_spec.write_spec(pod, "Pod p"))


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ({GPU: 100}, {CORE: "100", RATIO: "100", SHARED: "1"}),
        ({GPU: "200"}, {CORE: "200", RATIO: "200", SHARED: "2"}),
        ({GPU: "50"}, {CORE: "50", RATIO: "50", SHARED: "1"}),
        ({RATIO: "300", CORE: "50"}, {RATIO: "300", CORE: "50", SHARED: "3"}),
        ({CORE: "200"}, {CORE: "200", SHARED: "2"}),
        ({GPU: 200, SHARED: 4}, {CORE: "200", RATIO: "200", SHARED: 4}),
        ({"koordinator.sh/gpu-memory": "8Gi"}, {"koordinator.sh/gpu-memory": "8Gi", SHARED: "1"}),
        ({"cpu": 1}, {"cpu": 1}),
    ],
)
def test_shares_of_gpus_are_completed(requests: Document, expected: Document) -> None:
    pod = pod_of(requests=requests)
    found = done_twice(pod, lambda each: device_resource_spec.complete(each, "Pod p"))
    assert resources_of(found)["requests"] == expected


def test_limits_alone_are_completed_where_there_are_no_requests() -> None:
    pod = pod_of(limits={CORE: 50})
    found = done_twice(pod, lambda each: device_resource_spec.complete(each, "Pod p"))
    assert resources_of(found) == {"limits": {CORE: 50, SHARED: "1"}, "requests": {SHARED: "1"}}


SELECTOR = LabelSelector(
    match_labels={"zone": "b", "pool": "a"},
    match_expressions=[LabelSelectorRequirement(key="gpu", operator="Exists")],
)
REQUIREMENTS = [
    {"key": "pool", "operator": "In", "values": ["a"]},
    {"key": "zone", "operator": "In", "values": ["b"]},
    {"key": "gpu", "operator": "Exists"},
]


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        (None, [REQUIREMENTS]),
        ([], [REQUIREMENTS]),
        ([[]], [REQUIREMENTS]),
        ([[{"key": "x", "operator": "Exists"}], REQUIREMENTS[:1]],
         [[{"key": "x", "operator": "Exists"}, *REQUIREMENTS], REQUIREMENTS]),
    ],
)  # fmt: skip
def test_every_term_requires_the_nodes_of_the_tree(terms: Any, expected: Any) -> None:
    pod = pod_of()
    if terms is not None:
        given = {"nodeSelectorTerms": [{"matchExpressions": each} for each in terms]}
        pod["spec"]["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": given}
        }
    found = done_twice(pod, lambda each: quota_tree_affinity.require_nodes(each, SELECTOR))
    required = found["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert [each["matchExpressions"] for each in required["nodeSelectorTerms"]] == expected


def test_a_tree_of_all_nodes_requires_nothing() -> None:
    pod = pod_of()
    assert (
        done_twice(pod, lambda each: quota_tree_affinity.require_nodes(each, LabelSelector()))
        == pod
    )
