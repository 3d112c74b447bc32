# SPDX-License-Identifier: Apache-2.0
"""Pods that are counted together, against the same pods one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kernels.placement_board import count_pods

ROWS, RESOURCES = 5, 4
PODS = st.lists(
    st.tuples(
        st.integers(0, ROWS - 1),
        st.dictionaries(st.integers(0, RESOURCES - 1), st.integers(-(2**53), 2**53), max_size=4),
    ),
    min_size=1,
    max_size=30,
)


@given(PODS)
def test_together_they_come_to_what_each_asks_for(pods: list[tuple[int, dict[int, int]]]) -> None:
    columns = np.arange(RESOURCES * ROWS, dtype=np.int64).reshape(RESOURCES, ROWS)
    expected = columns.tolist()
    for row, asked in pods:
        for resource, amount in asked.items():
            expected[resource][row] += amount
    count_pods(
        columns,
        np.array([row for row, _ in pods], np.intp),
        [np.array(list(asked), np.intp) for _, asked in pods],
        [np.array(list(asked.values()), np.int64) for _, asked in pods],
    )
    assert columns.tolist() == expected


def test_columns_that_lie_apart_are_refused() -> None:
    index, amounts = np.zeros(1, np.intp), np.ones(1, np.int64)
    with pytest.raises(ValueError, match="apart in memory"):
        count_pods(np.zeros((4, 4), np.int64)[:, ::2], np.zeros(1, np.intp), [index], [amounts])
