# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

class Series:
    def __init__(self, capacity: int) -> None: ...
    def append(self, time_ms: int, value: float) -> int: ...
    def summarize(
        self, start_ms: int, end_ms: int, shares: Sequence[float]
    ) -> tuple[int, float, float, int, int, list[float]]: ...
    def size(self) -> int: ...
    def capacity(self) -> int: ...

class Store:
    def __init__(self, capacity: int) -> None: ...
    def add(self) -> int: ...
    def remove(self, id: int) -> None: ...  # noqa: A002
    def size(self) -> int: ...
    def resize(self, capacity: int) -> None: ...
    def append(self, time_ms: int, ids: ArrayLike, values: ArrayLike) -> int: ...
    def summarize(
        self, ids: ArrayLike, start_ms: int, end_ms: int, shares: Sequence[float]
    ) -> tuple[
        NDArray[np.int64],
        NDArray[np.float64],
        NDArray[np.float64],
        NDArray[np.int64],
        NDArray[np.int64],
        NDArray[np.float64],
    ]: ...

def advance_counters(
    before: NDArray[np.int64],
    at: NDArray[np.float64],
    values: ArrayLike,
    good: ArrayLike,
    at_seconds: float,
    kept_seconds: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]: ...
