# SPDX-License-Identifier: Apache-2.0
"""NodeVolumeLimits: how many volumes of a CSI driver a node takes.

Kubernetes: pkg/scheduler/framework/plugins/nodevolumelimits. Counted are the volumes of the pods on
a node, those on their way included, and those that are attached for nobody yet or any more. By row
and driver the count is a column, worked out anew only where something changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from koord.api.kinds.storage import CSINode, VolumeAttachment
from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.framework.plugin import Plugin
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.kubernetes.volumes import queueing_hints
from koord.controllers.scheduler.plugins.kubernetes.volumes.cache import (
    volume_cache_of,
    wake_on_changes,
)
from koord.controllers.scheduler.plugins.kubernetes.volumes.objects import claim_class
from koord.controllers.scheduler.plugins.kubernetes.volumes.pod_request import (
    claims_of,
    volume_request_of,
)
from koord.controllers.scheduler.queue import events as ev

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.queue.events import HintedEvent

NAME = "NodeVolumeLimits"
EXCEEDED = "node(s) exceed max volume count"
# A volume: its driver, and what names it there.
Volume = tuple[str, str]
_NOTHING: frozenset[Volume] = frozenset()
_NO_LIMIT = 1 << 62


class NodeVolumeLimits(Plugin):
    """Filter; keeps account of volumes on nodes.

    Args:
        args: none.
        handle: the cluster's state.
    """

    name = NAME
    reads = PodField.VOLUMES
    depends = Aspect.NODE | Aspect.PODS | Aspect.VOLUMES
    applies_by_shape = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._cache = volume_cache_of(handle)
        self._nodes = handle.view(CSINode)
        self._attachments = handle.view(VolumeAttachment)
        # By node, attachments by name: who attaches which volume.
        self._attached: dict[str, dict[str, tuple[str, str]]] = {}
        # By row, pods with claims; by claim, the rows it is used on, each so often.
        self._pods: dict[int, dict[str, PodInfo]] = {}
        self._rows: dict[str, dict[int, int]] = {}
        # What is on a row, and the rows of which that may be wrong.
        self._volume_counts: dict[int, frozenset[Volume]] = {}
        self._stale: set[int] = set()
        # The same as columns, by driver, and by volume; limits by driver.
        self._counts: dict[str, NDArray[np.int64]] = {}
        self._where: dict[Volume, set[int]] = {}
        self._limits: dict[str, NDArray[np.int64]] = {}
        self._nodes_seen = -1
        self._cache.on_claim_change(self._claim_changed)
        self._nodes.on_change(
            lambda node: self._node_changed(node.metadata.name),
            lambda old, node: self._node_changed(node.metadata.name),
            lambda node, unknown: self._node_changed(node.metadata.name),
        )
        self._attachments.on_change(self._attach, self._reattach, self._detach)
        wake_on_changes(handle, self._nodes, ev.CSI_NODE)
        wake_on_changes(handle, self._attachments, ev.VOLUME_ATTACHMENT)

    def events(self) -> Sequence[HintedEvent]:
        """CSINodes, pods and attachments that went, claims that came."""
        return queueing_hints.of_limits()

    def idle_points(self, shape: PodShape) -> Collection[str]:
        """Pods without claims bring nothing that counts."""
        return () if volume_request_of(shape).claims else ("pod_added",)

    def applies(self, cycle: Cycle) -> bool:
        """Pods with claims."""
        return bool(volume_request_of(cycle.shape).claims)

    def generation(self, cycle: Cycle) -> Hashable:
        """The volumes that the pod brings; they differ between pods of one shape."""
        return tuple(sorted(self._wanted(cycle)))

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """Counts, per driver, what is there and what would come."""
        wanted = self._wanted(cycle)
        self._settle()
        size = cycle.table.size
        passes = np.ones(size, np.bool_)
        for driver in {driver for driver, _ in wanted}:
            new = [volume for volume in wanted if volume[0] == driver]
            more = np.full(size, len(new), np.int64)
            for volume in new:
                more[list(self._where.get(volume, ()))] -= 1
            passes &= (more == 0) | (self._count(driver)[:size] + more <= self._limit(driver))
        return passes[rows]

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Sequence[Rejection]:
        """Always the same."""
        return [Rejection(NAME, (EXCEEDED,))] * len(rows)

    # Account.

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """Notes the pod's claims."""
        if not volume_request_of(pod.shape).claims:
            return
        self._pods.setdefault(row, {})[pod.uid] = pod
        self._stale.add(row)
        for claim in claims_of(pod):
            rows = self._rows.setdefault(claim.key, {})
            rows[row] = rows.get(row, 0) + 1

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The inverse."""
        if not volume_request_of(pod.shape).claims:
            return
        on_row = self._pods[row]
        del on_row[pod.uid]
        if not on_row:
            del self._pods[row]
        self._stale.add(row)
        for claim in claims_of(pod):
            rows = self._rows[claim.key]
            rows[row] -= 1
            if not rows[row]:
                del rows[row]
            if not rows:
                del self._rows[claim.key]

    def _limit(self, driver: str) -> NDArray[np.int64]:
        """By row, how many volumes of a driver a node takes."""
        table = self.handle.table
        limits = self._limits.get(driver)
        if limits is None:
            limits = self._limits[driver] = np.full(table.size, _NO_LIMIT, np.int64)
            for name, node in self._nodes.items():
                row = table.row(name)
                for each in node.spec.drivers or () if row is not None else ():
                    room = each.allocatable
                    if each.name == driver and room is not None and room.count is not None:
                        limits[row] = room.count
        return limits

    def _count(self, driver: str) -> NDArray[np.int64]:
        """By row, how many volumes of a driver are there."""
        counts, rows = self._counts.get(driver), len(self.handle.table.open)
        if counts is None or len(counts) < rows:
            grown = np.zeros(rows, np.int64)
            if counts is not None:
                grown[: len(counts)] = counts
            counts = self._counts[driver] = grown
        return counts

    def _settle(self) -> None:
        """Brings the columns up to date."""
        table = self.handle.table
        if table.labels.version != self._nodes_seen:
            # Nodes came or went, and a row may be another node's by now.
            self._nodes_seen = table.labels.version
            self._limits.clear()
            self._stale.update(self._volume_counts)
            named = (table.row(name) for name in self._attached)
            self._stale.update(row for row in named if row is not None)
        for row in self._stale:
            before, now = self._volume_counts.pop(row, _NOTHING), self._volumes_on(row)
            for volume in before - now:
                self._count(volume[0])[row] -= 1
                self._where[volume].discard(row)
                if not self._where[volume]:
                    del self._where[volume]
            for volume in now - before:
                self._count(volume[0])[row] += 1
                self._where.setdefault(volume, set()).add(row)
            if now:
                self._volume_counts[row] = now
        self._stale.clear()

    def _volumes_on(self, row: int) -> frozenset[Volume]:
        found: set[Volume] = set()
        for attacher, name in self._attached.get(self.handle.table.name(row), {}).values():
            volume = self._cache.volumes.get(name)
            if volume is not None and volume.spec.csi is not None:
                found.add((attacher, volume.spec.csi.volume_handle))
        for pod in self._pods.get(row, {}).values():
            found |= self._of(pod)
        return frozenset(found)

    def _wanted(self, cycle: Cycle) -> set[Volume]:
        wanted = cycle.state.get(NAME)
        if wanted is None:
            wanted = cycle.state[NAME] = self._of(cycle.pod)
        found: set[Volume] = wanted
        return found

    def _of(self, pod: PodInfo) -> set[Volume]:
        """The CSI volumes of a pod; a claim without one counts for its class's driver."""
        found: set[Volume] = set()
        for name in claims_of(pod):
            claim = self._cache.claims.get(name.key)
            if claim is None:
                continue
            volume = self._cache.volumes.get(claim.spec.volume_name)
            if claim.spec.volume_name and volume is not None:
                if volume.spec.csi is not None and volume.spec.csi.volume_handle:
                    found.add((volume.spec.csi.driver, volume.spec.csi.volume_handle))
                continue
            known = self._cache.classes.get(claim_class(claim))
            if known is not None and known.provisioner:
                # Such as no handle is: a claim's key is no volume's.
                found.add((known.provisioner, f"\0{name.key}"))
        return found

    # Changes.

    def _claim_changed(self, key: str) -> None:
        for row in self._rows.get(key, ()):
            self._touch(row)

    def _node_changed(self, name: str) -> None:
        self._limits.clear()
        row = self.handle.table.row(name)
        if row is not None:
            self._touch(row)

    def _attach(self, attachment: VolumeAttachment) -> None:
        spec = attachment.spec
        volume = spec.source.persistent_volume_name
        if spec.attacher and volume:
            known = self._attached.setdefault(spec.node_name, {})
            known[attachment.metadata.name] = (spec.attacher, volume)
            self._node_changed(spec.node_name)

    def _reattach(self, old: VolumeAttachment, new: VolumeAttachment) -> None:
        if old.spec != new.spec:
            self._detach(old, False)
            self._attach(new)

    def _detach(self, attachment: VolumeAttachment, unknown: bool) -> None:
        known = self._attached.get(attachment.spec.node_name, {})
        if known.pop(attachment.metadata.name, None) is not None:
            self._node_changed(attachment.spec.node_name)
            if not known:
                del self._attached[attachment.spec.node_name]

    def _touch(self, row: int) -> None:
        self._stale.add(row)
        self.handle.table.touch(row, Aspect.VOLUMES)
