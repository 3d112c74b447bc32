# SPDX-License-Identifier: Apache-2.0
"""Tables of words that fit a terminal: with cells of several lines, turned, or row by row."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from koord.cli.terminal.text_wrap import wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

_BETWEEN = 2
_PIECES = re.compile(r"[ ,/|\n]+")
_EMPTY = ("", "-")

Rows = list[list[str]]


def fitted(columns: Sequence[str], rows: Rows, width: int) -> list[tuple[list[str], Rows]] | None:
    """Tables that show all of one and fit a terminal.

    Where words fit whole, it is one table, some of whose cells have several lines. Else it is
    turned, a column a row, if that fits; else it is a table of two columns for each row.

    Args:
        columns: heads.
        rows: cells.
        width: columns of the terminal.

    Returns:
        Heads and rows of each table; heads are empty where there are none. None for a table that
        fits as it is.
    """
    natural = _widths([list(columns), *rows])
    if _total(natural) <= width:
        return None
    least = [
        max(len(piece) for cell in cells for piece in _PIECES.split(cell))
        for cells in zip(columns, *rows, strict=True)
    ]
    if _total(least) <= width:
        narrow = _narrowed(natural, least, width)
        return [(_folded(columns, narrow), [_folded(row, narrow) for row in rows])]
    turned = [list(cells) for cells in zip(columns, *rows, strict=True)]
    if _total(_widths(turned)) <= width:
        return [(turned[0], turned[1:])]
    margin = max(map(len, columns)) + _BETWEEN
    rest = max(width - margin, 10)
    return [
        ([], [[name, "\n".join(wrapped(cell, rest, hard=True))]
              for name, cell in zip(columns, row, strict=True) if cell not in _EMPTY])
        for row in rows
    ]  # fmt: skip


def _widths(rows: Rows) -> list[int]:
    return [max(map(len, cells)) for cells in zip(*rows, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _BETWEEN * (len(widths) - 1)


def _narrowed(widths: list[int], least: Sequence[int], width: int) -> list[int]:
    """The widest that can give way does, until all fit."""
    narrow = list(widths)
    while _total(narrow) > width:
        _, index = max((each, at) for at, each in enumerate(narrow) if each > least[at])
        narrow[index] -= 1
    return narrow


def _folded(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    return ["\n".join(wrapped(cell, at, hard=True)) for cell, at in zip(cells, widths, strict=True)]
