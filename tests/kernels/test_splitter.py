# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kernels.splitter import SplitObject, Splitter
from tests.models import splitter as model

NAMES = ["a", "b", "ab", "", "{", "é"]
TEXTS = st.text(st.sampled_from('ab"\\{}[],: \u00e9\n'), max_size=80) | st.text()
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS,
        st.just(10**400), st.just(-1.5e-300),
    ),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(NAMES) | TEXTS, inner, max_size=5),
    max_leaves=24,
)  # fmt: skip
SETS = st.sets(st.sampled_from(NAMES))


@st.composite
def json_texts(draw: st.DrawFn) -> str:
    """Any JSON: with spaces and escapes, and names that stand twice."""
    if draw(st.booleans()):
        members = draw(st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=5))
        inner = [f"{json.dumps(name)}:{json.dumps(value)}" for name, value in members]
        return f"{{{','.join(inner)}}}"
    separators = draw(st.sampled_from([(",", ":"), (", ", ":"), (",", ": ")]))
    return json.dumps(draw(VALUES), ensure_ascii=draw(st.booleans()), separators=separators)


def put_together(found: SplitObject) -> bytes:
    """The text again: each part in its place."""
    texts = [text for _, text in found.parts] + [b""]
    pieces = found.pieces()
    assert b"".join(pieces) == found.frame
    return b"".join(each for pair in zip(pieces, texts, strict=True) for each in pair)


@given(json_texts(), SETS, SETS)
def test_it_splits_as_the_model_does(text: str, parts: set[str], noted: set[str]) -> None:
    found, wanted = Splitter(parts, noted).split(text.encode()), model.split(text, parts)
    assert (found is None) == (wanted is None)
    if found is None or wanted is None:
        return
    assert found.frame.decode() == wanted.frame
    assert [(name, each.decode()) for name, each in found.parts] == wanted.parts
    assert set(found.noted) == noted & set(wanted.names)
    assert put_together(found) == text.encode()


@given(json_texts())
def test_items_are_those_of_the_model(text: str) -> None:
    found, wanted = Splitter.items(text.encode()), model.items(text)
    assert (found and [each.decode() for each in found]) == wanted


@given(json_texts(), SETS)
def test_a_text_that_ends_anywhere_else_is_not_split(text: str, parts: set[str]) -> None:
    whole, splitter = text.encode(), Splitter(parts)
    for end in range(len(whole)):
        assert splitter.split(whole[:end]) is None
        assert Splitter.items(whole[:end]) is None
    for more in (b" ", b"}", b"]", b",", b"\0", b"1"):
        assert splitter.split(whole + more) is None
        assert splitter.split(more + whole) is None
        assert Splitter.items(whole + more) is None


PIECES = [b"{", b"}", b"[", b"]", b'"', b":", b",", b"\\", b"a", b"\xff", b"1"]
BYTES = st.one_of(
    st.binary(),
    st.lists(st.sampled_from(PIECES)).map(b"".join),
    st.builds(lambda text, more: text.encode() + more, json_texts(), st.binary()),
)


@given(BYTES, SETS)
def test_any_bytes_are_split_into_all_of_them_or_not_at_all(text: bytes, parts: set[str]) -> None:
    """Of what is no JSON the values may be none, but nothing is lost or made up."""
    found = Splitter(parts).split(text)
    if found is not None:
        assert put_together(found) == text
        assert {name for name, _ in found.parts} <= parts
    items = Splitter.items(text)
    if items is not None:
        assert b"[%b]" % b",".join(items) == text


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}', '{"a": 1}', ' {"a":1}', '{"a":1 ,"b":2}', '{"\\u0061":1}', "{}", "[]",
        '{"a":[1,2], "b":3}', '{"é":1}', '{"a":1', "", "null", '{"b":{"c":1},"b":{"c":1}}',
        '{"a"}', '{"a":}', '{a:1}', '{"a":1,}', '{"a":"}', '{"a\n":1}',
    ],
)  # fmt: skip
def test_a_text_that_says_more_is_not_split(text: str) -> None:
    assert Splitter(["a"]).split(text.encode()) is None


def test_deep_and_wide_texts() -> None:
    deep = b"[" * 1_000_000 + b"]" * 1_000_000
    found = Splitter(["a"]).split(b'{"b":1,"a":%b}' % deep)
    assert found is not None
    assert found.parts == [("a", deep)]
    assert Splitter.items(deep) == [deep[1:-1]]
    for count in (model.MOST_MEMBERS, model.MOST_MEMBERS + 1):
        wide = json.dumps({str(number): number for number in range(count)}, separators=(",", ":"))
        split = Splitter(["7"]).split(wide.encode())
        assert (split is None) == (count > model.MOST_MEMBERS)


def test_names_are_noted_in_their_order() -> None:
    splitter = Splitter(["a"], ("z", "a", "b", "c"))
    found = splitter.split(b'{"b":{"z":1},"a":2}')
    assert found is not None
    assert found.noted == ("a", "b")
    last = Splitter(["a"], map(str, range(64))).split(b'{"63":1}')
    assert last is not None
    assert last.noted == ("63",)


@pytest.mark.parametrize(
    "arguments", [([1],), (["a"], [None]), (["a"], map(str, range(65))), (None,), ()]
)
def test_names_that_cannot_be(arguments: Any) -> None:
    with pytest.raises((ValueError, AttributeError, TypeError)):
        Splitter(*arguments)
    with pytest.raises(TypeError):
        Splitter(["a"]).split(None)  # type: ignore[arg-type]
