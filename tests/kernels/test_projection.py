# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kernels.projection import Projection
from tests.models import projection as model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMES = st.sampled_from(["a", "b", "c", "é"])
TEXTS = st.text(st.sampled_from('ab"\\{}[],: \u00e9\n'), max_size=80)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=24,
)
PLANS = st.recursive(
    st.one_of(st.none(), NAMES),
    lambda inner: st.lists(inner, min_size=1, max_size=1) | st.dictionaries(NAMES, inner),
    max_leaves=8,
)


@given(PLANS, VALUES, st.booleans(), st.booleans())
def test_it_keeps_what_the_model_keeps(plan: Any, value: Any, ascii_: bool, loose: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_, indent=1 if loose else None).encode()
    found = Projection(plan).cut(text)
    if found is None:
        # The name of a member was written with escapes.
        assert ascii_
        assert b"\\u00e9" in text
    else:
        assert json.loads(found) == model.cut(plan, value)


@given(PLANS, VALUES, st.data())
def test_a_text_that_ends_too_early_is_not_followed(plan: Any, value: Any, data: Any) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()
    if text[:1] not in b'{["':
        return
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    assert Projection(plan).cut(cut) is None


def numbered(plan: Any, columns: Iterator[int], mark: Callable[[], bool]) -> Any:
    """The plan with some of its nodes marked, each with a column of its own."""
    below = plan
    if isinstance(plan, dict):
        below = {name: numbered(each, columns, mark) for name, each in plan.items()}
    elif isinstance(plan, list):
        below = [numbered(plan[0], columns, mark)]
    return (next(columns), below) if mark() else below


@given(PLANS, VALUES, st.data())
def test_it_finds_what_is_marked(plan: Any, value: Any, data: Any) -> None:
    plan = numbered(plan, itertools.count(), lambda: data.draw(st.booleans()))
    text = json.dumps(value, ensure_ascii=False).encode()
    wanted, found = model.marked(plan, value), Projection(plan).marked(text)
    if wanted is None:
        assert found is None
        return
    assert found is not None
    rows = [{at: json.loads(each) for at, each in enumerate(row) if each} for row in found]
    assert (rows or [{}]) == wanted


def test_what_is_there_twice_is_not_followed() -> None:
    plan = {"a": (0, None), "b": [{"c": (1, None)}]}
    assert Projection(plan).marked(b'{"b":[{"c":1},{}],"a":2}') == [
        [b"2", b""],
        [b"", b"1"],
        [b"", b""],
    ]
    assert Projection(plan).marked(b'{"a":1,"a":2}') is None


@pytest.mark.parametrize(
    "plan", [[], [None, None], {'"': None}, {"a": [7]}, (1024, None), (-1, None)]
)
def test_plans_that_cannot_be(plan: Any) -> None:
    with pytest.raises((ValueError, AttributeError, OverflowError)):
        Projection(plan)
