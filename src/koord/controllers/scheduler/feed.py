# SPDX-License-Identifier: Apache-2.0
"""Keeps node table, accounts and queue true to what the API says of nodes and pods.

Pods that this scheduler has assumed count before the API knows; the API's word confirms them, moves
them, or takes them away. Pods on nodes that are not known (yet, or any more) wait as orphans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.base import log
from koord.controllers.scheduler.queue import events as ev

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from koord.controllers.cluster.nodes import NodeTable
    from koord.controllers.cluster.pods import PodInfo, Shapes
    from koord.controllers.scheduler.accounts import Accounts
    from koord.controllers.scheduler.framework.handle import View
    from koord.controllers.scheduler.queue.queue import SchedulingQueue

_LOG = log.get("scheduler")
_TERMINAL = ("Succeeded", "Failed")


class Feed:
    """Handlers of node and pod changes.

    Args:
        table: the nodes; who made it opens and closes its rows.
        orphans: pods whose node is not known, by node and uid.
        shapes: interns pod shapes.
        accounts: who counts where.
        queue: who waits.
        profiles: the scheduler names that are served.
        restorers: PodListener plugins; each reads its allocation from a bound pod.
        woken: called after anything that may have made a pod active.
    """

    def __init__(
        self,
        table: NodeTable,
        orphans: dict[str, dict[str, PodInfo]],
        shapes: Shapes,
        accounts: Accounts,
        queue: SchedulingQueue,
        profiles: Iterable[str],
        restorers: Iterable[Any],
        woken: Callable[[], None],
    ) -> None:
        self._table = table
        self._shapes = shapes
        self._accounts = accounts
        self._queue = queue
        self._profiles = frozenset(profiles)
        self._restorers = list(restorers)
        self._woken = woken
        self._orphans = orphans
        # Assumed pods that the API has not confirmed yet, by uid.
        self.assumed: dict[str, PodInfo] = {}

    def attach(self, nodes: View[Node], pods: View[Pod]) -> None:
        """Begins to follow two views; nodes first, so that their pods find them."""
        nodes.on_change(self.node_added, self.node_updated, self.node_deleted)
        pods.on_change(self.pod_added, self.pod_updated, self.pod_deleted)

    # Nodes.

    def node_added(self, node: Node) -> None:
        """A node came, and with it the pods that were on it before it was known."""
        row = self._table.row(node.metadata.name)
        for info in list(self._orphans.pop(node.metadata.name, {}).values()):
            if row is not None:
                self._accounts.add(row, info)
        self._happened(ev.NODE_ADD, None, node)

    def node_updated(self, old: Node, node: Node) -> None:
        """A node changed."""
        for event in ev.node_events(old, node):
            self._happened(event, old, node)

    def node_deleted(self, node: Node, unknown: bool) -> None:
        """A node went; pods that are still said to be on it wait for it to come back."""
        self._happened(ev.NODE_DELETE, node, None)

    # Pods.

    def pod_added(self, pod: Pod) -> None:
        """A pod came, or was first seen."""
        if is_over(pod):
            return
        if pod.spec.node_name:
            self._bound(None, pod)
        elif self._serves(pod):
            self._queue.add(self._shapes.info(pod), pod.spec.scheduler_name)
            self._woken()

    def pod_updated(self, old: Pod, pod: Pod) -> None:
        """A pod changed."""
        if is_over(pod):
            self._gone(pod)
        elif pod.spec.node_name:
            self._bound(old, pod)
        elif self._serves(pod):
            self._waiting(old, pod)
        else:
            self._queue.delete(pod.metadata.uid)

    def pod_deleted(self, pod: Pod, unknown: bool) -> None:
        """A pod went."""
        self._gone(pod)

    def confirmed(self, uid: str) -> bool:
        """Whether the API knows of the node of a pod that counts."""
        return uid not in self.assumed

    def _serves(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self._profiles

    def _waiting(self, old: Pod, pod: Pod) -> None:
        uid = pod.metadata.uid
        if self._accounts.get(uid) is not None:
            return  # assumed, on its way to be bound; what is written now changes nothing there
        if pod.metadata.resource_version == old.metadata.resource_version:
            return
        before, now = self._shapes.info(old), self._shapes.info(pod)
        changes = ev.pod_events(old, pod, before.shape.request, now.shape.request)
        self._queue.update(now, pod.spec.scheduler_name, changes, before)
        self._queue.nominator.update(
            now, old.status.nominated_node_name, pod.status.nominated_node_name
        )
        self._woken()

    def _bound(self, old: Pod | None, pod: Pod) -> None:
        uid, node = pod.metadata.uid, pod.spec.node_name
        known = self._accounts.get(uid) or self._orphans.get(node, {}).get(uid)
        self.assumed.pop(uid, None)
        if known is not None and known.row >= 0 and self._table.name(known.row) != node:
            _LOG.warning(
                "a pod was bound elsewhere than assumed",
                extra=log.fields(pod=known.key, assumed=self._table.name(known.row), bound=node),
            )
            self._accounts.drop(known)
            known = None
        if known is None:
            self._queue.delete(uid)
            info = self._read(pod)
            self._place(info, node)
            self._happened(ev.ASSIGNED_POD_ADD, None, info)
            return
        before = self._shapes.info(known.pod)
        self._renew(known, pod)
        if old is not None and old.spec.node_name:
            requests = before.shape.request, known.shape.request
            for event in ev.pod_events(before.pod, pod, *requests):
                self._happened(event, before, known)
        else:
            self._happened(ev.ASSIGNED_POD_ADD, None, known)

    def _renew(self, known: PodInfo, pod: Pod) -> None:
        """Takes over a bound pod's new state; counts it anew where that changes what it holds."""
        shape, before = self._shapes.of(pod), known.pod
        # From the moment that it is being deleted a pod counts for less.
        ends = before.metadata.deletion_timestamp != pod.metadata.deletion_timestamp
        known.pod = pod
        if known.row < 0:
            known.shape, known.allocations = shape, self._read(pod).allocations
            return
        fresh = known.allocations
        if before.metadata.annotations != pod.metadata.annotations:
            fresh = self._read(pod).allocations
        same_request = shape.request == known.shape.request
        if fresh == known.allocations and same_request and not ends:
            if shape is not known.shape:
                self._accounts.relabel(known, shape)
            return
        row = known.row
        self._accounts.drop(known)
        known.shape, known.priority = shape, pod.spec.priority or 0
        known.allocations = fresh
        self._accounts.add(row, known)

    def _read(self, pod: Pod) -> PodInfo:
        """A bound pod with what its annotations say it was given."""
        info = self._shapes.info(pod)
        for plugin in self._restorers:
            plugin.restore(info)
        return info

    def _place(self, info: PodInfo, node: str) -> None:
        row = self._table.row(node)
        if row is None:
            self._orphans.setdefault(node, {})[info.uid] = info
        else:
            self._accounts.add(row, info)

    def _gone(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self.assumed.pop(uid, None)
        self._queue.delete(uid)
        self._orphans.get(pod.spec.node_name, {}).pop(uid, None)
        info = self._accounts.get(uid)
        if info is not None:
            self._accounts.drop(info)
            self._happened(ev.ASSIGNED_POD_DELETE, info, None)
        elif pod.status.nominated_node_name:
            # What was kept free for it on that node is free for others.
            self._happened(ev.ASSIGNED_POD_DELETE, self._shapes.info(pod), None)

    def _happened(self, event: ev.ClusterEvent, old: object, new: object) -> None:
        if self._queue.happened(event, old, new):
            self._woken()


def is_over(pod: Pod) -> bool:
    """Whether a pod has ended and holds nothing any more."""
    return pod.status.phase in _TERMINAL
