# SPDX-License-Identifier: Apache-2.0
"""Prefers nodes whose requested CPU comes close to a target: packs up to it, spreads beyond."""

import msgspec
import numpy as np

from koord.controllers.cluster.node_table import Aspect
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin, Score

CPU = 0  # the first row of the node table's columns, in milli-cores


class TargetUtilizationArgs(msgspec.Struct, rename="camel"):
    """``targetPercent``: 1 to 99."""

    target_percent: int = 70


class TargetUtilization(Plugin, Score):
    """Scores target..100 on the way up to the target, and target..0 from there to a full node."""

    name = "TargetUtilization"
    args_type = TargetUtilizationArgs
    depends = Aspect.NODE | Aspect.PODS
    normalization = Normalization.NONE

    def score(self, cycle, rows):
        """By row: 0 to 100."""
        table, target = cycle.table, self.args.target_percent
        capacity = np.maximum(table.allocatable[CPU, rows], 1)
        used = (table.requested[CPU, rows] + cycle.shape.request.get("cpu", 0)) * 100 // capacity
        rising = target + (100 - target) * used // target
        falling = target * (100 - used) // (100 - target)
        return np.where(used <= target, rising, np.maximum(falling, 0))
