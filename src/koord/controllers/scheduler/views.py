# SPDX-License-Identifier: Apache-2.0
"""Views of objects for plugins: an informer a kind, or tables that are fed by hand.

The second kind needs no cluster: simulations, traces and tests put objects in and take them out,
and the scheduler cannot tell the difference.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from koord.kube.indexer import Indexer
from koord.kube.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Callable, ItemsView

    from koord.controllers.scheduler.framework.handle import View
    from koord.kube.client import Client
    from koord.kube.reflector import InformerMetrics

O = TypeVar("O")  # noqa: E741


class LocalView(Generic[O]):
    """Objects of one kind that are put in by hand; handlers are told as an informer tells them."""

    def __init__(self) -> None:
        self._objects: Indexer[O] = Indexer(None)
        self._handlers: list[tuple[Any, Any, Any]] = []

    def get(self, key: str) -> O | None:
        """The object of a key."""
        return self._objects.get(key)

    def items(self) -> ItemsView[str, O]:
        """Keys and objects."""
        return self._objects.items()

    def on_change(
        self,
        added: Callable[[O], None] | None = None,
        updated: Callable[[O, O], None] | None = None,
        deleted: Callable[[O, bool], None] | None = None,
    ) -> None:
        """Registers handlers; they are told at once of what is there."""
        for _, value in list(self._objects.items()):
            if added is not None:
                added(value)
        self._handlers.append((added, updated, deleted))

    def put(self, value: O) -> None:
        """Adds an object, or replaces the one of its key."""
        key = key_of(value)
        old = self._objects.get(key)
        self._objects.put(key, value)
        for added, updated, _ in self._handlers:
            if old is None:
                if added is not None:
                    added(value)
            elif updated is not None:
                updated(old, value)

    def remove(self, key: str) -> None:
        """Takes an object out; nothing happens if it is not there."""
        old = self._objects.get(key)
        if old is None:
            return
        self._objects.remove(key)
        for _, _, deleted in self._handlers:
            if deleted is not None:
                deleted(old, False)


class LocalViews:
    """A :class:`LocalView` a kind."""

    def __init__(self) -> None:
        self._views: dict[type, LocalView[Any]] = {}

    def view(self, kind: type[O]) -> LocalView[O]:
        """All objects of a kind."""
        return cast("LocalView[O]", self._views.setdefault(kind, LocalView()))


class InformerViews:
    """An informer a kind that anybody asked for.

    Args:
        client: the way to the API server.
        metrics: shared by all informers.
        options: keyword arguments of :class:`koord.kube.informer.Informer`, by kind.
    """

    def __init__(
        self,
        client: Client,
        metrics: InformerMetrics | None = None,
        options: dict[type, dict[str, Any]] | None = None,
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._options = options or {}
        self._informers: dict[type, Informer[Any]] = {}

    def view(self, kind: type[O]) -> View[O]:
        """All objects of a kind. The informer runs once :meth:`run` does."""
        informer = self._informers.get(kind)
        if informer is None:
            more = self._options.get(kind, {})
            informer = Informer(self._client, kind, metrics=self._metrics, **more)
            self._informers[kind] = informer
        return informer  # type: ignore[return-value]

    async def run(self) -> None:
        """Keeps all views true until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run(), name=f"informer of {informer.name}")

    async def synced(self) -> None:
        """Waits until all views are complete."""
        for informer in self._informers.values():
            await informer.synced()

    def waiting_for(self) -> list[str]:
        """The kinds whose first list is not complete yet."""
        return [i.name for i in self._informers.values() if not i.has_synced]


def key_of(value: Any) -> str:
    """``namespace/name``, or ``name`` of an object without namespace."""
    meta = value.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else str(meta.name)
