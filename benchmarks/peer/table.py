# SPDX-License-Identifier: Apache-2.0
"""The table: medians over pairs, with the least and the most of pods a second."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version

from benchmarks.peer.arena import OTHERS, Run
from benchmarks.peer.rows import Row
from tests.real.binaries import KUBERNETES

KUBE, KOORD, BIND_ONLY = "kube-scheduler", "koord-scheduler", "bind-only"
ORIGINAL = "the original's koord-scheduler"
_SHORT = {ORIGINAL: "the original's"}
GENERATOR, SERVERS = "generator", ("etcd", "kube-apiserver")
# All cores, or one core of a program that has one at work, count as full from this share on.
FULL = 0.85
# Where programs that have no part in it use so much of a machine, figures in seconds say little.
MUCH = 0.15
# A run that reaches this share of what a client does that does not think waits for the API.
LIKE_BIND_ONLY = 0.8

_COLUMNS = (
    "scenario", "nodes", "pods", "pairs", "scheduler", "limited by", "pods/s",
    "p50 / p99 ms", "CPU ms/pod", "of it after the last binding",
    "koord's pods/s to it", "koord's CPU to it",
)  # fmt: skip


def made_with(bind_only: Sequence[Run]) -> str:
    """When, with what and where it was measured, in lines for a terminal."""
    rates = [run.per_second for run in bind_only]
    reached = [f"A bind-only client reaches {_spread(rates)} pods/s."] if rates else []
    return "\n".join((
        f"{date.today()}: koord {_koord_version()} (Python {platform.python_version()}),",
        f"kube-scheduler and kube-apiserver {KUBERNETES};",
        f"one machine of {os.cpu_count()} CPUs ({platform.machine()}) with etcd, kube-apiserver "
        "and the generator.",
        *reached,
    ))  # fmt: skip


def head(bind_only: Sequence[Run]) -> str:
    """What was measured, and the head of the table."""
    return "\n".join((
        made_with(bind_only),
        "",
        "Pods/s count from the first create to the last binding: median (least to most). p50 and "
        "p99 are from a pod's create to its binding, as a watch sees it. CPU is of the scheduler's "
        "process until it rests and the API has all its events (where a pod has none, that is "
        "said); how much of it came after the last binding stands apart. What limits is told by "
        "the cores that programs had in use until the last binding. Ratios are medians over pairs.",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        f"|{'---|' * len(_COLUMNS)}",
    ))  # fmt: skip


def lines(row: Row, runs: Mapping[str, Sequence[Run]], most: float) -> list[str]:
    """A line of the table for each side.

    Args:
        row: what was measured.
        runs: by side; those of a pair have the same place.
        most: pods a second of a client that binds without thinking; NaN where none was asked.
    """
    pairs = max((len(each) for each in runs.values()), default=0)
    first = (row.name, f"{row.nodes:,}", f"{row.pods:,}", str(pairs))
    if not pairs:
        return [f"| {' | '.join(first)} | no pair was complete {'| ' * (len(_COLUMNS) - 4)}"]
    return [
        f"| {' | '.join((*first, *_cells(which, runs, most)))} |" for which in runs if runs[which]
    ]


def text(row: Row, runs: Mapping[str, Sequence[Run]], most: float) -> str:
    """The same for a terminal of 80 columns; arguments as of :func:`lines`."""
    pairs = max((len(each) for each in runs.values()), default=0)
    out = [f"{row}, {pairs} pair{'s' * (pairs != 1)}"]
    if pairs:
        out.append(
            _TERMINAL.format("", "pods/s", "least to most", "p50 ms", "p99 ms", "CPU ms", "after")
        )
    for which in runs:
        if not runs[which]:
            continue
        rates = [run.per_second for run in runs[which]]
        waits = [
            f"{_median([wait * 1e3 for wait in each]):,.0f}"
            for each in zip(
                *((run.p50_seconds, run.p99_seconds) for run in runs[which]), strict=True
            )
        ]
        used = [
            f"{_median([_each(run, seconds) for run, seconds in each]):.2f}"
            for each in (
                [(run, run.cpu_seconds) for run in runs[which]],
                [(run, run.after_seconds) for run in runs[which]],
            )
        ]
        spread = f"{min(rates):,.0f} to {max(rates):,.0f}"
        name = _SHORT.get(which, which)
        out.append(_TERMINAL.format(name, f"{_median(rates):,.0f}", spread, *waits, *used))
        out.append(f"    limited by {limit(runs[which], which, most)}")
        if undone := _missing(runs[which]):
            out.append(f"   {undone}")
        faster, used_by_ours = _ratios(runs[which], runs.get(KOORD, ()), which)
        if faster:
            out.append(f"    koord: {faster} its pods/s, {used_by_ours} of its CPU")
    return "\n".join(out)


# CPU is a pod, and the part of it after the last binding.
_TERMINAL = "  {:<18}{:>8}{:>18}{:>9}{:>9}{:>8}{:>7}"


def _cells(which: str, by_side: Mapping[str, Sequence[Run]], most: float) -> tuple[str, ...]:
    runs = by_side[which]
    return (
        which + _missing(runs),
        limit(runs, which, most),
        _spread([run.per_second for run in runs]),
        f"{_median([run.p50_seconds * 1e3 for run in runs]):,.0f} / "
        f"{_median([run.p99_seconds * 1e3 for run in runs]):,.0f}",
        _cpu(which, runs),
        f"{_median([_each(run, run.after_seconds) for run in runs]):.2f}",
        *_ratios(runs, by_side.get(KOORD, ()), which),
    )


def _cpu(which: str, runs: Sequence[Run]) -> str:
    whole = _median([_each(run, run.cpu_seconds) for run in runs])
    if which != KOORD:
        return f"{whole:.2f}"
    deciding = _median([_each(run, run.decision_seconds) for run in runs])
    return f"{whole:.2f} (deciding {deciding:.2f})"


def _ratios(runs: Sequence[Run], ours: Sequence[Run], which: str) -> tuple[str, str]:
    """Of koord to a scheduler: of pods a second, and of CPU a pod."""
    both = [(one, other) for one, other in zip(runs, ours, strict=False) if one.bound]
    if which in (KOORD, BIND_ONLY) or not both:
        return "", ""
    rates = [b.per_second / a.per_second for a, b in both]
    used = [_each(b, b.cpu_seconds) / _each(a, a.cpu_seconds) for a, b in both if a.cpu_seconds > 0]
    return f"{_median(rates):.2f}x", f"{_median(used):.2f}"


def limit(runs: Sequence[Run], name: str, most: float, cores: int | None = None) -> str:
    """What kept a scheduler from binding more pods a second.

    Args:
        runs: of one scheduler.
        name: its own.
        most: pods a second of a client that binds without thinking.
        cores: of the machine; by default of this one.
    """
    cores = cores or os.cpu_count() or 1
    busy = {each: _median([run.busy.get(each, 0.0) for run in runs]) for each in runs[0].busy}
    others = busy.pop(OTHERS, 0.0)
    if others >= MUCH * cores:
        return f"other programs of this machine ({others:.1f} cores of {cores})"
    if sum(busy.values()) >= FULL * cores:
        whole = sum(busy.values())
        first = sorted(busy, key=lambda each: -busy[each])[:2]
        return "all cores: " + ", ".join(f"{each} {busy[each] / whole:.0%}" for each in first)
    for each in (name, GENERATOR):
        # Both have one thread that all else waits for.
        if FULL <= busy.get(each, 0.0) <= 1 + (1 - FULL):
            return f"{each}'s core"
    if _median([run.per_second for run in runs]) >= LIKE_BIND_ONLY * most:
        return "answers of the API server"
    return f"its own cycle ({busy.get(name, 0.0):.1f} cores of {cores})"


def _koord_version() -> str:
    try:
        return version("koord")
    except PackageNotFoundError:
        return "0"


def _missing(runs: Sequence[Run]) -> str:
    """Pods that got no node, which makes rates say little, and those that nothing was said of."""
    left = sum(run.wanted - run.bound for run in runs)
    unsaid = sum(max(0, run.bound - run.events) for run in runs)
    ended = sum(run.ended for run in runs)
    told = [f"{left:,} not bound"] * (left > 0) + [f"{unsaid:,} without an event"] * (unsaid > 0)
    told += [f"its program ended in {ended} of {len(runs)} runs"] * (ended > 0)
    return f" ({', '.join(told)})" if told else ""


def _each(run: Run, seconds: float) -> float:
    """Milliseconds a bound pod."""
    return seconds / max(1, run.bound) * 1e3


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    return f"{_median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else float("nan")
