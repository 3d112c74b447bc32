# SPDX-License-Identifier: Apache-2.0
"""What ValidatingAdmissionPolicies go by besides the object: parameters, and rights."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.api import Answer, Api, Document, at
from tests.contract.documents import config_map, document
from tests.contract.extensions.policies import (
    BINDINGS,
    POLICIES,
    RULE,
    WAIT_SECONDS,
    Enforce,
    policy,
)

GROUP = "admissionregistration.k8s.io/v1"
RBAC = "rbac.authorization.k8s.io"
KIND = {"apiVersion": "v1", "kind": "ConfigMap"}
LIMIT = {
    "expression": "object.?data.?n.orValue('').size() <= int(params.data.limit)",
    "messageExpression": "'at most ' + params.data.limit + ' by ' + params.metadata.name",
}
_numbers = itertools.count(1)


def limits(name: str, limit: int, **labels: str) -> Document:
    return config_map(name, labels=labels, data={"limit": str(limit)})


def eventually(ask: Callable[[], Answer], *codes: int) -> Answer:
    """The answer once it has a code: a real server follows parameters and roles by a watch."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (answer := ask()).code not in codes:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.02)
    return answer


def make(api: Api, namespace: str, name: str, n: str) -> Answer:
    return api.post(at("configmaps", namespace), config_map(name, data={"n": n}), dryRun="All")


def test_a_parameter_by_name(api: Api, namespace: str, enforce: Enforce) -> None:
    api.post(at("configmaps", namespace), limits("limits", 2)).ok["data"]
    reference = {"name": "limits", "namespace": namespace, "parameterNotFoundAction": "Deny"}
    enforce(LIMIT, paramKind=KIND, param_ref=reference)
    answer = eventually(lambda: make(api, namespace, "a", "xxx"), 422)
    assert answer.refusal[2].endswith("denied request: at most 2 by limits")
    assert make(api, namespace, "a", "xx").code == 201
    path = at("configmaps", namespace, "limits")
    api.patch(path, {"data": {"limit": "3"}}).ok["data"]
    eventually(lambda: make(api, namespace, "a", "xxx"), 201)


def test_parameters_by_selector_in_the_namespace_of_the_object(
    api: Api, namespace: str, enforce: Enforce
) -> None:
    path = at("configmaps", namespace)
    for name, limit, team in (("one", 4, "a"), ("two", 2, "a"), ("three", 0, "b")):
        api.post(path, limits(name, limit, team=team)).ok["data"]
    selector = {"matchLabels": {"team": "a"}}
    reference = {"selector": selector, "parameterNotFoundAction": "Allow"}
    enforce(LIMIT, paramKind=KIND, param_ref=reference)
    answer = eventually(lambda: make(api, namespace, "a", "xxx"), 422)
    assert answer.refusal[2].endswith("at most 2 by two")
    assert make(api, namespace, "a", "xx").code == 201
    for name in ("one", "two"):
        api.delete(f"{path}/{name}").ok["kind"]
    # None is left, and nothing is asked.
    eventually(lambda: make(api, namespace, "probe", "xxxxx"), 201)


def test_parameters_that_are_not_there(api: Api, namespace: str, enforce: Enforce) -> None:
    reference = {"name": "nope", "namespace": namespace, "parameterNotFoundAction": "Deny"}
    name = enforce(LIMIT, paramKind=KIND, param_ref=reference, actions=("Warn",))
    told = "failed to configure binding: no params found for policy binding with `Deny` "
    answer = make(api, namespace, "a", "x")
    assert answer.refusal == (
        422, "Invalid", f'configmaps "a" is forbidden: ValidatingAdmissionPolicy \'{name}\' with '
        f"binding '{name}' denied request: {told}parameterNotFoundAction",
    )  # fmt: skip


def test_a_kind_of_parameters_that_is_not_served(
    api: Api, namespace: str, enforce: Enforce
) -> None:
    kind = {"apiVersion": "example.com/v1", "kind": "Nope"}
    reference = {"name": "a", "parameterNotFoundAction": "Allow"}
    # What cannot be configured refuses whatever the policy is for, bound there or not.
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    constraints = {"resourceRules": [RULE], "namespaceSelector": selector}
    name = enforce(LIMIT, paramKind=kind, param_ref=reference, matchConstraints=constraints)
    told = "failed to find resource referenced by paramKind: 'example.com/v1, Kind=Nope'"
    assert (
        make(api, namespace, "a", "x")
        .refusal[2]
        .endswith(
            f"ValidatingAdmissionPolicy '{name}' denied request: failed to configure policy: {told}"
        )
    )


def test_a_binding_without_parameters(api: Api, namespace: str, enforce: Enforce) -> None:
    enforce(
        {"expression": "params == null && object.metadata.name != 'a'", "message": "none"},
        paramKind=KIND, matchConditions=[{"name": "c", "expression": "params == null"}],
    )  # fmt: skip
    assert make(api, namespace, "a", "x").refusal[2].endswith("none")
    assert make(api, namespace, "b", "x").code == 201


@pytest.mark.parametrize(
    ("spec", "field", "reason"),
    [
        ({"paramKind": {"apiVersion": "v1", "kind": ""}}, "spec.paramKind.kind",
         "FieldValueRequired"),
        ({"paramKind": {"apiVersion": "a/b/c", "kind": "A"}}, "spec.paramKind.apiVersion",
         "FieldValueInvalid"),
        ({"variables": [{"name": "a", "expression": "params.x"}]}, "spec.variables[0].expression",
         "FieldValueInvalid"),
    ],
    ids=["kind", "version", "undeclared"],
)  # fmt: skip
def test_policies_that_may_not_be_stored(api: Api, spec: Document, field: str, reason: str) -> None:
    answer = api.post(at(POLICIES), policy("p", **spec), dryRun="All")
    assert answer.code == 422, answer.text
    assert (field, reason) in [cause[:2] for cause in answer.causes]


def test_messages_know_no_authorizer(api: Api) -> None:
    told = {
        "expression": "true",
        "messageExpression": "authorizer.path('/x').check('get').reason()",
    }
    answer = api.post(at(POLICIES), policy("p", told), dryRun="All")
    causes = [cause[:2] for cause in answer.causes]
    assert ("spec.validations[0].messageExpression", "FieldValueInvalid") in causes


@pytest.mark.parametrize(
    ("reference", "field", "reason"),
    [
        ({"parameterNotFoundAction": "Deny"}, "spec.paramRef", "FieldValueRequired"),
        ({"name": "a"}, "spec.paramRef.parameterNotFoundAction", "FieldValueRequired"),
        ({"name": "a", "parameterNotFoundAction": "No"}, "spec.paramRef.parameterNotFoundAction",
         "FieldValueNotSupported"),
        ({"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}, "spec.paramRef.name",
         "FieldValueForbidden"),
        ({"name": "a/b", "parameterNotFoundAction": "Deny"}, "spec.paramRef.name",
         "FieldValueInvalid"),
    ],
    ids=["nothing", "no action", "action", "both", "name"],
)  # fmt: skip
def test_bindings_that_may_not_be_stored(
    api: Api, reference: Document, field: str, reason: str
) -> None:
    answer = api.post(at(BINDINGS), binding(reference), dryRun="All")
    assert answer.code == 422, answer.text
    assert (field, reason) in [cause[:2] for cause in answer.causes]


def binding(reference: Document) -> Document:
    spec = {"policyName": "p", "validationActions": ["Deny"], "paramRef": reference}
    return document(GROUP, "ValidatingAdmissionPolicyBinding", "p", spec=spec)


@pytest.fixture
def user(api: Api, namespace: str) -> Any:
    """Somebody who may write ConfigMaps of the namespace, and policies."""
    name = f"param-user-{next(_numbers)}"
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get"]},
        {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]},
    ]
    subject = {"kind": "User", "name": name, "apiGroup": RBAC}
    paths = []
    for plural, kind, more in (
        ("clusterroles", "ClusterRole", {"rules": rules}),
        ("clusterrolebindings", "ClusterRoleBinding", {
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        }),
    ):  # fmt: skip
        path = at(f"{RBAC}/v1/{plural}")
        api.post(path, document(f"{RBAC}/v1", kind, name, **more)).ok["metadata"]
        paths.append(f"{path}/{name}")
    yield name
    for path in reversed(paths):
        api.delete(path)


def test_what_expressions_ask_of_rights(
    api: Api, namespace: str, enforce: Enforce, user: str
) -> None:
    check = "authorizer.group('').resource('configmaps').namespace(namespaceObject.metadata.name)"
    account = f"authorizer.serviceAccount('{namespace}', 'nobody')"
    told = (
        "string(variables.get.allowed()) + ' ' + string(variables.get.errored()) + ' ' + "
        "variables.get.reason()"
    )
    reason = f'RBAC: allowed by ClusterRoleBinding "{user}" of ClusterRole "{user}" to User'
    enforce(
        {"expression": f"variables.told == 'true false {reason} \"{user}\"'", "message": "told"},
        {"expression": f"{check}.name('x').check('get').allowed()", "message": "get"},
        {"expression": f"!{check}.check('delete').allowed()", "message": "delete"},
        {"expression": f"!{check}.subresource('status').check('get').allowed()", "message": "sub"},
        {"expression": "authorizer.requestResource.check('create').allowed()", "message": "own"},
        {"expression": "!authorizer.path('/metrics').check('get').allowed()", "message": "path"},
        {"expression": f"!{account}.group('').resource('configmaps').check('get').allowed()",
         "message": "account"},
        {"expression": "object.metadata.name != 'b' || authorizer.path(' ').check('get').errored()",
         "message": "never"},
        variables=[
            {"name": "get", "expression": f"{check}.check('get')"},
            {"name": "told", "expression": told},
        ],
        matchConditions=[
            {"name": "user", "expression": f"request.userInfo.username == '{user}' || "
             "object.metadata.name == 'probe'"},
        ],
    )  # fmt: skip

    def post(name: str) -> Answer:
        headers = {"Impersonate-User": user}
        path = at("configmaps", namespace)
        return api.post(path, config_map(name), headers=headers, dryRun="All")

    assert eventually(lambda: post("c"), 201).code == 201
    assert "path must not be empty" in post("b").refusal[2]


def test_who_writes_a_policy_may_read_its_parameters(api: Api, namespace: str, user: str) -> None:
    headers = {"Impersonate-User": user}

    def write(path: str, body: Document) -> Answer:
        return api.post(at(path), body, headers=headers, dryRun="All")

    eventually(lambda: write(POLICIES, policy("p", paramKind=KIND)), 201)
    answer = write(POLICIES, policy("p", paramKind={"apiVersion": "v1", "kind": "Secret"}))
    assert answer.code == 422
    assert ("spec.paramKind", "FieldValueForbidden") in [cause[:2] for cause in answer.causes]
    reference = {"name": "a", "parameterNotFoundAction": "Deny"}
    answer = write(BINDINGS, binding(reference))
    assert ("spec.paramRef", "FieldValueForbidden") in [cause[:2] for cause in answer.causes]


@pytest.mark.parametrize(
    "expression",
    [
        "'abc 123'.find('[0-9]*') == '' && 'abc 123'.find('[0-9]+') == '123'",
        "'123 abc 456'.findAll('[0-9]*') == ['123', '', '', '', '', '456']",
        "'123 abc 456'.findAll('[0-9]+', 1) == ['123'] && 'a'.findAll('a', 0) == []",
        "'aé€b'.findAll('[^a]') == ['é', '€', 'b'] && 'ab'.findAll('a*') == ['a', '']",
        "'xaay'.find('(a)(a)') == 'aa' && 'AbC'.findAll('(?i)[abc]', -1).join('') == 'AbC'",
    ],
)
def test_what_patterns_find(api: Api, namespace: str, enforce: Enforce, expression: str) -> None:
    enforce({"expression": expression})
    assert make(api, namespace, "a", "x").code == 201
