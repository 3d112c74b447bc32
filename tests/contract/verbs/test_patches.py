# SPDX-License-Identifier: Apache-2.0
"""JSON, merge and strategic merge patches."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import JSON_PATCH, STRATEGIC_PATCH, Api, Document, at
from tests.contract.documents import config_map, container, deployment, node, service, template

REJECTED = "the server rejected our request due to an error in our request"


@pytest.fixture
def settings(api: Api, namespace: str) -> str:
    """The path of a config map with ``a: 1``."""
    api.post(at("configmaps", namespace), config_map("a", data={"a": "1"})).ok["metadata"]
    return at("configmaps", namespace, "a")


@pytest.mark.parametrize(
    ("operations", "data"),
    [
        ([{"op": "add", "path": "/data/b", "value": "2"}], {"a": "1", "b": "2"}),
        ([{"op": "replace", "path": "/data/a", "value": "2"}], {"a": "2"}),
        ([{"op": "move", "from": "/data/a", "path": "/data/b"}], {"b": "1"}),
        ([{"op": "copy", "from": "/data/a", "path": "/data/b"}], {"a": "1", "b": "1"}),
        ([{"op": "remove", "path": "/data"}], None),
        (
            [
                {"op": "test", "path": "/data/a", "value": "1"},
                {"op": "replace", "path": "/data", "value": {"c": "3"}},
            ],
            {"c": "3"},
        ),
        ([{"op": "add", "path": "/data/x~1y~0z", "value": "2"}], None),
    ],
    ids=lambda value: value[0]["op"] if isinstance(value, list) else "",
)
def test_json_patch(
    api: Api, settings: str, operations: list[Document], data: Document | None
) -> None:
    answer = api.patch(settings, operations, JSON_PATCH)
    if "~1" in operations[0]["path"]:
        # Escapes are read: the key that results is one that a config map may not have.
        assert answer.causes[0][0] == "data[x/y~z]"
        return
    assert answer.ok.get("data") == data
    assert api.get(settings).document == answer.document


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/data/a", "value": "2"},
        {"op": "test", "path": "/data/x", "value": "1"},
        {"op": "remove", "path": "/data/x"},
        {"op": "replace", "path": "/nope/x", "value": 1},
        {"op": "move", "from": "/no", "path": "/data"},
        {"op": "frob", "path": "/data"},
        {"op": "add", "path": "data", "value": {}},
    ],
    ids=lambda value: f"{value['op']} {value['path']}",
)
def test_json_patch_that_does_not_fit(api: Api, settings: str, operation: Document) -> None:
    operations = [{"op": "add", "path": "/data/kept", "value": "no"}, operation]
    assert api.patch(settings, operations, JSON_PATCH).refusal == (422, "Invalid", REJECTED)
    assert api.get(settings).ok["data"] == {"a": "1"}


def test_json_patch_of_list_items(api: Api, namespace: str) -> None:
    body = config_map("l")
    body["metadata"]["finalizers"] = ["x.test/a", "x.test/b"]
    api.post(at("configmaps", namespace), body).ok["metadata"]
    path = at("configmaps", namespace, "l")
    operations = [
        {"op": "add", "path": "/metadata/finalizers/0", "value": "x.test/c"},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "x.test/d"},
        {"op": "remove", "path": "/metadata/finalizers/1"},
    ]
    changed = api.patch(path, operations, JSON_PATCH).ok["metadata"]
    assert changed["finalizers"] == ["x.test/c", "x.test/b", "x.test/d"]


@pytest.mark.parametrize(
    ("patch", "content"),
    [
        (b"{nope", JSON_PATCH),
        ({"op": "add"}, JSON_PATCH),
        (b"{nope", None),
        (b"[]", None),
        (b"{nope", STRATEGIC_PATCH),
        ({"metadata": {"name": "b"}}, None),
    ],
    ids=["json", "no list", "merge", "no object", "strategic", "another name"],
)
def test_patches_that_cannot_be_read(
    api: Api, settings: str, patch: object, content: str | None
) -> None:
    answer = api.patch(settings, patch, content) if content else api.patch(settings, patch)
    assert answer.refusal[:2] == (400, "BadRequest")


@pytest.mark.parametrize(
    ("patch", "data"),
    [
        ({"data": {"b": "2"}}, {"a": "1", "b": "2"}),
        ({"data": {"a": None, "b": "2"}}, {"b": "2"}),
        ({"data": None}, None),
        ({"data": {"no": None}}, {"a": "1"}),
        ({}, {"a": "1"}),
    ],
    ids=str,
)
def test_merge_patch(api: Api, settings: str, patch: Document, data: Document | None) -> None:
    assert api.patch(settings, patch).ok.get("data") == data


def test_a_merge_patch_replaces_lists(api: Api, namespace: str) -> None:
    api.post(at("deployments", namespace), deployment("d")).ok["metadata"]
    patch = {"spec": {"template": {"spec": {"containers": [container("other")]}}}}
    changed = api.patch(at("deployments", namespace, "d"), patch).ok
    assert names(changed) == ["other"]


@pytest.mark.parametrize("data", [[1], {"a": 7}, "text"], ids=str)
def test_a_merge_patch_to_the_wrong_type(api: Api, settings: str, data: object) -> None:
    code, reason, message = api.patch(settings, {"data": data}).refusal
    assert (code, reason) == (422, "Invalid")
    assert message.startswith(' "" is invalid: patch: Invalid value: ')
    assert "json: cannot unmarshal " in message


def test_a_patch_makes_nothing(api: Api, namespace: str) -> None:
    answer = api.patch(at("configmaps", namespace, "no"), {"data": {}}, STRATEGIC_PATCH)
    assert answer.refusal == (404, "NotFound", 'configmaps "no" not found')


# Strategic merge: lists of objects are merged by the key that the kind names.


def names(document: Document) -> list[str]:
    containers = document["spec"]["template"]["spec"]["containers"]
    return [one["name"] for one in containers]


def of_pods(**spec: Any) -> Document:
    return {"spec": {"template": {"spec": spec}}}


@pytest.fixture
def web(api: Api, namespace: str) -> str:
    """The path of a Deployment with the containers ``one`` and ``two``."""
    ports = [{"containerPort": 80}, {"containerPort": 81}]
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    containers = [container("one", ports=ports, env=env), container("two")]
    tolerations = [{"key": "a", "operator": "Exists"}]
    body = deployment("d", template=template("d", containers=containers, tolerations=tolerations))
    api.post(at("deployments", namespace), body).ok["metadata"]
    return at("deployments", namespace, "d")


def patched(api: Api, path: str, patch: Document) -> Document:
    return api.patch(path, patch, STRATEGIC_PATCH).ok


def test_containers_merge_by_name(api: Api, web: str) -> None:
    changed = patched(api, web, of_pods(containers=[{"name": "two", "image": "x:2"}]))
    one, two = changed["spec"]["template"]["spec"]["containers"]
    assert (one["name"], one["image"]) == ("one", "registry.test/app:1")
    assert (two["name"], two["image"]) == ("two", "x:2")


def test_a_new_container_goes_in_front(api: Api, web: str) -> None:
    changed = patched(api, web, of_pods(containers=[container("new")]))
    assert names(changed) == ["new", "one", "two"]


def test_a_container_is_deleted(api: Api, web: str) -> None:
    changed = patched(api, web, of_pods(containers=[{"name": "one", "$patch": "delete"}]))
    assert names(changed) == ["two"]


def test_all_containers_are_replaced(api: Api, web: str) -> None:
    patch = of_pods(containers=[container("only"), {"$patch": "replace"}])
    assert names(patched(api, web, patch)) == ["only"]


def test_a_map_is_replaced(api: Api, web: str) -> None:
    api.patch(web, {"metadata": {"labels": {"a": "1", "b": "2"}}}).ok["metadata"]
    labels = {"$patch": "replace", "c": "3"}
    changed = patched(api, web, {"metadata": {"labels": labels}})
    assert changed["metadata"]["labels"] == {"c": "3"}
    changed = patched(api, web, {"metadata": {"labels": {"$patch": "delete"}}})
    assert "labels" not in changed["metadata"]


def test_the_order_of_a_list(api: Api, web: str) -> None:
    patch = of_pods(
        **{
            "$setElementOrder/containers": [{"name": "two"}, {"name": "new"}, {"name": "one"}],
            "containers": [container("new")],
        }
    )
    assert names(patched(api, web, patch)) == ["two", "new", "one"]


def test_fields_kept_by_name(api: Api, web: str) -> None:
    patch = of_pods(containers=[{"name": "one", "$retainKeys": ["name", "image"]}])
    one = patched(api, web, patch)["spec"]["template"]["spec"]["containers"][0]
    assert not {"ports", "env"} & one.keys()


def test_lists_within_lists(api: Api, web: str) -> None:
    merged = {
        "name": "one",
        "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}],
        "ports": [{"containerPort": 81, "name": "second"}, {"containerPort": 82}],
    }
    one = patched(api, web, of_pods(containers=[merged]))["spec"]["template"]["spec"]["containers"][
        0
    ]
    assert {item["name"]: item["value"] for item in one["env"]} == {"A": "1", "B": "3", "C": "4"}
    ports = {item["containerPort"]: item.get("name") for item in one["ports"]}
    assert ports == {80: None, 81: "second", 82: None}


def test_tolerations_are_replaced(api: Api, web: str) -> None:
    tolerations = [{"key": "b", "operator": "Exists"}]
    changed = patched(api, web, of_pods(tolerations=tolerations))
    assert changed["spec"]["template"]["spec"]["tolerations"] == tolerations


def test_a_null_removes(api: Api, web: str) -> None:
    changed = patched(api, web, of_pods(tolerations=None, nodeSelector={"a": "b", "c": None}))
    spec = changed["spec"]["template"]["spec"]
    assert "tolerations" not in spec
    assert spec["nodeSelector"] == {"a": "b"}


def test_ports_of_a_service(api: Api, namespace: str) -> None:
    ports = [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]
    api.post(at("services", namespace), service("s", ports=ports)).ok["metadata"]
    patch = {
        "spec": {"ports": [{"port": 81, "targetPort": 8081}, {"port": 80, "$patch": "delete"}]}
    }
    (port,) = patched(api, at("services", namespace, "s"), patch)["spec"]["ports"]
    assert (port["port"], port["name"], port["targetPort"]) == (81, "b", 8081)


def test_values_of_a_list_are_added_and_deleted(api: Api, namespace: str) -> None:
    body = config_map("f")
    body["metadata"]["finalizers"] = ["x.test/a", "x.test/b"]
    api.post(at("configmaps", namespace), body).ok["metadata"]
    patch = {
        "metadata": {
            "finalizers": ["x.test/c"],
            "$deleteFromPrimitiveList/finalizers": ["x.test/a"],
            "$setElementOrder/finalizers": ["x.test/c", "x.test/b"],
        }
    }
    changed = patched(api, at("configmaps", namespace, "f"), patch)
    assert changed["metadata"]["finalizers"] == ["x.test/c", "x.test/b"]


def test_conditions_and_addresses_of_a_node(api: Api, namespace: str) -> None:
    name = f"node-{namespace}"
    api.post(at("nodes"), node(name)).ok["metadata"]
    path = at("nodes", "", name, "status")
    for kind, status in (("Ready", "False"), ("DiskPressure", "False"), ("Ready", "True")):
        patch = {"status": {"conditions": [{"type": kind, "status": status}]}}
        changed = patched(api, path, patch)
    conditions = {item["type"]: item["status"] for item in changed["status"]["conditions"]}
    assert conditions == {"Ready": "True", "DiskPressure": "False"}
    api.delete(at("nodes", name=name))


@pytest.mark.parametrize(
    ("containers", "message"),
    [
        ([{"image": "x"}], "map: map[image:x] does not contain declared merge key: name"),
        (
            [{"name": "one", "$patch": "nope"}],
            "unknown patch type: nope in map: map[$patch:nope name:one]",
        ),
    ],
)
def test_a_strategic_patch_that_cannot_be_merged(
    api: Api, web: str, containers: list[Document], message: str
) -> None:
    answer = api.patch(web, of_pods(containers=containers), STRATEGIC_PATCH)
    assert (answer.refusal[0], answer.refusal[2]) == (500, message)
