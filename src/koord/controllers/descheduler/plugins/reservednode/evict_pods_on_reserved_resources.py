# SPDX-License-Identifier: Apache-2.0
"""EvictPodsOnReservedResources: off each node what stands on resources that are held back.

Rule: docs/reference/descheduling-plugins.md#evictpodsonreservedresources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import keys
from koord.api.protocol.node_reservation import node_reservation
from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.plugins.reservednode.reservation_changes import (
    ReservationChanges,
)
from koord.controllers.descheduler.plugins.reservednode.reserved_victims import (
    excess,
    held_cpus,
    on_reserved_cpus,
    relieves,
    reserved_cpus,
    without,
)
from koord.controllers.descheduler.plugins.selection_args import SelectionArgs
from koord.controllers.descheduler.predicates.pod_order import by_sorter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.api.protocol.node_reservation import NodeReservation
    from koord.controllers.descheduler.framework.handle import DeschedulerHandle
    from koord.controllers.descheduler.plugins.reservednode.reservation_changes import (
        SeenReservation,
    )
    from koord.controllers.scheduler.config.field_path import FieldPath

_LOG = log.get("descheduler")
CHANGED = "NodeReservationChanged"
"""The reason of the event on a node whose reservation takes something from its pods."""


class EvictPodsOnReservedResourcesArgs(SelectionArgs, frozen=True):
    """Which pods may go, and when."""

    paused: bool = False
    dry_run: bool = False
    node_fit: bool = True
    grace_period_seconds: int = 300

    def check(self, at: FieldPath) -> None:
        """No time below 0."""
        super().check(at)
        at.inside("gracePeriodSeconds").at_least(self.grace_period_seconds, 0)


class EvictPodsOnReservedResources(DeschedulerPlugin):
    """The strategy; node by node, first pods on reserved CPUs, then the cheapest until it fits."""

    name = "EvictPodsOnReservedResources"
    args_type = EvictPodsOnReservedResourcesArgs
    args: EvictPodsOnReservedResourcesArgs

    def __init__(self, args: EvictPodsOnReservedResourcesArgs, handle: DeschedulerHandle) -> None:
        super().__init__(args, handle)
        self._changes = ReservationChanges(args.grace_period_seconds)

    async def deschedule(self, nodes: Sequence[Node]) -> None:
        """Tells of changes, and evicts where one is old enough."""
        if self.args.paused:
            return
        self._changes.keep([node.metadata.name for node in nodes])
        for node in self.args.selected_nodes(nodes):
            text = node.metadata.annotations.get(keys.NODE_RESERVATION, "")
            now = self.handle.clock.monotonic_seconds()
            seen = self._changes.see(node.metadata.name, text, now)
            reservation = self._reservation(node, seen)
            if reservation is not None:
                await self._relieve(node, reservation, seen)

    def _reservation(self, node: Node, seen: SeenReservation) -> NodeReservation | None:
        """The reservation of a node; one that cannot be read is none, and is told once."""
        try:
            return node_reservation(node)
        except KoordError as error:
            if not seen.is_announced:
                seen.is_announced = True
                _LOG.warning("a reservation is ignored", extra=log.fields(error=str(error)))
            return None

    async def _relieve(
        self, node: Node, reservation: NodeReservation, seen: SeenReservation
    ) -> None:
        pods = by_sorter(self.handle.snapshot.pods_on(node.metadata.name))
        holders = on_reserved_cpus(pods, reservation)
        over = excess(pods, node, reservation)
        if not holders and not over:
            return
        if not seen.is_announced:
            seen.is_announced = True
            self.handle.writer.warn(node, CHANGED, self._message(holders, over))
        if not self._changes.is_due(seen, self.handle.clock.monotonic_seconds()):
            return
        reserved = reserved_cpus(reservation)
        for pod in holders:
            reason = f"holds CPUs {held_cpus(pod) & reserved} that the node reserves"
            if await self._evict(pod, reason):
                over = without(over, pod)
        gone = {id(pod) for pod in holders}
        for pod in pods:
            if not over:
                return
            if id(pod) not in gone and relieves(pod, over):
                reason = f"{_amounts(over)} more is requested than the node's reservation leaves"
                if await self._evict(pod, reason):
                    over = without(over, pod)

    async def _evict(self, pod: Pod, reason: str) -> bool:
        evictor, fit = self.handle.evictor, self.handle.node_fit
        if not self.args.pod_filter(evictor.filter)(pod):
            return False
        if self.args.node_fit and not fit.fits_another(pod, self.handle.snapshot.nodes):
            return False
        if not evictor.pre_eviction_filter(pod):
            return False
        return await evictor.evict(pod, reason, dry_run=self.args.dry_run)

    def _message(self, holders: Sequence[Pod], over: Mapping[str, int]) -> str:
        parts = []
        if holders:
            parts.append(f"{len(holders)} pods hold reserved CPUs")
        if over:
            parts.append(f"{_amounts(over)} more is requested than the reservation leaves")
        seconds = self.args.grace_period_seconds
        return f"{' and '.join(parts)}; pods are evicted {seconds} s after the change"


def _amounts(over: Mapping[str, int]) -> str:
    return ", ".join(
        f"{name} {amount}m" if name == "cpu" else f"{name} {amount}"
        for name, amount in over.items()
    )
