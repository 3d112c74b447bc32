# SPDX-License-Identifier: Apache-2.0
"""ScaleDownBinPack: whom to take off first so that nodes become empty; says so, or evicts.

Rule: docs/reference/descheduling-plugins.md#scaledownbinpack.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from msgspec import field

from koord.api import selectors
from koord.base.errors import KoordError
from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.plugins.scaledownbinpack.deletion_costs import (
    MOST,
    DeletionCosts,
)
from koord.controllers.descheduler.plugins.scaledownbinpack.ranking import RankedNode, ranked
from koord.controllers.descheduler.plugins.selection_args import SelectionArgs
from koord.controllers.scheduler.config.plugin_args import without_empty

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.framework.handle import DeschedulerHandle
    from koord.controllers.scheduler.config.field_path import FieldPath

CALCULATE_ONLY, EVICT_DIRECTLY = "CalculateOnly", "EvictDirectly"
REASON = "scale-down binpack"


class ScaleDownBinPackArgs(SelectionArgs, frozen=True):
    """Which pods are ranked, by which resources, and what becomes of it."""

    paused: bool = False
    strategy: str = CALCULATE_ONLY
    max_pods_to_evict: int | None = None
    resources: list[str] = field(default_factory=lambda: ["cpu", "memory"])
    resource_weights: dict[str, float] = {}

    @classmethod
    def prepared(cls, document: dict[str, Any]) -> dict[str, Any]:
        """What is empty is the default."""
        return without_empty(document, "strategy", "resources")

    def check(self, at: FieldPath) -> None:
        """The strategy is known, a number stands where it is needed, weights are above 0."""
        super().check(at)
        at.inside("strategy").one_of(self.strategy, (CALCULATE_ONLY, EVICT_DIRECTLY))
        if self.strategy == EVICT_DIRECTLY:
            at.inside("maxPodsToEvict").at_least(self.max_pods_to_evict or 0, 1)
        for name, weight in self.resource_weights.items():
            spot = at.inside("resourceWeights", f'"{name}"')
            spot.need(0 < weight < math.inf, weight, "a number above 0")

    def weights(self) -> dict[str, float]:
        """Of all resources that count; 1 for those that are listed without a weight."""
        return dict.fromkeys(self.resources, 1.0) | self.resource_weights


class ScaleDownBinPack(DeschedulerPlugin):
    """The strategy."""

    name = "ScaleDownBinPack"
    args_type = ScaleDownBinPackArgs
    args: ScaleDownBinPackArgs

    def __init__(self, args: ScaleDownBinPackArgs, handle: DeschedulerHandle) -> None:
        super().__init__(args, handle)
        self._costs = DeletionCosts(handle.writer, handle.profile)

    async def balance(self, nodes: Sequence[Node]) -> None:
        """Writes the rank of pods as their deletion costs, or evicts the first of them.

        Raises:
            KoordError: costs of some pods could not be written.
        """
        if self.args.paused:
            return
        groups = self._grouped(nodes)
        pods = ranked([each for each in groups if each.eligible], self.args.weights())
        if self.args.strategy == EVICT_DIRECTLY:
            await self._evict(pods)
        else:
            await self._write(pods, [pod for each in groups for pod in each.skipped])

    def _grouped(self, nodes: Sequence[Node]) -> list[RankedNode]:
        accepts = self.args.pod_filter(self.handle.evictor.filter)
        groups = []
        for node in self.args.selected_nodes(nodes):
            group = RankedNode(node)
            for pod in self.handle.snapshot.pods_on(node.metadata.name):
                if accepts(pod):
                    group.eligible.append(pod)
                elif self._is_target(pod):
                    group.skipped.append(pod)
                else:
                    group.others.append(pod)
            groups.append(group)
        return groups

    def _is_target(self, pod: Pod) -> bool:
        """Whether a selector matches; one without a body matches all, and so do none."""
        named = self.args.pod_selectors
        return not named or any(
            each.selector is None or selectors.matches(each.selector, pod.metadata.labels)
            for each in named
        )

    async def _write(self, pods: Sequence[Pod], skipped: Sequence[Pod]) -> None:
        wanted = {(pod.metadata.namespace, pod.metadata.name): MOST for pod in skipped}
        for rank, pod in enumerate(pods):
            wanted[pod.metadata.namespace, pod.metadata.name] = rank
        failures = await self._costs.apply(wanted, self.handle.snapshot)
        if failures:
            raise KoordError(self.name, "deletion costs", f"{failures} pods not written", "none")

    async def _evict(self, pods: Sequence[Pod]) -> None:
        evictor, left = self.handle.evictor, self.args.max_pods_to_evict or 0
        for pod in pods:
            if left <= 0:
                return
            if evictor.pre_eviction_filter(pod) and await evictor.evict(pod, REASON):
                left -= 1
