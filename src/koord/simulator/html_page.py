# SPDX-License-Identifier: Apache-2.0
"""The frame of reports: one HTML file that needs nothing beside it."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


def write(directory: Path, title: str, parts: Iterable[str]) -> Path:
    """Writes ``DIRECTORY/report.html`` and returns its path.

    Args:
        directory: made if missing.
        title: of the page, as text.
        parts: of the body, as HTML.

    Raises:
        OSError: the directory or the file cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "report.html"
    style = files("koord.simulator").joinpath("report.css").read_text(encoding="utf-8")
    body = "\n".join(parts)
    path.write_text(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>koord: {escape(title)}</title><style>{style}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n",
        encoding="utf-8",
    )
    return path


def figure(title: str, finding: str, caption: str, svg: str) -> str:
    """A picture under a heading.

    Args:
        title: the heading.
        finding: what there is to see, in one sentence.
        caption: what is drawn.
        svg: the picture.
    """
    return (
        f'<h2>{escape(title)}</h2>\n<figure><p class="see">{escape(finding)}</p>'
        f"<figcaption>{escape(caption)}</figcaption>\n{svg}</figure>"
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """A table.

    Args:
        heads: a name a column, as text.
        rows: a text a column.
        words: so many columns have words and begin on the left; the others are numbers.
    """

    def line(tag: str, texts: Sequence[str]) -> str:
        marks = [' class="text"' if at < words else "" for at in range(len(texts))]
        cells = zip(marks, texts, strict=True)
        return "".join(f"<{tag}{mark}>{escape(text)}</{tag}>" for mark, text in cells)

    lines = (f"<tr>{line('td', row)}</tr>" for row in rows)
    return f"<table><tr>{line('th', heads)}</tr>\n" + "\n".join(lines) + "\n</table>"
