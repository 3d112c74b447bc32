# SPDX-License-Identifier: Apache-2.0
"""Bodies in protobuf say what the same bodies in JSON say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.api import Answer, Api, Document, at
from tests.contract.conftest import make_namespace
from tests.contract.documents import (
    budget,
    config_map,
    container,
    deployment,
    document,
    job,
    node,
    pod,
    priority_class,
    workload,
)
from tests.models import messages

PROTOBUF = "application/vnd.kubernetes.protobuf"
_OWN = ("uid", "resourceVersion", "creationTimestamp", "namespace", "managedFields")
PROBE = {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 5}
ENVIRONMENT: list[Document] = [
    {"name": "VALUE", "value": "1"},
    {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": False}}},
    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
]
RICH = container(
    ports=[{"containerPort": 80, "name": "web"}],
    env=ENVIRONMENT,
    resources={"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "1"}},
    readinessProbe=PROBE,
    securityContext={"runAsUser": 0, "privileged": False},
)
VOLUMES = [{"name": "a", "emptyDir": {}}, {"name": "b", "configMap": {"name": "c"}}]
TOLERATION = {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
SERVICE = {"selector": {"app": "a"}, "clusterIP": "None", "ports": [{"port": 80, "name": "p"}]}
ROLE = {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}
LEASE = {"holderIdentity": "a", "renewTime": "2026-01-02T03:04:05.000006Z"}
EVENT = {"involvedObject": {"kind": "Pod", "name": "a"}, "reason": "R", "count": 1}
OBJECTS: list[tuple[str, Document]] = [
    ("configmaps", config_map("c", data={"a": "", "b": "x"}, binaryData={"c": "AQID"})),
    ("secrets", document("v1", "Secret", "s", data={"a": "YWI="}, labels={"x": ""})),
    ("pods", pod("p")),
    (
        "pods",
        pod(
            "rich",
            containers=[RICH],
            volumes=VOLUMES,
            tolerations=[TOLERATION],
            terminationGracePeriodSeconds=0,
        ),
    ),
    ("deployments", deployment("d")),
    (
        "deployments",
        deployment("zero", replicas=0, strategy={"rollingUpdate": {"maxSurge": "30%"}}),
    ),
    ("statefulsets", workload("StatefulSet", "s", serviceName="x")),
    ("jobs", job("j", parallelism=0)),
    ("poddisruptionbudgets", budget("b", minAvailable=0)),
    ("services", document("v1", "Service", "svc", spec=SERVICE)),
    ("roles", document("rbac.authorization.k8s.io/v1", "Role", "r", **ROLE)),
    ("leases", document("coordination.k8s.io/v1", "Lease", "l", spec=LEASE)),
    ("events", document("v1", "Event", "e", **EVENT)),
]


def send(api: Api, method: str, path: str, body: Document | bytes, **query: Any) -> Answer:
    """A request with a body in protobuf."""
    data = body if isinstance(body, bytes) else messages.body(body)
    return api.call(method, path, data, content=PROTOBUF, **query)


def stored(answer: Document) -> Document:
    """An object without what is its own."""
    text = json.dumps(answer).replace(answer["metadata"]["uid"], "UID")
    found: Document = json.loads(text)
    for key in _OWN:
        found["metadata"].pop(key, None)
    if found["kind"] == "Event":
        found["involvedObject"].pop("namespace", None)
    return found


@pytest.mark.parametrize(("plural", "body"), OBJECTS, ids=lambda value: str(value)[:12])
def test_the_same_is_stored(api: Api, plural: str, body: Document) -> None:
    sent = []
    for post in (api.post, lambda path, body: send(api, "POST", path, body)):
        namespace = make_namespace(api)
        if plural == "events":
            body["involvedObject"]["namespace"] = namespace
        path = at(plural, namespace)
        assert post(path, body).code == 201
        sent.append(api.get(at(plural, namespace, body["metadata"]["name"])).ok)
    assert stored(sent[1]) == stored(sent[0])


def test_the_same_is_stored_of_what_has_no_namespace(api: Api, namespace: str) -> None:
    definition = {
        "group": "protobuf.test",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "a": {"type": "integer", "maximum": 3, "default": 0, "enum": [0, 1, 2]},
                        "b": {"type": "array", "items": {"type": "string", "nullable": True}},
                        "c": {"type": "object", "additionalProperties": {"type": "number"}},
                        "d": {"x-kubernetes-preserve-unknown-fields": True},
                    },
                }},
            }
        ],
    }  # fmt: skip
    crds = "customresourcedefinitions"
    crd = document("apiextensions.k8s.io/v1", "CustomResourceDefinition", "things.protobuf.test",
                   spec=definition)  # fmt: skip
    for plural, body in (
        ("namespaces", document("v1", "Namespace", f"n-{namespace}")),
        ("nodes", node(f"n-{namespace}", spec={"unschedulable": True})),
        ("priorityclasses", priority_class(f"p-{namespace}", 0)),
        (crds, crd),
    ):
        query = {"dryRun": "All"}
        in_json = api.post(at(plural), body, **query).ok
        in_protobuf = send(api, "POST", at(plural), body, **query).ok
        assert stored(in_protobuf) == stored(in_json)


def test_objects_are_replaced(api: Api, namespace: str) -> None:
    path = at("deployments", namespace)
    found = send(api, "POST", path, deployment("d")).ok
    found["spec"]["replicas"] = 0
    found["spec"]["paused"] = True
    changed = send(api, "PUT", f"{path}/d", found).ok
    assert (changed["spec"]["replicas"], changed["spec"]["paused"]) == (0, True)
    changed["spec"]["paused"] = False
    assert "paused" not in send(api, "PUT", f"{path}/d", changed).ok["spec"]
    found["status"] = {"observedGeneration": 1, "replicas": 2}
    found["metadata"].pop("resourceVersion")
    status = send(api, "PUT", f"{path}/d/status", found).ok["status"]
    assert status == {"observedGeneration": 1, "replicas": 2}
    scale = api.get(f"{path}/d/scale").ok
    scale["spec"]["replicas"] = 4
    assert send(api, "PUT", f"{path}/d/scale", scale).ok["spec"]["replicas"] == 4


def test_pods_are_bound_evicted_and_deleted(api: Api, namespace: str) -> None:
    path = at("pods", namespace)
    for name in ("a", "b"):
        api.post(path, pod(name)).ok["metadata"]
        target = {"kind": "Node", "name": "one"}
        binding = document("v1", "Binding", name, target=target)
        assert send(api, "POST", f"{path}/{name}/binding", binding).code == 201
        assert api.get(f"{path}/{name}").ok["spec"]["nodeName"] == "one"
    now = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    eviction = document("policy/v1", "Eviction", "a", deleteOptions=now)
    assert send(api, "POST", f"{path}/a/eviction", eviction).code == 201
    stale = {**now, "preconditions": {"uid": "x"}}
    assert send(api, "DELETE", f"{path}/b", stale).refusal[:2] == (409, "Conflict")
    assert send(api, "DELETE", f"{path}/b", {**now, "apiVersion": "apps/v1"}).code == 200
    assert api.get(path).ok["items"] == []


def test_reviews(api: Api) -> None:
    group = "authorization.k8s.io/v1"
    extra = {"scopes": ["a", "b"]}
    attributes = {"verb": "get", "resource": "pods"}
    spec = {"resourceAttributes": attributes, "user": "u", "groups": ["system:masters"],
            "extra": extra}  # fmt: skip
    review = {"apiVersion": group, "kind": "SubjectAccessReview", "metadata": {}, "spec": spec}
    answer = send(api, "POST", at(f"{group}/subjectaccessreviews"), review).ok
    assert answer["status"]["allowed"] is True
    assert answer["spec"] == spec


TYPE_META = messages.part(1, messages.part(1, b"v1") + messages.part(2, b"ConfigMap"))
WRONG = {
    "empty": b"",
    "no magic": b'{"kind": "ConfigMap"}',
    "nothing after the magic": messages.MAGIC,
    "a broken envelope": messages.MAGIC + b"\xff\xff\xff",
    "a kind that nobody knows": messages.envelope("v1", "Thing", b""),
    "another kind": messages.envelope("v1", "Node", b""),
    "half a message": messages.envelope("v1", "ConfigMap", b"\x0a\x05a"),
    "a number for a message": messages.envelope("v1", "ConfigMap", b"\x08\x01"),
    "an endless number": messages.envelope("v1", "ConfigMap", b"\x0a" + b"\xff" * 11),
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_what_is_no_protobuf_is_refused(api: Api, namespace: str, body: bytes) -> None:
    code, reason, message = send(api, "POST", at("configmaps", namespace), body).refusal
    assert (code, reason) == (400, "BadRequest")
    assert message
    assert "\n" not in message


def test_unknown_fields_are_passed_over(api: Api, namespace: str) -> None:
    body = messages.body(config_map("c", data={"a": "b"}))
    raw = messages.message(messages.KINDS["v1/ConfigMap"], config_map("c", data={"a": "b"}))
    newer = messages.part(999, b"new") + messages.varint(998 << 3) + messages.varint(7)
    assert body == messages.envelope("v1", "ConfigMap", raw)
    path = at("configmaps", namespace)
    found = send(api, "POST", path, messages.envelope("v1", "ConfigMap", raw + newer)).ok
    assert found["data"] == {"a": "b"}
