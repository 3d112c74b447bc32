# SPDX-License-Identifier: Apache-2.0
"""Fields that the server does not know, and writes that are only tried."""

from __future__ import annotations

import pytest

from tests.contract.api import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Api, Document, at
from tests.contract.documents import config_map, pod

REFUSED = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
TWICE = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"1"},"data":{}}'


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (config_map("a", nope=1), 'unknown field "nope"'),
        (TWICE, 'duplicate field "data"'),
    ],
    ids=["unknown", "twice"],
)
def test_a_field_that_is_unknown_or_twice(
    api: Api, namespace: str, body: Document | bytes, problem: str
) -> None:
    path = at("configmaps", namespace)
    strict = api.post(path, body, fieldValidation="Strict")
    assert strict.refusal == (400, "BadRequest", REFUSED + problem)
    for level, warnings in (("Warn", [problem]), ("Ignore", [])):
        answer = api.post(path, body, fieldValidation=level)
        assert (answer.code, answer.warnings) == (201, warnings)
        assert "nope" not in answer.document
        api.delete(f"{path}/a")
    assert api.post(path, body).warnings == [problem]


def test_all_unknown_fields_of_a_pod_are_named(api: Api, namespace: str) -> None:
    body = pod("a")
    body["spec"]["containers"][0]["imagee"] = "y"
    body["spec"]["nodname"] = "z"
    body["metadata"]["lbls"] = {}
    found = ["metadata.lbls", "spec.containers[0].imagee", "spec.nodname"]
    problems = [f'unknown field "{field}"' for field in found]
    code, _, message = api.post(at("pods", namespace), body, fieldValidation="Strict").refusal
    assert (code, message.split("strict decoding error: ")[1]) == (400, ", ".join(problems))
    answer = api.post(at("pods", namespace), body)
    assert (answer.code, answer.warnings) == (201, problems)


@pytest.mark.parametrize(
    ("content", "patch"),
    [
        (MERGE_PATCH, {"nope": {}}),
        (STRATEGIC_PATCH, {"nope": {}}),
        (JSON_PATCH, [{"op": "add", "path": "/nope", "value": {}}]),
    ],
)
def test_unknown_fields_in_patches(api: Api, namespace: str, content: str, patch: object) -> None:
    api.post(at("configmaps", namespace), config_map("a")).ok["metadata"]
    path = at("configmaps", namespace, "a")
    code, reason, message = api.patch(path, patch, content, fieldValidation="Strict").refusal
    assert (code, reason) == (422, "Invalid")
    assert message.endswith('strict decoding error: unknown field "nope"')
    answer = api.patch(path, patch, content, fieldValidation="Warn")
    assert (answer.code, answer.warnings) == (200, ['unknown field "nope"'])
    assert "nope" not in answer.document


def test_a_level_that_there_is_not(api: Api, namespace: str) -> None:
    answer = api.post(at("configmaps", namespace), config_map("a"), fieldValidation="Odd")
    why = 'Unsupported value: "Odd": supported values: "", "Ignore", "Strict", "Warn"'
    told = f'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: {why}'
    assert answer.refusal == (422, "Invalid", told)


def test_a_create_that_is_only_tried(api: Api, namespace: str) -> None:
    path = at("configmaps", namespace)
    answer = api.post(path, config_map("a", data={"k": "v"}), dryRun="All")
    assert (answer.code, answer.document["data"]) == (201, {"k": "v"})
    assert answer.document["metadata"]["uid"]
    assert "resourceVersion" not in answer.document["metadata"]
    assert api.get(f"{path}/a").code == 404
    refused = api.post(path, config_map("A"), dryRun="All")
    assert refused.refusal[:2] == (422, "Invalid")


def test_changes_that_are_only_tried(api: Api, namespace: str) -> None:
    path = at("configmaps", namespace, "a")
    made = api.post(at("configmaps", namespace), config_map("a", data={"k": "v"})).ok
    assert api.put(path, config_map("a", data={"k": "w"}), dryRun="All").ok["data"] == {"k": "w"}
    assert api.patch(path, {"data": {"l": "x"}}, dryRun="All").ok["data"] == {"k": "v", "l": "x"}
    assert api.delete(path, dryRun="All").code == 200
    assert api.delete(path, {"dryRun": ["All"]}).code == 200
    assert api.get(path).document == made
    taken = api.post(at("configmaps", namespace), config_map("a"), dryRun="All")
    assert taken.refusal[:2] == (409, "AlreadyExists")


def test_a_dry_run_of_another_kind(api: Api, namespace: str) -> None:
    answer = api.post(at("configmaps", namespace), config_map("a"), dryRun="Some")
    why = 'dryRun: Unsupported value: ["Some"]: supported values: "All"'
    assert answer.refusal == (422, "Invalid", f'CreateOptions.meta.k8s.io "" is invalid: {why}')
