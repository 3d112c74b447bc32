# SPDX-License-Identifier: Apache-2.0
"""Views of all objects of a kind, and an informer a kind behind them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from koord.api.kinds.registry import Kind
from koord.base.supervision import Supervisor
from koord.kube.daemon.missing_kinds import note
from koord.kube.informers.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from koord.kube.client import Client
    from koord.kube.codec.decoder import UnreadableObject
    from koord.kube.informers.reflector import InformerMetrics

ObjectT = TypeVar("ObjectT")


class View(Protocol[ObjectT]):
    """All objects of one kind: an informer's cache, or one that is fed by hand."""

    @property
    def served(self) -> bool:
        """Whether the API server has the kind; without it there are no objects, nor can be."""
        ...

    def on_served(self, changed: Callable[[bool], None]) -> None:
        """Tells when the kind goes from the API server, or comes after all.

        Args:
            changed: gets whether it is served now.
        """
        ...

    def get(self, key: str) -> ObjectT | None:
        """The object of a key, ``namespace/name`` or ``name``."""
        ...

    def items(self) -> Iterable[tuple[str, ObjectT]]:
        """Keys and objects."""
        ...

    def on_change(
        self,
        added: Callable[[ObjectT], None] | None = None,
        updated: Callable[[ObjectT, ObjectT], None] | None = None,
        deleted: Callable[[ObjectT, bool], None] | None = None,
        listed: Callable[[list[ObjectT]], list[ObjectT]] | None = None,
    ) -> None:
        """Tells of what is there, and of changes from then on.

        Args:
            added: gets a new object.
            updated: gets an object before and after.
            deleted: gets the last known state, and whether a later one was missed.
            listed: gets many new objects at once in the place of ``added``, where they come with a
                list, and gives back those that ``added`` is to be told of.
        """
        ...

    def on_unreadable(self, handler: Callable[[str, UnreadableObject | None], None]) -> None:
        """Tells of objects that are there and do not decode: key and why; None once they do."""
        ...

    def observe_write(self, written: ObjectT) -> None:
        """Takes in what the server answered to a write, where it is newer than what is known."""
        ...


class FollowedKind(NamedTuple):
    """An informer, and which objects it follows.

    Attributes:
        kind: their type.
        namespace: empty for all.
        field_selector: empty for all.
        informer: has them.
    """

    kind: type
    namespace: str
    field_selector: str
    informer: Informer[Any]


class InformerViews:
    """An informer a kind that anybody asked for.

    Args:
        client: the way to the API server.
        metrics: shared by all informers.
        options: keyword arguments of :class:`koord.kube.informers.informer.Informer`, by kind.
        supervisor: keeps the informers going.
    """

    def __init__(
        self,
        client: Client,
        metrics: InformerMetrics | None = None,
        options: dict[type, dict[str, Any]] | None = None,
        supervisor: Supervisor | None = None,
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._supervisor = supervisor or Supervisor("views")
        self._options = dict(options or {})
        self._informers: dict[type | Kind | tuple[type, str, str], Informer[Any]] = {}

    def transform(self, kind: type[ObjectT], by: Callable[[ObjectT], ObjectT]) -> None:
        """Has objects of a kind pass through a function before any cache has them.

        Raises:
            ValueError: somebody has asked for that kind already.
        """
        if kind in self.kinds():
            raise ValueError(f"{kind.__name__}: its objects are followed already")
        self._options[kind] = {**self._options.get(kind, {}), "transform": by}

    def view(self, kind: type[ObjectT]) -> View[ObjectT]:
        """All objects of a kind. The informer runs once :meth:`run` does."""
        informer = self._informers.get(kind)
        if informer is None:
            more = self._options.get(kind, {})
            informer = Informer(
                self._client, kind, metrics=self._metrics, supervisor=self._supervisor, **more
            )
            self._informers[kind] = informer
        return informer  # type: ignore[return-value]

    def view_as(self, kind: Kind, into: type[ObjectT]) -> View[ObjectT]:
        """All objects of a kind that koord does not register, decoded into a type."""
        informer = self._informers.get(kind)
        if informer is None:
            informer = Informer(
                self._client,
                kind,
                project=into,
                metrics=self._metrics,
                supervisor=self._supervisor,
            )
            self._informers[kind] = informer
        return informer  # type: ignore[return-value]

    def view_of(self, kind: type[ObjectT], namespace: str, name: str) -> View[ObjectT]:
        """One object; its name is all that the server is asked for, and must allow."""
        key = (kind, namespace, name)
        informer = self._informers.get(key)
        if informer is None:
            selection = f"metadata.name={name}"
            informer = Informer(
                self._client, kind, namespace=namespace, field_selector=selection,
                metrics=self._metrics, transform=self._options.get(kind, {}).get("transform"),
                supervisor=self._supervisor,
            )  # fmt: skip
            self._informers[key] = informer
        return informer  # type: ignore[return-value]

    def kinds(self) -> list[type]:
        """The kinds that anybody asked for, in that order."""
        return [each.kind for each in self.followed()]

    def followed(self) -> list[FollowedKind]:
        """All informers of registered kinds, with what they ask the server for."""
        found = []
        for key, informer in self._informers.items():
            if isinstance(key, Kind):
                continue
            kind, namespace, name = (key, "", "") if isinstance(key, type) else key
            selection = f"metadata.name={name}" if name else ""
            found.append(FollowedKind(kind, namespace, selection, informer))
        return found

    async def run(self) -> None:
        """Keeps all views true until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run(), name=f"informer of {informer.name}")

    async def synced(self) -> None:
        """Waits until all views are complete."""
        for informer in self._informers.values():
            await informer.synced()

    def informers(self) -> list[Informer[Any]]:
        """All of them."""
        return list(self._informers.values())

    def waiting_for(self) -> list[str]:
        """The kinds whose first list is not complete yet."""
        return [i.name for i in self._informers.values() if not i.has_synced]

    def readiness(self) -> str | None:
        """For a readiness check: what is waited for, or a Note of what the API server lacks."""
        missing = self.waiting_for()
        return f"not listed yet: {', '.join(missing)}" if missing else note(self.informers())
