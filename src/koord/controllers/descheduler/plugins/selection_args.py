# SPDX-License-Identifier: Apache-2.0
"""Which pods and nodes Koordinator's own strategies look at.

Rule: docs/reference/descheduling-plugins.md#what-these-plugins-share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import selectors
from koord.api.kinds.meta import LabelSelector
from koord.controllers.descheduler.plugins.kubernetes.strategy_args import (
    Namespaces,
    check_selector,
    pod_filter,
)
from koord.controllers.scheduler.config.plugin_args import ConfigStruct, PluginArgs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.predicates.pod_filter import PodFilter
    from koord.controllers.scheduler.config.field_path import FieldPath


class NamedPodSelector(ConfigStruct, frozen=True):
    """Pods by labels; the name is for people."""

    name: str = ""
    selector: LabelSelector | None = None


class SelectionArgs(PluginArgs, frozen=True):
    """Pods by namespace and by one of several selectors, nodes by one selector."""

    evictable_namespaces: Namespaces | None = None
    node_selector: LabelSelector | None = None
    pod_selectors: list[NamedPodSelector] = []

    def check(self, at: FieldPath) -> None:
        """Selectors can be evaluated, and there is one list of namespaces."""
        if self.evictable_namespaces is not None:
            self.evictable_namespaces.check(at.inside("evictableNamespaces"))
        check_selector(self.node_selector, at.inside("nodeSelector"))
        for index, named in enumerate(self.pod_selectors):
            check_selector(named.selector, at.inside("podSelectors", index, "selector"))

    def selected_nodes(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """The nodes that are looked at, in order."""
        selector = self.node_selector
        if selector is None:
            return nodes
        return [node for node in nodes if selectors.matches(selector, node.metadata.labels)]

    def pod_filter(self, accepts: Callable[[Pod], bool]) -> PodFilter:
        """The filter of these options, and of whoever evicts."""
        chosen = [named.selector for named in self.pod_selectors if named.selector is not None]
        if not chosen:
            return pod_filter(self.evictable_namespaces, None, accepts)

        def is_chosen(pod: Pod) -> bool:
            labels = pod.metadata.labels
            return any(selectors.matches(each, labels) for each in chosen) and accepts(pod)

        return pod_filter(self.evictable_namespaces, None, is_chosen)
