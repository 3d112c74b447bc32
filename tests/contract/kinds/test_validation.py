# SPDX-License-Identifier: Apache-2.0
"""What is wrong with other objects, and what of them never changes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Api, Document, at
from tests.contract.documents import (
    budget,
    config_map,
    custom_definition,
    deployment,
    document,
    job,
    lease,
    node,
    pod_spec,
    priority_class,
    service,
    template,
    workload,
)

MISMATCH = 'Invalid value: {"app":"y"}: `selector` does not match template `labels`'
NEGATIVE = "Invalid value: -1: must be greater than or equal to 0"
IMMUTABLE = "field is immutable"
KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
STATEFUL_SET = (
    "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', "
    "'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' "
    "and 'minReadySeconds' are forbidden"
)
CLUSTER_WIDE = {"nodes", "priorityclasses", "customresourcedefinitions", "storageclasses"}


def claim(**spec: Any) -> Document:
    return document("v1", "PersistentVolumeClaim", "x", spec=spec)


CASES: list[tuple[str, Document, list[tuple[str, str]]]] = [
    (
        "deployments",
        document("apps/v1", "Deployment", "x", spec={"template": template("y")}),
        [("spec.selector", "Required value"), ("spec.template.metadata.labels", MISMATCH)],
    ),
    (
        "deployments",
        deployment("x", template=template("y")),
        [("spec.template.metadata.labels", MISMATCH)],
    ),
    ("deployments", deployment("x", replicas=-1), [("spec.replicas", NEGATIVE)]),
    (
        "deployments",
        deployment("x", template=template("x", restartPolicy="Never")),
        [
            (
                "spec.template.spec.restartPolicy",
                'Unsupported value: "Never": supported values: "Always"',
            )
        ],
    ),
    (
        "deployments",
        deployment("x", strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
        [
            (
                "spec.strategy.rollingUpdate",
                "Forbidden: may not be specified when strategy `type` is 'Recreate'",
            )
        ],
    ),
    (
        "deployments",
        deployment("x", strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
        [
            (
                "spec.strategy.rollingUpdate.maxUnavailable",
                "Invalid value: 0: may not be 0 when `maxSurge` is 0",
            )
        ],
    ),
    (
        "deployments",
        deployment("x", selector={}),
        [("spec.selector", "Invalid value: {}: empty selector is invalid for deployment")],
    ),
    (
        "deployments",
        deployment("x", template={"metadata": {"labels": {"app": "x"}}, "spec": {}}),
        [("spec.template.spec.containers", "Required value")],
    ),
    (
        "statefulsets",
        workload("StatefulSet", "x", podManagementPolicy="X"),
        [
            (
                "spec.podManagementPolicy",
                "Invalid value: \"X\": must be 'OrderedReady' or 'Parallel'",
            )
        ],
    ),
    (
        "daemonsets",
        workload("DaemonSet", "x", template=template("y")),
        [("spec.template.metadata.labels", MISMATCH)],
    ),
    (
        "jobs",
        document("batch/v1", "Job", "x", spec={"template": {"spec": pod_spec()}}),
        [
            (
                "spec.template.spec.restartPolicy",
                'Required value: valid values: "OnFailure", "Never"',
            )
        ],
    ),
    ("jobs", job("x", parallelism=-1), [("spec.parallelism", NEGATIVE)]),
    ("poddisruptionbudgets", budget("x", minAvailable=-1), [("spec.minAvailable", NEGATIVE)]),
    (
        "poddisruptionbudgets",
        budget("x", minAvailable="120%"),
        [("spec.minAvailable", 'Invalid value: "120%": must not be greater than 100%')],
    ),
    (
        "poddisruptionbudgets",
        budget("x", minAvailable="many"),
        [
            (
                "spec.minAvailable",
                'Invalid value: "many": a valid percent string must be a numeric string followed '
                "by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
            )
        ],
    ),
    (
        "leases",
        lease("x", leaseDurationSeconds=0),
        [("spec.leaseDurationSeconds", "Invalid value: 0: must be greater than 0")],
    ),
    ("leases", lease("x", leaseTransitions=-1), [("spec.leaseTransitions", NEGATIVE)]),
    (
        "priorityclasses",
        priority_class("x", 2_000_000_000),
        [
            (
                "value",
                "Forbidden: maximum allowed value of a user defined priority is 1000000000",
            )
        ],
    ),
    (
        "priorityclasses",
        priority_class("system-x", 1),
        [
            (
                "metadata.name",
                "Forbidden: priority class names with 'system-' prefix are reserved for system use "
                "only. error: system-x is not a known system priority class",
            )
        ],
    ),
    (
        "nodes",
        node("x", spec={"taints": [{"key": "a", "effect": "X"}]}),
        [
            (
                "metadata.taints[0].effect",
                'Unsupported value: "X": supported values: "NoSchedule", "PreferNoSchedule", '
                '"NoExecute"',
            )
        ],
    ),
    (
        "nodes",
        node("x", spec={"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}),
        [
            (
                "metadata.taints[1]",
                'Duplicate value: {"Key":"a","Value":"","Effect":"NoSchedule","TimeAdded":null}: '
                "taints must be unique by key and effect pair",
            )
        ],
    ),
    (
        "nodes",
        node("x", status={"capacity": {"cpu": "-1"}, "allocatable": {"example.com/x": "1500m"}}),
        [
            ("status.capacity.cpu", 'Invalid value: "-1": must be greater than or equal to 0'),
            ("status.allocatable.example.com/x", 'Invalid value: "1500m": must be an integer'),
        ],
    ),
    ("services", service("x", ports=[]), [("spec.ports", "Required value")]),
    (
        "services",
        service("x", type="X"),
        [
            (
                "spec.type",
                'Unsupported value: "X": supported values: "ClusterIP", "ExternalName", '
                '"LoadBalancer", "NodePort"',
            )
        ],
    ),
    (
        "services",
        service("x", ports=[{"port": 1}, {"port": 2}]),
        [("spec.ports[0].name", "Required value"), ("spec.ports[1].name", "Required value")],
    ),
    (
        "configmaps",
        config_map("x", data={"a b": "c"}),
        [("data[a b]", f'Invalid value: "a b": {KEY}')],
    ),
    (
        "configmaps",
        config_map("x", data={"a": "c"}, binaryData={"a": "eA=="}),
        [("data[a]", 'Invalid value: "a": duplicate of key present in binaryData')],
    ),
    (
        "storageclasses",
        document("storage.k8s.io/v1", "StorageClass", "x"),
        [("provisioner", "Required value")],
    ),
    (
        "persistentvolumeclaims",
        claim(),
        [
            ("spec.accessModes", "Required value: at least 1 access mode is required"),
            ("spec.resources[storage]", "Required value"),
        ],
    ),
    (
        "customresourcedefinitions",
        custom_definition("ex.test", "things", "Thing", {}, scope="Wide"),
        [("spec.scope", 'Unsupported value: "Wide": supported values: "Cluster", "Namespaced"')],
    ),
]


def scope_of(plural: str, namespace: str) -> str:
    return "" if plural in CLUSTER_WIDE else namespace


@pytest.mark.parametrize(
    ("plural", "body", "causes"), CASES, ids=[f"{n}-{case[0]}" for n, case in enumerate(CASES)]
)
def test_an_object_that_is_wrong(
    api: Api, namespace: str, plural: str, body: Document, causes: list[tuple[str, str]]
) -> None:
    answer = api.post(at(plural, scope_of(plural, namespace)), body)
    group = body["apiVersion"].rpartition("/")[0]
    kind, name = body["kind"] + (f".{group}" if group else ""), body["metadata"]["name"]
    listed = [f"{field}: {message}" for field, message in causes]
    told = listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]"
    assert answer.refusal == (422, "Invalid", f'{kind} "{name}" is invalid: {told}')
    assert [(field, message) for field, _, message in answer.causes] == causes
    details = answer.document["details"]
    assert (details["kind"], details.get("group", "")) == (body["kind"], group)


MOVED: Document = {
    "selector": {"matchLabels": {"app": None, "b": "c"}},
    "template": {"metadata": {"labels": {"app": None, "b": "c"}}},
}
OTHER_SELECTOR = f'Invalid value: {{"matchLabels":{{"b":"c"}}}}: {IMMUTABLE}'


@pytest.mark.parametrize(
    ("plural", "body", "patch", "field", "message"),
    [
        ("deployments", deployment("x"), {"spec": MOVED}, "spec.selector", OTHER_SELECTOR),
        (
            "daemonsets",
            workload("DaemonSet", "x"),
            {"spec": MOVED},
            "spec.selector",
            OTHER_SELECTOR,
        ),
        (
            "replicasets",
            workload("ReplicaSet", "x"),
            {"spec": MOVED},
            "spec.selector",
            OTHER_SELECTOR,
        ),
        (
            "statefulsets",
            workload("StatefulSet", "x"),
            {"spec": {"serviceName": "b"}},
            "spec",
            STATEFUL_SET,
        ),
        (
            "jobs",
            job("x", completions=1),
            {"spec": {"completions": 2}},
            "spec.completions",
            f"Invalid value: 2: {IMMUTABLE}",
        ),
        (
            "priorityclasses",
            priority_class("x", 5),
            {"value": 6},
            "value",
            "Forbidden: may not be changed in an update.",
        ),
        (
            "secrets",
            document("v1", "Secret", "x", type="a/b"),
            {"type": "c/d"},
            "type",
            f'Invalid value: "c/d": {IMMUTABLE}',
        ),
        (
            "services",
            service("x"),
            {"spec": {"clusterIP": "10.96.7.7", "clusterIPs": ["10.96.7.7"]}},
            "spec.clusterIPs[0]",
            'Invalid value: ["10.96.7.7"]: may not change once set',
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_never_changes(
    api: Api,
    namespace: str,
    plural: str,
    body: Document,
    patch: Document,
    field: str,
    message: str,
) -> None:
    where = scope_of(plural, namespace)
    api.post(at(plural, where), body).ok["metadata"]
    answer = api.patch(at(plural, where, "x"), patch)
    api.delete(at(plural, where, "x"))
    assert answer.refusal[:2] == (422, "Invalid")
    assert [(told, why) for told, _, why in answer.causes] == [(field, message)]


def test_the_budget_of_a_budget_may_change(api: Api, namespace: str) -> None:
    api.post(at("poddisruptionbudgets", namespace), budget("x", minAvailable=1)).ok["metadata"]
    patch = {"spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "z"}}}}
    changed = api.patch(at("poddisruptionbudgets", namespace, "x"), patch).ok
    assert changed["spec"]["minAvailable"] == 2
