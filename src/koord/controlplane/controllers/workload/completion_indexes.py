# SPDX-License-Identifier: Apache-2.0
"""The completed indexes of a Job, written as ``0-2,5``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


class Indexes(set[int]):
    """A set of indexes with the text form of ``status.completedIndexes``."""

    @classmethod
    def parse(cls, text: str) -> Indexes:
        """The indexes of a text such as ``0-2,5``.

        Raises:
            ValueError: the text is no such list.
        """
        result = cls()
        for part in text.split(",") if text else ():
            first, _, last = part.partition("-")
            result.update(range(int(first), int(last or first) + 1))
        return result

    def __str__(self) -> str:
        runs: list[list[int]] = []
        for index in sorted(self):
            if runs and index == runs[-1][1] + 1:
                runs[-1][1] = index
            else:
                runs.append([index, index])
        return ",".join(str(first) if first == last else _run(first, last) for first, last in runs)

    def missing(self, total: int, count: int, taken: Collection[int | None]) -> list[int]:
        """The first ``count`` indexes below ``total`` that are neither here nor taken."""
        free = (index for index in range(total) if index not in self and index not in taken)
        return [index for index, _ in zip(free, range(count), strict=False)]


def _run(first: int, last: int) -> str:
    return f"{first}-{last}" if last > first + 1 else f"{first},{last}"
