# SPDX-License-Identifier: Apache-2.0
"""Names as row numbers; those of names that went are used again."""

from __future__ import annotations


class RowNumbers:
    """Which name has which row."""

    def __init__(self) -> None:
        self._row_of: dict[str, int] = {}
        self._names: list[str] = []
        self._free: list[int] = []

    def find(self, name: str) -> int | None:
        """The row of a name, None if it has none."""
        return self._row_of.get(name)

    def name(self, row: int) -> str:
        """The name of a row; empty for one that is closed."""
        return self._names[row]

    def open(self, name: str) -> int:
        """The row of a name; one that has none gets a closed one, or the next."""
        row = self._row_of.get(name)
        if row is None:
            row = self._free.pop() if self._free else len(self._names)
            if row == len(self._names):
                self._names.append("")
            self._names[row] = name
            self._row_of[name] = row
        return row

    def close(self, row: int) -> None:
        """Frees the row of a name that went."""
        del self._row_of[self._names[row]]
        self._names[row] = ""
        self._free.append(row)
