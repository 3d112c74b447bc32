# SPDX-License-Identifier: Apache-2.0
"""The figures of a simulation as a document for scripts, and as rows for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.simulator.colocation.results.result import ComparisonResult, DayResult

_DIGITS = 4


def document(outcome: ComparisonResult) -> dict[str, Any]:
    """What ``-o json`` prints; where a figure has no two sides it is that with co-location.

    ``partial`` is there only where the runs were stopped: after so many of so many hours.
    """
    without, with_ = outcome.without, outcome.with_
    partial = {"hours": _rounded(outcome.scenario.hours), "of_hours": outcome.requested_hours}
    return {
        **({"partial": partial} if outcome.partial else {}),
        "scenario": outcome.scenario.metadata.name,
        "seed": outcome.seed,
        "cpu_utilisation_percent": _both(
            without.cpu_utilisation_percent, with_.cpu_utilisation_percent
        ),
        "latency_sensitive_short_pod_minutes_percent": _both(
            without.short_pod_minutes_percent, with_.short_pod_minutes_percent
        ),
        "batch_core_hours": _rounded(with_.batch_core_hours),
        "batch_core_hours_without": _rounded(without.batch_core_hours),
        "wasted_core_hours": _rounded(with_.wasted_core_hours),
        "suppressions": with_.suppressions,
        "evictions": with_.evictions,
        "node_updates": with_.node_updates,
        "settings": outcome.settings,
        "seconds": _rounded(outcome.seconds),
    }


HEADS = ("", "without", "with", "")


def rows(outcome: ComparisonResult) -> list[tuple[str, str, str, str]]:
    """The comparison, a row a question: :data:`HEADS`."""
    without, with_ = outcome.without, outcome.with_
    return [
        (
            "CPU utilisation",
            f"{without.cpu_utilisation_percent:.1f} %",
            f"{with_.cpu_utilisation_percent:.1f} %",
            f"{outcome.utilisation_ratio:.2f}x",
        ),
        (
            "latency-sensitive pod-minutes short of CPU",
            f"{without.short_pod_minutes_percent:.3f} %",
            f"{with_.short_pod_minutes_percent:.3f} %",
            f"{outcome.added_short_percent:+.3f} points",
        ),
        _counted("batch work done, core-hours", without, with_, "batch_core_hours"),
        _counted("work lost to evictions, core-hours", without, with_, "wasted_core_hours"),
        _counted("batch tasks evicted", without, with_, "evictions"),
        _counted("machine-minutes of suppressed batch", without, with_, "suppressions"),
        ("batch tasks finished", f"{_finished(without):,}", f"{_finished(with_):,}", ""),
        ("batch tasks waiting at the end", f"{_waiting(without):,}", f"{_waiting(with_):,}", ""),
    ]


def spread(outcomes: Sequence[ComparisonResult]) -> list[tuple[str, str, str, str]]:
    """One row a seed: utilisation without and with, their ratio, added short pod-minutes.

    Beneath them the mean of each, and by how much seeds differ: the standard deviation.
    """
    figures = np.array(
        [
            (
                each.without.cpu_utilisation_percent,
                each.with_.cpu_utilisation_percent,
                each.utilisation_ratio,
                each.added_short_percent,
            )
            for each in outcomes
        ]
    )
    names = [str(each.seed) for each in outcomes]
    rows = [(name, *row) for name, row in zip(names, figures.tolist(), strict=True)]
    if len(rows) > 1:
        rows.append(("mean", *figures.mean(axis=0).tolist()))
        rows.append(("deviation", *figures.std(axis=0, ddof=1).tolist()))
    return [
        (name, f"{without:.2f}", f"{with_:.2f}", f"{ratio:.3f}x, {short:+.4f} points short")
        for name, without, with_, ratio, short in rows
    ]


def _both(without: float, with_: float) -> dict[str, float]:
    return {"without": _rounded(without), "with": _rounded(with_)}


def _rounded(value: float) -> float:
    return round(float(value), _DIGITS)


def _counted(
    label: str, without: DayResult, with_: DayResult, field: str
) -> tuple[str, str, str, str]:
    before, after = getattr(without, field), getattr(with_, field)
    factor = f"{after / before:.1f}x" if before else ""
    return label, f"{before:,.0f}", f"{after:,.0f}", factor


def _finished(run: DayResult) -> int:
    return sum(kind.finished for kind in run.batch)


def _waiting(run: DayResult) -> int:
    waiting = run.series.batch_waiting_pods
    return int(waiting[-1]) if len(waiting) else 0
