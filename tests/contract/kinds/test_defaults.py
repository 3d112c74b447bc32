# SPDX-License-Identifier: Apache-2.0
"""What the server fills in: the fields that schedulers and controllers read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Api, Document, at
from tests.contract.documents import (
    budget,
    config_map,
    container,
    deployment,
    document,
    job,
    lease,
    node,
    pod,
    priority_class,
    service,
    workload,
)

NO_EXECUTE = {"effect": "NoExecute", "operator": "Exists", "tolerationSeconds": 300}
TOLERATIONS = [
    {"key": "node.kubernetes.io/not-ready", **NO_EXECUTE},
    {"key": "node.kubernetes.io/unreachable", **NO_EXECUTE},
]
CONTAINER = {
    "imagePullPolicy": "IfNotPresent",
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
TEMPLATE = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
}
POD = {
    **TEMPLATE,
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
    "priority": 0,
    "tolerations": TOLERATIONS,
}


def whole_template(app: str, **changed: Any) -> Document:
    spec = {"containers": [container(**CONTAINER)], **TEMPLATE, **changed}
    return {"metadata": {"labels": {"app": app}}, "spec": spec}


def made(api: Api, plural: str, namespace: str, body: Document) -> Document:
    """What a create gives, without what is the server's own in it."""
    found = api.post(at(plural, namespace), body, dryRun="All").ok
    found["metadata"].pop("managedFields", None)
    return found


def test_a_pod(api: Api, namespace: str) -> None:
    found = made(api, "pods", namespace, pod("a"))
    assert found["spec"] == {"containers": [container(**CONTAINER)], **POD}
    assert found["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert found["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ({"image": "a"}, {"imagePullPolicy": "Always"}),
        ({"image": "a:latest"}, {"imagePullPolicy": "Always"}),
        ({"image": "host:5000/a"}, {"imagePullPolicy": "Always"}),
        ({"image": "a@sha256:" + "0" * 64}, {"imagePullPolicy": "IfNotPresent"}),
        (
            {"ports": [{"containerPort": 1}]},
            {"ports": [{"containerPort": 1, "protocol": "TCP"}]},
        ),
        (
            {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
            {"resources": {part: {"cpu": "1", "memory": "1Gi"} for part in ("limits", "requests")}},
        ),
        (
            {"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}},
            {"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}},
        ),
        (
            {"resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}}},
            {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
        ),
        (
            {"livenessProbe": {"httpGet": {"port": 1}}},
            {
                "livenessProbe": {
                    "failureThreshold": 3,
                    "httpGet": {"path": "/", "port": 1, "scheme": "HTTP"},
                    "periodSeconds": 10,
                    "successThreshold": 1,
                    "timeoutSeconds": 1,
                }
            },
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
            {
                "env": [
                    {
                        "name": "A",
                        "valueFrom": {
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}
                        },
                    }
                ]
            },
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_container(api: Api, namespace: str, given: Document, filled: Document) -> None:
    found = made(api, "pods", namespace, pod("a", containers=[container(**given)]))
    (one,) = found["spec"]["containers"]
    assert one == {**container(), **CONTAINER, **given, **filled}


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        (
            {"volumes": [{"name": "a"}, {"name": "b", "configMap": {"name": "x"}}]},
            {
                "volumes": [
                    {"name": "a", "emptyDir": {}},
                    {"name": "b", "configMap": {"name": "x", "defaultMode": 420}},
                ]
            },
        ),
        (
            {"hostNetwork": True, "containers": [container(ports=[{"containerPort": 9}])]},
            {
                "containers": [
                    container(
                        **CONTAINER, ports=[{"containerPort": 9, "hostPort": 9, "protocol": "TCP"}]
                    )
                ]
            },
        ),
        (
            {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]},
            {
                "tolerations": [
                    {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
                    TOLERATIONS[1],
                ]
            },
        ),
        ({"terminationGracePeriodSeconds": -1}, {"terminationGracePeriodSeconds": 1}),
        ({"serviceAccount": "a"}, {"serviceAccount": "a", "serviceAccountName": "a"}),
        ({"restartPolicy": "Never"}, {"restartPolicy": "Never"}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_other_fields_of_a_pod(api: Api, namespace: str, given: Document, filled: Document) -> None:
    found = made(api, "pods", namespace, pod("a", **given))
    usual = {"containers": [container(**CONTAINER)], **POD}
    assert found["spec"] == {**usual, **given, **filled}


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable"),
        ([{"limits": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"example.com/gpu": "1"}}], "BestEffort"),
        (
            [{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Mi"}}],
            "Burstable",
        ),
    ],
)
def test_the_class_of_service(
    api: Api, namespace: str, resources: list[Document], qos: str
) -> None:
    containers = [container(f"c{n}", resources=given) for n, given in enumerate(resources)]
    found = made(api, "pods", namespace, pod("a", containers=containers))
    assert found["status"]["qosClass"] == qos


def test_priority_of_a_pod_from_its_class(api: Api, namespace: str) -> None:
    for body in (
        priority_class("contract-high", 1000, preemptionPolicy="Never"),
        priority_class("contract-usual", 10, globalDefault=True),
    ):
        api.post(at("priorityclasses"), body).ok["metadata"]
    found = [
        made(api, "pods", namespace, pod("a", **spec))["spec"]
        for spec in ({"priorityClassName": "contract-high"}, {})
    ]
    for name in ("contract-high", "contract-usual"):
        api.delete(at("priorityclasses", name=name))
    read = [(s["priorityClassName"], s["priority"], s["preemptionPolicy"]) for s in found]
    assert read == [
        ("contract-high", 1000, "Never"),
        ("contract-usual", 10, "PreemptLowerPriority"),
    ]


def test_the_classes_of_the_system(api: Api) -> None:
    found = {
        item["metadata"]["name"]: item["value"]
        for item in api.get(at("priorityclasses")).ok["items"]
    }
    assert found["system-node-critical"] == 2_000_001_000
    assert found["system-cluster-critical"] == 2_000_000_000


WORKLOADS: list[tuple[str, Document, Document, Document]] = [
    (
        "deployments",
        deployment("a"),
        {
            "progressDeadlineSeconds": 600,
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
            },
        },
        {},
    ),
    ("replicasets", workload("ReplicaSet", "a"), {"replicas": 1}, {"replicas": 0}),
    (
        "statefulsets",
        workload("StatefulSet", "a"),
        {
            "persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": "Retain",
                "whenScaled": "Retain",
            },
            "podManagementPolicy": "OrderedReady",
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "serviceName": "",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        },
        {"replicas": 0, "availableReplicas": 0},
    ),
    (
        "daemonsets",
        workload("DaemonSet", "a"),
        {
            "revisionHistoryLimit": 10,
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
            },
        },
        {
            "currentNumberScheduled": 0,
            "desiredNumberScheduled": 0,
            "numberMisscheduled": 0,
            "numberReady": 0,
        },
    ),
]


@pytest.mark.parametrize(
    ("plural", "body", "spec", "status"), WORKLOADS, ids=[case[0] for case in WORKLOADS]
)
def test_workloads(
    api: Api, namespace: str, plural: str, body: Document, spec: Document, status: Document
) -> None:
    found = made(api, plural, namespace, body)
    given = {"selector": body["spec"]["selector"], "template": whole_template("a")}
    assert found["spec"] == {**given, **spec}
    assert found["status"] == status
    assert found["metadata"]["generation"] == 1


def test_a_job_selects_by_its_own_uid(api: Api, namespace: str) -> None:
    found = made(api, "jobs", namespace, job("a"))
    uid = found["metadata"]["uid"]
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "a",
        "controller-uid": uid,
        "job-name": "a",
    }
    assert found["metadata"]["labels"] == labels
    template = found["spec"].pop("template")
    assert template["metadata"]["labels"] == labels
    assert template["spec"] == whole_template("a", restartPolicy="Never")["spec"]
    assert found["spec"] == {
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "completions": 1,
        "manualSelector": False,
        "parallelism": 1,
        "podReplacementPolicy": "TerminatingOrFailed",
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
        "suspend": False,
    }


def test_a_service_gets_an_address(api: Api, namespace: str) -> None:
    spec = made(api, "services", namespace, service("a"))["spec"]
    address = spec.pop("clusterIP")
    assert address.startswith("10.96.")
    assert spec == {
        "clusterIPs": [address],
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "selector": {"app": "a"},
        "sessionAffinity": "None",
        "type": "ClusterIP",
    }


def test_a_node(api: Api) -> None:
    body = node("contract-node", spec={"taints": [{"key": "a", "effect": "NoSchedule"}]})
    found = made(api, "nodes", "", body)
    not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert found["spec"]["taints"] == [{"key": "a", "effect": "NoSchedule"}, not_ready]
    assert found["status"]["capacity"] == body["status"]["capacity"]
    assert found["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}


def test_allocatable_is_what_there_is_unless_said(api: Api) -> None:
    found = made(api, "nodes", "", node("contract-node", status={"capacity": {"cpu": "4000m"}}))
    assert found["status"]["capacity"] == found["status"]["allocatable"] == {"cpu": "4"}


@pytest.mark.parametrize(
    ("plural", "body", "filled"),
    [
        (
            "namespaces",
            document("v1", "Namespace", "contract-empty"),
            {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
        ),
        (
            "priorityclasses",
            priority_class("contract-p", 5),
            {"preemptionPolicy": "PreemptLowerPriority"},
        ),
        (
            "storageclasses",
            document("storage.k8s.io/v1", "StorageClass", "contract-s", provisioner="a.b/c"),
            {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_cluster_wide_objects(api: Api, plural: str, body: Document, filled: Document) -> None:
    found = made(api, plural, "", body)
    assert {key: found[key] for key in filled} == filled


@pytest.mark.parametrize(
    ("plural", "body", "filled"),
    [
        (
            "poddisruptionbudgets",
            budget("a", minAvailable=1),
            {
                "status": {
                    "currentHealthy": 0,
                    "desiredHealthy": 0,
                    "disruptionsAllowed": 0,
                    "expectedPods": 0,
                }
            },
        ),
        (
            "secrets",
            document("v1", "Secret", "a", stringData={"a": "b"}),
            {"type": "Opaque", "data": {"a": "Yg=="}},
        ),
        ("leases", lease("a"), {"spec": {}}),
        (
            "persistentvolumeclaims",
            document(
                "v1",
                "PersistentVolumeClaim",
                "a",
                spec={
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            ),
            {"status": {"phase": "Pending"}},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_namespaced_objects(
    api: Api, namespace: str, plural: str, body: Document, filled: Document
) -> None:
    found = made(api, plural, namespace, body)
    assert {key: found[key] for key in filled} == filled
    assert "stringData" not in found


def test_a_namespace_carries_its_name_as_a_label(api: Api, namespace: str) -> None:
    found = api.get(at("namespaces", name=namespace)).ok
    assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": namespace}


def test_defaults_come_again_with_an_update(api: Api, namespace: str) -> None:
    api.post(at("deployments", namespace), deployment("a")).ok["metadata"]
    changed = api.put(at("deployments", namespace, "a"), deployment("a", replicas=3)).ok
    assert changed["spec"]["replicas"] == 3
    assert changed["spec"]["template"] == whole_template("a")
    api.post(at("configmaps", namespace), config_map("a")).ok["metadata"]
    assert (
        api.patch(at("deployments", namespace, "a"), {"spec": {"replicas": None}}).ok["spec"][
            "replicas"
        ]
        == 1
    )


def test_ports_on_the_nodes_network(api: Api, namespace: str) -> None:
    """A template leaves open what its pods get: the port of the container, on the node too."""
    ports = [{"containerPort": 80, "protocol": "TCP"}]
    body = deployment("a")
    body["spec"]["template"]["spec"] |= {
        "hostNetwork": True,
        "containers": [container(ports=ports)],
    }
    template = made(api, "deployments", namespace, body)["spec"]["template"]
    assert template["spec"]["containers"][0]["ports"] == ports
    alone = made(api, "pods", namespace, pod("a", **template["spec"]))
    assert alone["spec"]["containers"][0]["ports"] == [{**ports[0], "hostPort": 80}]
    wrong = {**template["spec"], "containers": [container(ports=[{**ports[0], "hostPort": 81}])]}
    body["spec"]["template"]["spec"] = wrong
    answer = api.post(at("deployments", namespace), body, dryRun="All")
    assert answer.refusal[:2] == (422, "Invalid")
