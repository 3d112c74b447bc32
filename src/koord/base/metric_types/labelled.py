# SPDX-License-Identifier: Apache-2.0
"""A child for each set of label values: what metrics have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar


class MetricChild:
    """What is counted for one set of label values; it has no children itself."""

    __slots__ = ()

    def labels(self, *values: str) -> Any:
        """For a metric without labels."""
        raise ValueError(f"no labels were declared, and {values} were given")

    def clear(self) -> None:
        """Begins anew."""

    def remove(self, *values: str) -> None:
        """A child has no children."""
        raise KeyError(values)


C = TypeVar("C", bound=MetricChild)


class LabelledMetric(MetricChild, ABC, Generic[C]):
    """A metric with its children; without labels it is its own only child."""

    __slots__ = ()

    _name: str
    _labels: tuple[str, ...]
    _children: dict[tuple[str, ...], C]

    @abstractmethod
    def _child(self) -> C:
        """A new child."""

    def labels(self, *values: str) -> C:
        """The child with these label values.

        Raises:
            ValueError: there are more or fewer labels than declared.
        """
        child = self._children.get(values)
        if child is None:
            texts = tuple(map(str, values))
            if not self._labels or len(texts) != len(self._labels):
                raise ValueError(f"{self._name}: {values} for labels {self._labels}")
            child = self._children.setdefault(texts, self._child())
        return child

    def clear(self) -> None:
        """Forgets all children, or begins anew where there are no labels."""
        if self._labels:
            self._children.clear()
        else:
            super().clear()

    def remove(self, *values: str) -> None:
        """Forgets the child with these label values; a KeyError if there is none."""
        del self._children[tuple(map(str, values))]
