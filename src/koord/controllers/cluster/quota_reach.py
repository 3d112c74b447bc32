# SPDX-License-Identifier: Apache-2.0
"""Which namespaces are open to quotas of which others, by an annotation of the Namespace.

Rule: docs/reference/quota-scheduling.md#reach.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.cluster import Namespace
from koord.api.protocol import keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.controllers.cluster.views import View

_ALL = "*"


class NamespaceReach:
    """Whether quotas of one namespace reach pods and quotas of another.

    Args:
        view: of Namespaces.

    Attributes:
        changed: told of namespaces that are open to others than before.
    """

    def __init__(self, view: View[Namespace]) -> None:
        self._open: dict[str, frozenset[str]] = {}
        self.changed: Callable[[str], None] = lambda namespace: None
        view.on_change(
            self._put, lambda _, namespace: self._put(namespace), lambda gone, _: self._remove(gone)
        )

    def __call__(self, quotas_of: str, namespace: str) -> bool:
        """Whether quotas of a namespace are for another, or for itself."""
        if quotas_of == namespace:
            return True
        opened = self._open.get(namespace, frozenset())
        return quotas_of in opened or _ALL in opened

    def _put(self, namespace: Namespace) -> None:
        text = namespace.metadata.annotations.get(keys.QUOTAS_FROM, "")
        names = (name.strip() for name in text.split(","))
        self._set(namespace.metadata.name, frozenset(name for name in names if name))

    def _remove(self, namespace: Namespace) -> None:
        self._set(namespace.metadata.name, frozenset())

    def _set(self, name: str, opened: frozenset[str]) -> None:
        if self._open.get(name, frozenset()) == opened:
            return
        if opened:
            self._open[name] = opened
        else:
            del self._open[name]
        self.changed(name)
