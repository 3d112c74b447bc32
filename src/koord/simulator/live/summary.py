# SPDX-License-Identifier: Apache-2.0
"""The figures of a run, for scripts and for people."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from koord.simulator.live import initial_config, run_record

if TYPE_CHECKING:
    from koord.simulator.live.run_record import RunRecord

_DIGITS = 4


def document(kept: RunRecord, seed: int, submitted: int, speed: float) -> dict[str, Any]:
    """What ``-o json`` prints.

    Args:
        kept: the run.
        seed: of it.
        submitted: batch tasks that have arrived.
        speed: simulated seconds a second that were reached.
    """
    series = kept.series()
    last = kept.samples[-1] if kept.samples else None
    # Seen once a minute, so that each counts for one.
    a_minute = run_record.MINUTE_SECONDS / 3600
    figures = {
        "hours": len(kept.samples) * a_minute,
        "nodes": len(kept.names),
        "cpus": kept.capacity_cores,
        "seed": seed,
        "speed": speed,
        "cpu_utilisation_percent": {
            "services_alone": _percent(kept, run_record.alone(series).cpu_used),
            "with_batch": _percent(kept, series.cpu_used),
        },
        "batch_offered_cores": _mean(series.batch_offered_cores),
        "batch_used_cores": _mean(series.cpu_batch),
        "batch_core_hours": float(series.cpu_batch.sum()) * a_minute,
        "batch_tasks": {
            "submitted": submitted,
            "finished": last.finished if last else 0,
            "running": last.running if last else 0,
            "waiting": last.waiting if last else 0,
        },
        "suppressed_machine_minutes": float(series.suppressed_machines.sum()),
        "short_service_pod_minutes": float(series.short_pods.sum()),
        "evictions": dict(Counter(each.feature for each in kept.evictions)),
        "settings": initial_config.SETTINGS,
    }
    return {name: _rounded(value) for name, value in figures.items()}


def rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """The same as a question and an answer a row.

    Args:
        figures: see :func:`document`.
    """
    used, tasks = figures["cpu_utilisation_percent"], figures["batch_tasks"]
    return [
        ("simulated", f"{figures['hours']:.1f} hours, {figures['nodes']} machines"),
        ("CPU in use by services and system", f"{used['services_alone']:.1f} %"),
        ("CPU in use with batch", f"{used['with_batch']:.1f} %"),
        ("batch CPU offered, mean", f"{figures['batch_offered_cores']:.0f} cores"),
        ("batch CPU used, mean", f"{figures['batch_used_cores']:.0f} cores"),
        ("batch work done", f"{figures['batch_core_hours']:,.0f} core-hours"),
        ("batch tasks submitted", f"{tasks['submitted']:,}"),
        ("batch tasks finished", f"{tasks['finished']:,}"),
        ("batch tasks evicted", f"{sum(figures['evictions'].values()):,}"),
        ("machine-minutes of suppressed batch", f"{figures['suppressed_machine_minutes']:,.0f}"),
        ("service pod-minutes short of CPU", f"{figures['short_service_pod_minutes']:,.0f}"),
    ]


def _percent(kept: RunRecord, cores: np.ndarray[Any, Any]) -> float:
    return 100 * _mean(cores) / kept.capacity_cores if kept.capacity_cores else 0.0


def _mean(values: np.ndarray[Any, Any]) -> float:
    return float(values.mean()) if len(values) else 0.0


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, dict) and all(isinstance(each, float) for each in value.values()):
        return {name: round(each, _DIGITS) for name, each in value.items()}
    return value
