# SPDX-License-Identifier: Apache-2.0
"""Text in lines that fit a terminal; words stay whole as long as they can."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEAST, _MOST = 40, 100
_NO_BREAK = "\u00a0"
_WHITE = re.compile(r"[ \t\n]+")
# After these a word that is longer than a line may go on in the next one.
_PIECE = re.compile(r"[^,/|]*[,/|]*")


def help_width() -> int:
    """Columns that help uses: the terminal's, within reason."""
    return min(max(shutil.get_terminal_size().columns, _LEAST), _MOST)


def wrapped(text: str, width: int, *, hard: bool = False) -> list[str]:
    """The lines of a text, at least one.

    A word goes whole to the next line; one that is longer than a line is parted where it must not
    break, and what is longer even then behind commas, slashes and bars.

    Args:
        text: words between white space, which is not kept; where a line should not break it is
            U+00A0.
        width: columns.
        hard: whether what is still longer is cut anywhere, rather than let out of the line.
    """
    lines = [""]
    for word in _words(text, width):
        gap = " " if lines[-1] else ""
        if len(lines[-1]) + len(gap) + len(word) <= width:
            lines[-1] += gap + word
        elif len(word) <= width:
            lines.append(word)
        else:
            _add_pieces(lines, gap, _pieces(word, width, hard), width)
    return [line.replace(_NO_BREAK, " ") for line in lines]


def _words(text: str, width: int) -> Iterator[str]:
    for word in _WHITE.split(text.strip()):
        if len(word) <= width:
            yield word
        else:
            yield from word.split(_NO_BREAK)


def _add_pieces(lines: list[str], gap: str, pieces: list[str], width: int) -> None:
    for piece in pieces:
        if lines[-1] and len(lines[-1]) + len(gap) + len(piece) > width:
            lines.append(piece)
        else:
            lines[-1] += gap + piece
        gap = ""


def _pieces(word: str, width: int, hard: bool) -> list[str]:
    """Where a word that is longer than a line may be parted."""
    pieces = [piece for piece in _PIECE.findall(word) if piece]
    if not hard:
        return pieces
    return [piece[at : at + width] for piece in pieces for at in range(0, len(piece), width)]
