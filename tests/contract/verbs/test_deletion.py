# SPDX-License-Identifier: Apache-2.0
"""Deletion: grace, finalizers, propagation, many at once, namespaces."""

from __future__ import annotations

import pytest

from tests.contract.api import Api, Document, at
from tests.contract.conftest import make_namespace
from tests.contract.documents import config_map, deployment, document, pod


def on_node(api: Api, namespace: str, name: str = "a", **spec: object) -> str:
    """The path of a pod that is on a node, where a kubelet would have to end it."""
    api.post(at("pods", namespace), pod(name, nodeName="one", **spec)).ok["metadata"]
    return at("pods", namespace, name)


def test_a_pod_on_no_node_goes_at_once(api: Api, namespace: str) -> None:
    api.post(at("pods", namespace), pod("a")).ok["metadata"]
    gone = api.delete(at("pods", namespace, "a"))
    assert (gone.code, gone.document["kind"]) == (200, "Pod")
    assert gone.document["metadata"]["deletionGracePeriodSeconds"] == 0
    assert api.get(at("pods", namespace, "a")).code == 404


def test_a_pod_on_a_node_gets_time(api: Api, namespace: str) -> None:
    path = on_node(api, namespace)
    answer = api.delete(path)
    marked = answer.document["metadata"]
    assert (answer.code, marked["deletionGracePeriodSeconds"], marked["generation"]) == (200, 30, 2)
    assert marked["deletionTimestamp"] > marked["creationTimestamp"]
    assert api.get(path).document == answer.document
    # A longer time changes nothing, a shorter one does, none ends it.
    assert api.delete(path, gracePeriodSeconds=60).ok["metadata"] == marked
    shorter = api.delete(path, {"gracePeriodSeconds": 5}).ok["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 5
    assert shorter["deletionTimestamp"] < marked["deletionTimestamp"]
    assert api.delete(path, gracePeriodSeconds=0).code == 200
    assert api.get(path).code == 404


@pytest.mark.parametrize(
    ("spec", "options", "seconds"),
    [
        ({}, {"gracePeriodSeconds": 7}, 7),
        ({"terminationGracePeriodSeconds": 11}, None, 11),
        ({"terminationGracePeriodSeconds": 11}, {"gracePeriodSeconds": 90}, 90),
        ({}, {"gracePeriodSeconds": -1}, 1),
    ],
)
def test_how_much_time(
    api: Api, namespace: str, spec: Document, options: Document | None, seconds: int
) -> None:
    path = on_node(api, namespace, **spec)
    assert api.delete(path, options).ok["metadata"]["deletionGracePeriodSeconds"] == seconds


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_goes_at_once(api: Api, namespace: str, phase: str) -> None:
    path = on_node(api, namespace)
    api.patch(f"{path}/status", {"status": {"phase": phase}}).ok["metadata"]
    assert api.delete(path).code == 200
    assert api.get(path).code == 404


@pytest.mark.parametrize("node", ["", "one"], ids=["waiting", "bound"])
def test_watches_see_the_mark_before_the_end(api: Api, namespace: str, node: str) -> None:
    made = api.post(at("pods", namespace), pod("a", **({"nodeName": node} if node else {}))).ok
    version = made["metadata"]["resourceVersion"]
    with api.watch(at("pods", namespace), resourceVersion=version) as watch:
        api.delete(at("pods", namespace, "a"), {"gracePeriodSeconds": 0}).ok["metadata"]
        marked, gone = watch.next(), watch.next()
    assert (marked["type"], gone["type"]) == ("MODIFIED", "DELETED")
    for event in (marked, gone):
        assert event["object"]["metadata"]["deletionGracePeriodSeconds"] == 0
        assert event["object"]["metadata"]["deletionTimestamp"]


def test_finalizers_hold_an_object(api: Api, namespace: str) -> None:
    path = at("configmaps", namespace, "a")
    api.post(at("configmaps", namespace), config_map("a", finalizers=["x.test/a"])).ok["metadata"]
    marked = api.delete(path).ok
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert marked["metadata"]["deletionTimestamp"]
    assert api.delete(path).ok["metadata"] == marked["metadata"]
    assert api.patch(path, {"data": {"still": "writable"}}).code == 200

    more = api.patch(path, {"metadata": {"finalizers": ["x.test/a", "x.test/b"]}})
    assert more.refusal[:2] == (422, "Invalid")
    why = "Forbidden: no new finalizers can be added if the object is being deleted, found new "
    assert f'metadata.finalizers: {why}finalizers []string{{"x.test/b"}}' in more.refusal[2]

    assert api.patch(path, {"metadata": {"finalizers": None}}).code == 200
    assert api.get(path).code == 404


def test_the_mark_of_deletion_cannot_be_set_or_unset(api: Api, namespace: str) -> None:
    path = at("configmaps", namespace, "a")
    api.post(at("configmaps", namespace), config_map("a", finalizers=["x.test/a"])).ok["metadata"]
    stamp = {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}}
    assert api.patch(path, stamp).refusal[:2] == (422, "Invalid")
    api.delete(path)
    kept = api.patch(path, {"metadata": {"deletionTimestamp": None}}).ok["metadata"]
    assert "deletionTimestamp" in kept
    api.patch(path, {"metadata": {"finalizers": None}})


def test_a_pod_with_finalizers_outlives_its_grace(api: Api, namespace: str) -> None:
    body = pod("a", nodeName="one")
    body["metadata"]["finalizers"] = ["x.test/a"]
    api.post(at("pods", namespace), body).ok["metadata"]
    path = at("pods", namespace, "a")
    held = api.delete(path, gracePeriodSeconds=0).ok["metadata"]
    assert held["deletionGracePeriodSeconds"] == 0
    assert api.get(path).code == 200
    api.patch(path, {"metadata": {"finalizers": None}})
    assert api.get(path).code == 404


@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Orphan", "orphan"), ("Foreground", "foregroundDeletion")]
)
def test_what_becomes_of_dependents_is_left_to_a_controller(
    api: Api, namespace: str, policy: str, finalizer: str
) -> None:
    api.post(at("configmaps", namespace), config_map("a")).ok["metadata"]
    path = at("configmaps", namespace, "a")
    marked = api.delete(path, {"propagationPolicy": policy}).ok["metadata"]
    assert marked["finalizers"] == [finalizer]
    assert marked["deletionTimestamp"]
    api.patch(path, {"metadata": {"finalizers": None}})
    assert api.get(path).code == 404


def test_background_is_the_rule(api: Api, namespace: str) -> None:
    api.post(at("deployments", namespace), deployment("a")).ok["metadata"]
    answer = api.delete(at("deployments", namespace, "a"), propagationPolicy="Background")
    assert answer.ok["status"] == "Success"


def test_a_policy_that_there_is_not(api: Api, namespace: str) -> None:
    api.post(at("configmaps", namespace), config_map("a")).ok["metadata"]
    answer = api.delete(at("configmaps", namespace, "a"), {"propagationPolicy": "Odd"})
    why = 'Unsupported value: "Odd": supported values: "Foreground", "Background", "Orphan", "nil"'
    message = f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: {why}'
    assert answer.refusal == (422, "Invalid", message)


def test_many_at_once(api: Api, namespace: str) -> None:
    path = at("configmaps", namespace)
    for name, label in (("a", "yes"), ("b", "yes"), ("c", "no")):
        api.post(path, config_map(name, labels={"go": label})).ok["metadata"]
    answer = api.delete(path, labelSelector="go=yes").ok
    assert answer["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "b"]
    assert [item["metadata"]["name"] for item in api.get(path).ok["items"]] == ["c"]
    assert api.delete(path, fieldSelector="metadata.name=c").code == 200
    assert api.get(path).ok["items"] == []


def test_many_pods_get_their_time(api: Api, namespace: str) -> None:
    for name in ("a", "b"):
        on_node(api, namespace, name)
    api.delete(at("pods", namespace), {"gracePeriodSeconds": 9}).ok["items"]
    left = api.get(at("pods", namespace)).ok["items"]
    assert [item["metadata"]["deletionGracePeriodSeconds"] for item in left] == [9, 9]
    api.delete(at("pods", namespace), {"gracePeriodSeconds": 0}).ok["items"]
    assert api.get(at("pods", namespace)).ok["items"] == []


# Without a controller, a namespace waits for whoever empties it.


def test_a_namespace_that_goes_takes_nothing_new(api: Api) -> None:
    name = make_namespace(api)
    path = at("namespaces", name=name)
    api.post(at("configmaps", name), config_map("before")).ok["metadata"]
    going = api.delete(path).ok
    assert going["status"]["phase"] == "Terminating"
    assert going["metadata"]["deletionTimestamp"]
    answer = api.post(at("configmaps", name), config_map("a"))
    why = f"unable to create new content in namespace {name} because it is being terminated"
    assert answer.refusal == (403, "Forbidden", f'configmaps "a" is forbidden: {why}')
    cause = ("metadata.namespace", "NamespaceTerminating", f"namespace {name} is being terminated")
    assert answer.causes == [cause]
    assert api.patch(at("configmaps", name, "before"), {"data": {"a": "b"}}).code == 200
    assert api.delete(at("configmaps", name, "before")).code == 200


def test_a_namespace_goes_when_it_is_finalized(api: Api) -> None:
    name = make_namespace(api)
    path = at("namespaces", name=name)
    api.delete(path)
    body = api.get(path).ok
    # An ordinary update cannot finalize.
    body["spec"]["finalizers"] = []
    assert api.put(path, body).ok["spec"]["finalizers"] == ["kubernetes"]
    assert api.put(f"{path}/finalize", body).code == 200
    assert api.get(path).code == 404


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_namespaces_that_stay(api: Api, name: str) -> None:
    answer = api.delete(at("namespaces", name=name))
    message = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    assert answer.refusal == (403, "Forbidden", message)


def test_namespaces_are_not_deleted_in_bulk(api: Api) -> None:
    assert api.delete(at("namespaces")).refusal[:2] == (405, "MethodNotAllowed")


def test_a_lease_in_a_namespace_of_its_own(api: Api, namespace: str) -> None:
    """Writes that renew are what a control plane does most."""
    body = document("coordination.k8s.io/v1", "Lease", "l", spec={"holderIdentity": "a"})
    made = api.post(at("leases", namespace), body).ok
    made["spec"]["renewTime"] = "2030-01-02T03:04:05.678901Z"
    assert api.put(at("leases", namespace, "l"), made).ok["spec"] == made["spec"]
    assert api.delete(at("leases", namespace, "l")).ok["status"] == "Success"
