# SPDX-License-Identifier: Apache-2.0
"""Server-side apply: who owns which field, what happens when two want the same one."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.contract.api import APPLY_PATCH, STRATEGIC_PATCH, Api, Document, at
from tests.contract.documents import config_map, container, deployment, document, service


@pytest.fixture
def path(namespace: str) -> str:
    """Where the tests' config map will be."""
    return at("configmaps", namespace, "a")


def settings(**data: str) -> Document:
    return config_map("a", data=data)


def owned(found: Document) -> dict[tuple[str, str], Document]:
    """Fields by manager and operation."""
    entries = found["metadata"]["managedFields"]
    return {(entry["manager"], entry["operation"]): entry["fieldsV1"] for entry in entries}


def data(*names: str) -> Document:
    return {"f:data": {f"f:{name}": {} for name in names}}


def test_apply_makes_what_is_not_there(api: Api, path: str) -> None:
    answer = api.apply(path, settings(a="1", b="2"), "one")
    assert answer.code == 201
    assert answer.document["data"] == {"a": "1", "b": "2"}
    (entry,) = answer.document["metadata"]["managedFields"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry.pop("time"))
    assert entry == {
        "manager": "one",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": data("a", "b"),
    }


def test_the_same_again_changes_nothing(api: Api, path: str) -> None:
    first = api.apply(path, settings(a="1"), "one").ok
    again = api.apply(path, settings(a="1"), "one")
    assert (again.code, again.document) == (200, first)


def test_a_field_no_longer_applied_goes(api: Api, path: str) -> None:
    api.apply(path, settings(a="1", b="2"), "one").ok["metadata"]
    found = api.apply(path, settings(b="2"), "one").ok
    assert found["data"] == {"b": "2"}
    assert owned(found) == {("one", "Apply"): data("b")}


def test_a_field_of_two_stays_until_both_drop_it(api: Api, path: str) -> None:
    api.apply(path, settings(a="1"), "one").ok["metadata"]
    shared = api.apply(path, settings(a="1", b="2"), "two").ok
    assert owned(shared) == {("one", "Apply"): data("a"), ("two", "Apply"): data("a", "b")}
    kept = api.apply(path, config_map("a"), "one").ok
    assert kept["data"] == {"a": "1", "b": "2"}
    assert set(owned(kept)) == {("two", "Apply")}
    assert api.apply(path, settings(b="2"), "two").ok["data"] == {"b": "2"}


def test_another_value_is_a_conflict(api: Api, path: str) -> None:
    api.apply(path, settings(a="1", b="2"), "one").ok["metadata"]
    answer = api.apply(path, settings(a="2"), "two")
    message = 'Apply failed with 1 conflict: conflict with "one": .data.a'
    assert answer.refusal == (409, "Conflict", message)
    assert answer.causes == [(".data.a", "FieldManagerConflict", 'conflict with "one"')]
    answer = api.apply(path, settings(a="2", b="3"), "two")
    message = 'Apply failed with 2 conflicts: conflicts with "one":\n- .data.a\n- .data.b'
    assert answer.refusal == (409, "Conflict", message)


def test_force_takes_the_field(api: Api, path: str) -> None:
    api.apply(path, settings(a="1", b="2"), "one").ok["metadata"]
    found = api.apply(path, settings(a="2"), "two", force=True).ok
    assert found["data"] == {"a": "2", "b": "2"}
    assert owned(found) == {("one", "Apply"): data("b"), ("two", "Apply"): data("a")}
    # What it no longer owns, the first may leave out without removing it.
    assert api.apply(path, settings(b="2"), "one").ok["data"] == {"a": "2", "b": "2"}


def test_an_update_takes_what_it_changes(api: Api, path: str) -> None:
    api.apply(path, settings(a="1", b="2"), "one").ok["metadata"]
    found = api.patch(path, {"data": {"a": "9"}}, fieldManager="editor").ok
    assert owned(found) == {("one", "Apply"): data("b"), ("editor", "Update"): data("a")}
    answer = api.apply(path, settings(a="1", b="2"), "one")
    message = 'Apply failed with 1 conflict: conflict with "editor" using v1: .data.a'
    assert answer.refusal == (409, "Conflict", message)


def test_the_manager_comes_from_the_user_agent(api: Api, path: str) -> None:
    api.apply(path, settings(a="1"), "one").ok["metadata"]
    found = api.patch(path, {"data": {"b": "9"}}, headers={"User-Agent": "tool/v1.2 (linux)"}).ok
    assert ("tool", "Update") in owned(found)


def test_apply_over_what_was_created(api: Api, namespace: str, path: str) -> None:
    api.post(at("configmaps", namespace), settings(a="1"), fieldManager="maker").ok["metadata"]
    answer = api.apply(path, settings(a="2"), "one")
    assert answer.refusal[:2] == (409, "Conflict")
    found = api.apply(path, settings(a="1", b="2"), "one").ok
    assert owned(found)["one", "Apply"] == data("a", "b")


def test_dry_run(api: Api, path: str) -> None:
    assert api.apply(path, settings(a="1"), dryRun="All").code == 201
    assert api.get(path).code == 404


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (config_map("other"), 400, "the name of the object (other) does not match the name on the "
         "URL (a)"),
        ({"kind": "ConfigMap", "metadata": {"name": "a"}}, 400,
         "invalid object type: /, Kind=ConfigMap"),
        ({**config_map("a"), "metadata": {"name": "a", "managedFields": [{}]}}, 400,
         "metadata.managedFields must be nil"),
        (config_map("a", nope=1), 500, "failed to create typed patch object (/a; /v1, "
         "Kind=ConfigMap): .nope: field not declared in schema"),
    ],
    ids=["another name", "no version", "managed fields", "unknown field"],
)  # fmt: skip
def test_what_cannot_be_applied(
    api: Api, path: str, body: Document, code: int, message: str
) -> None:
    answer = api.apply(path, body)
    assert (answer.refusal[0], answer.refusal[2].replace(path.split("/")[4], "")) == (code, message)


def test_a_manager_is_needed(api: Api, path: str) -> None:
    answer = api.patch(path, settings(a="1"), APPLY_PATCH)
    message = (
        'PatchOptions.meta.k8s.io "" is invalid: '
        "fieldManager: Required value: is required for apply patch"
    )
    assert answer.refusal == (422, "Invalid", message)


def test_force_is_for_apply_alone(api: Api, namespace: str, path: str) -> None:
    api.post(at("configmaps", namespace), settings(a="1")).ok["metadata"]
    code, reason, message = api.patch(path, {}, force="true").refusal
    assert (code, reason) == (422, "Invalid")
    assert "force: Forbidden: may not be specified for non-apply patch" in message


def test_yaml_can_be_applied(api: Api, path: str) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: '1'}\n"
    assert api.apply(path, body).ok["data"] == {"a": "1"}


def test_an_apply_for_a_version(api: Api, path: str) -> None:
    """A resourceVersion in the document is a precondition."""
    api.apply(path, settings(a="1"), "one").ok["metadata"]
    body = settings(a="2")
    body["metadata"]["resourceVersion"] = "1"
    assert api.apply(path, body, "one").refusal[:2] == (409, "Conflict")


# Lists with keys, in which items are owned one by one.


@pytest.fixture
def web(api: Api, namespace: str) -> str:
    """The path of a Deployment that ``one`` applied."""
    path = at("deployments", namespace, "d")
    assert api.apply(path, deployment("d"), "one").code == 201
    return path


def partial(**pod_spec: Any) -> Document:
    return document("apps/v1", "Deployment", "d", spec={"template": {"spec": pod_spec}})


def containers(found: Document) -> dict[str, str]:
    return {one["name"]: one["image"] for one in found["spec"]["template"]["spec"]["containers"]}


def test_managed_fields_of_a_list_with_keys(api: Api, web: str) -> None:
    found = api.get(web).ok
    spec = owned(found)["one", "Apply"]["f:spec"]
    assert spec["f:selector"] == {}
    assert spec["f:template"]["f:spec"] == {
        "f:containers": {'k:{"name":"main"}': {".": {}, "f:name": {}, "f:image": {}}}
    }
    # Defaults belong to nobody.
    assert "f:replicas" not in spec


def test_each_applies_a_container_of_its_own(api: Api, web: str) -> None:
    found = api.apply(web, partial(containers=[container("side", image="x:1")]), "two").ok
    assert containers(found) == {"main": "registry.test/app:1", "side": "x:1"}
    gone = api.apply(web, document("apps/v1", "Deployment", "d"), "two").ok
    assert containers(gone) == {"main": "registry.test/app:1"}


def test_a_conflict_names_the_item(api: Api, web: str) -> None:
    answer = api.apply(web, partial(containers=[container(image="x:2")]), "two")
    where = '.spec.template.spec.containers[name="main"].image'
    assert answer.causes == [(where, "FieldManagerConflict", 'conflict with "one"')]


def test_ports_have_two_keys(api: Api, web: str) -> None:
    for manager, port in (("two", 80), ("three", 81)):
        item = {"name": "main", "ports": [{"containerPort": port, "protocol": "TCP"}]}
        found = api.apply(web, partial(containers=[item]), manager).ok
    (one,) = found["spec"]["template"]["spec"]["containers"]
    assert sorted(port["containerPort"] for port in one["ports"]) == [80, 81]
    key = json.dumps({"containerPort": 81, "protocol": "TCP"}, separators=(",", ":"))
    item = owned(found)["three", "Apply"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert f"k:{key}" in item['k:{"name":"main"}']["f:ports"]


def test_a_key_may_come_from_a_default(api: Api, namespace: str) -> None:
    path = at("services", namespace, "s")
    found = api.apply(path, service("s"), "one").ok
    ports = owned(found)["one", "Apply"]["f:spec"]["f:ports"]
    assert list(ports) == ['k:{"port":80,"protocol":"TCP"}']


def test_items_of_a_set(api: Api, path: str) -> None:
    for manager, name in (("one", "x.test/a"), ("two", "x.test/b")):
        found = api.apply(path, config_map("a", finalizers=[name]), manager).ok
    assert sorted(found["metadata"]["finalizers"]) == ["x.test/a", "x.test/b"]
    assert owned(found)["two", "Apply"]["f:metadata"]["f:finalizers"] == {'v:"x.test/b"': {}}
    left = api.apply(path, config_map("a"), "one").ok
    assert left["metadata"]["finalizers"] == ["x.test/b"]


def test_an_item_twice(api: Api, web: str) -> None:
    code, _, message = api.apply(web, partial(containers=[container(), container()]), "two").refusal
    assert code == 500
    assert 'duplicate entries for key [name="main"]' in message


def test_scale_belongs_to_who_scales(api: Api, web: str) -> None:
    api.patch(web, {"spec": {"replicas": 3}}, fieldManager="scaler").ok["metadata"]
    found = api.apply(web, deployment("d"), "one").ok
    assert found["spec"]["replicas"] == 3
    answer = api.apply(web, deployment("d", replicas=4), "one")
    message = 'Apply failed with 1 conflict: conflict with "scaler" using apps/v1: .spec.replicas'
    assert answer.refusal == (409, "Conflict", message)


def test_a_conflict_names_the_subresource(api: Api, web: str) -> None:
    api.apply(web, deployment("d", replicas=1), "one").ok["metadata"]
    api.patch(f"{web}/scale", {"spec": {"replicas": 3}}, fieldManager="scaler").ok["metadata"]
    answer = api.apply(web, deployment("d", replicas=4), "one")
    message = (
        'Apply failed with 1 conflict: conflict with "scaler" with subresource "scale" using '
        "apps/v1: .spec.replicas"
    )
    assert answer.refusal == (409, "Conflict", message)


def test_status_is_applied_on_its_own(api: Api, web: str) -> None:
    status = document("apps/v1", "Deployment", "d", status={"observedGeneration": 1})
    found = api.apply(f"{web}/status", status, "controller").ok
    assert found["status"] == {"observedGeneration": 1}
    entries = found["metadata"]["managedFields"]
    (entry,) = (entry for entry in entries if entry["manager"] == "controller")
    assert entry["subresource"] == "status"
    body = deployment("d", replicas=7)
    body["status"] = {"observedGeneration": 9}
    assert api.apply(web, body, "one").ok["status"] == {"observedGeneration": 1}


def test_ownership_may_be_forgotten(api: Api, path: str) -> None:
    api.apply(path, settings(a="1"), "one").ok["metadata"]
    found = api.patch(path, {"metadata": {"managedFields": [{}]}}, STRATEGIC_PATCH).ok
    assert "managedFields" not in found["metadata"]
