# SPDX-License-Identifier: Apache-2.0
"""What every verb shares: where output goes, in which form, and how a failure is shown.

Data goes to standard output and nothing else does; progress, hints and errors go to standard error.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from koord.base.errors import Code, KoordError
from koord.cli.terminal.table_layout import fitted
from koord.cli.terminal.text_wrap import wrapped

if TYPE_CHECKING:
    from typing import TextIO

# Longer than any table, so that rich neither folds nor cuts.
LONGEST_LINE = 100_000
# How often a pipe is told of progress.
PROGRESS_SECONDS = 10.0


def prepare_report(directory: Path) -> None:
    """Makes the folder that ``--report`` names.

    Before the work: what keeps its result from being written is said then, not after it.

    Raises:
        KoordError: it cannot be made, or not be written into.
        MissingExtraError: there is nothing to draw its pictures with.
    """
    from koord.simulator.svg_charts import require_matplotlib

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


def show(*renderable: RenderableType) -> None:
    """Prints what rich can show; in a terminal no line is longer than that, and nothing is cut."""
    console, whole = stdout(), terminal_width() is None
    for each in renderable:
        console.print(WithoutTrailingSpace(each), soft_wrap=whole, end="")


def say(text: str = "", *, hanging: int = 0) -> None:
    """Prints text; in a terminal lines that are longer than that go on below their beginning.

    Args:
        text: may have several lines.
        hanging: by how many columns more they go on, so that what begins a line stands alone.
    """
    width = terminal_width()
    for line in text.split("\n"):
        if width is None or len(line) <= width:
            print(line)
            continue
        body = line.lstrip(" ")
        indent = " " * min(len(line) - len(body) + hanging, width // 2)
        head = line[: len(indent)]
        for part in wrapped(line[len(indent) :], width - len(indent), hard=True):
            print(f"{head}{part}")
            head = indent


def plain_table(*columns: str, **settings: Any) -> Table:
    """A table without lines; in a terminal cells that it has no room for go on below.

    Args:
        columns: heads; without any there is no head, and cells make the columns.
        settings: of rich's.
    """
    return FoldedTable(
        *(Column(name, no_wrap=_whole(), overflow="fold") for name in columns),
        box=None, pad_edge=False, show_header=bool(columns), **settings,
    )  # fmt: skip


class FoldedTable(Table):
    """A table that cuts nothing."""

    def add_row(self, *cells: RenderableType | None, **settings: Any) -> None:
        """A row, as rich's; it may have more cells than there are columns."""
        while len(self.columns) < len(cells):
            self.add_column(no_wrap=_whole(), overflow="fold")
        super().add_row(*cells, **settings)


def _whole() -> bool:
    """Whether lines stay whole."""
    return terminal_width() is None


class WithoutTrailingSpace:
    """What is shown, each line ending where its text does.

    Tables fill their last column with spaces, which in a narrow terminal would be lines of their
    own.
    """

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for line in console.render_lines(self._renderable, options, pad=False):
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
    """A bar on standard error for anything that takes over a second, or lines when piped.

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
    if not console.is_terminal:
        yield ProgressLines(description, total, sys.stderr).advance
        return
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda steps: bar.advance(task, steps)


class ProgressLines:
    """Progress where no bar can be drawn: nothing of short work, a line every ten seconds of long.

    Args:
        description: of the work.
        total: how many steps it has.
        stream: where the lines go.
        monotonic: seconds of a clock that never goes back.
    """

    def __init__(
        self,
        description: str,
        total: int,
        stream: TextIO,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._description, self._total, self._stream = description, total, stream
        self._monotonic = monotonic
        self._done = 0
        # The first steps told and their time: what came before, a start of workers, is no measure.
        self._first: tuple[int, float] | None = None
        self._next = monotonic() + PROGRESS_SECONDS
        # Workers on several threads tell of their steps.
        self._lock = Lock()

    def advance(self, steps: int) -> None:
        """So many steps more are done."""
        with self._lock:
            self._done += steps
            now = self._monotonic()
            if self._first is None:
                self._first = self._done, now
            done, since = self._first
            if now < self._next or not done < self._done < self._total:
                return
            self._next = now + PROGRESS_SECONDS
            left = (now - since) * (self._total - self._done) / (self._done - done)
            share = 100 * self._done // self._total
            line = f"{self._description}: {share} %, about {_lasting(left)} left"
            print(line, file=self._stream, flush=True)


def _lasting(seconds: float) -> str:
    """In seconds, from two minutes on in minutes."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _is_number(text: str) -> bool:
    try:
        float(text.rstrip("%").replace(" ", "") or "x")
    except ValueError:
        return text in ("", "-")
    return True
