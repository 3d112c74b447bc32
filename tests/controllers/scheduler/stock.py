# SPDX-License-Identifier: Apache-2.0
"""A scheduler's heart with the stock plugins that need no volumes, over objects put in by hand."""

from __future__ import annotations

from typing import Any

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.base.clock import SystemClock
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.decision.decider import Decider, Decision
from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
from koord.controllers.scheduler.plugins.kubernetes.dynamic_resources import DynamicResources
from koord.controllers.scheduler.plugins.kubernetes.image_locality import ImageLocality
from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity.plugin import InterPodAffinity
from koord.controllers.scheduler.plugins.kubernetes.node_affinity import NodeAffinity
from koord.controllers.scheduler.plugins.kubernetes.node_name import NodeName
from koord.controllers.scheduler.plugins.kubernetes.node_ports import NodePorts
from koord.controllers.scheduler.plugins.kubernetes.node_unschedulable import NodeUnschedulable
from koord.controllers.scheduler.plugins.kubernetes.podtopologyspread.plugin import (
    PodTopologySpread,
)
from koord.controllers.scheduler.plugins.kubernetes.taint_toleration import TaintToleration
from koord.controllers.scheduler.plugins.noderesources.balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from koord.controllers.scheduler.plugins.noderesources.fit import NodeResourcesFit

ORDER = (
    NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodePorts, NodeResourcesFit,
    PodTopologySpread, InterPodAffinity, DynamicResources, NodeResourcesBalancedAllocation,
    ImageLocality,
)  # fmt: skip
WEIGHTS = {
    "TaintToleration": 3, "NodeAffinity": 2, "NodeResourcesFit": 1, "PodTopologySpread": 2,
    "InterPodAffinity": 2, "NodeResourcesBalancedAllocation": 1, "ImageLocality": 1,
}  # fmt: skip


class Stock:
    """The stock plugins over a world of their own.

    Args:
        args: by plugin name; defaults for the others.
        only: names of the plugins to have; all if not given.
    """

    def __init__(self, args: dict[str, Any] | None = None, only: tuple[str, ...] = ()) -> None:
        self.views = LocalViews()
        self.world = ClusterState(self.views, SystemClock())
        self.table = self.world.table
        given = args or {}
        made: list[Any] = [
            kind(given.get(kind.name), self.world)
            for kind in ORDER
            if not only or kind.name in only
        ]
        self.plugins = {plugin.name: plugin for plugin in made}
        for plugin in made:
            if hasattr(plugin, "pod_added"):
                self.world.accounts.listen(plugin)
        self.decider = Decider(
            self.table,
            self.world.accounts,
            ProfilePlugins(
                pre_filter=[plugin for plugin in made if hasattr(plugin, "pre_filter")],
                filter=[plugin for plugin in made if hasattr(plugin, "filter")],
                score=[(p, WEIGHTS[p.name]) for p in made if hasattr(p, "score")],
            ),
        )

    def add(self, *nodes: Node) -> None:
        """Puts nodes into the table."""
        for node in nodes:
            self.table.put(node)

    def put(self, pod: Pod, node: str) -> PodInfo:
        """A pod that is on a node already."""
        info = self.world.shapes.info(pod)
        row = self.table.row(node)
        assert row is not None
        self.world.accounts.add(row, info)
        return info

    def decide(self, pod: Pod) -> Decision:
        """Where a pod would go."""
        return self.decider.decide(self.world.shapes.info(pod))

    def where(self, pod: Pod) -> str:
        """The node a pod would go to; why not, if nowhere."""
        decision = self.decide(pod)
        if decision.diagnosis is not None:
            return decision.diagnosis.message()
        return self.table.name(decision.row)

    def place(self, pod: Pod) -> str:
        """Decides and assumes; the node, or why not."""
        decision = self.decide(pod)
        if decision.diagnosis is not None:
            return decision.diagnosis.message()
        assert self.decider.assume(decision) is None
        return self.table.name(decision.row)
