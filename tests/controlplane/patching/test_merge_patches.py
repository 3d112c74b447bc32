# SPDX-License-Identifier: Apache-2.0
"""JSON and JSON merge patches against plain models."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.controlplane.patching import MAX_OPERATIONS, json_patch, merge_patch
from koord.kube.errors import ApiError

SCALARS = st.one_of(st.booleans(), st.integers(-9, 9), st.text("ab/~", max_size=3))
KEYS = st.sampled_from(["a", "b", "c/d", "e~f"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)
PATCHES = st.dictionaries(
    KEYS,
    st.recursive(
        st.none() | SCALARS,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def rfc_7386(target: Any, patch: Any) -> Any:
    """The pseudocode of the RFC."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(target, dict):
        target = {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = rfc_7386(target.get(name), value)
    return target


def refusal(call: Any, *arguments: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        call(*arguments)
    return caught.value


@given(DOCUMENTS, PATCHES)
def test_a_merge_patch_does_what_the_rfc_says(document: Any, patch: Any) -> None:
    before = deepcopy(document)
    merged = merge_patch(document, encoded(patch))
    assert merged == rfc_7386(deepcopy(document), patch)
    assert document == before


@pytest.mark.parametrize("body", [b"[]", b"{", b"1", b"", b"null", b"\xff"])
def test_a_merge_patch_must_be_an_object(body: bytes) -> None:
    error = refusal(merge_patch, {}, body)
    assert (error.http_status, error.reason) == (400, "BadRequest")


def escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


@given(DOCUMENTS, KEYS, VALUES)
def test_json_patch_sets_tests_and_removes_members(document: Any, key: str, value: Any) -> None:
    before = deepcopy(document)
    path = f"/{escaped(key)}"
    for operation in ("add", "replace"):
        patch = [
            {"op": operation, "path": path, "value": value},
            {"op": "test", "path": path, "value": value},
        ]
        assert json_patch(document, encoded(patch)) == {**document, key: value}
    gone = {name: kept for name, kept in document.items() if name != key}
    absent = [{"op": "remove", "path": path}, {"op": "test", "path": path, "value": None}]
    if key in document:
        assert json_patch(document, encoded(absent)) == gone
    else:
        assert refusal(json_patch, document, encoded(absent)).http_status == 422
    assert document == before


@pytest.mark.parametrize(
    "patch",
    [
        [{"op": "test", "path": "/a", "value": "2"}],
        [{"op": "remove", "path": "/z"}],
        [{"op": "add", "path": "/x/y/z", "value": 1}],
        [{"op": "add", "path": "/list/5", "value": 1}],
        [{"op": "replace", "path": "/list/5", "value": 1}],
        [{"op": "move", "from": "/q", "path": "/a"}],
        [{"op": "copy", "from": "/q", "path": "/a"}],
        [{"op": "spin", "path": "/a"}],
        [{"path": "/a", "value": 1}],
        [{"op": "add", "path": "a", "value": 1}],
        [{"op": "add", "path": 1, "value": 1}],
        [{"op": "add", "path": "/a~2", "value": 1}],
        [{"op": "replace", "path": "", "value": []}],
    ],
)
def test_an_operation_that_does_not_apply_is_refused(patch: Any) -> None:
    error = refusal(json_patch, {"a": "1", "list": [0]}, encoded(patch))
    assert (error.http_status, error.reason) == (422, "Invalid")


def test_a_json_patch_is_bounded() -> None:
    operation = {"op": "test", "path": "/a", "value": 1}
    assert json_patch({"a": 1}, encoded([operation] * MAX_OPERATIONS)) == {"a": 1}
    error = refusal(json_patch, {"a": 1}, encoded([operation] * (MAX_OPERATIONS + 1)))
    assert (error.http_status, error.reason) == (413, "RequestEntityTooLarge")


@pytest.mark.parametrize("body", [b'{"op":"add"}', b"[", b"3", b"[1]"])
def test_a_json_patch_must_be_a_list_of_operations(body: bytes) -> None:
    error = refusal(json_patch, {}, body)
    assert (error.http_status, error.reason) == (400, "BadRequest")


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


def test_patches_are_not_nested_without_end() -> None:
    assert merge_patch({}, nested(190))
    for depth in (250, 5000):
        assert refusal(merge_patch, {}, nested(depth)).http_status == 400
    doubling = [{"op": "copy", "from": "/a", "path": f"/{'a/' * depth}a"} for depth in (150, 150)]
    assert refusal(json_patch, json.loads(nested(150)), encoded(doubling)).http_status == 422
    growing = [{"op": "copy", "from": "/a", "path": "/a/b"}] * 400
    assert refusal(json_patch, {"a": {}}, encoded(growing)).http_status == 422
