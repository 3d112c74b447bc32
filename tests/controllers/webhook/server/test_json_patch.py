# SPDX-License-Identifier: Apache-2.0
"""What a handler changed, as a patch: what it makes, and that it says no more than it must."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.webhook.server.json_patch import difference

KEYS = st.sampled_from(["a", "b", "c/d", "~", "~1", "", "é", "0"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "x", "1"]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=6)


def kinds(value: Any) -> Any:
    """The value with what tells ``1`` and ``true`` apart, which Python does not."""
    if isinstance(value, dict):
        return {key: kinds(each) for key, each in value.items()}
    if isinstance(value, list):
        return [kinds(each) for each in value]
    return (type(value).__name__, value)


@given(before=DOCUMENTS, after=DOCUMENTS)
def test_the_patch_makes_the_document(before: Any, after: Any) -> None:
    left, right = copy.deepcopy(before), copy.deepcopy(after)
    operations = difference(before, after)
    made = jsonpatch.apply_patch(before, operations)
    assert kinds(made) == kinds(right)
    assert (kinds(before), kinds(after)) == (kinds(left), kinds(right))


@given(before=DOCUMENTS, key=KEYS, value=VALUES)
def test_one_change_is_one_operation_there(before: Any, key: str, value: Any) -> None:
    after = {**copy.deepcopy(before), key: value}
    path = f"/{key.replace('~', '~0').replace('/', '~1')}"
    operations = difference(before, after)
    assert all(each["path"] == path or each["path"].startswith(f"{path}/") for each in operations)
    if key not in before:
        assert operations == [{"op": "add", "path": path, "value": value}]


@given(document=DOCUMENTS)
def test_what_is_the_same_needs_no_patch(document: Any) -> None:
    assert difference(document, copy.deepcopy(document)) == []


@pytest.mark.parametrize(
    ("before", "after", "operations"),
    [
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
        ({"a": [1, 2, 3]}, {"a": [1, 3]}, [{"op": "remove", "path": "/a/1"}]),
        ({"a": [1, 3]}, {"a": [1, 2, 3]}, [{"op": "add", "path": "/a/1", "value": 2}]),
        ({"a": [1]}, {"a": [1, 2]}, [{"op": "add", "path": "/a/1", "value": 2}]),
        ({"a": None}, {}, [{"op": "remove", "path": "/a"}]),
        (
            {"metadata": {"labels": {"koordinator.sh/x~y": "1"}}},
            {"metadata": {"labels": {"koordinator.sh/x~y": "2"}}},
            [{"op": "replace", "path": "/metadata/labels/koordinator.sh~1x~0y", "value": "2"}],
        ),
        (
            {"c": [{"n": 1, "r": {"cpu": "1"}}, {"n": 2}]},
            {"c": [{"n": 1, "r": {"batch": "1"}}, {"n": 2}]},
            [
                {"op": "remove", "path": "/c/0/r/cpu"},
                {"op": "add", "path": "/c/0/r/batch", "value": "1"},
            ],
        ),
    ],
)
def test_literal_patches(before: Any, after: Any, operations: Any) -> None:
    assert difference(before, after) == operations
