# SPDX-License-Identifier: Apache-2.0
"""Informers' views for a scheduler that only says where pods would go.

What happens in the cluster while a plan is worked out waits until it is done, so that a plan is of
one moment and its moves are taken back from what they were made in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from msgspec.structs import replace

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation
from koord.api.protocol import keys
from koord.controllers.cluster.views import ObjectT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from koord.base.supervision import Supervisor
    from koord.controllers.cluster.views import InformerViews, View
    from koord.kube.codec.decoder import UnreadableObject

_MIGRATION = "PodMigrationJob"
_TRANSFORMED = (Node, Pod)
"""Kinds that the descheduler's informers hand on as the scheduler counts them."""


def is_of_migration(reservation: Reservation) -> bool:
    """Whether a reservation holds the place of a pod that is being moved."""
    meta = reservation.metadata
    owned = any(owner.kind == _MIGRATION for owner in meta.owner_references)
    return owned or meta.labels.get(keys.CREATED_BY) == "koord-descheduler"


def as_held(reservation: Reservation) -> Reservation:
    """The reservation of a migration holds its place for that migration's pod, whoever else its
    owners let in.
    """
    if reservation.spec.unschedulable or not is_of_migration(reservation):
        return reservation
    return replace(reservation, spec=replace(reservation.spec, unschedulable=True))


class HeldChanges:
    """Changes that are told at once, or, while they are held, later and in order.

    Args:
        supervisor: counts what a handler fails of when it is told later; the next ones are told.

    Attributes:
        held: whether they wait.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self.held = False
        self._waiting: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def dispatch(self, handler: Callable[..., object], *change: Any) -> None:
        """Tells a handler of a change now, or notes it."""
        if self.held:
            self._waiting.append((handler, change))
        else:
            handler(*change)

    def release(self) -> None:
        """Tells of all that waited; from now on changes are told at once."""
        self.held = False
        waiting, self._waiting = self._waiting, []
        for handler, change in waiting:
            try:
                handler(*change)
            except Exception as error:
                self._supervisor.failed("cluster of plans", error)


class HeldView(Generic[ObjectT]):
    """One kind.

    Args:
        view: an informer's.
        changes: shared by all kinds.
        by: what objects pass through.
    """

    def __init__(
        self, view: View[ObjectT], changes: HeldChanges, by: Callable[[ObjectT], ObjectT]
    ) -> None:
        self._view, self._changes, self._by = view, changes, by

    @property
    def served(self) -> bool:
        """Whether the API server has the kind."""
        return self._view.served

    def on_served(self, changed: Callable[[bool], None]) -> None:
        """Tells when the kind goes from the API server, or comes after all."""
        dispatch = self._changes.dispatch
        self._view.on_served(lambda served: dispatch(changed, served))

    def get(self, key: str) -> ObjectT | None:
        """The object of a key as it is now."""
        found = self._view.get(key)
        return None if found is None else self._by(found)

    def items(self) -> Iterable[tuple[str, ObjectT]]:
        """Keys and objects as they are now."""
        return ((key, self._by(value)) for key, value in self._view.items())

    def on_change(
        self,
        added: Callable[[ObjectT], None] | None = None,
        updated: Callable[[ObjectT, ObjectT], None] | None = None,
        deleted: Callable[[ObjectT, bool], None] | None = None,
        listed: Callable[[list[ObjectT]], list[ObjectT]] | None = None,
    ) -> None:
        """Tells of what is there, and of changes from then on."""
        self._view.on_change(
            None if added is None else self._one(added),
            None if updated is None else self._two(updated),
            None if deleted is None else self._last(deleted),
            None if listed is None else self._page(added, listed),
        )

    def observe_write(self, written: ObjectT) -> None:
        """Hands on what the server answered to a write."""
        self._view.observe_write(written)

    def _one(self, added: Callable[[ObjectT], None]) -> Callable[[ObjectT], None]:
        by, dispatch = self._by, self._changes.dispatch
        return lambda value: dispatch(added, by(value))

    def _two(self, updated: Callable[[ObjectT, ObjectT], None]) -> Callable[..., None]:
        by, dispatch = self._by, self._changes.dispatch
        return lambda old, new: dispatch(updated, by(old), by(new))

    def _last(self, deleted: Callable[[ObjectT, bool], None]) -> Callable[..., None]:
        by, dispatch = self._by, self._changes.dispatch
        return lambda last, unknown: dispatch(deleted, by(last), unknown)

    def _page(
        self,
        added: Callable[[ObjectT], None] | None,
        listed: Callable[[list[ObjectT]], list[ObjectT]],
    ) -> Callable[[list[ObjectT]], list[ObjectT]]:
        by, changes = self._by, self._changes

        def later(values: list[ObjectT]) -> None:
            for each in listed(values):
                if added is not None:
                    added(each)

        def page(values: list[ObjectT]) -> list[ObjectT]:
            made = [by(each) for each in values]
            if not changes.held:
                return listed(made)
            changes.dispatch(later, made)
            return []

        return page

    def on_unreadable(self, handler: Callable[[str, UnreadableObject | None], None]) -> None:
        """Tells of objects that are there and do not decode."""
        dispatch = self._changes.dispatch
        self._view.on_unreadable(lambda key, why: dispatch(handler, key, why))


class HeldViews:
    """A :class:`HeldView` a kind, over informers of which nodes and pods are transformed already.

    Args:
        views: of the program, which runs them.
        supervisor: see :class:`HeldChanges`.

    Attributes:
        changes: of all kinds.
    """

    def __init__(self, views: InformerViews, supervisor: Supervisor) -> None:
        self._views, self.changes = views, HeldChanges(supervisor)
        self._by: dict[type, Callable[[Any], Any]] = {}

    def transform(self, kind: type[ObjectT], by: Callable[[ObjectT], ObjectT]) -> None:
        """Has objects of a kind pass through a function before the scheduler sees them."""
        if kind not in _TRANSFORMED:
            self._by[kind] = by

    def view(self, kind: type[ObjectT]) -> HeldView[ObjectT]:
        """All objects of a kind."""
        return HeldView(self._views.view(kind), self.changes, self._function_of(kind))

    def view_of(self, kind: type[ObjectT], namespace: str, name: str) -> HeldView[ObjectT]:
        """One object by name."""
        found = self._views.view_of(kind, namespace, name)
        return HeldView(found, self.changes, self._function_of(kind))

    def _function_of(self, kind: type) -> Callable[[Any], Any]:
        by = self._by.get(kind, _same)
        if kind is Reservation:
            return lambda value: as_held(by(value))
        return by


def _same(value: Any) -> Any:
    return value
