# SPDX-License-Identifier: Apache-2.0
"""Between a strategy, which knows one node, and decisions, which are functions of columns.

Decisions have a row a node, pod or container, and the simulator calls them for many nodes at once.
Here the numbers of one node become columns of one row, and such columns numbers again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]


def column(values: Sequence[int]) -> Ints:
    """int64, a row a value."""
    return np.array(values, np.int64)


def row(value: int) -> Ints:
    """int64 ``[1]``: this node's amount."""
    return np.array([value], np.int64)


def float_row(value: float) -> Floats:
    """float64 ``[1]``: this node's measurement."""
    return np.array([value], np.float64)


def node_rows(rows: int) -> Ints:
    """int64 ``[rows]``: the node of each pod of this node, which is row 0."""
    return np.zeros(rows, np.int64)


def amount(column: Ints) -> int:
    """The amount of this node, out of a column of one row."""
    return int(column[0])
