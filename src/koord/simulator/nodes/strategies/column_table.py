# SPDX-License-Identifier: Apache-2.0
"""Whole numbers by name, a column each, a row a machine or a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]


R = TypeVar("R", bound=tuple[int, ...])


class ColumnTable(Generic[R]):
    """Rows of one kind of named tuple.

    Args:
        names: of the columns.
        rows: all of them, or none yet.
    """

    def __init__(self, names: Sequence[str], rows: Sequence[R] = ()) -> None:
        self._at = {name: at for at, name in enumerate(names)}
        # A column a row, so that each is contiguous.
        given = np.array(rows, np.int64).reshape(len(rows), len(names))
        self._columns = np.ascontiguousarray(given.T)

    def put(self, row: int, values: R) -> None:
        """Replaces a row."""
        self._columns[:, row] = values

    def __getitem__(self, name: str) -> Ints:
        """A column: a view, which later changes show in."""
        column: Ints = self._columns[self._at[name]]
        return column

    def __len__(self) -> int:
        return int(self._columns.shape[1])
