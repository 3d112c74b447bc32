# SPDX-License-Identifier: Apache-2.0
"""Kinds that users define: served once established, checked, pruned, filled in."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from tests.contract.api import STRATEGIC_PATCH, Api, Document, at
from tests.contract.conftest import Server, make_namespace
from tests.contract.documents import custom_definition, document
from tests.contract.kinds.test_tables import TABLE

WAIT_SECONDS = 90.0
T = TypeVar("T")
_numbers = itertools.count(1)
STRING, INTEGER = {"type": "string"}, {"type": "integer"}
SPEC: Document = {
    "type": "object",
    "required": ["color"],
    "properties": {
        "color": {"type": "string", "enum": ["red", "green"]},
        "size": {"type": "integer", "minimum": 1, "maximum": 10, "default": 3},
        "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "replicas": INTEGER,
        "tags": {"type": "array", "maxItems": 2, "items": STRING},
        "parts": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": STRING, "weight": {"type": "integer", "default": 1}},
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "amount": {"x-kubernetes-int-or-string": True},
        "labels": {"type": "object", "additionalProperties": STRING},
        "note": {"type": "string", "nullable": True},
    },
}
STATUS: Document = {
    "type": "object",
    "properties": {"replicas": INTEGER, "selector": STRING, "phase": STRING},
}
SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}
COLUMNS = [
    {
        "name": "Color",
        "type": "string",
        "jsonPath": ".spec.color",
        "description": "What it looks like",
    },
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
    {"name": "Born", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


def establish(api: Api, body: Document) -> str:
    """Registers a CRD and waits until it is served; gives ``group/version/plural``."""
    api.post(at("customresourcedefinitions"), body).ok["metadata"]
    path = at("customresourcedefinitions", name=body["metadata"]["name"])
    spec = body["spec"]
    plural = f"{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        conditions = api.get(path).ok["status"].get("conditions") or []
        states = {item["type"]: item["status"] for item in conditions}
        if states.get("Established") == "True" and api.get(at(plural)).code == 200:
            return plural
        time.sleep(0.05)
    raise AssertionError(f"not established: {conditions}")


def fresh_group() -> str:
    return f"g{next(_numbers)}.contract.test"


@pytest.fixture(scope="module")
def widgets(server: Server) -> str:
    """A CRD with all that the tests of this module need."""
    version = {"subresources": {"status": {}, "scale": SCALE}, "additionalPrinterColumns": COLUMNS}
    body = custom_definition(
        fresh_group(), "widgets", "Widget", {"spec": SPEC, "status": STATUS}, version=version
    )
    body["spec"]["names"] |= {"shortNames": ["wd"], "categories": ["all", "toys"]}
    return establish(server.api, body)


@pytest.fixture(scope="module")
def place(server: Server) -> str:
    """A namespace for this module's objects."""
    return make_namespace(server.api)


def widget(plural: str, name: str = "w", **spec: Any) -> Document:
    group_version = plural.rpartition("/")[0]
    return document(group_version, "Widget", name, spec={"color": "red", **spec})


def test_a_definition_is_established(api: Api, widgets: str) -> None:
    group = widgets.split("/")[0]
    status = api.get(at("customresourcedefinitions", name=f"widgets.{group}")).ok["status"]
    states = {item["type"]: (item["status"], item["reason"]) for item in status["conditions"]}
    assert states == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert status["storedVersions"] == ["v1"]
    assert status["acceptedNames"]["shortNames"] == ["wd"]


def test_discovery_tells_of_it(api: Api, widgets: str) -> None:
    group = widgets.split("/")[0]
    found = {entry["name"]: entry for entry in api.get(f"/apis/{group}/v1").ok["resources"]}
    assert set(found) == {"widgets", "widgets/status", "widgets/scale"}
    one = found["widgets"]
    assert (one["kind"], one["singularName"], one["namespaced"]) == ("Widget", "widget", True)
    assert (one["shortNames"], one["categories"]) == (["wd"], ["all", "toys"])
    assert found["widgets/scale"]["kind"] == "Scale"
    assert group in [entry["name"] for entry in api.get("/apis").ok["groups"]]


def test_defaults_and_pruning(api: Api, widgets: str, namespace: str) -> None:
    body = widget(widgets, parts=[{"name": "a", "nope": 1}], nope={"x": 1}, free={"x": {"y": 1}})
    answer = api.post(at(widgets, namespace), body)
    assert answer.code == 201
    assert sorted(answer.warnings) == [
        'unknown field "spec.nope"',
        'unknown field "spec.parts[0].nope"',
    ]
    assert answer.document["spec"] == {
        "color": "red",
        "size": 3,
        "parts": [{"name": "a", "weight": 1}],
        "free": {"x": {"y": 1}},
    }
    assert answer.document["metadata"]["generation"] == 1
    assert api.get(at(widgets, namespace, "w")).document == answer.document


def test_unknown_fields_may_be_refused(api: Api, widgets: str, namespace: str) -> None:
    answer = api.post(at(widgets, namespace), widget(widgets, nope=1), fieldValidation="Strict")
    code, reason, message = answer.refusal
    assert (code, reason) == (400, "BadRequest")
    assert message.endswith('strict decoding error: unknown field "spec.nope"')


@pytest.mark.parametrize(
    ("spec", "field", "reason", "message"),
    [
        ({"color": None}, "spec.color", "FieldValueRequired", "Required value"),
        (
            {"color": "blue"},
            "spec.color",
            "FieldValueNotSupported",
            'Unsupported value: "blue": supported values: "red", "green"',
        ),
        (
            {"size": 0},
            "spec.size",
            "FieldValueInvalid",
            "Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (
            {"size": 11},
            "spec.size",
            "FieldValueInvalid",
            "Invalid value: 11: spec.size in body should be less than or equal to 10",
        ),
        (
            {"code": "A"},
            "spec.code",
            "FieldValueInvalid",
            "Invalid value: \"A\": spec.code in body should match '^[a-z]+$'",
        ),
        (
            {"code": "abcdef"},
            "spec.code",
            "FieldValueTooLong",
            "Too long: may not be more than 5 bytes",
        ),
        (
            {"tags": ["a", "b", "c"]},
            "spec.tags",
            "FieldValueTooMany",
            "Too many: 3: must have at most 2 items",
        ),
        (
            {"size": "three"},
            "spec.size",
            "FieldValueTypeInvalid",
            'Invalid value: "string": spec.size in body must be of type integer: "string"',
        ),
        (
            {"parts": [{"weight": 2}]},
            "spec.parts[0].name",
            "FieldValueRequired",
            "Required value",
        ),
        (
            {"parts": [{"name": "a"}, {"name": "a"}]},
            "spec.parts[1]",
            "FieldValueDuplicate",
            'Duplicate value: {"name":"a"}',
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_breaks_the_schema(
    api: Api, widgets: str, namespace: str, spec: Document, field: str, reason: str, message: str
) -> None:
    body = widget(widgets, **spec)
    body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
    answer = api.post(at(widgets, namespace), body)
    assert answer.refusal[:2] == (422, "Invalid")
    group = widgets.split("/")[0]
    assert answer.refusal[2].startswith(f'Widget.{group} "w" is invalid: ')
    assert (field, reason, message) in answer.causes
    assert answer.document["details"] | {"causes": []} == {
        "name": "w",
        "group": group,
        "kind": "Widget",
        "causes": [],
    }


def test_null_means_the_default_or_nothing(api: Api, widgets: str, namespace: str) -> None:
    spec = api.post(at(widgets, namespace), widget(widgets, size=None, note=None)).ok["spec"]
    assert spec == {"color": "red", "size": 3, "note": None}


@pytest.mark.parametrize("amount", [5, "50%"])
def test_an_integer_or_a_string(api: Api, widgets: str, namespace: str, amount: object) -> None:
    made = api.post(at(widgets, namespace), widget(widgets, amount=amount)).ok
    assert made["spec"]["amount"] == amount
    wrong = api.post(at(widgets, namespace), widget(widgets, "x", amount=1.5))
    assert wrong.refusal[:2] == (422, "Invalid")


def test_status_is_apart(api: Api, widgets: str, namespace: str) -> None:
    body = {**widget(widgets), "status": {"phase": "early"}}
    assert "status" not in api.post(at(widgets, namespace), body).ok
    path = at(widgets, namespace, "w")
    patch = {"status": {"phase": "done"}, "spec": {"color": "green"}}
    found = api.patch(f"{path}/status", patch).ok
    assert (found["status"], found["spec"]["color"]) == ({"phase": "done"}, "red")
    assert found["metadata"]["generation"] == 1
    changed = api.patch(path, patch | {"status": {"phase": "other"}}).ok
    assert (changed["status"], changed["spec"]["color"]) == ({"phase": "done"}, "green")
    assert changed["metadata"]["generation"] == 2


def test_scale(api: Api, widgets: str, namespace: str) -> None:
    api.post(at(widgets, namespace), widget(widgets, replicas=2)).ok["metadata"]
    path = at(widgets, namespace, "w")
    api.patch(f"{path}/status", {"status": {"replicas": 1, "selector": "a=b"}}).ok["metadata"]
    found = api.get(f"{path}/scale").ok
    assert (found["kind"], found["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (found["spec"], found["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "a=b"})
    assert api.patch(f"{path}/scale", {"spec": {"replicas": 5}}).ok["spec"] == {"replicas": 5}
    assert api.get(path).ok["spec"]["replicas"] == 5


def test_columns(api: Api, widgets: str, namespace: str) -> None:
    api.post(at(widgets, namespace), widget(widgets)).ok["metadata"]
    table = api.get(at(widgets, namespace), accept=TABLE).ok
    found = [(c["name"], c["type"], c["priority"]) for c in table["columnDefinitions"]]
    assert found == [("Name", "string", 0), ("Color", "string", 0), ("Size", "integer", 1),
                     ("Born", "date", 0)]  # fmt: skip
    cells = table["rows"][0]["cells"]
    assert cells[:3] == ["w", "red", 3]
    assert cells[3] in {"0s", "1s", "2s"}


def test_apply_keeps_items_apart(api: Api, widgets: str, namespace: str) -> None:
    path = at(widgets, namespace, "w")
    for manager, name in (("one", "a"), ("two", "b")):
        found = api.apply(path, widget(widgets, parts=[{"name": name}]), manager).ok
    assert [part["name"] for part in found["spec"]["parts"]] == ["a", "b"]
    owned = {entry["manager"]: entry["fieldsV1"]["f:spec"] for entry in
             found["metadata"]["managedFields"]}  # fmt: skip
    assert 'k:{"name":"b"}' in owned["two"]["f:parts"]
    answer = api.apply(path, widget(widgets, color="green"), "one")
    assert answer.refusal[:2] == (409, "Conflict")


def test_strategic_merge_is_for_built_in_kinds(api: Api, widgets: str, namespace: str) -> None:
    api.post(at(widgets, namespace), widget(widgets)).ok["metadata"]
    answer = api.patch(at(widgets, namespace, "w"), {"spec": {}}, STRATEGIC_PATCH)
    assert answer.refusal[:2] == (415, "UnsupportedMediaType")
    found = api.patch(at(widgets, namespace, "w"), {"spec": {"size": 5}}).ok
    assert found["spec"]["size"] == 5


def test_watch_and_selectors(api: Api, widgets: str, namespace: str) -> None:
    path = at(widgets, namespace)
    body = widget(widgets)
    body["metadata"]["labels"] = {"k": "v"}
    start = api.post(path, body).ok["metadata"]["resourceVersion"]
    assert len(api.get(path, labelSelector="k=v").ok["items"]) == 1
    assert len(api.get(path, fieldSelector="metadata.name=w").ok["items"]) == 1
    refused = api.get(path, fieldSelector="spec.color=red").refusal
    assert (refused[0], "field label not supported: spec.color" in refused[2]) == (400, True)
    with api.watch(path, resourceVersion=start) as watch:
        api.patch(f"{path}/w", {"spec": {"size": 4}}).ok["metadata"]
        api.delete(f"{path}/w")
        assert watch.named(2) == [("MODIFIED", "w"), ("DELETED", "w")]


def test_an_update_needs_a_version(api: Api, widgets: str, namespace: str) -> None:
    api.post(at(widgets, namespace), widget(widgets)).ok["metadata"]
    answer = api.put(at(widgets, namespace, "w"), widget(widgets))
    group = widgets.split("/")[0]
    why = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    message = f'widgets.{group} "w" is invalid: {why}'
    assert answer.refusal == (422, "Invalid", message)


def test_a_body_of_another_kind(api: Api, widgets: str, namespace: str) -> None:
    body = widget(widgets) | {"kind": "Gadget"}
    answer = api.post(at(widgets, namespace), body)
    assert answer.refusal[:2] == (422, "Invalid")
    assert answer.causes[0][:2] == ("kind", "FieldValueInvalid")


def test_two_versions_of_one_object(api: Api, namespace: str) -> None:
    """Without a conversion webhook only the apiVersion changes."""
    group = fresh_group()
    body = custom_definition(group, "gears", "Gear", {"spec": {"type": "object",
        "properties": {"a": STRING}}})  # fmt: skip
    old = {**body["spec"]["versions"][0], "name": "v1alpha1", "storage": False, "deprecated": True}
    body["spec"]["versions"].append(old)
    establish(api, body)
    made = api.post(
        at(f"{group}/v1/gears", namespace), document(f"{group}/v1", "Gear", "g", spec={"a": "b"})
    ).ok
    answer = api.get(at(f"{group}/v1alpha1/gears", namespace, "g"))
    assert answer.ok == {**made, "apiVersion": f"{group}/v1alpha1",
        "metadata": answer.document["metadata"]}  # fmt: skip
    assert answer.document["metadata"]["uid"] == made["metadata"]["uid"]
    assert answer.warnings == [f"{group}/v1alpha1 Gear is deprecated; use {group}/v1 Gear"]
    versions = [entry["version"] for entry in api.get(f"/apis/{group}").ok["versions"]]
    assert versions == ["v1", "v1alpha1"]


def test_a_cluster_wide_kind(api: Api) -> None:
    group = fresh_group()
    body = custom_definition(group, "worlds", "World", {}, scope="Cluster")
    plural = establish(api, body)
    made = api.post(at(plural), document(f"{group}/v1", "World", "w")).ok
    assert "namespace" not in made["metadata"]


def test_a_changed_schema_holds_for_what_comes(api: Api, namespace: str) -> None:
    group = fresh_group()
    schema = {"spec": {"type": "object", "properties": {"a": STRING}}}
    plural = establish(api, custom_definition(group, "cogs", "Cog", schema))
    body = document(f"{group}/v1", "Cog", "c", spec={"a": "b", "late": 7})
    assert api.post(at(plural, namespace), body).ok["spec"] == {"a": "b"}
    path = at("customresourcedefinitions", name=f"cogs.{group}")
    definition = api.get(path).ok
    version = definition["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["late"] = INTEGER
    api.put(path, definition).ok["metadata"]
    deadline = time.monotonic() + WAIT_SECONDS
    late: object = None
    while late != 7:
        assert time.monotonic() < deadline
        api.delete(at(plural, namespace, "c"))
        late = api.post(at(plural, namespace), body).ok["spec"].get("late")


def test_a_definition_that_goes_takes_its_objects_along(api: Api, namespace: str) -> None:
    group = fresh_group()
    plural = establish(api, custom_definition(group, "bolts", "Bolt", {}))
    api.post(at(plural, namespace), document(f"{group}/v1", "Bolt", "b")).ok["metadata"]
    path = at("customresourcedefinitions", name=f"bolts.{group}")
    api.delete(path)
    deadline = time.monotonic() + WAIT_SECONDS
    while api.get(path).code != 404 or api.get(at(plural)).code != 404:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def conditions_of(api: Api, path: str) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition of a definition."""
    found = api.get(path).ok["status"].get("conditions") or []
    return {item["type"]: (item["status"], item["reason"]) for item in found}


def until(look: Callable[[], T], wanted: Callable[[T], bool]) -> T:
    """What a look gives once it is as wanted."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not wanted(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def test_a_name_is_given_once(api: Api) -> None:
    group = fresh_group()
    establish(api, custom_definition(group, "firsts", "First", {}))
    second = custom_definition(group, "seconds", "Second", {})
    second["spec"]["names"]["shortNames"] = ["first"]
    api.post(at("customresourcedefinitions"), second).ok["metadata"]
    path = at("customresourcedefinitions", name=f"seconds.{group}")
    states = until(lambda: conditions_of(api, path), lambda found: "Established" in found)
    assert states["NamesAccepted"] == ("False", "ShortNamesConflict")
    assert states["Established"] == ("False", "NotAccepted")
    status = api.get(path).ok["status"]
    assert status["conditions"][0]["message"] == '"first" is already in use'
    assert status["acceptedNames"]["kind"] == "Second"
    assert "shortNames" not in status["acceptedNames"]
    assert api.get(at(f"{group}/v1/seconds")).code == 404
    api.delete(at("customresourcedefinitions", name=f"firsts.{group}")).ok["metadata"]
    until(lambda: conditions_of(api, path), lambda found: found["Established"][0] == "True")
    until(lambda: api.get(at(f"{group}/v1/seconds")).code, lambda code: code == 200)


def test_instances_go_before_their_definition(api: Api, namespace: str) -> None:
    group = fresh_group()
    plural = establish(api, custom_definition(group, "things", "Thing", {}))
    body = document(f"{group}/v1", "Thing", "held")
    body["metadata"]["finalizers"] = ["x.test/hold"]
    until(lambda: api.post(at(plural, namespace), body).code, lambda code: code in (201, 409))
    path = at("customresourcedefinitions", name=f"things.{group}")
    marked = api.delete(path).ok
    assert marked["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert marked["status"]["conditions"][-1]["reason"] == "InstanceDeletionPending"
    held = at(plural, namespace, "held")
    until(
        lambda: api.get(held).ok["metadata"], lambda found: found.get("deletionTimestamp", "") != ""
    )
    states = until(
        lambda: conditions_of(api, path),
        lambda found: found["Terminating"][1] == "InstanceDeletionInProgress",
    )
    assert states["Established"][0] == "True"
    refused = api.post(at(plural, namespace), document(f"{group}/v1", "Thing", "late"))
    why = "create not allowed while custom resource definition is terminating"
    assert refused.refusal == (403, "Forbidden", f'things.{group} "late" is forbidden: {why}')
    api.patch(held, {"metadata": {"finalizers": None}}).ok["metadata"]
    until(lambda: api.get(path).code, lambda code: code == 404)


@pytest.mark.parametrize(
    ("schema", "field", "message"),
    [
        (
            {"spec": {"properties": {}}},
            "spec.validation.openAPIV3Schema.properties[spec].type",
            "Required value: must not be empty for specified object fields",
        ),
        (
            {"spec": {"type": "array"}},
            "spec.validation.openAPIV3Schema.properties[spec].items",
            "Required value: must be specified",
        ),
    ],
)
def test_a_schema_must_be_structural(api: Api, schema: Document, field: str, message: str) -> None:
    answer = api.post(
        at("customresourcedefinitions"), custom_definition(fresh_group(), "odds", "Odd", schema)
    )
    assert answer.refusal[:2] == (422, "Invalid")
    assert (field, message) in [(told, why) for told, _, why in answer.causes]
