# SPDX-License-Identifier: Apache-2.0
"""A load that wanders: for a while the services of some neighbouring machines want more.

Which neighbours, and when, depends on the seed and the time alone. The load is that of the pods
that were there at the start; it goes with them wherever they move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.base import rng

if TYPE_CHECKING:
    from koord.simulator.colocation.inputs.scenario import HotSpotSpec
    from koord.simulator.colocation.results.result import Ints, Singles


class HotSpot:
    """Where it is.

    Args:
        spec: how many machines, how long, how much.
        machine: of each pod at the start.
        hours: of the run.
        seed: of where it goes.
    """

    def __init__(self, spec: HotSpotSpec, machine: Ints, hours: float, seed: int) -> None:
        self._spec = spec
        self._group = machine // spec.machines
        groups = int(self._group.max(initial=0)) + 1
        draws = rng.numpy_stream(seed, "hot spot")
        stays = int(hours * 3600 / spec.every_seconds) + 1
        # Never twice in the same place running, where there is another one.
        steps = draws.integers(1, max(groups, 2), stays)
        self._places: Ints = (draws.integers(0, groups) + np.cumsum(steps)) % groups

    def extra(self, now_seconds: float) -> Singles:
        """What each pod wants beside, as a share of its request."""
        place = self._places[int(now_seconds // self._spec.every_seconds)]
        found: Singles = np.where(self._group == place, np.float32(self._spec.extra), np.float32(0))
        return found
