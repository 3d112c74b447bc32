# SPDX-License-Identifier: Apache-2.0
"""What Kubernetes' own clients say and rely on without its being in any manual."""

from __future__ import annotations

import time

import pytest

from tests.contract.api import APPLY_PATCH, JSON_PATCH, Api, Document, at
from tests.contract.documents import config_map, deployment

# For what the server itself makes a moment after its start.
MADE_SECONDS = 30.0
MOST_COPIED_BYTES = 3 << 20


@pytest.mark.parametrize("version", ["0", ""])
def test_an_update_of_version_0_is_one_of_any_version(
    api: Api, namespace: str, version: str
) -> None:
    """The version is a number, and 0 is what a number is that nobody set."""
    path = at("configmaps", namespace)
    made = api.post(path, config_map("a")).ok
    changed = api.put(f"{path}/a", {**made, "data": {"k": "v"}}).ok
    metadata = {**made["metadata"], "resourceVersion": version}
    answer = api.put(f"{path}/a", {**made, "metadata": metadata, "data": {"k": "w"}})
    assert answer.ok["data"] == {"k": "w"}
    assert int(answer.ok["metadata"]["resourceVersion"]) > int(
        changed["metadata"]["resourceVersion"]
    )
    patch = {"metadata": {"resourceVersion": "0"}, "data": {"k": "x"}}
    assert api.patch(f"{path}/a", patch).ok["data"] == {"k": "x"}


def test_a_scale_of_version_0_is_one_of_any_version(api: Api, namespace: str) -> None:
    path = at("deployments", namespace)
    api.post(path, deployment("a")).ok["metadata"]
    scale = api.get(f"{path}/a/scale").ok
    scale["metadata"]["resourceVersion"] = "0"
    scale["spec"] = {"replicas": 4}
    assert api.put(f"{path}/a/scale", scale).ok["spec"] == {"replicas": 4}


def test_an_object_may_be_created_with_version_0(api: Api, namespace: str) -> None:
    path = at("configmaps", namespace)
    body = config_map("a")
    body["metadata"]["resourceVersion"] = "0"
    assert api.post(path, body).code == 201
    body["metadata"]["resourceVersion"] = "5"
    body["metadata"]["name"] = "b"
    message = "resourceVersion should not be set on objects to be created"
    assert api.post(path, body).refusal[2] == message


def test_where_an_update_must_tell_its_version_0_is_none(api: Api) -> None:
    name = "tints.idioms.example.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "tints", "singular": "tint", "kind": "Tint", "listKind": "TintList"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {"group": "idioms.example.com", "scope": "Cluster", "names": names,
                 "versions": [version]},
    }  # fmt: skip
    api.post(at("customresourcedefinitions"), definition).ok["metadata"]
    path = at("idioms.example.com/v1/tints")
    eventually_served(api, path)
    body = {"apiVersion": "idioms.example.com/v1", "kind": "Tint", "metadata": {"name": "a"}}
    made = api.post(path, body).ok
    made["metadata"]["resourceVersion"] = "0"
    code, reason, message = api.put(f"{path}/a", made).refusal
    assert (code, reason) == (422, "Invalid")
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in message
    api.delete(at("customresourcedefinitions", name=name)).ok["status"]


def eventually_served(api: Api, path: str) -> None:
    """Waits until a new kind is served."""
    until = time.monotonic() + MADE_SECONDS
    while api.get(path).code != 200:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_the_service_by_which_a_cluster_knows_its_api_server(api: Api) -> None:
    """In-cluster configuration, Helm charts and network policies name it."""
    until = time.monotonic() + MADE_SECONDS
    paths = [
        at("services", "default", "kubernetes"),
        at("endpoints", "default", "kubernetes"),
        at("discovery.k8s.io/v1/endpointslices", "default", "kubernetes"),
    ]
    while any(api.get(path).code != 200 for path in paths):
        assert time.monotonic() < until
        time.sleep(0.1)
    service, endpoints, endpoint_slice = (api.get(path).ok for path in paths)
    labels = service["metadata"]["labels"]
    assert labels == {"component": "apiserver", "provider": "kubernetes"}
    (port,) = service["spec"]["ports"]
    target = port["targetPort"]
    assert port == {"name": "https", "port": 443, "protocol": "TCP", "targetPort": target}
    assert service["spec"]["type"] == "ClusterIP"
    assert service["spec"]["clusterIP"].endswith(".1")  # The first address of the range.
    assert "selector" not in service["spec"]
    backend = {"name": "https", "port": target, "protocol": "TCP"}
    assert endpoints["subsets"][0]["ports"] == [backend]
    skipped = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    assert endpoints["metadata"]["labels"] == skipped
    assert endpoint_slice["ports"] == [backend]
    owner = {"kubernetes.io/service-name": "kubernetes"}
    assert endpoint_slice["metadata"]["labels"] == owner
    address = endpoints["subsets"][0]["addresses"][0]["ip"]
    assert endpoint_slice["endpoints"][0]["addresses"] == [address]


def copies(count: int) -> list[Document]:
    """Operations that each copy a MiB, and take it away again."""
    found: list[Document] = []
    for _ in range(count):
        found.append({"op": "copy", "from": "/data/a", "path": "/data/b"})
        found.append({"op": "remove", "path": "/data/b"})
    return found


def test_all_copies_of_a_json_patch_together_are_bounded(api: Api, namespace: str) -> None:
    """What they copy is counted as JSON, also of what the patch takes away again."""
    path = at("configmaps", namespace)
    size = 1 << 18
    api.post(path, config_map("a", data={"a": "x" * (size - 2)})).ok["metadata"]
    most = MOST_COPIED_BYTES // size
    assert api.patch(f"{path}/a", copies(most), JSON_PATCH).code == 200
    code, reason, message = api.patch(f"{path}/a", copies(most + 1), JSON_PATCH).refusal
    assert (code, reason) == (422, "Invalid")
    assert message.startswith("the server rejected our request due to an error in our request")


@pytest.mark.differs("answered with 413 and a reason; etcd's refusal is passed on as 500 there")
def test_an_object_is_as_large_as_etcd_takes(api: Api, namespace: str) -> None:
    """Managed fields count too; 1.5 MiB is etcd's default."""
    fields = {f"key-{number:06d}-{'x' * 200}": "" for number in range(4_000)}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": fields}
    path = at("configmaps", namespace, "a")
    answer = api.patch(path, body, APPLY_PATCH, fieldManager="a")
    assert answer.refusal == (500, "", "etcdserver: request is too large")
