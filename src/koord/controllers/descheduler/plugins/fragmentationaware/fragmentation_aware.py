# SPDX-License-Identifier: Apache-2.0
"""FragmentationAware: off each uneven node the pod whose going evens it out most.

Rule: docs/reference/descheduling-plugins.md#fragmentationaware.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import field

from koord.api import requests
from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.plugins.selection_args import SelectionArgs
from koord.controllers.scheduler.config.plugin_args import without_empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.predicates.pod_filter import PodFilter
    from koord.controllers.scheduler.config.field_path import FieldPath


class FragmentationAwareArgs(SelectionArgs, frozen=True):
    """Which nodes count as uneven, and what a pod's going has to improve."""

    paused: bool = False
    dry_run: bool = False
    node_fit: bool = True
    resources: list[str] = field(default_factory=lambda: ["cpu", "memory"])
    imbalance_threshold: float = 0.15
    min_improvement_threshold: float = 0.02

    @classmethod
    def prepared(cls, document: dict[str, Any]) -> dict[str, Any]:
        """No resources are the default ones."""
        return without_empty(document, "resources")

    def check(self, at: FieldPath) -> None:
        """Every resource once, no threshold below 0."""
        super().check(at)
        at.inside("resources").distinct(self.resources, "resource")
        for key, value in (
            ("imbalanceThreshold", self.imbalance_threshold),
            ("minImprovementThreshold", self.min_improvement_threshold),
        ):
            at.inside(key).need(0 <= value < math.inf, value, "a number of 0 or more")


class Gain(NamedTuple):
    """A pod whose going makes its node more even: its imbalance with and without the pod."""

    pod: Pod
    before: float
    after: float

    @property
    def reason(self) -> str:
        """For people."""
        gain = self.before - self.after
        return (
            f"fragmentation reduction: stdBefore={self.before:.4f} "
            f"stdAfter={self.after:.4f} gain={gain:.4f}"
        )


class FragmentationAware(DeschedulerPlugin):
    """The strategy; at most one pod of a node and round."""

    name = "FragmentationAware"
    args_type = FragmentationAwareArgs
    args: FragmentationAwareArgs

    async def balance(self, nodes: Sequence[Node]) -> None:
        """Evicts off each selected node that is uneven, in order."""
        args, evictor = self.args, self.handle.evictor
        if args.paused:
            return
        selected = args.selected_nodes(nodes)
        pod_filter = args.pod_filter(evictor.filter)
        for node in selected:
            best = self._best(node, selected, pod_filter)
            if best is not None and evictor.pre_eviction_filter(best.pod):
                await evictor.evict(best.pod, best.reason, dry_run=args.dry_run)

    def _best(self, node: Node, nodes: Sequence[Node], selected: PodFilter) -> Gain | None:
        """The pod whose going improves the node most; the first of several."""
        pods = self.handle.snapshot.pods_on(node.metadata.name)
        amounts = [requests.requested(pod) for pod in pods]
        total = {name: sum(each.get(name, 0) for each in amounts) for name in self.args.resources}
        offered = requests.offered(node)
        before = imbalance(total, offered, self.args.resources)
        if before <= self.args.imbalance_threshold:
            return None
        gains = []
        for pod, asked in zip(pods, amounts, strict=True):
            rest = {name: amount - asked.get(name, 0) for name, amount in total.items()}
            gain = Gain(pod, before, imbalance(rest, offered, self.args.resources))
            if before - gain.after > self.args.min_improvement_threshold and selected(pod):
                gains.append(gain)
        # Whether a pod fits elsewhere is dear to know: the best are asked first, and one is enough.
        gains.sort(key=lambda gain: gain.after - before)
        return next((gain for gain in gains if self._fits_another(gain.pod, nodes)), None)

    def _fits_another(self, pod: Pod, nodes: Iterable[Node]) -> bool:
        fit, own = self.handle.node_fit, pod.spec.node_name
        return not self.args.node_fit or any(
            node.metadata.name != own and fit.fits_by_requests(pod, node) for node in nodes
        )


def imbalance(
    requested: Mapping[str, int], offered: Mapping[str, int], resources: Sequence[str]
) -> float:
    """How unevenly a node's resources are asked for; 0 where all are to the same part.

    Args:
        requested: by the pods there; CPU in milli.
        offered: by the node, in the same units; resources of which it offers none are left out.
        resources: which count.

    Returns:
        The population standard deviation of the parts, 0.0 to 0.5 while nothing is overcommitted.
    """
    parts = [requested.get(name, 0) / offered[name] for name in resources if offered.get(name)]
    if not parts:
        return 0.0
    mean = _sum(parts) / len(parts)
    return math.sqrt(_sum([(part - mean) * (part - mean) for part in parts]) / len(parts))


def _sum(values: Sequence[float]) -> float:
    """In order, rounded at every step: ``sum`` of Python 3.12 and later is more exact than that."""
    total = 0.0
    for value in values:
        total += value
    return total
