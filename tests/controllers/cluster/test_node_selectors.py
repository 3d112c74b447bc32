# SPDX-License-Identifier: Apache-2.0
"""Requirements on labels by column, against each node asked by itself."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import selectors
from koord.controllers.cluster.node_selectors import LabelPredicate
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
        # A node changes, to a value perhaps that none had.
        nodes[0] = node("n0", labels={} if later is None else {"size": later})
        made.put(nodes[0])


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
