# SPDX-License-Identifier: Apache-2.0
"""One round: all deschedule plugins of all profiles, then all balance plugins.

Rule: docs/reference/descheduling.md#a-cycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.errors import KoordError
from koord.controllers.descheduler.framework.limiter import EvictionLimiter
from koord.controllers.descheduler.framework.outcomes import RoundRecord
from koord.controllers.descheduler.framework.profile import StrategyProfile

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.base.supervision import Supervisor
    from koord.controllers.descheduler.config.load import DeschedulerConfiguration
    from koord.controllers.descheduler.framework.cluster_access import ClusterAccess
    from koord.controllers.descheduler.framework.points import Evict
    from koord.controllers.descheduler.snapshot import ClusterSnapshot

LEAST_NODES = 2
"""With fewer a pod has nowhere to go."""
_EXPECTED = f"{LEAST_NODES} ready nodes or more that nodeSelector matches"


def idle_reason(snapshot: ClusterSnapshot) -> str:
    """Why a round over a snapshot has nothing to do, in one line; empty where it has."""
    nodes = len(snapshot.nodes)
    return "" if nodes >= LEAST_NODES else f"nothing to do with {nodes}: it takes {_EXPECTED}"


class Descheduling:
    """The rounds of a descheduler.

    Args:
        configuration: profiles and limits; checked.
        evictions: carries evictions out.
        clock: the time.
        supervisor: lets a strategy fail alone.
        cluster: for plugins that are controllers; None where rounds run on snapshots alone.

    Attributes:
        record: what became of pods in the last round.

    Raises:
        KoordError: a plugin refuses its arguments.
    """

    def __init__(
        self,
        configuration: DeschedulerConfiguration,
        evictions: Evict,
        clock: Clock,
        supervisor: Supervisor,
        cluster: ClusterAccess | None = None,
    ) -> None:
        self.record = RoundRecord()
        self._limiter = EvictionLimiter(configuration.limits)
        self.profiles = [
            StrategyProfile(
                profile,
                self._limiter,
                evictions,
                clock,
                self.record,
                supervisor,
                configuration.dry_run,
                cluster,
            )
            for profile in configuration.profiles
        ]

    async def run(self, snapshot: ClusterSnapshot) -> RoundRecord:
        """One round over a snapshot; after a profile that failed no further one runs.

        Raises:
            KoordError: there are too few nodes, or a plugin cannot work with what is there.
        """
        if idle_reason(snapshot):
            raise KoordError("the cluster", "nodes", len(snapshot.nodes), _EXPECTED)
        self.record.clear()
        self._limiter.reset()
        for profile in self.profiles:
            profile.begin_round(snapshot)
        for profile in self.profiles:
            if not await profile.deschedule():
                return self.record
        for profile in self.profiles:
            if not await profile.balance():
                return self.record
        return self.record
