# SPDX-License-Identifier: Apache-2.0
"""Views of objects that are fed by hand.

They need no cluster: simulations, traces and tests put objects in and take them out, and the
scheduler cannot tell the difference to informers (:mod:`koord.controllers.cluster.views`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, cast

from koord.controllers.cluster.views import ObjectT
from koord.kube.informers.indexer import Indexer

if TYPE_CHECKING:
    from collections.abc import Callable, ItemsView

    from koord.kube.codec.decoder import UnreadableObject


class LocalView(Generic[ObjectT]):
    """Objects of one kind that are put in by hand; handlers are told as an informer tells them.

    Attributes:
        transform: what objects pass through as they are put in.
    """

    def __init__(self) -> None:
        self.transform: Callable[[ObjectT], ObjectT] | None = None
        self._objects: Indexer[ObjectT] = Indexer(None)
        self._handlers: list[tuple[Any, Any, Any, Any]] = []

    @property
    def served(self) -> bool:
        """Always: objects may be put in at any time."""
        return True

    def on_served(self, changed: Callable[[bool], None]) -> None:
        """There is never anything to tell."""

    def get(self, key: str) -> ObjectT | None:
        """The object of a key."""
        return self._objects.get(key)

    def items(self) -> ItemsView[str, ObjectT]:
        """Keys and objects."""
        return self._objects.items()

    def on_change(
        self,
        added: Callable[[ObjectT], None] | None = None,
        updated: Callable[[ObjectT, ObjectT], None] | None = None,
        deleted: Callable[[ObjectT, bool], None] | None = None,
        listed: Callable[[list[ObjectT]], list[ObjectT]] | None = None,
    ) -> None:
        """Registers handlers; they are told at once of what is there."""
        for _, value in list(self._objects.items()):
            if added is not None:
                added(value)
        self._handlers.append((added, updated, deleted, listed))

    def on_unreadable(self, handler: Callable[[str, UnreadableObject | None], None]) -> None:
        """Nothing: what is put in by hand is decoded already."""

    def observe_write(self, written: ObjectT) -> None:
        """Nothing: who puts objects in knows of their writes."""

    def put(self, value: ObjectT) -> None:
        """Adds an object, or replaces the one of its key."""
        if self.transform is not None:
            value = self.transform(value)
        key = key_of(value)
        old = self._objects.get(key)
        self._objects.put(key, value)
        for added, updated, _, _ in self._handlers:
            if old is None:
                if added is not None:
                    added(value)
            elif updated is not None:
                updated(old, value)

    def put_page(self, values: list[ObjectT]) -> None:
        """Adds objects that are not there, as a page of a list brings them."""
        if self.transform is not None:
            values = list(map(self.transform, values))
        for value in values:
            self._objects.put(key_of(value), value)
        for added, _, _, listed in self._handlers:
            left = values if listed is None else listed(values)
            for value in left if added is not None else ():
                added(value)

    def remove(self, key: str) -> None:
        """Takes an object out; nothing happens if it is not there."""
        old = self._objects.get(key)
        if old is None:
            return
        self._objects.remove(key)
        for _, _, deleted, _ in self._handlers:
            if deleted is not None:
                deleted(old, False)


class LocalViews:
    """A :class:`LocalView` a kind."""

    def __init__(self) -> None:
        self._views: dict[type, LocalView[Any]] = {}

    def transform(self, kind: type[ObjectT], by: Callable[[ObjectT], ObjectT]) -> None:
        """Has objects of a kind that are put in from now on pass through a function."""
        self.view(kind).transform = by

    def view(self, kind: type[ObjectT]) -> LocalView[ObjectT]:
        """All objects of a kind."""
        found = self._views.get(kind)
        if found is None:
            found = self._views[kind] = LocalView()
        return cast("LocalView[ObjectT]", found)

    def view_of(self, kind: type[ObjectT], namespace: str, name: str) -> LocalView[ObjectT]:
        """The same: who asks for one object passes over the others."""
        return self.view(kind)


def key_of(value: Any) -> str:
    """``namespace/name``, or ``name`` of an object without namespace."""
    meta = value.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else str(meta.name)
