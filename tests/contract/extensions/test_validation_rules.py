# SPDX-License-Identifier: Apache-2.0
"""Rules of custom resources that are expressions: what they see, refuse, and say."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Api, Document, at
from tests.contract.conftest import Server, make_namespace
from tests.contract.documents import custom_definition, document
from tests.contract.extensions.test_crds import establish, fresh_group

INTEGER, STRING, NUMBER = {"type": "integer"}, {"type": "string"}, {"type": "number"}
RULES = "x-kubernetes-validations"
PART: Document = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {**STRING, "maxLength": 20}, "size": INTEGER},
    RULES: [{"rule": "!has(oldSelf.size) || self.size >= oldSelf.size", "message": "no shrinking"}],
}
SPEC: Document = {
    "type": "object",
    "properties": {
        "least": INTEGER,
        "most": INTEGER,
        "ratio": {**NUMBER, RULES: [{"rule": "self * 2.0 <= 3.0"}]},
        "fixed": {
            **STRING, "maxLength": 20,
            RULES: [{"rule": "self == oldSelf", "message": "may not change"}],
        },
        "once": {
            **INTEGER,
            RULES: [{"rule": "!oldSelf.hasValue() || oldSelf.value() <= self",
                     "optionalOldSelf": True, "message": "only grows"}],
        },
        "memory": {
            **STRING, "maxLength": 20,
            RULES: [{"rule": "isQuantity(self) && quantity(self).isGreaterThan(quantity('1Mi'))",
                     "messageExpression": "'too small: ' + self"}],
        },
        "tags": {
            "type": "array", "maxItems": 5, "items": {**STRING, "maxLength": 9},
            RULES: [{"rule": "self.all(t, t.startsWith('k-'))", "reason": "FieldValueForbidden"}],
        },
        "parts": {
            "type": "array", "maxItems": 5, "items": PART,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        },
        "labels": {
            "type": "object", "maxProperties": 4,
            "additionalProperties": {
                **STRING, "maxLength": 9, RULES: [{"rule": "self.size() > 1"}],
            },
        },
        "odd-name": {**INTEGER},
        "until": {**STRING, "format": "date-time"},
        "color": {**STRING, "enum": ["red", "green"]},
    },
    RULES: [
        {"rule": "!has(self.least) || !has(self.most) || self.least <= self.most",
         "message": "least above most", "fieldPath": ".least"},
        {"rule": "!has(self.odd__dash__name) || self.odd__dash__name > 0"},
        {"rule": "!has(self.until) || self.until > timestamp('2026-01-01T00:00:00Z')"},
    ],
}  # fmt: skip
ROOT_RULE = {"rule": "self.metadata.name.size() < 12", "message": "a name of over 11 characters"}


@pytest.fixture(scope="module")
def gadgets(server: Server) -> str:
    body = custom_definition(fresh_group(), "gadgets", "Gadget", {"spec": SPEC})
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema[RULES] = [ROOT_RULE]
    return establish(server.api, body)


@pytest.fixture(scope="module")
def place(server: Server) -> str:
    return make_namespace(server.api)


def gadget(plural: str, name: str, **spec: Any) -> Document:
    return document(plural.rpartition("/")[0], "Gadget", name, spec=spec)


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({"least": 1, "most": 2, "ratio": 1, "memory": "1Gi", "tags": ["k-a"], "odd-name": 1,
          "labels": {"a": "bc"}, "until": "2026-02-01T00:00:00Z", "fixed": "x", "once": 1}, []),
        ({"least": 3, "most": 2},
         [("spec.least", "FieldValueInvalid", "Invalid value: least above most")]),
        ({"ratio": 2},
         [("spec.ratio", "FieldValueInvalid", "Invalid value: 2: failed rule: self * 2.0 <= 3.0")]),
        ({"memory": "1Ki"},
         [("spec.memory", "FieldValueInvalid", 'Invalid value: "1Ki": too small: 1Ki')]),
        ({"tags": ["a"]},
         [("spec.tags", "FieldValueForbidden",
           "Forbidden: failed rule: self.all(t, t.startsWith('k-'))")]),
        ({"labels": {"a.b": "c"}},
         [("spec.labels[a.b]", "FieldValueInvalid",
           'Invalid value: "c": failed rule: self.size() > 1')]),
        ({"odd-name": 0},
         [("spec", "FieldValueInvalid", "Invalid value: failed rule: "
           "!has(self.odd__dash__name) || self.odd__dash__name > 0")]),
        ({"until": "2025-01-01T00:00:00Z"},
         [("spec", "FieldValueInvalid", "Invalid value: failed rule: "
           "!has(self.until) || self.until > timestamp('2026-01-01T00:00:00Z')")]),
        ({"parts": [{"name": "a", "size": 1}]}, []),
    ],
    ids=["fits", "field path", "number", "quantity", "reason", "map", "name", "date", "new item"],
)  # fmt: skip
def test_what_a_rule_refuses(
    api: Api, gadgets: str, place: str, spec: Document, causes: list[Any]
) -> None:
    answer = api.post(at(gadgets, place), gadget(gadgets, "g", **spec), dryRun="All")
    assert answer.code == (422 if causes else 201), answer.text
    assert not causes or answer.causes == causes


def test_a_rule_of_the_whole_object(api: Api, gadgets: str, place: str) -> None:
    answer = api.post(at(gadgets, place), gadget(gadgets, "a-name-too-long"), dryRun="All")
    told = "Invalid value: a name of over 11 characters"
    assert answer.causes == [("<nil>", "FieldValueInvalid", told)]


def test_rules_are_not_asked_of_what_does_not_fit(api: Api, gadgets: str, place: str) -> None:
    answer = api.post(at(gadgets, place), gadget(gadgets, "a-name-too-long", color="blue"))
    assert [(field, reason) for field, reason, _ in answer.causes] == [
        ("spec.color", "FieldValueNotSupported"),
        ("<nil>", "FieldValueInvalid"),
    ]
    assert "some validation rules were not checked" in answer.causes[1][2]


def test_rules_that_compare(api: Api, gadgets: str, namespace: str) -> None:
    parts = [{"name": "a", "size": 5}, {"name": "b", "size": 5}]
    body = gadget(gadgets, "compared", fixed="x", once=3, parts=parts)
    api.post(at(gadgets, namespace), body).ok["metadata"]
    path = at(gadgets, namespace, "compared")
    changed = {"fixed": "y", "once": 2, "parts": [{"name": "b", "size": 4}, {"name": "c"}]}
    # A real server looks at fields in the order of a map in Go, which is another each time.
    assert sorted(api.patch(path, {"spec": changed}).causes) == [
        ("spec.fixed", "FieldValueInvalid", 'Invalid value: "y": may not change'),
        ("spec.once", "FieldValueInvalid", "Invalid value: 2: only grows"),
        ("spec.parts[0]", "FieldValueInvalid", "Invalid value: no shrinking"),
    ]
    api.patch(path, {"spec": {"once": 4, "parts": [{"name": "b", "size": 6}]}}).ok["metadata"]
    # Where there was no value there is nothing to compare with.
    api.patch(path, {"spec": {"fixed": None}}).ok["metadata"]
    api.patch(path, {"spec": {"fixed": "z"}}).ok["metadata"]


def test_what_was_wrong_before_a_rule_came_may_stay(api: Api, place: str) -> None:
    group = fresh_group()
    body = custom_definition(group, "relics", "Relic", {"spec": {
        "type": "object", "properties": {"a": INTEGER, "b": INTEGER},
    }})  # fmt: skip
    plural = establish(api, body)
    api.post(at(plural, place), document(f"{group}/v1", "Relic", "r", spec={"a": 1})).ok["spec"]
    definition = at("customresourcedefinitions", name=f"relics.{group}")
    found = api.get(definition).ok
    schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["a"][RULES] = [{"rule": "self > 5"}]
    api.put(definition, found).ok["spec"]
    path = at(plural, place, "r")
    # The new schema takes its time to be in force.
    for _ in range(600):
        if api.patch(path, {"spec": {"a": 2}}, dryRun="All").code == 422:
            break
    assert api.patch(path, {"spec": {"a": 2}}, dryRun="All").code == 422
    assert api.patch(path, {"spec": {"b": 2}}).code == 200


@pytest.mark.parametrize(
    ("rule", "field", "reason"),
    [
        ({"rule": "self.nope("}, "rule", "FieldValueInvalid"),
        ({"rule": "nope(self)"}, "rule", "FieldValueInvalid"),
        ({"rule": "size(self)"}, "rule", "FieldValueInvalid"),
        ({"rule": " "}, "rule", "FieldValueRequired"),
        ({"rule": "true", "message": "a\nb"}, "message", "FieldValueInvalid"),
        ({"rule": "true\n&& true"}, "message", "FieldValueRequired"),
        ({"rule": "true", "reason": "Nope"}, "reason", "FieldValueNotSupported"),
        ({"rule": "true", "messageExpression": "1 +"}, "messageExpression", "FieldValueInvalid"),
        ({"rule": "true", "fieldPath": ".nope"}, "fieldPath", "FieldValueInvalid"),
    ],
)
def test_rules_that_may_not_be_stored(api: Api, rule: Document, field: str, reason: str) -> None:
    spec = {"type": "object", "properties": {"a": STRING}, RULES: [rule]}
    body = custom_definition(fresh_group(), "wrongs", "Wrong", {"spec": spec})
    answer = api.post(at("customresourcedefinitions"), body, dryRun="All")
    assert answer.code == 422, answer.text
    where = f"properties[spec].{RULES}[0].{field}"
    assert [(f.partition("openAPIV3Schema.")[2], r) for f, r, _ in answer.causes] == [
        (where, reason)
    ]
