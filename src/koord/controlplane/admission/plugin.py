# SPDX-License-Identifier: Apache-2.0
"""What a built-in rule is, and how rules remember what they looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.controlplane.extension import Attributes, Reader

T = TypeVar("T")


class AdmissionPlugin:
    """A rule that needs nothing from outside the process.

    Attributes:
        mutates: whether :meth:`mutate` does something.
        validates: whether :meth:`validate` does something.
        resources: by storage, those whose writes it looks at; none for all.
        depends_on: the resources, by storage, on whose objects its decisions depend.
    """

    mutates: bool = False
    validates: bool = False
    resources: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()

    def looks_inside(self, namespace: str) -> bool:
        """Whether it goes by the containers of a new pod, or other parts of its spec.

        It says another thing only once an object that it depends on is another.
        """
        return False

    def mutate(self, attributes: Attributes) -> None:
        """Changes the document, or raises ApiError."""

    def validate(self, attributes: Attributes) -> None:
        """Raises ApiError to refuse."""


class LookupCache(Generic[T]):
    """Look-ups in one resource, forgotten whenever an object of it changes.

    Args:
        reader: what is stored.
        storage: the resource.
        look_up: what is remembered for a key.
    """

    def __init__(self, reader: Reader, storage: str, look_up: Callable[[str], T]) -> None:
        self._generation_of, self._storage, self._look_up = reader.generation, storage, look_up
        self._generation = -1
        self._known: dict[str, T] = {}

    def get(self, key: str = "") -> T:
        """What the look-up gives for a key, now."""
        generation = self._generation_of(self._storage)
        if generation != self._generation:
            self._known.clear()
            self._generation = generation
        try:
            return self._known[key]
        except KeyError:
            answer = self._known[key] = self._look_up(key)
            return answer
