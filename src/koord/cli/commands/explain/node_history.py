# SPDX-License-Identifier: Apache-2.0
"""How a node's offer moved over the last hour, as a line of blocks a resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Group
from rich.text import Text

from koord.cli.terminal.output import plain_table

Answer = Mapping[str, Any]
_BLOCKS = "▁▂▃▄▅▆▇█"
_NOTHING = "·"
# So that a line fits into 80 columns.
_CELLS = 40
_HOUR_SECONDS = 3600.0
_REASONS = {
    "disabled": "co-location was off",
    "unread": "the configuration could not be read",
    "noMetric": "there was no NodeMetric",
    "noTime": "no agent had reported",
    "noBody": "the agent had measured nothing",
    "expired": "the last report was too old",
}
_SERIES = (
    ("batch CPU", "batchCpuMilli", 1000, "cores"),
    ("batch memory", "batchMemoryBytes", 2**30, "GiB"),
    ("mid CPU", "midCpuMilli", 1000, "cores"),
    ("mid memory", "midMemoryBytes", 2**30, "GiB"),
)


def history_lines(past: Answer, now: float) -> Group:
    """Two cells in three minutes, the last one now; a dot where nothing was offered.

    Args:
        past: ``sinceSeconds`` and ``steps`` of the answer.
        now: wall seconds of the answer.
    """
    steps = past["steps"]
    if past["sinceSeconds"] is None or not steps:
        return Group(Text("  nothing is remembered yet", style="dim"))
    table = plain_table()
    for name, field, unit, word in _SERIES:
        values = [step[field] for step in steps if not step["reason"]]
        if not any(values) and name.startswith("mid"):
            continue
        low, high = (f"{each / unit:.2f}" for each in (min(values, default=0),
                                                       max(values, default=0)))  # fmt: skip
        table.add_row(name, _line(steps, field, past["sinceSeconds"], now),
                      f"{low} to {high} {word}" if values else "none")  # fmt: skip
    since = datetime.fromtimestamp(past["sinceSeconds"]).strftime("%H:%M:%S")
    changes = len(steps) - 1
    notes = [Text(f"known since {since}, {changes} change{'' if changes == 1 else 's'}", "dim")]
    for begin, end, reason in _silences(steps, now):
        between = f"nothing from {_time(begin)} to {'now' if end >= now else _time(end)}"
        notes.append(Text(f"{between}: {_REASONS.get(reason, reason)}", "yellow"))
    return Group(table, *notes)


def _line(steps: Sequence[Answer], field: str, since: float, now: float) -> Text:
    most = max((step[field] for step in steps), default=0)
    line = Text()
    for cell in range(_CELLS):
        moment = now - _HOUR_SECONDS * (_CELLS - 1 - cell) / _CELLS
        step = next((each for each in reversed(steps) if each["seconds"] <= moment), None)
        if step is None or moment < since:
            line.append(" ")
        elif step["reason"]:
            line.append(_NOTHING, "yellow")
        else:
            height = step[field] * (len(_BLOCKS) - 1) // most if most else 0
            line.append(_BLOCKS[height], "cyan")
    return line


def _silences(steps: Sequence[Answer], now: float) -> list[tuple[float, float, str]]:
    ends = [*(step["seconds"] for step in steps[1:]), now]
    return [
        (step["seconds"], end, step["reason"])
        for step, end in zip(steps, ends, strict=True)
        if step["reason"]
    ]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%H:%M:%S")
