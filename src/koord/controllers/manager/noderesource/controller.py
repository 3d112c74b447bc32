# SPDX-License-Identifier: Apache-2.0
"""The node-resource controller: what informers tell goes into the ledger, the ledger's rows become
resources, annotations and labels of nodes.

Events mark rows. A turn gathers those of a moment, has the ledger work all of them out in one pass,
and hands the nodes whose figures are other than before to a few workers, which write what has moved
far enough. A turn also comes when the next report goes stale, without any event
(docs/reference/overcommit.md#degradation). Of nodes that stand as they should, and of which nothing
has changed but their offers, columns say which have to be written; the others need no look at all.

While nobody could read the co-location section since the start, nothing is calculated, and nodes
keep what they show until their reports go stale by the default of ``degradeTimeMinutes``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.api.sloconfig import sections
from koord.api.sloconfig.config import SLOConfig
from koord.base import faults
from koord.controllers.manager.node_objects.nodemetric import ANNOTATIONS, LABELS
from koord.controllers.manager.noderesource.explain import NodeExplanation, explain
from koord.controllers.manager.noderesource.metrics import NodeResourceMetrics
from koord.controllers.manager.noderesource.plugins.batch_and_mid import BATCH, MID, speed
from koord.controllers.manager.noderesource.plugins.plugin import (
    CalculatedResources,
    DecidedNode,
    DesiredNode,
    NodeInputs,
    OfferedResources,
)
from koord.controllers.manager.noderesource.plugins.plugin_chain import PluginChain
from koord.controllers.manager.noderesource.state.event_handlers import NodeResourceEventHandlers
from koord.controllers.manager.noderesource.state.observed import ReconcileInputs
from koord.controllers.manager.noderesource.state.reconciled_nodes import ReconciledNodes, RowToken
from koord.controllers.manager.noderesource.writers import zone_patches
from koord.controllers.manager.noderesource.writers.node_patches import status_patch
from koord.controllers.manager.noderesource.writers.node_writer import (
    DecidedWrites,
    NodeWriter,
    WriteOutcome,
)
from koord.controllers.manager.noderesource.writers.patch_writer import PatchWriter
from koord.controllers.manager.overcommit.amounts import CPU, MEMORY
from koord.controllers.manager.overcommit.explain.recent_offers import OfferHistory
from koord.controllers.manager.overcommit.objects.node_columns import DegradeReason
from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache
from koord.controllers.manager.sloconfig.node_config_cache import NodeConfigCache
from koord.kube.controller import Controller
from koord.kube.errors import ApiError, TransportError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.api.kinds.node import Node
    from koord.api.kinds.topology import NodeResourceTopology
    from koord.api.sloconfig.strategies import ColocationStrategy
    from koord.controllers.manager.dependencies import ControllerDependencies

NAME = "noderesource"
SHARED_GPUS, OLD_GPU_LABELS = "EnableSyncGPUSharedResource", "SyncOldGPULabels"
"""Feature gates: see
:class:`koord.controllers.manager.noderesource.plugins.devices.GPUDeviceResource`.
"""

# Events of so long are worked out together.
_GATHER_SECONDS = 0.2
# Wall clocks jump; so often, at the least, it is asked whether a report has gone stale.
_LOOK_SECONDS = 10.0
# A report is stale after its last instant, not at it.
_AFTER_SECONDS = 0.001
_WORKERS = 8
_NEVER = float("inf")
_REPORTED = ("MidResource", "BatchResource")
"""Plugins whose amounts come from reports, and go with them."""
_OFFERED = frozenset((*BATCH, *MID))
# As columns have them: to look up a member of an enumeration takes longer than to compare it.
_OFFERING, _UNREAD = int(DegradeReason.NO), int(DegradeReason.UNREAD)
_OWN = frozenset((sections.COLOCATION, sections.NORMALIZATION, sections.AMPLIFICATION))


class _BegunWrite(NamedTuple):
    """What is known of a node when it is written.

    Attributes:
        token: of before it was looked at.
        known: what plugins have calculated, for a reconciled node.
        decided: what it is to show and what of it is due, for one that was decided on.
        sent: what was sent already.
    """

    token: RowToken
    known: CalculatedResources | None
    decided: DecidedNode | None = None
    sent: DecidedWrites = DecidedWrites()


class NodeResource:
    """Writes batch and mid resources, amplification and devices into Nodes, and zones.

    Args:
        dependencies: what every controller of the manager is given.

    Attributes:
        ledger: the cluster's columns.
    """

    def __init__(self, dependencies: ControllerDependencies) -> None:
        self._config = dependencies.config
        self._clock = dependencies.clock
        self._metrics = NodeResourceMetrics(dependencies.metrics)
        enabled = dependencies.options.enabled_noderesource_plugins()
        self._plugins = PluginChain(
            enabled,
            self._metrics.ran,
            gpu_shared=dependencies.gates.enabled(SHARED_GPUS),
            old_gpu_labels=dependencies.gates.enabled(OLD_GPU_LABELS),
        )
        reported = [name for name in _REPORTED if name in enabled]
        self._reported = PluginChain(reported, self._metrics.ran)
        self._strategies = NodeConfigCache(
            (sections.COLOCATION,), SLOConfig.colocation, LABELS, ANNOTATIONS
        )
        # Columns have room for both kinds of offers, and for nothing else.
        self._columns_fit = len(reported) == len(_REPORTED)
        self._reconciled = ReconciledNodes()
        self._reconfigured = False
        self.ledger = OvercommitCache()
        self._history = OfferHistory()
        self._feed = NodeResourceEventHandlers(
            dependencies.views, self.ledger, self._strategy, self._changed
        )
        self._applier = NodeWriter(PatchWriter(dependencies.client), dependencies.clock)
        self._controller = Controller(
            NAME,
            self._reconcile,
            workers=_WORKERS,
            metrics=dependencies.metrics.queues,
            supervisor=dependencies.supervisor,
        )
        self._supervisor, self._attached = dependencies.supervisor, False
        self._touched: set[str] = set()
        self._woken = asyncio.Event()
        self._stale_at = _NEVER
        self._turned_at = -_NEVER
        dependencies.explanations["nodes"] = self.explain

    async def run(self) -> None:
        """Works until cancelled."""
        if not self._attached:
            self._attached = True
            self._config.subscribe(self._configured)
            self._feed.attach()
        turns = f"{NAME} turns"
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._supervisor.keep(turns, self._keep_recomputing), name=turns)
            await self._controller.run()

    def explain(self, name: str) -> NodeExplanation:
        """Why a node offers what it offers, as of the last turn.

        Raises:
            KeyError: there is no such node.
        """
        node, config = self._feed.nodes.get(name), self._config.config
        if node is None or config is None:
            raise KeyError(f"cannot find node {name}")
        metric, strategy = self._feed.metrics.get(name), config.colocation(node)
        return explain(
            self.ledger, self._history, node, metric, strategy, self._clock.wall_seconds()
        )

    # What has changed.

    def _changed(self, name: str) -> None:
        if name and not self._is_still_reconciled(name):
            self._touched.add(name)
        self._woken.set()

    def _is_still_reconciled(self, name: str) -> bool:
        """Whether what is told of a node is known, such as the news of what was written."""
        row, feed = self.ledger.row(name), self._feed
        if row is None:
            return False
        objects = feed.nodes.get(name), feed.topologies.get(name), feed.devices.get(name)
        if name not in feed.forced and self._reconciled.covers(row, *objects):
            return True
        self._reconciled.invalidate(row)
        return False

    def _configured(self, changed: frozenset[str]) -> None:
        if not changed & _OWN:
            return
        if sections.COLOCATION in changed:
            config, of = self._config.config if self._is_on() else None, self._strategies.of
            self.ledger.set_strategies(lambda node: of(config, node) if config else None)
        if changed & _OWN != {sections.COLOCATION}:
            self._reconciled.invalidate_all()
        self._reconfigured = True
        self._woken.set()

    def _strategy(self, node: Node) -> ColocationStrategy | None:
        """The strategy in force on a node; None while nobody said that anything be offered."""
        config = self._config.config
        if config is None or not self._is_on():
            return None
        return self._strategies.of(config, node)

    def _is_on(self) -> bool:
        """Whether co-location is on for the cluster; a node cannot switch on what is off there."""
        config = self._config.config
        if config is None or not self._config.available:
            return False
        cluster: ColocationStrategy = config.sections[sections.COLOCATION].cluster
        return cluster.enable is True

    # Turns.

    async def _keep_recomputing(self) -> None:
        while True:
            await self._due()
            await asyncio.sleep(_GATHER_SECONDS)
            self._woken.clear()
            try:
                self._recompute()
            except Exception:
                # What this turn had found is lost: the next looks at all nodes.
                self._reconfigured = True
                self._woken.set()
                raise

    async def _due(self) -> None:
        """Waits for a change, or until a report goes stale."""
        while not self._woken.is_set():
            now = self._clock.wall_seconds()
            left = self._stale_at + _AFTER_SECONDS - now
            # A clock that was set back makes reports count again.
            if left <= 0 or now < self._turned_at:
                return
            try:
                async with asyncio.timeout(min(left, _LOOK_SECONDS)):
                    await self._woken.wait()
            except TimeoutError:
                continue

    def _recompute(self) -> None:
        now = self._turned_at = self._clock.wall_seconds()
        rows = self.ledger.recompute(now, known=self._config.available)
        self._history.add(self.ledger, rows, now)
        self._stale_at = float(self.ledger.expiry().min(initial=_NEVER))
        self._controller.queue.add_all(sorted(self._nodes_to_reconcile(rows)))

    def _nodes_to_reconcile(self, rows: NDArray[np.intp]) -> set[str]:
        """The nodes of which something has changed, or whose offers have to be written.

        Args:
            rows: those whose offers have changed.
        """
        names, self._touched = self._touched, set()
        if self._reconfigured:
            self._reconfigured = False
            rows = np.arange(len(self.ledger))
        reconciled = self._reconciled.are_reconciled(rows)
        names.update(map(self.ledger.name, rows[~reconciled].tolist()))
        rows = rows[reconciled]
        decided = self._reconciled.decide(self.ledger, rows, self._clock.monotonic_seconds())
        names.update(map(self.ledger.name, rows[decided.due].tolist()))
        offered = np.concatenate([self.ledger.batch.amounts, self.ledger.mid.amounts])
        self._metrics.offers_of(list(map(self.ledger.name, rows.tolist())), offered[:, rows])
        later = np.flatnonzero(decided.left_seconds < _NEVER)
        for row, seconds in zip(
            rows[later].tolist(), decided.left_seconds[later].tolist(), strict=True
        ):
            self._controller.queue.add_after(self.ledger.name(row), seconds)
        return names - {""}

    # One node.

    async def _reconcile(self, name: str) -> float | None:
        # Where nothing is to be written nothing waits; the others have to get their turn.
        await asyncio.sleep(0)
        faults.point("noderesource.reconcile")
        node = self._feed.nodes.get(name)
        if node is None:
            self._applier.forget(name)
            self._plugins.forget(name)
            self._reported.forget(name)
            self._metrics.forget(name)
            return None
        row = self.ledger.row(name)
        assert row is not None, "a node that is there has a row"
        if self._reconfigured or name in self._touched or self._is_unread(row):
            # A turn will come that works its row out, or there is nothing to go by yet.
            return None
        if name in self._feed.forced:
            self._feed.forced.discard(name)
            self._applier.hurry(name)
        try:
            return await self._bring(row, self._applier.latest(node))
        except (ApiError, TransportError):
            self._metrics.reconciled.failed("write")
            raise

    async def _bring(self, row: int, node: Node) -> float | None:
        """Writes what is due of a node; a reconciled one gets what columns say, if they can."""
        name = node.metadata.name
        topology = self._feed.topologies.get(name)
        if topology is not None:
            topology = self._applier.latest_zones(topology)
        reconciled = self._reconciled
        patches, known = reconciled.patches(row, node, topology), reconciled.calculated(row)
        begun = _BegunWrite(reconciled.observe(row), known)
        if patches is None or known is None or not self._config.available:
            begun = begun._replace(decided=reconciled.decided(row))
            return await self._apply(row, self._seen(node), begun)
        device = self._feed.devices.get(name)
        sent = await self._applier.as_decided(node, topology, patches)
        done, zones = sent
        if not isinstance(done, WriteOutcome) or not isinstance(zones, WriteOutcome | None):
            decided = DecidedNode(patches.desired, True, topology is not None)
            begun = begun._replace(decided=decided, sent=sent)
            return await self._apply(row, self._seen(node), begun)
        enabled = reconciled.enabled(row)
        self._metrics.reconciled.succeeded("" if enabled else "DisableInConfig")
        after = None if zones is None else zones.current
        inputs = ReconcileInputs(done.current, after, device, known, enabled)
        written_at = self._applier.written_at(name)
        if not reconciled.confirm(row, begun.token, inputs, written_at, as_decided=True):
            reconciled.record(row, begun.token, inputs, written_at)
        return None

    async def _apply(self, row: int, seen: NodeInputs, begun: _BegunWrite) -> float | None:
        name, enabled = seen.node.metadata.name, self._is_on() and seen.strategy.enable is True
        token, known = begun.token, begun.known
        # Of a reconciled node nothing has changed but its offers.
        plugins = self._plugins if known is None else self._reported
        if not self._config.available:
            # The report has gone stale, and nothing else is known.
            plugins, enabled = self._reported, True
        if known is None:
            self._metrics.offers(name, *(seen.batch or (0, 0)), *(seen.mid or (0, 0)))
        node, zones, result = await self._write(seen, plugins, enabled, begun)
        self._metrics.reconciled.succeeded("" if enabled else "DisableInConfig")
        outcomes = [outcome for outcome in (node, zones) if outcome is not None]
        left = [each.left_seconds for each in outcomes if each.left_seconds is not None]
        gone = node is None or (seen.topology is not None and zones is None)
        if node is not None and not gone and all(outcome.alone for outcome in outcomes):
            topology = zones.current if zones is not None else None
            inputs = ReconcileInputs(node.current, topology, seen.device, result, enabled)
            written_at = self._applier.written_at(name)
            if known is None:
                if self._rest_is_as_wanted(node.current, node.wanted):
                    self._reconciled.record(row, token, inputs, written_at)
            elif left or not self._reconciled.confirm(row, token, inputs, written_at):
                self._reconciled.record(row, token, inputs, written_at)
        return min(left, default=None)

    async def _write(
        self, seen: NodeInputs, plugins: PluginChain, enabled: bool, begun: _BegunWrite
    ) -> tuple[
        WriteOutcome[Node] | None, WriteOutcome[NodeResourceTopology] | None, CalculatedResources
    ]:
        """Writes what is due of a node and its zones.

        Args:
            seen: the node.
            plugins: those that have to look at it.
            enabled: whether co-location is on.
            begun: what is known of it. For one that was decided on plugins need calculate nothing,
                unless it has changed when it is written.

        Returns:
            What became of the node, of its zones (None where they are gone, or there are none),
            and what was calculated.
        """
        known, decided, (node, zones) = begun.known, begun.decided, begun.sent
        if decided is None:
            result = plugins.result(seen, enabled, known)
        else:
            result = known or CalculatedResources()

        def prepare(now: Node) -> DesiredNode:
            fresh = result if decided is None else plugins.result(seen, enabled, known)
            return plugins.wanted(now, fresh)

        if not isinstance(node, WriteOutcome):
            node = await self._applier.node(seen, plugins, prepare, decided, node)
        if seen.topology is None or "BatchResource" not in plugins:
            return node, None, result
        due = decided is not None and decided.zones_due
        assert not isinstance(zones, WriteOutcome)
        after = await self._applier.zones(
            seen, lambda now: self._zones(now, seen, result), due=due, sent=zones
        )
        return node, after, result

    def _is_unread(self, row: int) -> bool:
        """Whether nothing is known to go by, as of the last turn."""
        reasons = self.ledger.batch.degraded
        return row < len(reasons) and reasons.item(row) == _UNREAD

    def _rest_is_as_wanted(self, node: Node, wanted: DesiredNode) -> bool:
        """Whether a node shows all that is wanted but its offers, which columns have room for."""
        if not self._columns_fit or not self._config.available:
            return False
        rest = {name: amount for name, amount in wanted.resources.items() if name not in _OFFERED}
        return status_patch(node, DesiredNode(rest)) is None and not self._plugins.meta_due(
            node, wanted
        )

    def _seen(self, node: Node) -> NodeInputs:
        name, config = node.metadata.name, self._config.config
        assert config is not None
        row = self.ledger.row(name)
        batch, mid = self._offers(row) if row is not None else (None, None)
        return NodeInputs(
            node,
            config,
            self._strategies.of(config, node),
            batch,
            mid,
            self._feed.topologies.get(name),
            self._feed.devices.get(name),
            name in self._feed.had_gpus,
            self._config.missing,
        )

    def _offers(self, row: int) -> tuple[OfferedResources | None, OfferedResources | None]:
        """Batch and mid of a row; None where nothing may be offered."""
        ledger = self.ledger
        if ledger.batch.degraded[row] != _OFFERING:
            return None, None
        batch, mid = ledger.batch.amounts.item, ledger.mid.amounts.item
        return (
            OfferedResources(batch(CPU, row), batch(MEMORY, row)),
            OfferedResources(mid(CPU, row), mid(MEMORY, row)),
        )

    def _zones(
        self, topology: NodeResourceTopology, seen: NodeInputs, result: CalculatedResources
    ) -> dict[str, zone_patches.BatchPair]:
        """What each zone offers; empty where the node offers nothing."""
        row = self.ledger.row(topology.metadata.name)
        if row is None or seen.batch is None:
            return {}
        return zone_patches.offered(self.ledger, row, topology, speed(result))
