# SPDX-License-Identifier: Apache-2.0
"""The model of contention beside what was measured of a kernel's scheduler.

The points are those of ``tests/data/contention``: what a service wanted and got while best-effort
processes left a share of its CPUs free. Without a point for a share there is nothing to say of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from koord.simulator.colocation.node_model.cpu_contention import loss

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koord.simulator.colocation.inputs.scenario import SchedulingDelay


class ContentionComparison(NamedTuple):
    """One point.

    Attributes:
        condition: how best-effort processes were held.
        free_share: of the CPUs, that nobody used.
        lost: share of the wanted CPU that the service did not get.
        modelled: the same as the model has it.
    """

    condition: str
    free_share: float
    lost: float
    modelled: float

    @property
    def error(self) -> float:
        """Above 0 where the model takes more from services than the kernel did."""
        return self.modelled - self.lost


def beside(
    points: Iterable[Mapping[str, Any]], delay: SchedulingDelay
) -> list[ContentionComparison]:
    """Every point beside the model."""
    return [
        ContentionComparison(
            str(point["condition"]),
            float(point["free_cpu_share"]),
            max(0.0, 1.0 - float(point["granted_cpu"]) / float(point["wanted_cpu"])),
            float(loss(np.array([float(point["free_cpu_share"])]), delay)[0]),
        )
        for point in points
    ]


def mean_error(comparisons: Iterable[ContentionComparison]) -> float:
    """The mean of the errors' sizes."""
    return float(np.mean([abs(each.error) for each in comparisons]))
