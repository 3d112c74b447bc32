# SPDX-License-Identifier: Apache-2.0
"""What slo-controller-config says of a node, worked out once for all nodes of which it says the
same.

Only the labels that selectors ask for, and a few labels and annotations that the consumer names,
decide. Nodes that agree in those get one and the same value, so that a change of the configuration
costs a look-up a node and not a computation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from koord.api.kinds.node import Node
    from koord.api.sloconfig.config import SLOConfig

T = TypeVar("T")


class NodeConfigCache(Generic[T]):
    """Values by what decides them.

    Args:
        sections: keys of the sections that the value is made of.
        make: makes the value for a node; it may read those sections, and nothing of the node but
            what is named here.
        labels: labels of nodes that count beside those in selectors.
        annotations: annotations of nodes that count.
    """

    def __init__(
        self,
        sections: Iterable[str],
        make: Callable[[SLOConfig, Node], T],
        labels: Iterable[str] = (),
        annotations: Iterable[str] = (),
    ) -> None:
        self._sections = tuple(sections)
        self._make = make
        self._own_labels = frozenset(labels)
        self._annotations = tuple(annotations)
        self._config: SLOConfig | None = None
        self._labels: tuple[str, ...] = ()
        self._values: dict[tuple[str | None, ...], T] = {}

    def __len__(self) -> int:
        return len(self._values)

    def of(self, config: SLOConfig, node: Node) -> T:
        """The value of a node; the same object for all nodes that do not differ."""
        if config is not self._config:
            self._config = config
            self._labels = tuple(sorted(self._own_labels | self._selector_labels(config)))
            self._values = {}
        meta = node.metadata
        key = (
            *map(meta.labels.get, self._labels),
            *map(meta.annotations.get, self._annotations),
        )
        found = self._values.get(key)
        if found is None:
            found = self._values[key] = self._make(config, node)
        return found

    def _selector_labels(self, config: SLOConfig) -> set[str]:
        selectors = (
            node.selector
            for section in self._sections
            for node in config.sections[section].nodes
            if node.selector is not None
        )
        return {
            key
            for selector in selectors
            for key in (*selector.match_labels, *(e.key for e in selector.match_expressions))
        }
