# SPDX-License-Identifier: Apache-2.0
"""Who refused which row, and why: a number a row, for most rows are refused in the same words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.rejection import Rejection

_NONE = -1


class NodeRejections(Mapping[int, "Rejection"]):
    """By row, the first refusal.

    Args:
        rows: how many rows there are.
    """

    def __init__(self, rows: int) -> None:
        self._codes = np.full(rows, _NONE, np.int64)
        self._distinct: list[Rejection] = []
        self._numbers: dict[Rejection, int] = {}
        # By number, how many rows; None since the last change.
        self._by_number: list[int] | None = None

    def __getitem__(self, row: int) -> Rejection:
        code = self._codes[row] if 0 <= row < len(self._codes) else _NONE
        if code == _NONE:
            raise KeyError(row)
        return self._distinct[code]

    def __iter__(self) -> Iterator[int]:
        return iter(np.flatnonzero(self._codes != _NONE).tolist())

    def __len__(self) -> int:
        return int(np.count_nonzero(self._codes != _NONE))

    def copy(self) -> NodeRejections:
        """The same refusals; what is put into one does not reach the other."""
        copy = NodeRejections(0)
        copy._codes = self._codes.copy()
        copy._distinct, copy._numbers = list(self._distinct), dict(self._numbers)
        copy._by_number = self._by_number
        return copy

    def put(self, rows: NDArray[np.intp], refusals: Iterable[Rejection]) -> None:
        """Sets the refusal of each of some rows."""
        # Most are the very same objects.
        refusals, numbers, codes = list(refusals), dict[int, int](), list[int]()
        for refusal in refusals:
            number = numbers.get(id(refusal))
            if number is None:
                number = numbers[id(refusal)] = self._number(refusal)
            codes.append(number)
        self._by_number = None
        self._codes[rows] = codes

    def fill(self, rows: NDArray[np.bool_], refusal: Rejection) -> None:
        """Sets one refusal for all rows of a mask."""
        self._by_number = None
        self._codes[rows] = self._number(refusal)

    def put_all(self, rows: NDArray[np.intp], refusal: Rejection) -> None:
        """Sets one refusal for some rows."""
        self._by_number = None
        self._codes[rows] = self._number(refusal)

    def clear(self, rows: NDArray[np.intp]) -> None:
        """Takes out rows."""
        self._by_number = None
        self._codes[rows] = _NONE

    def counts(self) -> Counter[str]:
        """How many rows have each reason."""
        counts: Counter[str] = Counter()
        for refusal, count in zip(self._distinct, self._counted(), strict=True):
            for reason in refusal.reasons if count else ():
                counts[reason] += count
        return counts

    def present(self) -> list[Rejection]:
        """Each refusal that some row has, once."""
        both = zip(self._distinct, self._counted(), strict=True)
        return [refusal for refusal, count in both if count]

    def resolvable(self) -> NDArray[np.intp]:
        """The rows where removing pods might help."""
        by_code = [not r.unresolvable and not r.error for r in self._distinct]
        # The last one stands for -1.
        return np.flatnonzero(np.array([*by_code, False], np.bool_)[self._codes])

    def _counted(self) -> list[int]:
        if self._by_number is None:
            by_code = np.bincount(self._codes + 1, minlength=len(self._distinct) + 1)
            self._by_number = by_code[1:].tolist()
        return self._by_number

    def _number(self, refusal: Rejection) -> int:
        number = self._numbers.get(refusal)
        if number is None:
            number = self._numbers[refusal] = len(self._distinct)
            self._distinct.append(refusal)
        return number
