# SPDX-License-Identifier: Apache-2.0
"""CPU and memory of a window together, and as they are written down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol.resources import CPU, MEMORY
from koord.kernels.quantity import Format, Quantity

if TYPE_CHECKING:
    from koord.agent.metrics.metric_kinds import MetricKind
    from koord.agent.metrics.reader import MetricReader, Window

_MILLI = 1000


def resources(cpu_cores: float, memory_bytes: float) -> dict[str, Quantity]:
    """Amounts as they are reported, fractions of a milli-core and of a byte cut off."""
    return {
        CPU: Quantity.from_milli(int(cpu_cores * _MILLI)),
        MEMORY: Quantity.from_value(int(memory_bytes), Format.BINARY_SI),
    }


def pairs(
    metrics: MetricReader, cpu_kind: MetricKind, memory_kind: MetricKind, window: Window
) -> dict[str, tuple[float, float]]:
    """Averages of CPU and memory by the kind's label, where both are there."""
    cpu, memory = metrics.read(cpu_kind, window), metrics.read(memory_kind, window)
    cores, used = cpu.by_label(cpu.avg), memory.by_label(memory.avg)
    return {label: (cores[label], used[label]) for label in cores if label in used}
