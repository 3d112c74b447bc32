# SPDX-License-Identifier: Apache-2.0
"""ValidatingAdmissionPolicies: expressions that refuse a write, or warn of it."""

from __future__ import annotations

import pytest

from tests.contract.api import Api, Document, at
from tests.contract.documents import config_map
from tests.contract.extensions.policies import POLICIES, RULE, Enforce, policy


def named(name: str) -> str:
    return f"ValidatingAdmissionPolicy '{name}' with binding '{name}'"


def test_a_policy_refuses(api: Api, namespace: str, enforce: Enforce) -> None:
    name = enforce(
        {"expression": "object.metadata.name != 'a'", "messageExpression": "'not ' + object.kind"},
        {"expression": "!has(object.data) || size(object.data) < 2", "reason": "Forbidden",
         "message": "too much"},
        {"expression": "request.operation == 'CREATE' || oldObject.data == object.data"},
    )  # fmt: skip
    path = at("configmaps", namespace)
    message = f"{named(name)} denied request: not ConfigMap"
    answer = api.post(path, config_map("a"))
    assert answer.refusal == (422, "Invalid", f'configmaps "a" is forbidden: {message}')
    assert answer.causes == [("", "", message)]
    answer = api.post(path, config_map("b", data={"x": "1", "y": "2"}))
    assert answer.refusal[:2] == (403, "Forbidden")
    api.post(path, config_map("b", data={"x": "1"})).ok["data"]
    answer = api.patch(f"{path}/b", {"data": {"x": "2"}})
    expression = "request.operation == 'CREATE' || oldObject.data == object.data"
    assert answer.refusal[2].endswith(f"denied request: failed expression: {expression}")


def test_a_policy_warns(api: Api, namespace: str, enforce: Enforce) -> None:
    name = enforce({"expression": "false", "message": "think of it"}, actions=("Warn", "Audit"))
    answer = api.post(at("configmaps", namespace), config_map("a"))
    assert answer.code == 201
    assert answer.warnings == [f"Validation failed for {named(name)}: think of it"]


def test_variables_and_the_namespace(api: Api, namespace: str, enforce: Enforce) -> None:
    enforce(
        {"expression": "variables.twice != 'aa' && namespaceObject.metadata.name.size() > 0",
         "messageExpression": "'twice ' + variables.twice"},
        variables=[
            {"name": "broken", "expression": "object.nope.nope"},
            {"name": "once", "expression": "object.metadata.name"},
            {"name": "twice", "expression": "variables.once + variables.once"},
        ],
    )  # fmt: skip
    path = at("configmaps", namespace)
    assert api.post(path, config_map("a")).refusal[2].endswith("twice aa")
    assert api.post(path, config_map("b")).code == 201


@pytest.mark.parametrize(("failure_policy", "code"), [("Fail", 422), ("Ignore", 201)])
def test_what_cannot_be_evaluated(
    api: Api, namespace: str, enforce: Enforce, failure_policy: str, code: int
) -> None:
    enforce({"expression": "object.data.missing == 'x'"}, failurePolicy=failure_policy)
    answer = api.post(at("configmaps", namespace), config_map("a", data={"x": "1"}))
    assert answer.code == code
    if code == 422:
        assert "no such key: missing" in answer.refusal[2]


def test_conditions_and_excluded_names(api: Api, namespace: str, enforce: Enforce) -> None:
    excluded = {**RULE, "resourceNames": ["spared"]}
    enforce(
        {"expression": "false"},
        matchConstraints={"resourceRules": [RULE], "excludeResourceRules": [excluded]},
        matchConditions=[{"name": "not-b", "expression": "object.metadata.name != 'b'"}],
    )
    path = at("configmaps", namespace)
    assert [api.post(path, config_map(name)).code for name in ("a", "b", "spared")] == [
        422, 201, 201,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "field", "reason"),
    [
        (policy("p", {"expression": "object."}), "spec.validations[0].expression",
         "FieldValueInvalid"),
        (policy("p", {"expression": "nope(object)"}), "spec.validations[0].expression",
         "FieldValueInvalid"),
        (policy("p", {"expression": "1"}), "spec.validations[0].expression", "FieldValueInvalid"),
        (policy("p", {"expression": "true", "reason": "Nope"}), "spec.validations[0].reason",
         "FieldValueNotSupported"),
        (policy("p", matchConstraints={}), "spec.matchConstraints.resourceRules",
         "FieldValueRequired"),
        (policy("p", variables=[{"name": "a b", "expression": "1"}]), "spec.variables[0].name",
         "FieldValueInvalid"),
        (policy("p", matchConditions=[{"name": "", "expression": "true"}]),
         "spec.matchConditions[0].name", "FieldValueRequired"),
    ],
    ids=["syntax", "function", "type", "reason", "rules", "variable", "condition"],
)  # fmt: skip
def test_policies_that_may_not_be_stored(api: Api, body: Document, field: str, reason: str) -> None:
    answer = api.post(at(POLICIES), body, dryRun="All")
    assert answer.code == 422, answer.text
    assert (field, reason) in [cause[:2] for cause in answer.causes]
