# SPDX-License-Identifier: Apache-2.0
"""What is served, told to those who ask."""

from __future__ import annotations

import pytest

from tests.contract.api import JSON, Api, Document

AGGREGATED = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,{JSON}"
ALL_VERBS = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

SERVED = {
    "v1": {
        "pods": ("Pod", True, {"po"}, {"all"}),
        "nodes": ("Node", False, {"no"}, set()),
        "namespaces": ("Namespace", False, {"ns"}, set()),
        "services": ("Service", True, {"svc"}, {"all"}),
        "configmaps": ("ConfigMap", True, {"cm"}, set()),
        "secrets": ("Secret", True, set(), set()),
        "events": ("Event", True, {"ev"}, set()),
        "persistentvolumes": ("PersistentVolume", False, {"pv"}, set()),
        "persistentvolumeclaims": ("PersistentVolumeClaim", True, {"pvc"}, set()),
        "serviceaccounts": ("ServiceAccount", True, {"sa"}, set()),
    },
    "apps/v1": {
        "deployments": ("Deployment", True, {"deploy"}, {"all"}),
        "replicasets": ("ReplicaSet", True, {"rs"}, {"all"}),
        "statefulsets": ("StatefulSet", True, {"sts"}, {"all"}),
        "daemonsets": ("DaemonSet", True, {"ds"}, {"all"}),
    },
    "batch/v1": {"jobs": ("Job", True, set(), {"all"})},
    "policy/v1": {"poddisruptionbudgets": ("PodDisruptionBudget", True, {"pdb"}, set())},
    "coordination.k8s.io/v1": {"leases": ("Lease", True, set(), set())},
    "scheduling.k8s.io/v1": {"priorityclasses": ("PriorityClass", False, {"pc"}, set())},
    "storage.k8s.io/v1": {"storageclasses": ("StorageClass", False, {"sc"}, set())},
    "apiextensions.k8s.io/v1": {
        "customresourcedefinitions": (
            "CustomResourceDefinition",
            False,
            {"crd", "crds"},
            {"api-extensions"},
        )
    },
    "admissionregistration.k8s.io/v1": {
        "mutatingwebhookconfigurations": (
            "MutatingWebhookConfiguration",
            False,
            set(),
            {"api-extensions"},
        )
    },
    "rbac.authorization.k8s.io/v1": {
        "clusterroles": ("ClusterRole", False, set(), set()),
        "rolebindings": ("RoleBinding", True, set(), set()),
    },
    "events.k8s.io/v1": {"events": ("Event", True, {"ev"}, set())},
}
SUBRESOURCES = {
    "v1": {
        "pods/status": "Pod",
        "pods/binding": "Binding",
        "pods/eviction": "Eviction",
        "nodes/status": "Node",
        "namespaces/finalize": "Namespace",
        "namespaces/status": "Namespace",
    },
    "apps/v1": {
        "deployments/scale": "Scale",
        "statefulsets/scale": "Scale",
        "daemonsets/status": "DaemonSet",
    },
    "policy/v1": {"poddisruptionbudgets/status": "PodDisruptionBudget"},
}


def root(group_version: str) -> str:
    return f"/api/{group_version}" if group_version == "v1" else f"/apis/{group_version}"


def resources(api: Api, group_version: str) -> dict[str, Document]:
    listed = api.get(root(group_version)).ok
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", group_version)
    return {entry["name"]: entry for entry in listed["resources"]}


def test_the_core_group(api: Api) -> None:
    found = api.get("/api").ok
    assert (found["kind"], found["versions"]) == ("APIVersions", ["v1"])


def test_the_named_groups(api: Api) -> None:
    found = api.get("/apis").ok
    assert (found["kind"], found["apiVersion"]) == ("APIGroupList", "v1")
    groups = {group["name"]: group for group in found["groups"]}
    for group_version in SERVED:
        group, _, version = group_version.rpartition("/")
        if group:
            entry = {"groupVersion": group_version, "version": version}
            assert entry in groups[group]["versions"]
            assert groups[group]["preferredVersion"]["groupVersion"].startswith(f"{group}/")
    apps = api.get("/apis/apps").ok
    assert (apps["kind"], apps["name"]) == ("APIGroup", "apps")
    assert apps["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}


@pytest.mark.parametrize("group_version", SERVED)
def test_the_resources_of_a_group(api: Api, group_version: str) -> None:
    found = resources(api, group_version)
    for name, (kind, namespaced, short, categories) in SERVED[group_version].items():
        entry = found[name]
        assert (entry["kind"], entry["namespaced"]) == (kind, namespaced)
        assert entry["singularName"] == kind.lower()
        assert set(entry.get("shortNames", [])) == short
        assert set(entry.get("categories", [])) == categories
        assert ALL_VERBS - set(entry["verbs"]) <= {"deletecollection"}


@pytest.mark.parametrize("group_version", SUBRESOURCES)
def test_subresources(api: Api, group_version: str) -> None:
    found = resources(api, group_version)
    for name, kind in SUBRESOURCES[group_version].items():
        assert found[name]["kind"] == kind
        assert found[name]["singularName"] == ""
    if group_version == "apps/v1":
        scale = found["deployments/scale"]
        assert (scale["group"], scale["version"]) == ("autoscaling", "v1")
        assert scale["verbs"] == ["get", "patch", "update"]


@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_all_in_one_answer(api: Api, path: str) -> None:
    answer = api.get(path, accept=AGGREGATED)
    assert "as=APIGroupDiscoveryList" in answer.headers["Content-Type"]
    found = answer.ok
    assert (found["kind"], found["apiVersion"]) == (
        "APIGroupDiscoveryList",
        "apidiscovery.k8s.io/v2",
    )
    served = {
        "/".join(filter(None, (item["metadata"].get("name", ""), version["version"]))): {
            entry["resource"]: entry for entry in version["resources"]
        }
        for item in found["items"]
        for version in item["versions"]
    }
    for group_version, expected in SERVED.items():
        if (group_version == "v1") != (path == "/api"):
            continue
        for name, (kind, namespaced, short, categories) in expected.items():
            entry = served[group_version][name]
            assert entry["responseKind"]["kind"] == kind
            assert entry["scope"] == ("Namespaced" if namespaced else "Cluster")
            assert set(entry.get("shortNames", [])) == short
            assert set(entry.get("categories", [])) == categories
        for name in SUBRESOURCES.get(group_version, ()):
            plural, _, subresource = name.partition("/")
            listed = served[group_version][plural]["subresources"]
            assert subresource in [entry["subresource"] for entry in listed]


def test_the_version(api: Api) -> None:
    found = api.get("/version").ok
    assert (found["major"], found["minor"]) == ("1", "35")
    assert found["gitVersion"].startswith("v1.35.")
    assert {"gitCommit", "buildDate", "goVersion", "compiler", "platform"} <= found.keys()


def test_open_api_of_all_groups(api: Api) -> None:
    paths = api.get("/openapi/v3").ok["paths"]
    for group_version in SERVED:
        key = root(group_version).removeprefix("/")
        assert paths[key]["serverRelativeURL"].startswith(f"/openapi/v3/{key}")
    url = paths["apis/apps/v1"]["serverRelativeURL"]
    schemas = api.get(url).ok["components"]["schemas"]
    deployment = schemas["io.k8s.api.apps.v1.Deployment"]
    kinds = {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert deployment["x-kubernetes-group-version-kind"] == [kinds]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"


def test_open_api_of_the_older_form(api: Api) -> None:
    found = api.get("/openapi/v2").ok
    assert found["swagger"] == "2.0"
    assert "io.k8s.api.core.v1.Pod" in found["definitions"]
    assert "/api/v1/namespaces/{namespace}/pods/{name}" in found["paths"]


@pytest.mark.parametrize("group", ["authorization.k8s.io", "authentication.k8s.io"])
def test_reviews_are_listed(api: Api, group: str) -> None:
    found = resources(api, f"{group}/v1")
    reviews = {
        "authorization.k8s.io": {
            "localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews",
            "subjectaccessreviews",
        },
        "authentication.k8s.io": {"selfsubjectreviews", "tokenreviews"},
    }  # fmt: skip
    assert found.keys() == reviews[group]
    assert all(entry["verbs"] == ["create"] for entry in found.values())
    listed = [entry["name"] for entry in api.get("/apis").ok["groups"]]
    assert group in listed
    assert api.get(f"/apis/{group}").ok["preferredVersion"]["version"] == "v1"
