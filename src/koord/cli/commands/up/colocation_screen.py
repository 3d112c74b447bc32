# SPDX-License-Identifier: Apache-2.0
"""The screen of ``koord up --colocation``: functions from a state to what rich draws."""

from __future__ import annotations

import io
import re
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from koord.simulator.live.notable_events import HELD_BELOW

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from rich.console import JustifyMethod

    from koord.simulator.colocation.results.result import Floats
    from koord.simulator.live.run_record import RunRecord
    from koord.simulator.live.sample import ClusterSample

# As in the report.
SYSTEM, SERVICES, BATCH = "#999999", "#2f8fd0", "#E69F00"
_LAYERS = ((SYSTEM, "░"), (SERVICES, "█"), (BATCH, "▒"))
_WHAT = {"offered": "green", "suppressed": "magenta", "released": "green", "evicted": "bold red"}
_CHART_MINUTES = 3
_BAR, _WIDE = 10, 122
# What a line says beside the bars needs this width; so does each column of the machines.
_BESIDE_BARS = 73
_MACHINE_COLUMNS: tuple[tuple[str, JustifyMethod, int], ...] = (
    ("machine", "left", 0), ("CPU", "left", 75), ("in use", "right", 0),
    ("batch/offered cores", "right", 54), ("", "left", 0), ("", "left", 66),
)  # fmt: skip
# The least lines of a part, its axis aside, and those of the chart and of what happened at most.
_LEAST_CHART, _LEAST_MACHINES = 3, 3
_MOST_CHART, _MOST_EVENTS = 10, 8
_GAP = "   "
# Where the text of what happened begins; what breaks lines at words.
_TEXT_COLUMN, _FOLDING = 17, Console(file=io.StringIO())
_LINE_MINUTES = 10
_LEAST_SECONDS = 0.1
_PICTURE_WIDTH, _PICTURE_HEIGHT = 124, 40
_CLIPPED = r' clip-path="url\(#[^)]*-line-\d+\)"'
# A picture that stands alone fetches no fonts from elsewhere.
_FETCHED = r"\s*@font-face \{[^}]*\}"
_MADE_BY = r"\s*<!-- Generated with Rich [^>]*-->"


class ScreenState(NamedTuple):
    """What is shown.

    Attributes:
        seconds: wall time of the cluster.
        wished, speed: simulated seconds a second, asked for and reached just now.
        submitted: batch tasks that have arrived.
        access: how kubectl gets there; empty shows neither that nor the report.
        report: where the report will be.
    """

    seconds: float
    requested_speed: int
    speed: float
    record: RunRecord
    submitted: int
    access: str
    report: str


class RunDisplay(Protocol):
    """Shows how it goes."""

    def show(self, state: ScreenState) -> None:
        """Takes up a state; may be called more often than is drawn."""
        ...


class LineDisplay:
    """A line for every ten simulated minutes.

    Args:
        stream: where they go.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next = 0.0

    def show(self, state: ScreenState) -> None:
        """A line if it is time."""
        if state.record.samples and state.record.samples[-1].seconds >= self._next:
            self._next = state.record.samples[-1].seconds + 60 * _LINE_MINUTES
            print(line(state), file=self._stream, flush=True)


class FullScreenDisplay:
    """The whole terminal, drawn anew at most ten times a second."""

    def __init__(self) -> None:
        self._console = Console()
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._drawn = 0.0

    def __enter__(self) -> FullScreenDisplay:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
        # The cluster's end and the report take seconds.
        print("ending ...", file=sys.stderr, flush=True)

    def show(self, state: ScreenState) -> None:
        """Draws, unless that was done just now."""
        now = time.monotonic()
        if now - self._drawn >= _LEAST_SECONDS:
            self._drawn = now
            width, height = self._console.size
            self._live.update(frame(state, width, height), refresh=True)


class ScreenLayout(NamedTuple):
    """How many lines those parts have that grow with the terminal; 0 leaves a part out."""

    chart: int
    machines: int
    events: int


def rows(lines: int, axis: int) -> ScreenLayout:
    """What a terminal has room for: the chart before machines, machines before what happened.

    Args:
        lines: free ones, those between the parts included.
        axis: lines of the chart's axis and legend.
    """
    free = lines - axis - 3
    if free >= 2 + _LEAST_CHART + _LEAST_MACHINES:
        chart = min(max(2 * free // 5, _LEAST_CHART), _MOST_CHART)
        events = min(max(free // 5, 2), _MOST_EVENTS)
        return ScreenLayout(chart, free - chart - events, events)
    free += 1
    if free >= _LEAST_CHART + _LEAST_MACHINES:
        return ScreenLayout(free // 2, free - free // 2, 0)
    free += 1
    return ScreenLayout(free, 0, 0) if free >= _LEAST_CHART else ScreenLayout(0, 0, 0)


def line(state: ScreenState) -> str:
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


def frame(state: ScreenState, width: int, height: int) -> Group:
    """The whole screen.

    Args:
        state: what is shown.
        width: of the terminal, in characters.
        height: of the terminal, in lines.
    """
    top: list[Text] = flowing(header(state), width)
    if not state.record.samples:
        top.append(Text("services are being placed ..."))
        return Group(*top, *_bottom(state, width))
    top += flowing(protection(state), width)
    top += bars(state, width)
    top += flowing(tasks(state, offered=width < _BESIDE_BARS), width)
    # How to get there stays whatever the height.
    bottom = _bottom(state, width)[: max(height - 1, 1)]
    top = top[: max(height - len(bottom), 0)]
    legend = flowing(_legend(), width - 5)
    room = rows(height - len(top) - len(bottom), 1 + len(legend))
    parts: list[RenderableType] = [*top]
    if room.chart:
        parts += [Text(), chart(state, width, room.chart, legend)]
    if room.machines:
        parts += [Text(), machines(state, width, room.machines)]
    if room.events:
        parts += [Text(), events(state, width, room.events)]
    return Group(*parts, *bottom)


def flowing(parts: Sequence[Text], width: int) -> list[Text]:
    """Parts beside each other, on as many lines as they need.

    Args:
        parts: each stays whole where a line has room for it.
        width: of a line, in characters.
    """
    lines: list[Text] = []
    for part in filter(None, parts):
        if lines and len(lines[-1]) + len(_GAP) + len(part) <= width:
            lines[-1].append(_GAP).append_text(part)
        else:
            lines += part.wrap(_FOLDING, width, overflow="fold")
    for each in lines:
        each.no_wrap = True
    return lines


def _bottom(state: ScreenState, width: int) -> list[Text]:
    """How kubectl gets there, and how it ends, in as many words as there is room for."""
    if not state.access:
        return []
    for end in (f"Ctrl-C writes {state.report}", "Ctrl-C ends it", "Ctrl-C"):
        if len(state.access) + len(_GAP) + len(end) <= width:
            return [Text(f"{state.access}{_GAP}{end}", "dim", no_wrap=True)]
    return list(Text(state.access, "dim").divide(range(width, len(state.access), width)))


def picture(state: ScreenState) -> str:
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


def header(state: ScreenState) -> list[Text]:
    """Clock, speed, machines."""
    # Before two readings there is none.
    speed = Text(f"{state.speed:.0f} s a second" if state.speed else "")
    if 0 < state.speed < 0.9 * state.requested_speed:
        words = f"{state.speed:.0f} s a second of {state.requested_speed}: the CPU is short"
        speed = Text(words, "yellow")
    count, cpus = len(state.record.names), state.record.capacity_cores
    clock = Text(f"{_time(state.seconds)} UTC", "bold")
    return [clock, speed, Text(f"{count} machine{'s' * (count != 1)}, {cpus:.0f} CPUs")]


def protection(state: ScreenState) -> list[Text]:
    """What matters most: who of the services lacks CPU, and what is done about it."""
    now = state.record.samples[-1]
    short = Text("services short of CPU: ")
    told = f"{now.short_pods} pods" if now.short_pods else "none"
    short.append(told, "bold red" if now.short_pods else "bold green")
    count, held = _held(now), Text("batch held back on ")
    held.append(f"{count}", "bold magenta" if count else "bold")
    held.append(f" of {len(state.record.names)} machines")
    return [short, held]


def tasks(state: ScreenState, *, offered: bool = False) -> list[Text]:
    """Batch tasks by what became of them.

    Args:
        state: what is shown.
        offered: whether to say here what batch is offered and uses.
    """
    now, evicted = state.record.samples[-1], len(state.record.evictions)
    text = Text(f"batch tasks    {now.running} run, {now.waiting} wait, {now.finished} done, ")
    text.append(f"{evicted} evicted", "red" if evicted else "")
    return [Text(f"batch    {_offered(now)}"), text] if offered else [text]


def bars(state: ScreenState, width: int) -> list[Text]:
    """CPU in use now, without batch and with it; what batch is offered and uses."""
    now, capacity = state.record.samples[-1], state.record.capacity_cores
    services, batch, system = _shares(now, capacity)
    alone = [(system, 0), (services - system, 1)]
    beside = ("services and system", _offered(now)) if width >= _BESIDE_BARS else ("", "")
    # As long whatever the numbers are, so that nothing jumps.
    length = max(width - (57 if beside[0] else 20), 5)
    lines = []
    for name, shares, told in (
        ("without batch", alone, beside[0]),
        ("with batch", [*alone, (batch, 2)], beside[1]),
    ):
        text = Text(f"{name:<13} ", no_wrap=True).append_text(_bar(shares, length))
        text.append(f" {sum(share for share, _ in shares):3.0f} %", "bold").append(f" {told}")
        text.rstrip()
        lines.append(text)
    return lines


def _offered(now: ClusterSample) -> str:
    return f"{now.batch.sum():.0f} of {now.offered.sum():.0f} cores used of offered"


def chart(state: ScreenState, width: int, rows: int, legend: Sequence[Text] = ()) -> Text:
    """CPU in use over the last hours, in layers, above its hours; a column is some minutes.

    Args:
        state: what is shown.
        width: of the terminal.
        rows: the height, for 0 to 100 %.
        legend: the lines beneath.
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
    for each in legend:
        text.append("\n     ").append_text(each)
    return text


def _legend() -> list[Text]:
    parts = [Text(f"CPU in use, a column is {_CHART_MINUTES} minutes", "dim")]
    for (colour, mark), name in zip(_LAYERS, ("system", "services", "batch"), strict=True):
        parts.append(Text.assemble((mark * 2, colour), (f" {name}", "dim")))
    return parts


def machines(state: ScreenState, width: int, rows: int) -> Table:
    """The machines by name, as many as fit; where not all do, those first that hold batch back."""
    now, kept = state.record.samples[-1], state.record
    beside = 2 if width >= _WIDE else 1
    shown = [at for at, (_, _, least) in enumerate(_MACHINE_COLUMNS) if width >= least]
    grid = Table.grid(padding=(0, 1))
    for at in shown * beside:
        grid.add_column(justify=_MACHINE_COLUMNS[at][1], no_wrap=True)
    grid.add_row(*[Text(_MACHINE_COLUMNS[at][0], "dim") for at in shown] * beside)
    order = list(range(len(kept.names)))
    if len(order) > beside * (rows - 1):
        order.sort(key=lambda row: bool(now.held[row] >= HELD_BELOW))
        order = order[: beside * (rows - 2)]
    deep, evicted = -(-len(order) // beside), kept.evicted()
    for row in range(deep):
        cells: list[Text] = []
        for machine in order[row::deep]:
            every = _machine(
                now, machine, kept.names[machine], kept.cpus[machine], int(evicted[machine])
            )
            cells += [every[at] for at in shown]
        grid.add_row(*cells)
    if len(order) < len(kept.names):
        grid.add_row(Text(f"and {len(kept.names) - len(order)} more", "dim"))
    return grid


def events(state: ScreenState, width: int, rows: int) -> Text:
    """What happened last, in so many lines."""
    lines: list[Text] = []
    for each in reversed(state.record.happenings):
        told = Text(each.text).wrap(_FOLDING, max(width - _TEXT_COLUMN, 10), overflow="fold")
        if lines and len(lines) + len(told) > rows:
            break
        head = Text.assemble((f"{_time(each.seconds)[-5:]} ", "dim"),
                             (f"{each.what:<11}", _WHAT[each.what]))  # fmt: skip
        rest = [Text(" " * _TEXT_COLUMN).append_text(line) for line in told[1:]]
        lines[:0] = [head.append_text(told[0]), *rest]
    del lines[rows:]
    lines += [Text()] * (rows - len(lines))
    return Text("\n", no_wrap=True).join(lines)


def _machine(now: ClusterSample, row: int, name: str, cpus: float, evicted: int) -> Sequence[Text]:
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


def _held(now: ClusterSample) -> int:
    return int(np.count_nonzero(now.held < HELD_BELOW))


def _shares(now: ClusterSample, capacity: float) -> tuple[float, float, float]:
    """Percent of all CPUs: services and system, batch, system."""
    system = float(now.system.sum())
    return (
        100 * (float(now.services.sum()) + system) / capacity,
        100 * float(now.batch.sum()) / capacity,
        100 * system / capacity,
    )


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%a %H:%M}"
