# SPDX-License-Identifier: Apache-2.0
"""Extenders of NodeSLOs: third parties' sections of slo-controller-config on their way to nodes.

Rule: docs/reference/nodeslo.md#extenders. Each contributes one key of ``spec.extensions``.
Packages name theirs as entry points of the group ``koord.manager.nodeslo``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from koord.base import log
from koord.base.distributions import other_entry_points
from koord.base.errors import KoordError, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.node import Node

GROUP = "koord.manager.nodeslo"
_LOG = log.get("manager.nodeslo")


class NodeSLOExtender(Protocol):
    """A third party's part of NodeSLOs. What it raises is logged, and leaves its part as it was."""

    def merge(self, old: Any, data: Mapping[str, str]) -> Any:
        """Its configuration, from the ConfigMap.

        Args:
            old: what it returned before; None the first time.
            data: of the ConfigMap; empty if there is none.
        """
        ...

    def extension(self, node: Node, config: Any) -> tuple[str, Any]:
        """The key in ``extensions`` and a JSON value for a node; None takes the key away.

        Args:
            node: the node; not to be changed.
            config: what :meth:`merge` returned.
        """
        ...


class NodeSLOExtenders:
    """Extenders by name, and their configurations."""

    def __init__(self) -> None:
        self._known: dict[str, NodeSLOExtender] = {}
        self._configs: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self._known)

    def register(self, name: str, extender: NodeSLOExtender) -> None:
        """Adds one.

        Raises:
            KoordError: the name is taken.
        """
        if name in self._known:
            raise KoordError("NodeSLO extenders", "", name, "a name that is not taken")
        self._known[name] = extender

    def merge(self, data: Mapping[str, str]) -> None:
        """Gives all of them a new ConfigMap."""
        for name, extender in self._known.items():
            try:
                self._configs[name] = extender.merge(self._configs.get(name), data)
            except Exception as error:
                _failed(name, error)

    def extensions(self, node: Node, old: Mapping[str, Any]) -> dict[str, Any]:
        """The extensions of a node: those there are, with each extender's part put in its place."""
        found = dict(old)
        for name, extender in self._known.items():
            try:
                key, value = extender.extension(node, self._configs.get(name))
            except Exception as error:
                _failed(name, error)
                continue
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value
        return found


def installed() -> NodeSLOExtenders:
    """Those that installed packages name.

    Raises:
        KoordError: one cannot be imported or made, or two have one name.
    """
    found = NodeSLOExtenders()
    for point in sorted(other_entry_points(GROUP), key=lambda point: point.name):
        try:
            extender = point.load()()
        except Exception as error:
            reason = one_line(str(error)) or type(error).__name__
            raise KoordError(GROUP, point.name, point.value, f"an extender ({reason})") from None
        found.register(point.name, extender)
    return found


def _failed(name: str, error: Exception) -> None:
    # A third party's mistake must not keep nodes from the other parts.
    reason = one_line(str(error)) or type(error).__name__
    _LOG.error("an extender failed", extra=log.fields(extender=name, error=reason))
