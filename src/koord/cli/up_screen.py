# SPDX-License-Identifier: Apache-2.0
"""The screen of ``koord up --colocation``: functions from a state to what rich draws."""

from __future__ import annotations

import io
import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from koord.simulator.live.happenings import HELD_BELOW

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from koord.cli.up_colocation import State
    from koord.simulator.colocation.result import Floats
    from koord.simulator.live.sample import Sample

# As in the report.
SYSTEM, SERVICES, BATCH = "#999999", "#2f8fd0", "#E69F00"
_LAYERS = ((SYSTEM, "░"), (SERVICES, "█"), (BATCH, "▒"))
_WHAT = {"offered": "green", "suppressed": "magenta", "released": "green", "evicted": "bold red"}
_CHART_MINUTES = 3
_BAR, _WIDE = 10, 122
# Lines of a screen that are always there: clock, protection, tasks, two bars, the chart's axis and
# legend, how to get there, and three between the parts.
_FIXED = 11
_MOST_CHART, _MOST_EVENTS = 10, 8
_LINE_MINUTES = 10
_LEAST_SECONDS = 0.1
_PICTURE_WIDTH, _PICTURE_HEIGHT = 124, 40
_CLIPPED = r' clip-path="url\(#[^)]*-line-\d+\)"'
# A picture that stands alone fetches no fonts from elsewhere.
_FETCHED = r"\s*@font-face \{[^}]*\}"
_MADE_BY = r"\s*<!-- Generated with Rich [^>]*-->"


class View(Protocol):
    """Shows how it goes."""

    def show(self, state: State) -> None:
        """Takes up a state; may be called more often than is drawn."""
        ...


class Lines:
    """A line for every ten simulated minutes.

    Args:
        stream: where they go.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next = 0.0

    def show(self, state: State) -> None:
        """A line if it is time."""
        if state.record.samples and state.record.samples[-1].seconds >= self._next:
            self._next = state.record.samples[-1].seconds + 60 * _LINE_MINUTES
            print(line(state), file=self._stream, flush=True)


class Screen:
    """The whole terminal, drawn anew at most ten times a second."""

    def __init__(self) -> None:
        self._console = Console()
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._drawn = 0.0

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, state: State) -> None:
        """Draws, unless that was done just now."""
        now = time.monotonic()
        if now - self._drawn >= _LEAST_SECONDS:
            self._drawn = now
            width, height = self._console.size
            self._live.update(frame(state, width, height), refresh=True)


class Rows(NamedTuple):
    """How many lines those parts have that grow with the terminal."""

    chart: int
    machines: int
    events: int


def rows(height: int) -> Rows:
    """What a terminal has room for.

    Args:
        height: of the terminal, in lines; less than 21 is taken as that.
    """
    free = max(height - _FIXED, 10)
    chart = min(max(2 * free // 5, 4), _MOST_CHART)
    events = min(max(free // 5, 2), _MOST_EVENTS)
    return Rows(chart, free - chart - events, events)


def line(state: State) -> str:
    """The state as one line.

    Args:
        state: with a sample at least.
    """
    now, capacity = state.record.samples[-1], state.record.capacity_cores
    services, batch, _ = _shares(now, capacity)
    return (
        f"{_time(now.seconds)}  services short of CPU {now.short_pods:3d}  "
        f"CPU {services + batch:5.1f} %, without batch {services:5.1f} %  "
        f"batch {now.batch.sum():5.0f} of {now.offered.sum():5.0f} cores used of offered  "
        f"held back on {_held(now):3d} machines  "
        f"tasks {now.running:4d} run, {now.waiting:4d} wait, {now.finished:5d} done, "
        f"{len(state.record.evictions):4d} evicted"
    )


def frame(state: State, width: int, height: int) -> Group:
    """The whole screen.

    Args:
        state: what is shown.
        width: of the terminal, in characters.
        height: of the terminal, in lines.
    """
    parts: list[RenderableType] = [header(state)]
    if state.record.samples:
        room = rows(height)
        parts += [
            protection(state), bars(state, width), tasks(state), Text(),
            chart(state, width, room.chart), Text(), machines(state, width, room.machines), Text(),
            events(state, width, room.events),
        ]  # fmt: skip
    else:
        parts.append(Text("services are being placed ...", "dim"))
    if state.access:
        parts.append(Text(f"{state.access}   Ctrl-C writes {state.report}", "dim", no_wrap=True))
    return Group(*parts)


def picture(state: State) -> str:
    """The screen as SVG."""
    console = Console(
        record=True, width=_PICTURE_WIDTH, height=_PICTURE_HEIGHT, file=io.StringIO(),
        force_terminal=True, color_system="truecolor",
    )  # fmt: skip
    # Where the files lay is nothing to show around.
    console.print(frame(state._replace(access=""), _PICTURE_WIDTH, _PICTURE_HEIGHT))
    # A text says its length; to cut each off as well makes the file half as large again.
    drawn = console.export_svg(title="koord up --colocation")
    for left_out in (_CLIPPED, _FETCHED, _MADE_BY):
        drawn = re.sub(left_out, "", drawn)
    return drawn


def header(state: State) -> Text:
    """Clock, speed, machines."""
    text = Text(no_wrap=True)
    text.append(f"{_time(state.seconds)} UTC", "bold")
    slow = state.wished and state.speed < 0.9 * state.wished
    text.append(f"   {state.speed:.0f} s a second", "yellow" if slow else "")
    if slow:
        text.append(f" of {state.wished}: the CPU is short", "yellow")
    text.append(f"   {len(state.record.names)} machines, {state.record.capacity_cores:.0f} CPUs")
    return text


def protection(state: State) -> Text:
    """What matters most: who of the services lacks CPU, and what is done about it."""
    now, text = state.record.samples[-1], Text(no_wrap=True)
    text.append("services short of CPU: ")
    short = f"{now.short_pods} pods" if now.short_pods else "none"
    text.append(short, "bold red" if now.short_pods else "bold green")
    text.append("   batch held back on ")
    held = _held(now)
    text.append(f"{held}", "bold magenta" if held else "bold")
    text.append(f" of {len(state.record.names)} machines")
    return text


def tasks(state: State) -> Text:
    """Batch tasks by what became of them."""
    now, evicted = state.record.samples[-1], len(state.record.evictions)
    text = Text(no_wrap=True)
    text.append(f"batch tasks    {now.running} run, {now.waiting} wait, {now.finished} done, ")
    text.append(f"{evicted} evicted", "red" if evicted else "")
    return text


def bars(state: State, width: int) -> Table:
    """CPU in use now, without batch and with it; what batch is offered and uses."""
    now, capacity = state.record.samples[-1], state.record.capacity_cores
    services, batch, system = _shares(now, capacity)
    length = max(width - 55, 20)
    grid = Table.grid(padding=(0, 1))
    alone = [(system, 0), (services - system, 1)]
    grid.add_row(
        "without batch",
        _bar(alone, length),
        Text(f"{services:4.0f} %", "bold"),
        "services and system",
    )
    grid.add_row(
        "with batch",
        _bar([*alone, (batch, 2)], length),
        Text(f"{services + batch:4.0f} %", "bold"),
        f"{now.batch.sum():.0f} of {now.offered.sum():.0f} cores used of offered",
    )
    return grid


def chart(state: State, width: int, rows: int) -> Text:
    """CPU in use over the last hours, in layers, above its hours; a column is some minutes.

    Args:
        state: what is shown.
        width: of the terminal.
        rows: the height, for 0 to 100 %.
    """
    columns = max(width - 6, 10)
    series, capacity = state.record.series(), state.record.capacity_cores
    layers = [
        100 * each / capacity for each in (series.cpu_system, series.cpu_services, series.cpu_batch)
    ]
    tops = np.cumsum([_columns(each, columns) for each in layers], axis=0)
    text = Text(no_wrap=True)
    for row in reversed(range(rows)):
        level = 100 * (row + 0.5) / rows
        text.append(f"{100 * (row + 1) // rows:3d}% " if _is_named(row, rows) else "     ", "dim")
        for column in tops.T:
            layer = int(np.searchsorted(column, level))
            colour, mark = _LAYERS[layer] if layer < len(_LAYERS) else ("", " ")
            text.append(mark, colour)
        text.append("\n")
    text.append("     " + _hours([each.seconds for each in state.record.samples], columns), "dim")
    text.append(f"\n     CPU in use, a column is {_CHART_MINUTES} minutes   ", "dim")
    for (colour, mark), name in zip(_LAYERS, ("system", "services", "batch"), strict=True):
        text.append(mark * 2, colour)
        text.append(f" {name}  ", "dim")
    return text


def machines(state: State, width: int, rows: int) -> Table:
    """The machines by name, as many as fit; where not all do, those first that hold batch back."""
    now, kept = state.record.samples[-1], state.record
    beside = 2 if width >= _WIDE else 1
    grid = Table.grid(padding=(0, 1))
    for _ in range(beside):
        for justify in ("left", "left", "right", "right", "left", "left"):
            grid.add_column(justify=justify, no_wrap=True)
    heads = ("machine", "CPU", "in use", "batch/offered cores", "", "")
    grid.add_row(*[Text(each, "dim") for each in heads] * beside)
    order = list(range(len(kept.names)))
    if len(order) > beside * (rows - 1):
        order.sort(key=lambda row: bool(now.held[row] >= HELD_BELOW))
        order = order[: beside * (rows - 2)]
    deep, evicted = -(-len(order) // beside), kept.evicted()
    for row in range(deep):
        cells: list[Text] = []
        for machine in order[row::deep]:
            cells += _machine(
                now, machine, kept.names[machine], kept.cpus[machine], int(evicted[machine])
            )
        grid.add_row(*cells)
    if len(order) < len(kept.names):
        grid.add_row(Text(f"and {len(kept.names) - len(order)} more", "dim"))
    return grid


def events(state: State, width: int, rows: int) -> Text:
    """What happened last, in so many lines."""
    text = Text(no_wrap=True, overflow="ellipsis")
    last = list(state.record.happenings)[-rows:]
    for each in last:
        text.append(f"{_time(each.seconds)[-5:]} ", "dim")
        text.append(f"{each.what:<11}", _WHAT[each.what])
        told, room = each.text, max(width - 18, 10)
        text.append((told if len(told) <= room else f"{told[: room - 1]}…") + "\n")
    text.append("\n" * (rows - len(last)))
    # The end of the last line is that of the part.
    text.right_crop(1)
    return text


def _machine(now: Sample, row: int, name: str, cpus: float, evicted: int) -> Sequence[Text]:
    shares = [float(100 * each[row] / cpus) for each in (now.system, now.services, now.batch)]
    held = float(now.held[row])
    mark = Text(f"held to {100 * held:.0f} %", "magenta") if held < HELD_BELOW else Text("")
    return (
        Text(name),
        _bar(list(zip(shares, range(3), strict=True)), _BAR),
        Text(f"{sum(shares):.0f} %"),
        Text(f"{now.batch[row]:.1f}/{now.offered[row]:.1f}"),
        mark,
        Text(f"{evicted} evicted" if evicted else "", "red"),
    )


def _bar(shares: Sequence[tuple[float, int]], length: int) -> Text:
    """Shares of 100 beside each other; each by its layer."""
    text, at, total = Text(no_wrap=True), 0, 0.0
    for share, layer in shares:
        total += share
        end = min(round(length * total / 100), length)
        colour, mark = _LAYERS[layer]
        text.append(mark * (end - at), colour)
        at = max(at, end)
    text.append("·" * (length - at), "dim")
    return text


def _columns(values: Floats, columns: int) -> Floats:
    """Means of :data:`_CHART_MINUTES` each, the last columns that fit; nothing yet is 0."""
    starts = np.arange(0, len(values), _CHART_MINUTES)
    counts = np.diff(starts, append=len(values))
    means = np.add.reduceat(values, starts) / counts if len(values) else values
    shown = means[-columns:]
    return np.concatenate([shown, np.zeros(columns - len(shown))])


def _hours(seconds: Sequence[float], columns: int) -> str:
    """The axis beneath: when the first column is, and where hours begin.

    Args:
        seconds: wall time of each value.
        columns: as many as :func:`_columns` gives.
    """
    skipped = max(-(-len(seconds) // _CHART_MINUTES) - columns, 0) * _CHART_MINUTES
    text = ""
    for at, now in enumerate(seconds[skipped:]):
        column, mark = at // _CHART_MINUTES, f"└{_time(now)[-5:]}"
        named = at == 0 or (now % 3_600 < 60 and column > len(text))
        if named and column + len(mark) <= columns:
            text = text.ljust(column) + mark
    return text


def _is_named(row: int, rows: int) -> bool:
    """Whether a line of the chart says its percent: the top, and the middle where there is one."""
    return row + 1 == rows or 2 * (row + 1) == rows


def _held(now: Sample) -> int:
    return int(np.count_nonzero(now.held < HELD_BELOW))


def _shares(now: Sample, capacity: float) -> tuple[float, float, float]:
    """Percent of all CPUs: services and system, batch, system."""
    system = float(now.system.sum())
    return (
        100 * (float(now.services.sum()) + system) / capacity,
        100 * float(now.batch.sum()) / capacity,
        100 * system / capacity,
    )


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%a %H:%M}"
