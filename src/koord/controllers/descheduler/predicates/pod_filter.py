# SPDX-License-Identifier: Apache-2.0
"""The options ``namespaces`` and ``labelSelector``, with the filters of whoever evicts.

Rule: docs/reference/descheduling.md#namespaces-and-labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.api import selectors

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.api.kinds.meta import LabelSelector
    from koord.api.kinds.pod import Pod


@dataclass(frozen=True)
class PodFilter:
    """Which pods a plugin looks at.

    Args:
        include: namespaces, unless it is empty; all others are left out.
        exclude: namespaces that are left out.
        label_selector: of pods; None for all.
        accepts: what else must hold, such as the evictor's filters; None for nothing.
    """

    include: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()
    label_selector: LabelSelector | None = None
    accepts: Callable[[Pod], bool] | None = None

    def __call__(self, pod: Pod) -> bool:
        """Whether a pod is looked at."""
        namespace = pod.metadata.namespace
        if (self.include and namespace not in self.include) or namespace in self.exclude:
            return False
        selector = self.label_selector
        if selector is not None and not selectors.matches(selector, pod.metadata.labels):
            return False
        return self.accepts is None or self.accepts(pod)
