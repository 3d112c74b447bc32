# SPDX-License-Identifier: Apache-2.0
"""Objects by key, and by whatever else they are looked up by."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Mapping, ValuesView
from typing import Generic, TypeVar

O = TypeVar("O")  # noqa: E741

# The values under which an object is found in one index; none of them may be empty text.
IndexFunction = Callable[[O], Iterable[str]]


class Indexer(Generic[O]):
    """A cache of objects with indexes that are kept up to date by every change.

    Args:
        indexers: index name to the function that gives an object's values there. It sees each
            object once, when it comes; an object that changed afterwards would be lost.
    """

    def __init__(self, indexers: Mapping[str, IndexFunction[O]] | None = None) -> None:
        self._objects: dict[str, O] = {}
        # The object of a key, or None. Asked several times an event: without a call of Python's.
        self.get: Callable[[str], O | None] = self._objects.get
        self._functions = dict(indexers or {})
        # Keys in the order they came: a dict is an ordered set.
        self._indexes: dict[str, dict[str, dict[str, None]]] = {n: {} for n in self._functions}

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    def items(self) -> ItemsView[str, O]:
        """Keys and objects, a view."""
        return self._objects.items()

    def values(self) -> ValuesView[O]:
        """The objects, a view."""
        return self._objects.values()

    def by_index(self, index: str, value: str) -> list[O]:
        """The objects that have a value in an index, in the order they got it.

        Raises:
            KeyError: there is no such index.
        """
        return [self._objects[key] for key in self._indexes[index].get(value, ())]

    def put(self, key: str, value: O) -> None:
        """Adds or replaces an object."""
        if self._functions:
            self._index(key, self._objects.get(key), value)
        self._objects[key] = value

    def _index(self, key: str, old: O | None, value: O) -> None:
        for name, function in self._functions.items():
            index = self._indexes[name]
            now = set(filter(None, function(value)))
            before = set() if old is None else set(filter(None, function(old)))
            self._leave(index, key, before - now)
            for found in sorted(now - before):
                index.setdefault(found, {})[key] = None

    def remove(self, key: str) -> None:
        """Removes an object.

        Raises:
            KeyError: it is not there.
        """
        old = self._objects.pop(key)
        for name, function in self._functions.items():
            self._leave(self._indexes[name], key, set(filter(None, function(old))))

    @staticmethod
    def _leave(index: dict[str, dict[str, None]], key: str, values: set[str]) -> None:
        for value in values:
            keys = index[value]
            del keys[key]
            if not keys:
                del index[value]
