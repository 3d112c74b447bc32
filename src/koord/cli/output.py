# SPDX-License-Identifier: Apache-2.0
"""What every verb shares: where output goes, in which form, and how a failure is shown.

Data goes to standard output and nothing else does; progress, hints and errors go to standard error.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from koord.base.errors import Code, KoordError
from koord.cli.help.fitting import fitted
from koord.cli.help.wrap import wrapped

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


def refuse_without(flag: str, given: Mapping[str, object]) -> None:
    """Refuses flags that have no effect without another one.

    Args:
        flag: the other one, which is not there.
        given: value by flag; None where it was not given.
    """
    for name, value in given.items():
        if value is not None:
            raise KoordError(name, "", str(value), f"{flag} beside it")


def refuse_beside(flag: str, given: Mapping[str, object]) -> None:
    """Refuses flags that have no effect beside another one, see :func:`refuse_without`."""
    for name, value in given.items():
        if value is not None:
            raise KoordError(name, "", str(value), f"none beside {flag}, where it has no effect")


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
        metavar="text|json",
        parser=read_format,
        help="for people, or for scripts",
    ),
]


def terminal_width() -> int | None:
    """Columns of the terminal that standard output is; None where it is none."""
    return max(shutil.get_terminal_size().columns, 20) if sys.stdout.isatty() else None


def stdout() -> Console:
    """A console on standard output; without colour when it is not a terminal.

    There lines are as long as they need to be: a script sees every word on its own line.
    """
    # The height too: without it rich takes a dumb terminal for one of 80 columns.
    width = terminal_width() or LONGEST_LINE
    return Console(file=sys.stdout, highlight=False, width=width, height=25)


def show(*shown: RenderableType) -> None:
    """Prints what rich can show; in a terminal no line is longer than that, and nothing is cut."""
    console, whole = stdout(), terminal_width() is None
    for each in shown:
        console.print(Trimmed(each), soft_wrap=whole, end="")


def say(text: str = "") -> None:
    """Prints text; in a terminal lines that are longer than that go on below their beginning."""
    width = terminal_width()
    for line in text.split("\n"):
        if width is None or len(line) <= width:
            print(line)
            continue
        body = line.lstrip(" ")
        indent = " " * min(len(line) - len(body), width // 2)
        for part in wrapped(body, width - len(indent), hard=True):
            print(f"{indent}{part}")


def plain_table(*columns: str, **settings: Any) -> Table:
    """A table without lines; in a terminal cells that it has no room for go on below.

    Args:
        columns: heads; without any there is no head, and cells make the columns.
        settings: of rich's.
    """
    return Folding(
        *(Column(name, no_wrap=_whole(), overflow="fold") for name in columns),
        box=None, pad_edge=False, show_header=bool(columns), **settings,
    )  # fmt: skip


class Folding(Table):
    """A table that cuts nothing."""

    def add_row(self, *cells: RenderableType | None, **settings: Any) -> None:
        """A row, as rich's; it may have more cells than there are columns."""
        while len(self.columns) < len(cells):
            self.add_column(no_wrap=_whole(), overflow="fold")
        super().add_row(*cells, **settings)


def _whole() -> bool:
    """Whether lines stay whole."""
    return terminal_width() is None


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


def print_table(columns: list[str], rows: list[list[str]]) -> None:
    """A plain table; columns whose cells are all numbers align right.

    In a terminal that it does not fit it takes another form, in which nothing is cut.
    """
    width = terminal_width()
    tables = None if width is None else fitted(columns, rows, width)
    for number, (heads, cells) in enumerate([(columns, rows)] if tables is None else tables):
        if number:
            print()
        show(_table(heads, cells))


def _table(columns: list[str], rows: list[list[str]]) -> Table:
    table = plain_table(*columns, header_style="bold")
    for index, column in enumerate(table.columns):
        if rows and all(_is_number(row[index]) for row in rows):
            column.justify = "right"
    for row in rows:
        # As Text, since a name in brackets would be taken for markup.
        table.add_row(*map(Text, row))
    return table


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
