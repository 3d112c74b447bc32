# SPDX-License-Identifier: Apache-2.0
"""The plugins of one profile, made and run.

Rules: docs/reference/descheduling.md#a-cycle, docs/reference/descheduling.md#which-plugins-run.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.api import selectors
from koord.controllers.descheduler.framework.handle import DeschedulerHandle, StrategyEvictor
from koord.controllers.descheduler.framework.points import Evict, EvictionFilter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from koord.api.kinds.node import Node
    from koord.base.clock import Clock
    from koord.base.supervision import Supervisor
    from koord.controllers.descheduler.config.profiles import ProfileConfiguration
    from koord.controllers.descheduler.framework.cluster_access import ClusterAccess
    from koord.controllers.descheduler.framework.limiter import EvictionLimiter
    from koord.controllers.descheduler.framework.outcomes import RoundRecord
    from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
    from koord.controllers.descheduler.snapshot import ClusterSnapshot


class StrategyProfile:
    """One profile.

    Args:
        configuration: its plugins and their arguments; checked.
        limiter: of rounds, shared by all profiles.
        evictions: carries evictions out.
        clock: the time.
        record: what becomes of pods, shared by all profiles.
        supervisor: lets a strategy fail alone.
        dry_run: whether evictions are only counted.
        cluster: for plugins that are controllers; None where rounds run on snapshots alone.

    Raises:
        KoordError: a plugin refuses its arguments.
    """

    def __init__(
        self,
        configuration: ProfileConfiguration,
        limiter: EvictionLimiter,
        evictions: Evict,
        clock: Clock,
        record: RoundRecord,
        supervisor: Supervisor,
        dry_run: bool = False,
        cluster: ClusterAccess | None = None,
    ) -> None:
        self.configuration = configuration
        self._record = record
        self._supervisor = supervisor
        evictor = StrategyEvictor(limiter, dry_run, record)
        self.handle = DeschedulerHandle(evictor, evictions, clock, cluster, configuration.name)
        # Once a profile, even where it stands at several points.
        self.plugins: dict[str, DeschedulerPlugin] = {
            name: plugin(configuration.args.get(name), self.handle)
            for name, plugin in configuration.classes.items()
        }
        evictor.filters = [
            plugin for plugin in self._at("filter") if isinstance(plugin, EvictionFilter)
        ]
        for plugin in self._at("evict"):
            if isinstance(plugin, Evict):
                evictor.evict_plugin = plugin

    def begin_round(self, snapshot: ClusterSnapshot) -> None:
        """Takes the snapshot of a round.

        Raises:
            KoordError: a plugin cannot work with it.
        """
        self.handle.begin_round(snapshot)

    async def deschedule(self) -> bool:
        """Runs the deschedule plugins in order; whether none failed."""
        return await self._run("deschedule")

    async def balance(self) -> bool:
        """Runs the balance plugins in order; whether none failed."""
        return await self._run("balance")

    async def _run(self, point: str) -> bool:
        nodes = self._nodes()
        results = [
            await self._run_one(name, getattr(self.plugins[name], point), nodes)
            for name in self.configuration.at(point)
        ]
        return all(results)

    async def _run_one(
        self, name: str, run: Callable[[Sequence[Node]], Awaitable[None]], nodes: Sequence[Node]
    ) -> bool:
        """One strategy; what it fails of ends no other. Before it the program does other work."""
        await asyncio.sleep(0)
        self.handle.evictor.strategy = name
        part = f"{self.configuration.name}/{name}"
        failures = self._supervisor.part(part).failures
        with self._supervisor.round(part):
            await run(nodes)
        if self._supervisor.part(part).failures == failures:
            return True
        self._record.errors.append(f"{part}: {self._supervisor.part(part).error}")
        return False

    def _nodes(self) -> list[Node]:
        selector = self.configuration.node_selector
        nodes = self.handle.snapshot.nodes
        if selector is None:
            return list(nodes)
        return [node for node in nodes if selectors.matches(selector, node.metadata.labels)]

    def _at(self, point: str) -> list[DeschedulerPlugin]:
        return [self.plugins[name] for name in self.configuration.at(point)]
