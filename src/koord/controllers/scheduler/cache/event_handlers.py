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
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.pod_conditions import was_preempted
from koord.controllers.scheduler.queue import events as ev

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import Shapes
    from koord.controllers.cluster.views import View
    from koord.controllers.scheduler.cache.orphans import Orphans
    from koord.controllers.scheduler.framework.accounts import Accounts
    from koord.controllers.scheduler.invalid.contradictions import Contradictions
    from koord.controllers.scheduler.queue.scheduling_queue import SchedulingQueue

_LOG = log.get("scheduler")
_TERMINAL = ("Succeeded", "Failed")


class EventHandlers:
    """Handlers of node and pod changes.

    Args:
        table: the nodes; who made it opens and closes its rows.
        orphans: pods whose node is not known.
        shapes: interns pod shapes.
        accounts: who counts where.
        queue: who waits.
        profiles: the scheduler names that are served.
        restorers: PodListener plugins; each reads its allocation from a bound pod.
        woken: called after anything that may have made a pod active.
        contradictions: is told of what bound pods say that does not count.
    """

    def __init__(
        self,
        table: NodeTable,
        orphans: Orphans,
        shapes: Shapes,
        accounts: Accounts,
        queue: SchedulingQueue,
        profiles: Iterable[str],
        restorers: Iterable[Any],
        woken: Callable[[], None],
        contradictions: Contradictions,
    ) -> None:
        self._table = table
        self._shapes = shapes
        self._accounts = accounts
        self._queue = queue
        self._profiles = frozenset(profiles)
        # Most bound pods have no annotation that any of the second kind reads.
        self._restorers, self._readers = _by_annotation(restorers)
        self._last: tuple[dict[str, str] | None, list[Any]] = None, []
        self._woken = woken
        self._contradictions = contradictions
        self._orphans = orphans
        # Assumed pods that the API has not confirmed yet, by uid.
        self.assumed: dict[str, PodInfo] = {}

    def attach(self, nodes: View[Node], pods: View[Pod]) -> None:
        """Begins to follow two views; nodes first, so that their pods find them."""
        nodes.on_change(self.node_added, self.node_updated, self.node_deleted)
        pods.on_change(self.pod_added, self.pod_updated, self.pod_deleted, self.pods_listed)

    # Nodes.

    def node_added(self, node: Node) -> None:
        """A node came, and with it the pods that were on it before it was known."""
        row = self._table.row(node.metadata.name)
        if row is not None:
            left = self._orphans.take(node.metadata.name)
            self._accounts.add_all([(row, info) for info in left])
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
        elif self._serves(pod) and not self.holds(pod.metadata.uid):
            info = self._shapes.info(pod)
            self._queue.add(info, pod.spec.scheduler_name)
            # Promised by a scheduler before this one, or by another.
            promised = pod.status.nominated_node_name
            if promised or self._queue.nominator:
                self._queue.nominator.update(info, "", promised)
            self._woken()

    def pods_listed(self, pods: list[Pod]) -> list[Pod]:
        """Pods came with a list: those on nodes, mostly, which are counted together.

        Returns:
            Those that are to be told of as :meth:`pod_added`.
        """
        left: list[Pod] = []
        found: dict[str, tuple[int, PodInfo]] = {}
        row_of, counted = self._table.row, self._accounts.pods()
        for info in self._shapes.infos(pods):
            pod, uid = info.pod, info.uid
            if is_over(pod):
                continue
            node = pod.spec.node_name
            row = row_of(node)
            known = uid in found or uid in counted or uid in self._orphans
            readers = self._readers_of(pod.metadata.annotations)
            if row is None or known or (readers and not self._restored(info, readers)):
                left.append(pod)
            else:
                found[uid] = row, info
        if found:
            self._accounts.add_all(list(found.values()))
        if not self._queue.empty:
            for uid, (_, info) in found.items():
                self._queue.delete(uid)
                self._happened(ev.ASSIGNED_POD_ADD, None, info)
        return left

    def _restored(self, info: PodInfo, readers: Sequence[Any]) -> bool:
        """Whether what a pod was given could be read."""
        try:
            for plugin in readers:
                plugin.restore(info)
        except Exception:
            # Told of alone, it is logged alone.
            info.allocations.clear()
            return False
        return True

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

    def give_up(self, info: PodInfo) -> None:
        """An assumed pod does not get to its node; the node may be gone by now."""
        self.assumed.pop(info.uid, None)
        if self._orphans.get(info.uid) is info:
            self._drop_orphan(info.uid)

    def holds(self, uid: str) -> bool:
        """Whether a pod counts on a node, or will once its node is known again."""
        return self._accounts.get(uid) is not None or uid in self._orphans

    def confirmed(self, uid: str) -> bool:
        """Whether the API knows of the node of a pod that counts."""
        return uid not in self.assumed

    def written(self, info: PodInfo) -> dict[str, Any]:
        """By plugin, what a pod's annotations say it holds, of those that it has something from."""
        fresh = PodInfo(info.pod, info.shape)
        if info.decided and self._contradictions.of(info.uid):
            return {}  # told of already
        for plugin, read in self._readers:
            held = plugin.name in info.allocations
            if held and not read.isdisjoint(info.pod.metadata.annotations):
                plugin.restore(fresh)
        return fresh.allocations

    def _serves(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self._profiles

    def _waiting(self, old: Pod, pod: Pod) -> None:
        uid = pod.metadata.uid
        if self.holds(uid) and self._queue.get(uid) is None:
            return  # bound, which the API is yet to tell
        # One that is on its way to be bound keeps its place; it may come back as it is by now.
        if pod.metadata.resource_version == old.metadata.resource_version:
            return
        if pod.spec.scheduler_name != old.spec.scheduler_name and uid in self._queue:
            # Another profile has other plugins, and what these waited for says nothing.
            self._queue.delete(uid)
            self.pod_added(pod)
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
        known = self._accounts.get(uid) or self._orphans.get(uid)
        if self.assumed.pop(uid, None) is known and known is not None:
            # Reservations may be changed by whoever looks after them.
            known.decided = known.reservation is None
        self._queue.delete(uid)
        if known is not None and self._node_of(known) != node:
            _LOG.warning(
                "a pod was bound elsewhere than assumed",
                extra=log.fields(pod=known.key, assumed=self._node_of(known), bound=node),
            )
            self._take_off(known)
            known = None
        if known is None:
            info = self._read(pod)
            self._place(info, node)
            self._happened(ev.ASSIGNED_POD_ADD, None, info)
            return
        if old is None or not old.spec.node_name:
            self._renew(known, pod)
            self._happened(ev.ASSIGNED_POD_ADD, None, known)
            return
        before = self._shapes.info(known.pod)
        self._renew(known, pod)
        requests = before.counted.request, known.counted.request
        for event in ev.pod_events(before.pod, pod, *requests):
            self._happened(event, before, known)

    def _renew(self, known: PodInfo, pod: Pod) -> None:
        """Takes over a bound pod's new state; counts it anew where that changes what it holds."""
        shape, before = self._shapes.of(pod), known.pod
        counted = shape.container_requests.counted(pod)
        # From the moment that it is being deleted a pod counts for less.
        ends = before.metadata.deletion_timestamp != pod.metadata.deletion_timestamp
        known.pod = pod
        if known.row < 0:
            known.shape, known.counted = shape, counted
            known.allocations = self._given(known)
            return
        fresh = known.allocations
        if before.metadata.annotations != pod.metadata.annotations:
            fresh = self._given(known)
        # Asked for is what plugins charge; counted as is what the node has less.
        same = shape.request == known.shape.request and counted.equals(known.counted)
        if fresh == known.allocations and same and not ends:
            if shape is not known.shape:
                self._accounts.relabel(known, shape)
            return
        row = known.row
        self._accounts.drop(known)
        known.shape, known.counted, known.priority = shape, counted, pod.spec.priority or 0
        known.allocations = fresh
        self._accounts.add(row, known)

    def _given(self, known: PodInfo) -> dict[str, Any]:
        """What a bound pod was given: what was decided here, else what its annotations say."""
        written = self._read(known.pod).allocations
        annotations, there = known.pod.metadata.annotations, self._contradictions.of(known.uid)
        for plugin, read in self._readers if known.decided or there else ():
            name, key = plugin.name, min(read)
            if known.decided and written.get(name) != known.allocations.get(name):
                self._contradictions.overridden(known, key, name)
            elif read.isdisjoint(annotations):
                self._contradictions.note(known.pod, key, None)
        if not known.decided:
            return written
        return known.allocations

    def _read(self, pod: Pod) -> PodInfo:
        """A bound pod with what its annotations say it was given."""
        info = self._shapes.info(pod)
        self._restore(info)
        return info

    def _restore(self, info: PodInfo) -> None:
        for plugin in self._readers_of(info.pod.metadata.annotations):
            plugin.restore(info)

    def _readers_of(self, annotations: dict[str, str]) -> Sequence[Any]:
        """Who reads anything of a pod with such annotations."""
        # The pods of a workload come together, and share these.
        if annotations is not self._last[0]:
            readers = [plugin for plugin, read in self._readers if not read.isdisjoint(annotations)]
            self._last = annotations, [*self._restorers, *readers]
        return self._last[1]

    def _place(self, info: PodInfo, node: str) -> None:
        row = self._table.row(node)
        if row is None:
            self._orphans.put(node, info)
            self._accounts.add_orphan(info)
        else:
            self._accounts.add(row, info)

    def _node_of(self, info: PodInfo) -> str:
        """The node that a held pod is on, or waits for."""
        return self._table.name(info.row) if info.row >= 0 else self._orphans.node_of(info.uid)

    def _take_off(self, info: PodInfo) -> None:
        if info.row >= 0:
            self._accounts.drop(info)
        else:
            self._drop_orphan(info.uid)

    def _drop_orphan(self, uid: str) -> None:
        info = self._orphans.get(uid)
        if info is not None:
            self._orphans.drop(uid)
            self._accounts.drop_orphan(info)
            # Its node is not there to have anything free, but its quota is.
            self._happened(ev.ASSIGNED_POD_DELETE, info, None)

    def _gone(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self.assumed.pop(uid, None)
        self._queue.delete(uid)
        self._drop_orphan(uid)
        self._contradictions.forget(pod)
        info = self._accounts.get(uid)
        if info is not None:
            row = info.row
            self._accounts.drop(info)
            self._happened(ev.ASSIGNED_POD_DELETE, info, None)
            self._made_free(row)
        elif pod.status.nominated_node_name:
            # What was kept free for it on that node is free for others.
            self._happened(ev.ASSIGNED_POD_DELETE, self._shapes.info(pod), None)

    def _made_free(self, row: int) -> None:
        """Whom a row is promised to need not wait any longer once all preempted pods are gone.

        Backoff is for who is tried in vain, and for these the room has just been made.
        """
        promised = self._queue.nominator.on_node(self._table.name(row))
        if promised and not any(was_preempted(info.pod) for info in self._table.pods[row].values()):
            self._queue.activate([info.uid for info in promised if info.uid in self._queue])
            self._woken()

    def _happened(self, event: ev.ClusterEvent, old: object, new: object) -> None:
        if self._queue.move_on_event(event, old, new):
            self._woken()


def _by_annotation(
    restorers: Iterable[Any],
) -> tuple[list[Any], list[tuple[Any, frozenset[str]]]]:
    """Those that may read anything of a pod, and those that name the annotations they read."""
    anything, readers = [], []
    for each in restorers:
        read = getattr(each, "restores_from", None)
        if read is None:
            anything.append(each)
        elif read:
            readers.append((each, frozenset(read)))
    return anything, readers


def is_over(pod: Pod) -> bool:
    """Whether a pod has ended and holds nothing any more."""
    return pod.status.phase in _TERMINAL
