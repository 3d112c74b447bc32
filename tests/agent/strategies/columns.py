# SPDX-License-Identifier: Apache-2.0
"""Columns for tests of decisions."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


def ints(values: Iterable[int]) -> NDArray[np.int64]:
    """An int64 column."""
    return np.array(list(values), np.int64)


def floats(values: Iterable[float | None]) -> NDArray[np.float64]:
    """A float64 column; None is NaN."""
    return np.array([np.nan if value is None else value for value in values], np.float64)


def bools(values: Iterable[bool]) -> NDArray[np.bool_]:
    """A column of truth values."""
    return np.array(list(values), np.bool_)
