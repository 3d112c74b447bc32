# SPDX-License-Identifier: Apache-2.0
"""Strategic merge patches. Random ones against a real server: ``tests/contract``."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.patching.shapes import Field, Shape
from koord.controlplane.patching import strategic_merge_patch
from koord.controlplane.schema import core_schema, crd_schema
from koord.kube.errors import ApiError
from tests.contract.generated import AppliedDocuments, StrategicPatches
from tests.contract.recording import custom_definition

SCHEMA = core_schema("apps", "v1", "Deployment")
Document = dict[str, Any]


def patched(document: Document, patch: Any) -> Document:
    return strategic_merge_patch(document, json.dumps(patch).encode(), SCHEMA)


def refusal(document: Document, patch: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        patched(document, patch)
    return caught.value


def difference(old: Document, new: Document, shape: Shape) -> Document:
    """The plainest patch that makes one document of another."""
    patch: Document = {key: None for key in old if key not in new}
    for key, value in new.items():
        field = shape.fields.get(key) or Field(shape.element or shape)
        before = old.get(key)
        if before == value:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            patch[key] = difference(before, value, field.shape)
        elif isinstance(value, list) and isinstance(before, list) and "merge" in field.strategy:
            patch.update(list_difference(key, before, value, field))
        else:
            patch[key] = value
    return patch


def list_difference(key: str, old: list[Any], new: list[Any], field: Field) -> Document:
    name = field.merge_key
    order = f"$setElementOrder/{key}"
    if not name:
        gone = [item for item in old if item not in new]
        return {key: new, order: new, f"$deleteFromPrimitiveList/{key}": gone}
    assert field.shape.element is not None
    before = {item[name]: item for item in old}
    items = [
        {**difference(before.get(item[name], {}), item, field.shape.element), name: item[name]}
        for item in new
    ]
    kept = {item[name] for item in new}
    deleted = [{"$patch": "delete", name: each} for each in before if each not in kept]
    return {key: [*items, *deleted], order: [{name: item[name]} for item in new]}


@given(st.integers(0, 10**9))
def test_a_patch_made_of_two_documents_leads_from_one_to_the_other(seed: int) -> None:
    documents = AppliedDocuments(seed)
    old, new = documents.document(), documents.document()
    before = deepcopy(old)
    assert patched(old, difference(old, new, SCHEMA.shape)) == new
    assert old == before


@given(st.integers(0, 10**9))
def test_a_patch_neither_changes_its_input_nor_shares_parts_with_it(seed: int) -> None:
    old = AppliedDocuments(seed).document()
    before = deepcopy(old)
    try:
        result = patched(old, StrategicPatches(seed).patch())
    except ApiError:
        result = {}
    for part in parts(result):
        part.clear()
    assert old == before


def parts(value: Any) -> list[Any]:
    """All containers inside a value, innermost first."""
    if not isinstance(value, dict | list):
        return []
    inners = value.values() if isinstance(value, dict) else value
    return [part for inner in inners for part in parts(inner)] + [value]


@given(st.integers(0, 10**9))
def test_an_empty_patch_changes_nothing(seed: int) -> None:
    document = AppliedDocuments(seed).document()
    assert patched(document, {}) == document
    assert patched(document, None) == document


BASE: Document = {"metadata": {"finalizers": ["a/a", "a/b"], "labels": {"x": "1"}}}


@pytest.mark.parametrize(
    ("patch", "code", "told"),
    [
        ([], 400, "cannot unmarshal array"),
        ({"metadata": {"labels": {"$patch": "bad"}}}, 500, "unknown patch type: bad"),
        ({"metadata": {"$retainKeys": ["name"], "labels": {}}}, 400, "retainKeys"),
        ({"metadata": {"$setElementOrder/finalizers": ["a/a"], "finalizers": ["a/b"]}}, 500,
         "The order in patch list"),
        ({"metadata": {"$setElementOrder/finalizers": "x"}}, 500, "expected a slice"),
        ({"metadata": {"finalizers": [1]}}, 500, "not identical"),
    ],
)  # fmt: skip
def test_a_contradiction_is_refused_as_by_a_real_server(patch: Any, code: int, told: str) -> None:
    error = refusal(BASE, patch)
    assert error.http_status == code
    assert told in error.status.message


def test_items_without_their_key_are_refused() -> None:
    document = {"spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}}
    patch = {"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}}
    assert refusal(document, patch).http_status == 500


def test_custom_resources_have_no_merge_keys() -> None:
    with pytest.raises(ApiError) as caught:
        strategic_merge_patch({}, b"{}", crd_schema(custom_definition(), "v1"))
    assert caught.value.http_status == 415
