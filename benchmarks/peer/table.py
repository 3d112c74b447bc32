# SPDX-License-Identifier: Apache-2.0
"""The table: medians over pairs, with the least and the most of pods a second."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence

from benchmarks.peer.arena import Run

KUBE, KOORD, BIND_ONLY = "kube-scheduler", "koord-scheduler", "bind-only"
GENERATOR, SERVERS = "generator", ("etcd", "kube-apiserver")
# All cores, or one core of a program that has one at work, count as full from this share on.
FULL = 0.85
# A run that reaches this share of what a client does that does not think waits for the API.
LIKE_BIND_ONLY = 0.8

_COLUMNS = (
    "scenario", "kube-scheduler limited by", "koord limited by",
    "kube-scheduler pods/s", "koord pods/s", "ratio",
    "kube-scheduler p50 / p99 ms", "koord p50 / p99 ms", "kube-scheduler CPU ms/pod",
    "koord CPU ms/pod: deciding + rest", "of these after the last binding", "CPU ratio",
)  # fmt: skip


def head(nodes: int, pods: int, pairs: int, bind_only: Sequence[Run]) -> str:
    """What was measured, and the head of the table."""
    rates = [run.per_second for run in bind_only]
    return "\n".join((
        f"{nodes:,} nodes, {pods:,} pods, {pairs} pairs on one machine of {os.cpu_count()} CPUs "
        f"({platform.machine()}) with etcd, kube-apiserver and the generator. A bind-only client "
        f"reaches {_spread(rates)} pods/s.",
        "",
        "Pods/s count from the first create to the last binding: median (least to most). The ratio "
        "is the median over pairs. p50 and p99 are from a pod's create to its binding, as a watch "
        "sees it. CPU is of the scheduler's process until it rests, with all its events written; "
        "how much of it came after the last binding stands apart (both schedulers). What limits is "
        "told by the cores that programs had in use until the last binding.",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        f"|{'---|' * len(_COLUMNS)}",
    ))  # fmt: skip


def row(name: str, kube: Sequence[Run], ours: Sequence[Run], bind_only: Sequence[Run]) -> str:
    """One line of the table; pairs belong together by their place."""
    if not kube:
        return f"| {name} | no pair of runs was complete {'|' * (len(_COLUMNS) - 1)}"
    most = _median([run.per_second for run in bind_only])
    kube_rates, our_rates = ([run.per_second for run in runs] for runs in (kube, ours))
    after = [_median([_each(run, run.after_seconds) for run in runs]) for runs in (kube, ours)]
    kube_cpu = _median([_each(run, run.cpu_seconds) for run in kube])
    deciding = _median([_each(run, run.decision_seconds) for run in ours])
    rest = _median([_each(run, run.cpu_seconds - run.decision_seconds) for run in ours])
    ratios = [b.per_second / a.per_second for a, b in zip(kube, ours, strict=True) if a.bound]
    cells = (
        name + _missing(kube, ours),
        limit(kube, KUBE, most), limit(ours, KOORD, most),
        _spread(kube_rates), _spread(our_rates), f"{_median(ratios):.2f}x",
        _waits(kube), _waits(ours), f"{kube_cpu:.2f}", f"{deciding:.2f} + {rest:.2f}",
        f"{after[0]:.2f} / {after[1]:.2f}",
        f"{(deciding + rest) / kube_cpu:.2f}" if kube_cpu else "-",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


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


def _missing(kube: Sequence[Run], ours: Sequence[Run]) -> str:
    """Pods that got no node are told of: rates of such runs say little."""
    left = [sum(run.wanted - run.bound for run in runs) for runs in (kube, ours)]
    return f" (not bound: {left[0]} / {left[1]})" if any(left) else ""


def _waits(runs: Sequence[Run]) -> str:
    p50, p99 = (_median([run[at] * 1e3 for run in runs]) for at in (3, 4))
    return f"{p50:,.0f} / {p99:,.0f}"


def _each(run: Run, seconds: float) -> float:
    """Milliseconds a bound pod."""
    return seconds / max(1, run.bound) * 1e3


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    return f"{_median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else float("nan")
