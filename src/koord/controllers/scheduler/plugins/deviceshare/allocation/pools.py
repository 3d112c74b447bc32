# SPDX-License-Identifier: Apache-2.0
"""From which devices of a node one attempt may allocate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.controllers.scheduler.plugins.deviceshare.state.cache import RemainingAmounts


@dataclass(frozen=True, slots=True)
class DevicePool:
    """What of a node an allocation may use, beside what is free for everybody.

    Attributes:
        numa_nodes: a bit for each NUMA node that devices may come from; None for all.
        returned: held by reservations, but the pod may have it.
        preferred: by type, cards taken before all others.
        required: by type, the only cards that may be taken.
        caps: the most of each card; a type of which none is named is not capped.
        functions_of: reservations whose virtual functions the pod may have.
        designated: by type and minor, the only virtual functions that may be taken.
        reserving: the allocation is to be held: nothing is left for later.
    """

    numa_nodes: int | None = None
    returned: RemainingAmounts = field(default_factory=dict)
    preferred: Mapping[str, int] = field(default_factory=dict)
    required: Mapping[str, int] = field(default_factory=dict)
    caps: RemainingAmounts = field(default_factory=dict)
    functions_of: Sequence[str] = ()
    designated: Mapping[tuple[str, int], frozenset[str]] = field(default_factory=dict)
    reserving: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it is all that is free for everybody."""
        return self is FREE_POOL or self is RESERVING_POOL


FREE_POOL = DevicePool()
RESERVING_POOL = DevicePool(reserving=True)
"""The same for an allocation that is to be held."""
