# SPDX-License-Identifier: Apache-2.0
"""Status, binding, eviction and scale."""

from __future__ import annotations

import pytest

from tests.contract.api import STRATEGIC_PATCH, Api, Document, at
from tests.contract.documents import budget, deployment, document, node, pod

OVER_BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."


@pytest.fixture
def waiting(api: Api, namespace: str) -> str:
    """The path of a pod that is on no node."""
    api.post(at("pods", namespace), pod("a")).ok["metadata"]
    return at("pods", namespace, "a")


def test_status_is_written_apart(api: Api, waiting: str) -> None:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    patch = {
        "status": status,
        "spec": {"activeDeadlineSeconds": 9},
        "metadata": {"labels": {"by": "kubelet"}},
    }
    found = api.patch(f"{waiting}/status", patch).ok
    assert found["status"]["phase"] == "Running"
    assert "activeDeadlineSeconds" not in found["spec"]
    assert found["metadata"]["labels"] == {"by": "kubelet"}
    assert found["metadata"]["generation"] == 1
    assert api.get(f"{waiting}/status").document == found
    unchanged = api.patch(waiting, {"status": {"phase": "Failed"}}).ok
    assert unchanged["status"] == found["status"]


def test_status_is_replaced(api: Api, waiting: str) -> None:
    found = api.get(waiting).ok
    found["status"] = {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}
    replaced = api.put(f"{waiting}/status", found).ok["status"]
    assert (replaced["phase"], replaced["podIP"]) == ("Running", "10.1.2.3")
    found["metadata"]["resourceVersion"] = "1"
    assert api.put(f"{waiting}/status", found).refusal[:2] == (409, "Conflict")


def test_a_create_carries_no_status(api: Api, namespace: str) -> None:
    body = deployment("d")
    body["status"] = {"replicas": 5}
    assert api.post(at("deployments", namespace), body).ok["status"] == {}


def test_nodes_are_created_with_their_status(api: Api, namespace: str) -> None:
    body = node(f"with-{namespace}")
    assert api.post(at("nodes"), body).ok["status"]["capacity"] == body["status"]["capacity"]
    api.delete(at("nodes", name=f"with-{namespace}"))


def binding(pod_name: str = "a", **fields: object) -> Document:
    target = {"kind": "Node", "name": "one"}
    return {
        **document("v1", "Binding", pod_name, annotations={"by": "x"}),
        "target": target,
        **fields,
    }


def test_a_pod_is_bound_once(api: Api, waiting: str) -> None:
    answer = api.post(f"{waiting}/binding", binding())
    success = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    }
    assert (answer.code, answer.document) == (201, success)
    found = api.get(waiting).ok
    assert found["spec"]["nodeName"] == "one"
    assert found["metadata"]["annotations"] == {"by": "x"}
    conditions = {item["type"]: item["status"] for item in found["status"]["conditions"]}
    assert conditions == {"PodScheduled": "True"}
    again = api.post(f"{waiting}/binding", binding())
    message = (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "one"'
    )
    assert again.refusal == (409, "Conflict", message)


def test_the_older_path_of_bindings(api: Api, namespace: str, waiting: str) -> None:
    assert api.post(f"/api/v1/namespaces/{namespace}/bindings", binding()).code == 201
    assert api.get(waiting).ok["spec"]["nodeName"] == "one"


def test_bindings_that_cannot_be(api: Api, namespace: str, waiting: str) -> None:
    gates = [{"name": "hold"}]
    api.post(at("pods", namespace), pod("gated", schedulingGates=gates)).ok["metadata"]
    refusals = {
        "gone": (404, 'pods "gone" not found'),
        "gated": (409, 'Operation cannot be fulfilled on pods/binding "gated": pod gated has '
                  "non-empty .spec.schedulingGates"),
    }  # fmt: skip
    for name, (code, message) in refusals.items():
        answer = api.post(at("pods", namespace, name, "binding"), binding(name))
        assert (answer.refusal[0], answer.refusal[2]) == (code, message)
    other = api.post(f"{waiting}/binding", binding("other"))
    message = "name in URL does not match name in Binding object"
    assert other.refusal == (400, "BadRequest", message)
    nowhere = api.post(f"{waiting}/binding", binding(target={"kind": "Pod", "name": ""}))
    assert nowhere.refusal[2] == (
        '[target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>", '
        "target.name: Required value]"
    )


def test_a_binding_for_another_pod_of_that_name(api: Api, waiting: str) -> None:
    body = binding()
    body["metadata"]["uid"] = "other"
    assert api.post(f"{waiting}/binding", body).refusal[:2] == (409, "Conflict")
    assert "nodeName" not in api.get(waiting).ok["spec"]


# Resize.


def resized(**resources: dict[str, str]) -> Document:
    """A strategic merge patch of the container's resources, and of its image."""
    return {"spec": {"containers": [{"name": "app", "image": "other", "resources": resources}]}}


@pytest.fixture
def small(api: Api, namespace: str) -> str:
    """The path of a pod with a container, a sidecar and an init container of one CPU each."""
    made = pod("small", nodeName="one")
    (container,) = made["spec"]["containers"]
    container |= {"name": "app", "resources": {"requests": {"cpu": "1"}}}
    made["spec"]["initContainers"] = [
        {**container, "name": "beside", "restartPolicy": "Always"},
        {**container, "name": "before"},
    ]
    api.post(at("pods", namespace), made).ok["metadata"]
    return at("pods", namespace, "small")


def test_a_resize_changes_resources_and_nothing_else(api: Api, small: str) -> None:
    before = api.get(small).ok
    patch = resized(requests={"cpu": "2", "memory": "1Gi"})
    beside = {"name": "beside", "resources": {"requests": {"cpu": "3"}}}
    patch["spec"] |= {"initContainers": [beside], "activeDeadlineSeconds": 9}
    patch["status"] = {"phase": "Running"}
    found = api.patch(f"{small}/resize", patch, STRATEGIC_PATCH).ok
    (container,), (sidecar, init) = found["spec"]["containers"], found["spec"]["initContainers"]
    assert container["resources"] == {"requests": {"cpu": "2", "memory": "1Gi"}}
    assert container["image"] == before["spec"]["containers"][0]["image"]
    assert sidecar["resources"] == {"requests": {"cpu": "3"}}
    assert init["resources"] == {"requests": {"cpu": "1"}}
    assert "activeDeadlineSeconds" not in found["spec"]
    assert found["status"]["phase"] == "Pending"
    assert found["metadata"]["generation"] == 2
    # The pod itself cannot be changed so.
    assert api.patch(small, resized(requests={"cpu": "3"}), STRATEGIC_PATCH).code == 422


@pytest.mark.parametrize(
    ("containers", "why"),
    [
        ({"containers": [{"name": "app", "resources": {"requests": {"cpu": None}}}]},
         "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"),
        ({"containers": [{"name": "app", "resources": {"requests": {"example.com/x": "1"},
                                                       "limits": {"example.com/x": "1"}}}]},
         "spec: Forbidden: only cpu and memory resources are mutable"),
        ({"initContainers": [{"name": "before", "resources": {"requests": {"cpu": "2"}}}]},
         "spec: Forbidden: resources for non-sidecar init containers are immutable"),
    ],
)  # fmt: skip
def test_what_a_resize_may_not_do(api: Api, small: str, containers: Document, why: str) -> None:
    answer = api.patch(f"{small}/resize", {"spec": containers}, STRATEGIC_PATCH)
    assert answer.refusal[:2] == (422, "Invalid")
    assert why in answer.refusal[2]


@pytest.mark.differs("simulated nodes do not say what containers run with")
def test_a_resize_needs_a_node_that_says_what_containers_run_with(api: Api, small: str) -> None:
    state = {
        "name": "app", "image": "i", "imageID": "", "ready": True, "restartCount": 0,
        "state": {"running": {"startedAt": "2030-01-14T09:00:00Z"}},
    }  # fmt: skip
    patch = resized(requests={"cpu": "2"})
    api.patch(f"{small}/status", {"status": {"containerStatuses": [state]}}).ok["status"]
    refusal = api.patch(f"{small}/resize", patch, STRATEGIC_PATCH).refusal
    assert refusal[0] == 422
    assert "Pod running on node without support for resize" in refusal[2]
    state["resources"] = {"requests": {"cpu": "1"}}
    api.patch(f"{small}/status", {"status": {"containerStatuses": [state]}}).ok["status"]
    assert api.patch(f"{small}/resize", patch, STRATEGIC_PATCH).ok["metadata"]["generation"] == 2


# Eviction. The budget's status is written by the tests: no controller is there to do it.


def eviction(name: str, **options: object) -> Document:
    body = document("policy/v1", "Eviction", name)
    return {**body, "deleteOptions": options} if options else body


def run_pods(api: Api, namespace: str, *names: str) -> str:
    """Pods that run and are ready; gives the path of pods."""
    path = at("pods", namespace)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for name in names:
        api.post(path, pod(name, labels={"app": "web"}, nodeName="one")).ok["metadata"]
        api.patch(f"{path}/{name}/status", {"status": status}).ok["metadata"]
    return path


def allow(api: Api, namespace: str, disruptions: int) -> str:
    """A budget that lets so many go; gives its path."""
    api.post(at("poddisruptionbudgets", namespace), budget("web", minAvailable=1)).ok["metadata"]
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": disruptions,
        "currentHealthy": 2,
        "desiredHealthy": 1,
        "expectedPods": 2,
    }
    path = at("poddisruptionbudgets", namespace, "web")
    api.patch(f"{path}/status", {"status": status}).ok["metadata"]
    return path


def test_an_eviction_with_no_budget_deletes(api: Api, namespace: str) -> None:
    pods = run_pods(api, namespace, "a")
    tried = api.post(f"{pods}/a/eviction", eviction("a"), dryRun="All")
    assert tried.code == 201
    assert "deletionTimestamp" not in api.get(f"{pods}/a").ok["metadata"]
    done = api.post(f"{pods}/a/eviction", eviction("a", gracePeriodSeconds=3))
    assert (done.code, done.document["status"]) == (201, "Success")
    marked = api.get(f"{pods}/a").ok
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 3
    (condition,) = (c for c in marked["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert (condition["status"], condition["reason"]) == ("True", "EvictionByEvictionAPI")


def test_an_eviction_spends_the_budget(api: Api, namespace: str) -> None:
    pods = run_pods(api, namespace, "a", "b")
    path = allow(api, namespace, 1)
    assert api.post(f"{pods}/a/eviction", eviction("a", dryRun=["All"])).code == 201
    assert api.get(path).ok["status"]["disruptionsAllowed"] == 1
    assert api.post(f"{pods}/a/eviction", eviction("a")).code == 201
    status = api.get(path).ok["status"]
    assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (0, ["a"])
    refused = api.post(f"{pods}/b/eviction", eviction("b"))
    assert refused.refusal == (429, "TooManyRequests", OVER_BUDGET)
    ((_, reason, message),) = refused.causes
    assert reason == "DisruptionBudget"
    assert message.startswith("The disruption budget web ")
    assert "deletionTimestamp" not in api.get(f"{pods}/b").ok["metadata"]


def test_a_budget_not_yet_counted(api: Api, namespace: str) -> None:
    pods = run_pods(api, namespace, "a")
    api.post(at("poddisruptionbudgets", namespace), budget("web", minAvailable=1)).ok["metadata"]
    answer = api.post(f"{pods}/a/eviction", eviction("a"))
    assert answer.refusal == (429, "TooManyRequests", OVER_BUDGET)
    message = "The disruption budget web is still being processed by the server."
    assert answer.causes == [("", "DisruptionBudget", message)]
    assert answer.document["details"]["retryAfterSeconds"] == 10


def test_what_does_not_run_needs_no_budget(api: Api, namespace: str) -> None:
    api.post(at("pods", namespace), pod("a", labels={"app": "web"})).ok["metadata"]
    allow(api, namespace, 0)
    assert api.post(at("pods", namespace, "a", "eviction"), eviction("a")).code == 201
    assert api.get(at("pods", namespace, "a")).code == 404


def test_two_budgets_are_one_too_many(api: Api, namespace: str) -> None:
    pods = run_pods(api, namespace, "a")
    allow(api, namespace, 1)
    other = budget("other", maxUnavailable=1, selector={"matchLabels": {"app": "web"}})
    api.post(at("poddisruptionbudgets", namespace), other).ok["metadata"]
    answer = api.post(f"{pods}/a/eviction", eviction("a"))
    assert (answer.refusal[0], answer.refusal[2]) == (
        500,
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
        "support.",
    )


def test_evictions_that_cannot_be(api: Api, namespace: str) -> None:
    pods = run_pods(api, namespace, "a")
    gone = api.post(f"{pods}/no/eviction", eviction("no"))
    assert gone.refusal == (404, "NotFound", 'pods "no" not found')
    other = api.post(f"{pods}/a/eviction", eviction("b"))
    message = "name in URL does not match name in Eviction object"
    assert other.refusal == (400, "BadRequest", message)
    body = eviction("a", preconditions={"uid": "other"})
    assert api.post(f"{pods}/a/eviction", body).refusal[:2] == (409, "Conflict")


# Scale.


@pytest.fixture
def web(api: Api, namespace: str) -> str:
    """The path of a Deployment."""
    api.post(at("deployments", namespace), deployment("d")).ok["metadata"]
    return at("deployments", namespace, "d")


def test_scale_is_read_and_written(api: Api, namespace: str, web: str) -> None:
    found = api.get(f"{web}/scale").ok
    whole = api.get(web).ok["metadata"]
    shared = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    assert found == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: whole[key] for key in shared},
        "spec": {"replicas": 1},
        "status": {"replicas": 0, "selector": "app=d"},
    }
    found["spec"]["replicas"] = 4
    assert api.put(f"{web}/scale", found).ok["spec"] == {"replicas": 4}
    assert api.patch(f"{web}/scale", {"spec": {"replicas": 2}}).ok["spec"] == {"replicas": 2}
    changed = api.get(web).ok
    assert (changed["spec"]["replicas"], changed["metadata"]["generation"]) == (2, 3)
    assert api.put(f"{web}/scale", found).refusal[:2] == (409, "Conflict")


def test_a_scale_that_cannot_be(api: Api, namespace: str, web: str) -> None:
    answer = api.patch(f"{web}/scale", {"spec": {"replicas": -2}})
    why = "spec.replicas: Invalid value: -2: must be greater than or equal to 0"
    assert answer.refusal == (422, "Invalid", f'Scale.autoscaling "d" is invalid: {why}')
    gone = api.get(at("deployments", namespace, "no", "scale"))
    assert gone.refusal == (404, "NotFound", 'deployments.apps "no" not found')
