# SPDX-License-Identifier: Apache-2.0
"""Requirements on labels by column, against each node asked by itself."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import selectors
from koord.controllers.cluster.node_selectors import (
    NAME_FIELD,
    AllOf,
    AnyOf,
    LabelPredicate,
    NamePredicate,
    NodePredicate,
)
from koord.controllers.cluster.node_table import NodeTable
from tests.controllers.scheduler.pods import node, table

VALUES = ["", "1", "2", "30", "a"]


@given(
    labels=st.lists(st.sampled_from([None, *VALUES]), min_size=1, max_size=8),
    operator=st.sampled_from(selectors.NODE_OPERATORS),
    values=st.lists(st.sampled_from([*VALUES, "elsewhere"]), max_size=3),
    later=st.sampled_from([None, *VALUES, "new"]),
)
def test_the_columns_say_what_each_node_says(
    labels: list[str | None], operator: str, values: list[str], later: str | None
) -> None:
    nodes = [
        node(f"n{i}", labels={} if value is None else {"size": value})
        for i, value in enumerate(labels)
    ]
    made, predicate = table(*nodes), LabelPredicate("size", operator, values)
    for _ in range(2):
        found = predicate.rows(made, slice(0, made.size)).tolist()
        assert found == [predicate.node(each) for each in nodes]
        assert _by_bits(predicate, made) == found
        # A node changes, to a value perhaps that none had.
        nodes[0] = node("n0", labels={} if later is None else {"size": later})
        made.put(nodes[0])


def _by_bits(predicate: NodePredicate, made: NodeTable) -> list[bool]:
    bits = predicate.bits(made)
    if isinstance(bits, bool):
        return [bits] * made.size
    words = bits.tolist()
    return [bool(words[row // 64] >> row % 64 & 1) for row in range(made.size)]


def test_only_named_values_are_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    made = table(*(node(f"n{i}") for i in range(500)))
    predicate = LabelPredicate("kubernetes.io/hostname", "NotIn", ["n7", "elsewhere"])
    asked = itertools.count()
    holds = LabelPredicate.holds

    def counted(of: LabelPredicate, value: str | None) -> bool:
        next(asked)
        return holds(of, value)

    monkeypatch.setattr(LabelPredicate, "holds", counted)
    assert np.flatnonzero(~predicate.rows(made, slice(0, 500))).tolist() == [7]
    assert next(asked) <= 3


LEAVES = st.one_of(
    st.builds(
        LabelPredicate,
        st.sampled_from(["size", "none"]),
        st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
        st.lists(st.sampled_from(["1", "2", "elsewhere"]), min_size=1, max_size=6),
    ),
    st.builds(
        NamePredicate,
        st.sampled_from([NAME_FIELD, "metadata.other"]),
        st.sampled_from(["n0", "n3", "elsewhere", ""]),
        st.booleans(),
    ),
)
PREDICATES: st.SearchStrategy[NodePredicate] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(AllOf, st.lists(inner, max_size=3)), st.builds(AnyOf, st.lists(inner, max_size=3))
    ),
    max_leaves=6,
)


@given(
    predicate=PREDICATES,
    labels=st.lists(st.sampled_from([None, "1", "2", "3"]), min_size=4, max_size=6),
    rows=st.lists(st.integers(0, 3), max_size=5),
    later=st.sampled_from(["1", "new"]),
)
def test_joined_conditions_say_of_rows_what_they_say_of_each_node(
    predicate: NodePredicate, labels: list[str | None], rows: list[int], later: str
) -> None:
    nodes = [
        node(f"n{i}", labels={} if value is None else {"size": value})
        for i, value in enumerate(labels)
    ]
    made = table(*nodes)
    for _ in range(2):
        plain = [predicate.node(each) for each in nodes]
        assert predicate.rows(made, slice(0, made.size)).tolist() == plain
        assert _by_bits(predicate, made) == plain
        found = predicate.rows(made, np.array(rows, np.intp))
        assert found.tolist() == [plain[row] for row in rows]
        answers = predicate.answers(made, slice(0, made.size))
        assert not isinstance(answers, bool) or plain == [answers] * len(plain)
        nodes[0] = node("n0", labels={"size": later})
        made.put(nodes[0])


def test_which_rows_have_a_label_follows_the_table() -> None:
    made, predicate = table(node("n0", labels={"size": "1"})), LabelPredicate("size", "In", ["1"])
    assert predicate.rows(made, slice(0, 1)).tolist() == [True]
    assert _by_bits(predicate, made) == [True]
    with pytest.raises(ValueError, match="read-only"):
        predicate.rows(made, slice(0, 1))[0] = False
    room = len(made.open)
    for i in range(1, room):
        made.put(node(f"n{i}", labels={"size": str(i % 2)}))
    assert predicate.rows(made, slice(0, room))[1]
    made.put(node(f"n{room}", labels={"size": "0"}))
    assert len(made.open) > room
    expected = [i < room and (i % 2 == 1 or i == 0) for i in range(room + 1)]
    assert predicate.rows(made, slice(0, room + 1)).tolist() == expected
    assert _by_bits(predicate, made) == expected
    made.remove("n0")
    assert not predicate.rows(made, slice(0, room + 1))[0]
