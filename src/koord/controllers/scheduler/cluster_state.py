# SPDX-License-Identifier: Apache-2.0
"""The world of plugins: what :class:`koord.controllers.scheduler.framework.handle.Handle` says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from koord.api.kinds.node import Node
from koord.base.metrics import registry
from koord.base.supervision import Supervisor
from koord.controllers.cluster.node_table import NodeTable
from koord.controllers.cluster.pods import Shapes
from koord.controllers.cluster.transforms import transforms
from koord.controllers.scheduler.cache.orphans import Orphans
from koord.controllers.scheduler.feature_gates import feature_gates
from koord.controllers.scheduler.framework.accounts import Accounts
from koord.controllers.scheduler.invalid.contradictions import Contradictions
from koord.controllers.scheduler.invalid.invalid_objects import InvalidObjects
from koord.controllers.scheduler.queue.events import ClusterEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from koord.api.kinds.pod import Pod
    from koord.base.clock import Clock
    from koord.base.feature_gates import FeatureGates
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.cluster.views import ObjectT, View
    from koord.controllers.scheduler.cycles.binder import Binder
    from koord.controllers.scheduler.framework.rejection import Rejection
    from koord.controllers.scheduler.queue.scheduling_queue import SchedulingQueue
    from koord.kube.client import Client


class ViewSource(Protocol):
    """Where views come from: informers, or tables fed by hand."""

    def transform(self, kind: type[ObjectT], by: Callable[[ObjectT], ObjectT]) -> None:
        """Has objects of a kind pass through a function before any cache has them."""
        ...

    def view(self, kind: type[ObjectT]) -> View[ObjectT]:
        """All objects of a kind."""
        ...

    def view_of(self, kind: type[ObjectT], namespace: str, name: str) -> View[ObjectT]:
        """At least the one object of that name; others of its kind may be there too."""
        ...


class ClusterState:
    """Shared by all plugins of all profiles.

    Args:
        views: objects by kind.
        clock: the time.
        client: writes; None where there is no cluster.
        write_event: writes an event: about, type, reason, message.
        gates: feature gates; all at their defaults if not given.
        scheduler_name: of the first profile.
        supervisor: of what runs beside the loop.
    """

    def __init__(
        self,
        views: ViewSource,
        clock: Clock,
        client: Client | None = None,
        write_event: Callable[[Any, str, str, str], None] | None = None,
        gates: FeatureGates | None = None,
        scheduler_name: str = "koord-scheduler",
        supervisor: Supervisor | None = None,
    ) -> None:
        self.supervisor = supervisor or Supervisor("scheduler", clock=clock)
        self.table = NodeTable()
        self.shapes = Shapes()
        self.accounts = Accounts(self.table)
        self.clock = clock
        self.client = client
        self.scheduler_name = scheduler_name
        self.registry = registry()
        self.orphans = Orphans()
        self._views = views
        self._write_event = write_event
        self._gates = gates or feature_gates()
        for kind, by in transforms(self._gates).items():
            views.transform(kind, by)
        # Set when the scheduler is put together; plugins ask for them later than that.
        self.queue: SchedulingQueue | None = None
        self.binder: Binder | None = None
        self.woken: Callable[[], None] = lambda: None
        self.refuse: Callable[[Pod, str], None] = lambda pod, message: None
        self.invalid = InvalidObjects(client, self.event, clock)
        self.contradictions = Contradictions(self.invalid)
        # Before any plugin hears of a node it has a row; after a node's row is closed it hears of
        # that. The feed comes last and brings the pods.
        self.view(Node).on_change(self._opened, self._changed, self._closed)

    def _opened(self, node: Node) -> None:
        self.table.put(node)

    def _changed(self, old: Node, node: Node) -> None:
        self.table.put(node)

    def _closed(self, node: Node, unknown: bool) -> None:
        name = node.metadata.name
        row = self.table.row(name)
        if row is None:
            return
        for info in list(self.table.pods[row].values()):
            self.accounts.drop(info)
            self.orphans.put(name, info)
            self.accounts.add_orphan(info)
        self.table.remove(name)

    def view(self, kind: type[ObjectT]) -> View[ObjectT]:
        """All objects of a kind."""
        return self._views.view(kind)

    def view_of(self, kind: type[ObjectT], namespace: str, name: str) -> View[ObjectT]:
        """One object by name; a view that is fed by hand may have others too."""
        return self._views.view_of(kind, namespace, name)

    def gate(self, name: str) -> bool:
        """Whether a feature gate is on."""
        return self._gates.enabled(name)

    def event(self, about: Any, kind: str, reason: str, message: str) -> None:
        """Writes an event."""
        if self._write_event is not None:
            self._write_event(about, kind, reason, message)

    def unschedulable(self, pod: Pod, message: str) -> None:
        """Says why a pod that is not being tried gets no node."""
        self.refuse(pod, message)

    def pod(self, uid: str) -> PodInfo | None:
        """A pod that counts on a node."""
        return self.accounts.get(uid)

    def activate(self, uids: Iterable[str]) -> None:
        """Lets waiting pods be tried at once."""
        if self.queue is not None and self.queue.activate(uids):
            self.woken()

    def wake(self, resource: str, action: int, old: object, new: object) -> None:
        """Tells the queue of an event."""
        if self.queue is not None and self.queue.move_on_event(
            ClusterEvent(resource, action), old, new
        ):
            self.woken()

    def waiting(self) -> Sequence[PodInfo]:
        """Pods that a Permit plugin makes wait."""
        if self.binder is None:
            return ()
        return [binding.queued.info for binding in self.binder.waiting.values()]

    def allow(self, uid: str) -> bool:
        """Lets a pod that waits on Permit go on."""
        return self.binder is not None and self.binder.allow(uid)

    def reject(self, uid: str, why: Rejection) -> bool:
        """Gives up a pod that waits on Permit."""
        return self.binder is not None and self.binder.reject(uid, why)
