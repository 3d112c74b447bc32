# SPDX-License-Identifier: Apache-2.0
"""What the built-in controllers bring about: owned objects come, come back, and go."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.contract.api import Api, Document, at
from tests.contract.conftest import Server, make_namespace
from tests.contract.documents import (
    budget,
    config_map,
    deployment,
    job,
    node,
    pod,
    workload,
)

WAIT_SECONDS = 90.0
T = TypeVar("T")


@pytest.fixture
def api(cluster: Server) -> Api:
    """Requests to a server with controllers."""
    return cluster.api


@pytest.fixture
def namespace(api: Api) -> str:
    return make_namespace(api)


def eventually(look: Callable[[], T], wanted: Callable[[T], bool]) -> T:
    """What a look gives once it is as wanted."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not wanted(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def items(api: Api, plural: str, namespace: str) -> list[Document]:
    listed: list[Document] = api.get(at(plural, namespace)).ok["items"]
    return [item for item in listed if "deletionTimestamp" not in item["metadata"]]


def names(api: Api, plural: str, namespace: str) -> list[str]:
    return [item["metadata"]["name"] for item in items(api, plural, namespace)]


def pods(api: Api, namespace: str, count: int) -> list[Document]:
    return eventually(lambda: items(api, "pods", namespace), lambda found: len(found) == count)


def gone(api: Api, path: str) -> None:
    eventually(lambda: api.get(path).code, lambda code: code == 404)


def owner_of(owner: Document, **fields: object) -> Document:
    metadata = owner["metadata"]
    reference = {"name": metadata["name"], "uid": metadata["uid"], "kind": "ConfigMap"}
    return {"apiVersion": "v1", **reference, **fields}


def family(api: Api, namespace: str, **fields: object) -> tuple[str, str]:
    """The paths of a config map and of one that it owns."""
    owner = api.post(at("configmaps", namespace), config_map("owner")).ok
    owned = config_map("owned", ownerReferences=[owner_of(owner, **fields)])
    api.post(at("configmaps", namespace), owned).ok["metadata"]
    return at("configmaps", namespace, "owner"), at("configmaps", namespace, "owned")


def test_what_is_owned_goes_after_its_owner(api: Api, namespace: str) -> None:
    owner, owned = family(api, namespace)
    assert api.delete(owner).code == 200
    assert api.get(owner).code == 404
    gone(api, owned)


def test_what_blocks_goes_before_its_owner(api: Api, namespace: str) -> None:
    owner, owned = family(api, namespace, blockOwnerDeletion=True)
    api.patch(owned, {"metadata": {"finalizers": ["x.test/hold"]}}).ok["metadata"]
    held = api.delete(owner, {"propagationPolicy": "Foreground"}).ok["metadata"]
    assert held["finalizers"] == ["foregroundDeletion"]
    eventually(lambda: api.get(owned).ok["metadata"], lambda found: "deletionTimestamp" in found)
    assert api.get(owner).code == 200
    api.patch(owned, {"metadata": {"finalizers": None}})
    gone(api, owned)
    gone(api, owner)


def test_orphans_stay(api: Api, namespace: str) -> None:
    owner, owned = family(api, namespace)
    api.delete(owner, {"propagationPolicy": "Orphan"})
    gone(api, owner)
    assert "ownerReferences" not in api.get(owned).ok["metadata"]


def test_an_owner_that_never_was(api: Api, namespace: str) -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "no", "uid": "no-such"}
    body = config_map("owned", ownerReferences=[reference])
    api.post(at("configmaps", namespace), body).ok["metadata"]
    gone(api, at("configmaps", namespace, "owned"))


def test_a_deployment_makes_pods(api: Api, namespace: str) -> None:
    made = api.post(at("deployments", namespace), deployment("web", replicas=2)).ok
    found = pods(api, namespace, 2)
    (replica_set,) = items(api, "replicasets", namespace)
    reference = replica_set["metadata"]["ownerReferences"][0]
    assert (reference["uid"], reference["controller"]) == (made["metadata"]["uid"], True)
    labels = replica_set["spec"]["selector"]["matchLabels"]
    assert set(labels) == {"app", "pod-template-hash"}
    assert replica_set["metadata"]["name"] == f"web-{labels['pod-template-hash']}"
    for one in found:
        assert one["metadata"]["labels"] == labels
        assert one["metadata"]["generateName"] == f"{replica_set['metadata']['name']}-"
        assert one["metadata"]["ownerReferences"][0]["uid"] == replica_set["metadata"]["uid"]
    path = at("deployments", namespace, "web")
    status = eventually(lambda: api.get(path).ok["status"], lambda got: got.get("replicas") == 2)
    assert status["observedGeneration"] == 1
    revision = "deployment.kubernetes.io/revision"
    assert api.get(path).ok["metadata"]["annotations"][revision] == "1"


def test_a_pod_that_goes_comes_back(api: Api, namespace: str) -> None:
    api.post(at("deployments", namespace), deployment("web")).ok["metadata"]
    (first,) = pods(api, namespace, 1)
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": first["metadata"]["name"]},
    }
    assert api.post(at("pods", namespace, first["metadata"]["name"], "eviction"), body).code == 201
    eventually(
        lambda: items(api, "pods", namespace),
        lambda found: (
            [one["metadata"]["uid"] for one in found] not in ([], [first["metadata"]["uid"]])
        ),
    )


def test_scaling(api: Api, namespace: str) -> None:
    api.post(at("deployments", namespace), deployment("web", replicas=3)).ok["metadata"]
    pods(api, namespace, 3)
    scale = at("deployments", namespace, "web", "scale")
    api.patch(scale, {"spec": {"replicas": 1}}).ok["metadata"]
    pods(api, namespace, 1)
    eventually(lambda: api.get(scale).ok["status"]["replicas"], lambda count: count == 1)


def test_a_new_template_rolls(api: Api, namespace: str) -> None:
    api.post(at("deployments", namespace), deployment("web")).ok["metadata"]
    pods(api, namespace, 1)
    patch = {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}
    api.patch(at("deployments", namespace, "web"), patch).ok["metadata"]
    sets = eventually(lambda: items(api, "replicasets", namespace), lambda found: len(found) == 2)
    revisions = {s["metadata"]["annotations"]["deployment.kubernetes.io/revision"] for s in sets}
    assert revisions == {"1", "2"}


def test_a_deployment_takes_its_pods_along(api: Api, namespace: str) -> None:
    api.post(at("deployments", namespace), deployment("web", replicas=2)).ok["metadata"]
    pods(api, namespace, 2)
    api.delete(at("deployments", namespace, "web"))
    pods(api, namespace, 0)
    assert eventually(lambda: names(api, "replicasets", namespace), lambda found: not found) == []


def test_a_stateful_set_counts_its_pods(api: Api, namespace: str) -> None:
    body = workload("StatefulSet", "db", replicas=2, podManagementPolicy="Parallel")
    api.post(at("statefulsets", namespace), body).ok["metadata"]
    pods(api, namespace, 2)
    assert names(api, "pods", namespace) == ["db-0", "db-1"]
    labels = api.get(at("pods", namespace, "db-1")).ok["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "db-1"
    assert labels["apps.kubernetes.io/pod-index"] == "1"


def test_a_stateful_set_in_order(api: Api, namespace: str) -> None:
    api.post(at("statefulsets", namespace), workload("StatefulSet", "db", replicas=2)).ok[
        "metadata"
    ]
    pods(api, namespace, 1)
    assert names(api, "pods", namespace) == ["db-0"]
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    api.patch(at("pods", namespace, "db-0", "status"), {"status": ready}).ok["metadata"]
    pods(api, namespace, 2)


def test_a_daemon_set_is_on_every_node(api: Api, namespace: str) -> None:
    nodes = [f"{namespace}-{letter}" for letter in "ab"]
    label = {"for": namespace}
    for name in nodes:
        api.post(at("nodes"), node(name, labels=label)).ok["metadata"]
    body = workload("DaemonSet", "agent")
    body["spec"]["template"]["spec"]["nodeSelector"] = label
    api.post(at("daemonsets", namespace), body).ok["metadata"]
    found = pods(api, namespace, 2)
    where = "requiredDuringSchedulingIgnoredDuringExecution"
    targets = {
        one["spec"]["affinity"]["nodeAffinity"][where]["nodeSelectorTerms"][0]["matchFields"][0][
            "values"
        ][0]
        for one in found
    }
    assert targets == set(nodes)
    path = at("daemonsets", namespace, "agent")
    eventually(lambda: api.get(path).ok["status"], lambda got: got["desiredNumberScheduled"] == 2)
    api.delete(path)
    pods(api, namespace, 0)
    for name in nodes:
        api.delete(at("nodes", name=name))


def test_a_job_is_done_when_its_pods_are(api: Api, namespace: str) -> None:
    api.post(at("jobs", namespace), job("once", completions=1)).ok["metadata"]
    (one,) = pods(api, namespace, 1)
    assert one["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "once"
    assert one["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    path = at("pods", namespace, one["metadata"]["name"], "status")
    api.patch(path, {"status": {"phase": "Succeeded"}}).ok["metadata"]
    status = eventually(
        lambda: api.get(at("jobs", namespace, "once")).ok["status"],
        lambda got: got.get("succeeded") == 1 and len(got.get("conditions", [])) == 2,
    )
    states = {item["type"]: item["status"] for item in status["conditions"]}
    assert states == {"SuccessCriteriaMet": "True", "Complete": "True"}
    assert status["completionTime"]


def test_a_budget_is_counted(api: Api, namespace: str) -> None:
    api.post(at("deployments", namespace), deployment("web", replicas=2)).ok["metadata"]
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for one in pods(api, namespace, 2):
        path = at("pods", namespace, one["metadata"]["name"], "status")
        api.patch(path, {"status": ready}).ok["metadata"]
    api.post(at("poddisruptionbudgets", namespace), budget("web", maxUnavailable=1)).ok["metadata"]
    status = eventually(
        lambda: api.get(at("poddisruptionbudgets", namespace, "web")).ok["status"],
        lambda got: got["disruptionsAllowed"] == 1,
    )
    assert (status["expectedPods"], status["currentHealthy"], status["desiredHealthy"]) == (2, 2, 1)


def test_a_namespace_goes_with_all_that_is_in_it(api: Api, namespace: str) -> None:
    api.post(at("configmaps", namespace), config_map("a")).ok["metadata"]
    api.post(at("deployments", namespace), deployment("web")).ok["metadata"]
    pods(api, namespace, 1)
    path = at("namespaces", name=namespace)
    assert api.delete(path).ok["status"]["phase"] == "Terminating"
    gone(api, path)
    assert api.get(at("configmaps", namespace, "a")).code == 404
    assert items(api, "pods", namespace) == []


def test_pods_go_before_the_rest_of_a_namespace(api: Api, namespace: str) -> None:
    api.post(at("configmaps", namespace), config_map("a")).ok["metadata"]
    body = pod("a", nodeName="one")
    body["metadata"]["finalizers"] = ["x.test/hold"]
    api.post(at("pods", namespace), body).ok["metadata"]
    api.delete(at("namespaces", name=namespace))
    eventually(lambda: items(api, "pods", namespace), lambda found: not found)
    assert api.get(at("configmaps", namespace, "a")).code == 200
    conditions = eventually(
        lambda: api.get(at("namespaces", name=namespace)).ok["status"].get("conditions", []),
        lambda found: len(found) > 0,
    )
    assert {item["type"] for item in conditions} >= {
        "NamespaceDeletionContentFailure",
        "NamespaceContentRemaining",
        "NamespaceFinalizersRemaining",
    }
    api.patch(at("pods", namespace, "a"), {"metadata": {"finalizers": None}})


def test_every_namespace_has_a_service_account(api: Api, namespace: str) -> None:
    eventually(
        lambda: api.get(at("serviceaccounts", namespace, "default")).code,
        lambda code: code == 200,
    )
