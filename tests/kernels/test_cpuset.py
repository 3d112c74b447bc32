# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import operator
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kernels.cpuset import MAX_ID, CPUSet
from tests.models import cpuset as model

id_sets = st.sets(st.one_of(st.integers(0, 70), st.integers(0, MAX_ID)), max_size=12)
numbers = st.sampled_from(
    ["0", "1", "2", "3", "7", "63", "64", "4096", "4097", "8191", "8192", "+4"]
)
items = st.one_of(
    numbers, st.builds("{}-{}".format, numbers, numbers), st.sampled_from(["", "-", "x"])
)
lists = st.lists(items, max_size=4).map(",".join)


def outcome(parse, text):
    try:
        return set(parse(text))
    except ValueError as error:
        problem = str(error)
    assert "\n" not in problem
    return None


@given(lists | st.text("0123456789,-+ ", max_size=10) | st.text(max_size=6))
def test_both_parsers_agree_with_the_model_on_any_text(text: str) -> None:
    assert outcome(CPUSet.parse, text) == outcome(model.parse, text)
    assert outcome(CPUSet.parse_wire, text) == outcome(model.parse_wire, text)


@given(st.text("0123456789abcdefx,", max_size=20) | st.text(max_size=6))
def test_any_text_is_a_mask_or_a_value_error(text: str) -> None:
    ids = outcome(CPUSet.parse_mask, text)
    if ids is not None:
        words = [int(word, 16) for word in text.split(",")]
        bits = sum(word << (32 * i) for i, word in enumerate(reversed(words)))
        assert ids == {i for i in range(bits.bit_length()) if bits >> i & 1}


@given(id_sets)
def test_texts_read_back(ids: set[int]) -> None:
    cpus = CPUSet.from_ids(ids)
    assert cpus.ids() == list(cpus) == sorted(ids)
    assert str(cpus) == model.canonical(ids)
    assert CPUSet.parse(str(cpus)) == cpus
    assert CPUSet.parse_mask(cpus.mask()) == cpus
    assert pickle.loads(pickle.dumps(cpus)) == cpus


@given(id_sets, id_sets)
def test_operators_are_those_of_a_set(a: set[int], b: set[int]) -> None:
    left, right = CPUSet.from_ids(a), CPUSet.from_ids(b)
    for name in ("or_", "and_", "sub", "xor"):
        apply = getattr(operator, name)
        assert set(apply(left, right)) == apply(a, b)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        compare = getattr(operator, name)
        assert compare(left, right) == compare(a, b)
    assert left.isdisjoint(right) == a.isdisjoint(b)
    assert (len(left), bool(left)) == (len(a), bool(a))
    assert all(cpu in left for cpu in a)
    assert left & right <= left
    assert (left != right) or hash(left) == hash(right)


@pytest.mark.parametrize(
    ("text", "item", "right"),
    [
        ("0-3,7-5", "7-5", "a range that ascends"),
        ("0-3,3", "3", "every id once"),
        ("0-3,,4", "", "ids and ranges such as 0-3,8"),
        ("0- 3", "0- 3", "ids and ranges such as 0-3,8"),
        ("0-8192", "0-8192", "ids of at most 8191"),
    ],
)
def test_the_strict_parser_says_what_is_wrong(text: str, item: str, right: str) -> None:
    with pytest.raises(ValueError, match="cpu list") as caught:
        CPUSet.parse(text)
    assert str(caught.value) == f"cpu list: got '{item}', expected {right}"


def test_the_lenient_parser() -> None:
    assert str(CPUSet.parse_wire("1,2,3,5-6,8,2,9-7")) == "1-3,5-6,8"
    assert str(CPUSet.parse_wire("8191")) == "8191"
    assert not CPUSet.parse_wire("")
    for text in ("0-4097", "1-2-3", "1, 2", "a", "1,", "8192", "2147483648"):
        with pytest.raises(ValueError, match="cpu list"):
            CPUSet.parse_wire(text)


def test_masks() -> None:
    assert str(CPUSet.parse_mask("00000001,00000000,80000003")) == "0-1,31,64"
    assert CPUSet.parse("0-1,31,64").mask() == "00000001,00000000,80000003"
    assert CPUSet().mask() == "00000000"


def test_ids_are_bounded() -> None:
    for cpu in (-1, MAX_ID + 1, 2**40):
        with pytest.raises(ValueError, match="cpu id"):
            CPUSet.from_ids([cpu])
        assert cpu not in CPUSet()


def test_repr_and_foreign_operands() -> None:
    cpus = CPUSet.parse("0-3")
    assert repr(cpus) == "CPUSet.parse('0-3')"
    assert cpus != {0, 1, 2, 3}
    assert "0" not in cpus
    with pytest.raises(TypeError):
        cpus | {4}
