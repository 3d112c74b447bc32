# SPDX-License-Identifier: Apache-2.0
"""What every verb shares: where output goes, in which form, and how a failure is shown.

Data goes to standard output and nothing else does; progress, hints and errors go to standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from koord.base.errors import Code, KoordError

# Longer than any table, so that rich neither folds nor cuts.
LONGEST_LINE = 100_000


def prepare_report(directory: Path) -> None:
    """Makes the folder that ``--report`` names.

    Before the work: what keeps its result from being written is said then, not after it.

    Raises:
        KoordError: it cannot be made, or not be written into.
        MissingExtraError: there is nothing to draw its pictures with.
    """
    from koord.simulator.pictures import require_matplotlib

    require_matplotlib()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=directory):
            pass
    except OSError as error:
        expected = f"a folder that can be written ({error.strerror or error})"
        raise KoordError("--report", "", directory, expected, Code.UNREADABLE) from error


class Format(StrEnum):
    """The forms of ``-o``."""

    TEXT = "text"
    JSON = "json"


def read_format(text: str) -> Format:
    """The form of that name."""
    if text in list(Format):
        return Format(text)
    raise KoordError("--output", "", text, "text or json")


OutputOption = Annotated[
    Format,
    typer.Option(
        "--output",
        "-o",
        metavar="FORM",
        parser=read_format,
        help="text for people, json for scripts",
    ),
]


def stdout() -> Console:
    """A console on standard output; without colour when it is not a terminal.

    Lines are as long as they need to be, in a narrow terminal too: a cell that is cut is lost, and
    a script sees every word on its own line.
    """
    return Console(file=sys.stdout, highlight=False, width=LONGEST_LINE)


class Trimmed:
    """What is shown, each line ending where its text does.

    Tables fill their last column with spaces, which in a narrow terminal would be lines of their
    own.
    """

    def __init__(self, shown: RenderableType) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for line in console.render_lines(self._shown, options, pad=False):
            while line and not line[-1].text.strip():
                line.pop()
            yield from line[:-1]
            if line:
                yield Segment(line[-1].text.rstrip(), line[-1].style)
            yield Segment.line()


def print_json(value: object) -> None:
    """One JSON document, keys in the order given, on standard output."""
    json.dump(value, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def print_table(columns: list[str], rows: list[list[str]], title: str | None = None) -> None:
    """A plain table; columns whose cells are all numbers align right."""
    table = Table(title=title, box=None, pad_edge=False, title_justify="left", header_style="bold")
    for index, name in enumerate(columns):
        numeric = all(_is_number(row[index]) for row in rows) and bool(rows)
        table.add_column(name, justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        # As Text, since a name in brackets would be taken for markup.
        table.add_row(*map(Text, row))
    stdout().print(Trimmed(table), soft_wrap=True, end="")


@contextmanager
def progress(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error for anything that takes over a second; silent when piped.

    Yields:
        A function that moves the bar forward by so many steps.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(description, total=total)
        yield lambda steps: bar.advance(task, steps)


def _is_number(text: str) -> bool:
    try:
        float(text.rstrip("%").replace(" ", "") or "x")
    except ValueError:
        return text in ("", "-")
    return True
