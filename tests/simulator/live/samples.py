# SPDX-License-Identifier: Apache-2.0
"""Samples and records that are made up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from koord.simulator.live.initial_config import START_SECONDS
from koord.simulator.live.run_record import RunRecord
from koord.simulator.live.sample import ClusterSample
from koord.simulator.nodes.strategies.enforcement import Eviction

MACHINES, CPUS = 3, 32


def sample(minute: int = 1, **columns: float | Sequence[float]) -> ClusterSample:
    """A minute on three machines; of what is not said there is none, and nobody is held down."""
    nothing, full = np.zeros(MACHINES), np.ones(MACHINES)
    made = ClusterSample(
        seconds=START_SECONDS + 60 * minute,
        services=nothing, batch=nothing, system=nothing, offered=nothing,
        allowed=np.inf * full, held=full, memory_bytes=nothing,
        requested=0.0, running=0, waiting=0, finished=0, short_pods=0,
    )  # fmt: skip
    arrays: dict[str, Any] = {
        name: value if isinstance(value, int | float) else np.array(value, np.float64)
        for name, value in columns.items()
    }
    return made._replace(**arrays)


def record() -> RunRecord:
    """An hour: services rise, batch fills up, is held down and loses a pod."""
    kept = RunRecord([f"node-{row}" for row in range(MACHINES)], [CPUS] * MACHINES)
    for minute in range(1, 61):
        held = 0.7 if minute > 40 else 1.0
        evictions = [eviction(minute, 1)] if minute == 50 else []
        kept.add(
            sample(
                minute, services=[5 + minute / 10] * 3, batch=[9 * held, 8, 7], system=[0.5] * 3,
                offered=[12 - minute / 20] * 3, held=[held, 1, 1], requested=24.0,
                running=6, waiting=2, finished=minute // 10,
            ),
            evictions,
        )  # fmt: skip
    return kept


def eviction(minute: float, row: int, feature: str = "BECPUEvict") -> Eviction:
    """One of a pod of a Job."""
    return Eviction(START_SECONDS + 60 * minute - 5, row, feature, f"default/train-1-{row}")
