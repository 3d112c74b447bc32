# SPDX-License-Identifier: Apache-2.0
"""What a plugin is given: the node table, views of objects, the clock, ways to wake pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from koord.api.kinds.pod import Pod
    from koord.base.clock import Clock
    from koord.base.metrics import MetricRegistry
    from koord.base.supervision import Supervisor
    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodInfo, Shapes
    from koord.controllers.cluster.views import ObjectT, View
    from koord.controllers.scheduler.framework.accounts import Accounts
    from koord.controllers.scheduler.framework.rejection import Rejection
    from koord.controllers.scheduler.invalid.contradictions import Contradictions
    from koord.controllers.scheduler.invalid.invalid_objects import InvalidObjects
    from koord.kube.client import Client


class Handle(Protocol):
    """The world of a plugin.

    Attributes:
        table: the node table.
        shapes: interns pod shapes.
        accounts: who counts where; for what-ifs.
        clock: the time.
        client: writes, for PreBind and controllers; None where there is no cluster.
        scheduler_name: of the profile.
        registry: where a plugin's metrics go.
        supervisor: keeps going what a plugin begins beside the loop.
        invalid: is told of objects that cannot be used as they are written.
        contradictions: is told of what bound pods say that does not count.
    """

    table: NodeTable
    shapes: Shapes
    accounts: Accounts
    clock: Clock
    client: Client | None
    scheduler_name: str
    registry: MetricRegistry
    supervisor: Supervisor
    invalid: InvalidObjects
    contradictions: Contradictions

    def view(self, kind: type[ObjectT]) -> View[ObjectT]:
        """All objects of a kind. To be asked for in ``Plugin.__init__``."""
        ...

    def view_of(self, kind: type[ObjectT], namespace: str, name: str) -> View[ObjectT]:
        """One object by name: nothing else of its kind is read. In ``Plugin.__init__`` too."""
        ...

    def gate(self, name: str) -> bool:
        """Whether a feature gate is on."""
        ...

    def event(self, about: Any, kind: str, reason: str, message: str) -> None:
        """Writes an event, ``Normal`` or ``Warning``."""
        ...

    def unschedulable(self, pod: Pod, message: str) -> None:
        """Says why a pod that is not being tried gets no node: its condition, and an event."""
        ...

    def pod(self, uid: str) -> PodInfo | None:
        """A pod that counts on a node."""
        ...

    def activate(self, uids: Iterable[str]) -> None:
        """Lets pods that wait for a change, or for their backoff, be tried at once."""
        ...

    def wake(self, resource: str, action: int, old: object, new: object) -> None:
        """Tells the queue of a cluster event that it cannot see itself."""
        ...

    def waiting(self) -> Sequence[PodInfo]:
        """Pods that a Permit plugin makes wait."""
        ...

    def allow(self, uid: str) -> bool:
        """Lets a pod that waits on Permit go on; False if it does not wait."""
        ...

    def reject(self, uid: str, why: Rejection) -> bool:
        """Gives up a pod that waits on Permit; False if it does not wait."""
        ...
