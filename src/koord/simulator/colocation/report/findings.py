# SPDX-License-Identifier: Apache-2.0
"""What there is to see in each picture, in one sentence with its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.simulator.colocation.results.result import (
        ComparisonResult,
        DaySeries,
        Floats,
        Singles,
    )


def utilisation(sides: Mapping[str, DaySeries], capacity_cores: float) -> str:
    """Of :func:`drawings.utilisation`."""
    (first, before), (second, after) = (
        (title, 100 * _mean(series.cpu_used) / capacity_cores) for title, series in sides.items()
    )
    times = f", {after / before:.2f} times as much" if before > 0 else ""
    return f"CPU in use: {after:.1f} % {second}, {before:.1f} % {first}{times}."


def offers(series: DaySeries) -> str:
    """Of :func:`drawings.offers`."""
    offered, used = _mean(series.batch_offered_cores), _mean(series.cpu_batch)
    if offered <= 0:
        return "Nothing was offered to batch."
    share = f"{100 * used / offered:.0f} %"
    return (
        f"Batch used {share} of what it was offered: {used:.0f} of {offered:.0f} cores, on average."
    )


def waiting(outcome: ComparisonResult) -> str:
    """Of :func:`drawings.waiting`."""
    before, after = (
        int(run.series.batch_waiting_pods[-1]) if len(run.series.hours) else 0
        for run in (outcome.without, outcome.with_)
    )
    return f"At the end {before:,} tasks waited without co-location and {after:,} with it."


def protection(series: DaySeries, machines: int) -> str:
    """Of :func:`drawings.protection`, on so many machines."""
    minutes, evicted = round(series.suppressed_machines.sum()), int(series.evictions.sum())
    share = 100 * minutes / max(machines * len(series.hours), 1)
    tasks = f"{evicted:,} tasks were evicted" if evicted else "no task was evicted"
    return f"Batch was held back in {minutes:,} machine-minutes, {share:.2g} % of all, and {tasks}."


def shortage(outcome: ComparisonResult) -> str:
    """Of :func:`drawings.shortage`."""
    before, after = (
        sum(each.short_pod_minutes for each in run.shortage.services)
        for run in (outcome.without, outcome.with_)
    )
    minutes = sum(each.pod_minutes for each in outcome.with_.shortage.services)
    share = f" ({100 * after / minutes:.2g} % of all)" if after and minutes else ""
    return (
        f"Pod-minutes in which a service was short of CPU: {after:,}{share} with co-location, "
        f"{before:,} without."
    )


def machines(sides: Mapping[str, Floats | Singles]) -> str:
    """Of :func:`drawings.machines`."""
    (first, before), (second, after) = (
        (title, np.percentile(100 * share, (10, 90)) if share.size else (0.0, 0.0))
        for title, share in sides.items()
    )
    return (
        f"Four minutes of five a machine is between {after[0]:.0f} and {after[1]:.0f} % busy "
        f"{second}, between {before[0]:.0f} and {before[1]:.0f} % {first}."
    )


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0
