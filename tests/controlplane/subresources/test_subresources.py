# SPDX-License-Identifier: Apache-2.0
"""Binding, eviction and the other subresources with rules of their own."""

from __future__ import annotations

import pytest

from tests.controlplane.plane import PODS, Api, pod, with_api

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def binding(node: str = "n1", **metadata: object) -> dict[str, object]:
    return {"metadata": {"name": "web", **metadata}, "target": {"kind": "Node", "name": node}}


async def running(api: Api, name: str = "web") -> dict[str, object]:
    made = await api.made(PODS, pod(name, labels={"app": "web"}, spec={"nodeName": "n1"}))
    return await api(
        "PUT", f"{PODS}/{name}/status", {**made, "status": {**made["status"], **RUNNING}}
    )


async def budget(api: Api, name: str = "pdb", allowed: int = 1, **spec: object) -> None:
    selector = {"matchLabels": {"app": "web"}}
    made = await api.made(
        BUDGETS, {"metadata": {"name": name}, "spec": {"selector": selector, **spec}}
    )
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": 2,
        "desiredHealthy": 2,
        "expectedPods": 2,
    }
    answer = await api("PUT", f"{BUDGETS}/{name}/status", {**made, "status": status})
    assert answer["code"] == 200, answer


def test_a_binding_gives_a_pod_to_a_node() -> None:
    async def check(api: Api) -> None:
        zone = {"topology.kubernetes.io/zone": "z1", "other": "x"}
        await api.made("/api/v1/nodes", {"metadata": {"name": "n1", "labels": zone}})
        made = await api.made(PODS, pod(labels={"a": "b"}))
        answer = await api(
            "POST",
            f"{PODS}/web/binding",
            binding(uid=made["metadata"]["uid"], annotations={"x": "y"}),
        )
        assert (answer["kind"], answer["status"], answer["code"]) == ("Status", "Success", 201)
        bound = await api("GET", f"{PODS}/web")
        assert bound["spec"]["nodeName"] == "n1"
        assert bound["metadata"]["annotations"] == {"x": "y"}
        assert bound["metadata"]["labels"] == {"a": "b", "topology.kubernetes.io/zone": "z1"}
        (scheduled,) = bound["status"]["conditions"]
        assert (scheduled["type"], scheduled["status"]) == ("PodScheduled", "True")

    with_api(check)


@pytest.mark.parametrize(
    ("spec", "metadata", "why"),
    [
        ({"nodeName": "n2"}, {}, 'pod web is already assigned to node "n2"'),
        ({"schedulingGates": [{"name": "g"}]}, {}, "pod web has non-empty .spec.schedulingGates"),
        ({}, {"uid": "other"}, "Precondition failed: UID in precondition: other"),
    ],
)
def test_a_binding_that_does_not_fit_is_a_conflict(
    spec: dict[str, object], metadata: dict[str, object], why: str
) -> None:
    async def check(api: Api) -> None:
        await api.made(PODS, pod(spec=spec))
        answer = await api("POST", f"{PODS}/web/binding", binding(**metadata))
        assert (answer["code"], answer["reason"]) == (409, "Conflict")
        assert why in answer["message"]
        assert (await api("GET", f"{PODS}/web"))["spec"].get("nodeName") == spec.get("nodeName")

    with_api(check)


def test_bindings_must_name_a_node_and_the_pod() -> None:
    async def check(api: Api) -> None:
        await api.made(PODS, pod())
        answer = await api("POST", f"{PODS}/web/binding", binding(name="other"))
        assert answer["message"] == "name in URL does not match name in Binding object"
        answer = await api("POST", f"{PODS}/web/binding", {"metadata": {"name": "web"}})
        assert answer["code"] == 500
        assert (await api("POST", f"{PODS}/none/binding", binding(name="none")))["code"] == 404

    with_api(check)


def test_a_pod_without_a_budget_is_evicted() -> None:
    async def check(api: Api) -> None:
        await running(api)
        answer = await api("POST", f"{PODS}/web/eviction", {"metadata": {"name": "web"}})
        assert answer["code"] == 201
        left = await api("GET", f"{PODS}/web")
        assert "deletionTimestamp" in left["metadata"]
        reasons = [entry.get("reason") for entry in left["status"]["conditions"]]
        assert "EvictionByEvictionAPI" in reasons

    with_api(check)


def test_an_eviction_takes_from_the_budget_until_it_is_spent() -> None:
    async def check(api: Api) -> None:
        await running(api)
        await running(api, "two")
        await budget(api, minAvailable=1)
        eviction = {"metadata": {"name": "web"}}
        dry = {**eviction, "deleteOptions": {"dryRun": ["All"]}}
        assert (await api("POST", f"{PODS}/web/eviction", dry))["code"] == 201
        assert (await api("POST", f"{PODS}/web/eviction", eviction))["code"] == 201
        status = (await api("GET", f"{BUDGETS}/pdb"))["status"]
        assert status["disruptionsAllowed"] == 0
        assert list(status["disruptedPods"]) == ["web"]
        answer = await api("POST", f"{PODS}/two/eviction", {"metadata": {"name": "two"}})
        assert (answer["code"], answer["reason"]) == (429, "TooManyRequests")
        assert answer["message"] == (
            "Cannot evict pod as it would violate the pod's disruption budget."
        )
        (cause,) = answer["details"]["causes"]
        assert cause["reason"] == "DisruptionBudget"
        assert cause["message"] == (
            "The disruption budget pdb needs 2 healthy pods and has 2 currently"
        )
        assert "deletionTimestamp" not in (await api("GET", f"{PODS}/two"))["metadata"]

    with_api(check)


def test_pods_that_disrupt_nothing_leave_a_spent_budget_alone() -> None:
    async def check(api: Api) -> None:
        await api.made(PODS, pod("pending", labels={"app": "web"}))
        await budget(api, allowed=0, minAvailable=1)
        answer = await api("POST", f"{PODS}/pending/eviction", {"metadata": {"name": "pending"}})
        assert answer["code"] == 201
        assert (await api("GET", f"{PODS}/pending"))["code"] == 404
        assert (await api("GET", f"{BUDGETS}/pdb"))["status"]["disruptionsAllowed"] == 0

    with_api(check)


def test_several_budgets_are_more_than_the_subresource_takes() -> None:
    async def check(api: Api) -> None:
        await running(api)
        await budget(api, "one", minAvailable=1)
        await budget(api, "two", minAvailable=1)
        answer = await api("POST", f"{PODS}/web/eviction", {"metadata": {"name": "web"}})
        assert answer["code"] == 500
        assert "more than one PodDisruptionBudget" in answer["message"]

    with_api(check)


def test_an_unhealthy_pod_goes_if_its_budget_lets_it() -> None:
    async def check(api: Api) -> None:
        await api.made(PODS, pod(labels={"app": "web"}, spec={"nodeName": "n1"}))
        made = await api("GET", f"{PODS}/web")
        made["status"]["phase"] = "Running"
        await api("PUT", f"{PODS}/web/status", made)
        await budget(api, allowed=0, minAvailable=1, unhealthyPodEvictionPolicy="AlwaysAllow")
        answer = await api("POST", f"{PODS}/web/eviction", {"metadata": {"name": "web"}})
        assert answer["code"] == 201

    with_api(check)


def test_resize_changes_resources_and_nothing_else() -> None:
    async def check(api: Api) -> None:
        small = pod()
        small["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
        made = await api.made(PODS, small)
        container = made["spec"]["containers"][0]
        container["resources"] = {"requests": {"cpu": "2"}}
        container["image"] = "other"
        answer = await api("PUT", f"{PODS}/web/resize", made)
        assert answer["code"] == 200, answer
        (resized,) = answer["spec"]["containers"]
        assert resized["resources"] == {"requests": {"cpu": "2"}}
        assert resized["image"] == "nginx:1"
        assert answer["metadata"]["generation"] == 2

    with_api(check)


@pytest.mark.parametrize(
    ("resources", "why"),
    [
        ({}, "resource requests cannot be removed"),
        ({"requests": {"cpu": "1"}, "limits": {"example.com/x": "1"}}, "only cpu and memory"),
        ({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
         "Pod QOS Class may not change"),
    ],
)  # fmt: skip
def test_a_resize_keeps_class_and_kinds_of_resources(
    resources: dict[str, object], why: str
) -> None:
    async def check(api: Api) -> None:
        small = pod()
        small["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
        made = await api.made(PODS, small)
        made["spec"]["containers"][0]["resources"] = resources
        answer = await api("PUT", f"{PODS}/web/resize", made)
        assert answer["code"] == 422
        assert why in answer["message"]

    with_api(check)


def test_ephemeral_containers_are_only_added() -> None:
    async def check(api: Api) -> None:
        made = await api.made(PODS, pod())
        made["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "busybox:1"}]
        made["spec"]["restartPolicy"] = "Never"
        added = await api("PUT", f"{PODS}/web/ephemeralcontainers", made)
        assert added["code"] == 200, added
        assert added["spec"]["restartPolicy"] == "Always"
        assert added["spec"]["ephemeralContainers"][0]["imagePullPolicy"] == "IfNotPresent"
        del added["spec"]["ephemeralContainers"]
        answer = await api("PUT", f"{PODS}/web/ephemeralcontainers", added)
        assert (answer["code"], "may not be removed" in answer["message"]) == (422, True)

    with_api(check)


def test_what_needs_containers_is_refused_and_tokens_are_random() -> None:
    async def check(api: Api) -> None:
        await api.made(PODS, pod())
        for name in ("log", "exec", "attach", "portforward", "proxy"):
            for method in ("GET",) if name == "log" else ("GET", "POST"):
                answer = await api(method, f"{PODS}/web/{name}")
                assert (answer["code"], answer["reason"]) == (400, "BadRequest")
                assert answer["message"].startswith("pod web is on a simulated node, which ")
            assert (await api("GET", f"{PODS}/none/{name}"))["code"] == 404
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        await api.made(accounts, {"metadata": {"name": "sa"}})
        tokens = {
            (await api("POST", f"{accounts}/sa/token", {}))["status"]["token"] for _ in range(2)
        }
        assert len(tokens) == 2

    with_api(check)
