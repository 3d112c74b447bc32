# SPDX-License-Identifier: Apache-2.0
"""Node scores by what a placement costs in GPU capacity: the placement kernel's policies, live.

A mirror table of the kernel has a row a node with what is free there: CPU, memory and of each GPU
the smaller of its free compute and memory, in milli. The kernel's policy rates a row for a shape;
ratings are kept by the framework until the row changes. Pods that ask for GPU memory by bytes alone
have no share that means the same on every card; they are rated by :attr:`UNRATED`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.api.protocol import keys
from koord.api.protocol import resources as res
from koord.controllers.cluster.node_table import CPU, MEMORY
from koord.controllers.scheduler.plugins.deviceshare.args import ScoringType
from koord.controllers.scheduler.plugins.deviceshare.names import CORE, GPU, RATIO, WHOLE
from koord.kernels.devices import Fragmentation, TypicalPods, mask
from koord.kernels.placement import GPU_MILLI, OUT, NodeTable, Placer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.api.kinds.pod import Pod
    from koord.controllers.cluster.node_table import NodeTable as ClusterTable
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.plugins.deviceshare.args import DeviceShareOptions
    from koord.controllers.scheduler.plugins.deviceshare.objects.pod_request import DeviceRequest
    from koord.controllers.scheduler.plugins.deviceshare.state.event_handlers import DeviceTracker

_MILLI_A_PERCENT = GPU_MILLI // WHOLE
_POLICIES = {
    ScoringType.FRAGMENTATION_AWARE: "koord",
    ScoringType.FRAGMENTATION_GRADIENT: "fgd",
}
_REMEMBERED = 1 << 17
_STEP_MILLI = 40
UNRATED = -1
"""Stands for a shape that the policies cannot rate."""


class FragmentationScorer:
    """Rates nodes for pod shapes by what a placement there would cost in GPU capacity.

    Args:
        table: the nodes.
        tracker: the cards, and which rows changed.
        options: of the plugin; a fragmentation-aware scoring.
    """

    def __init__(
        self, table: ClusterTable, tracker: DeviceTracker, options: DeviceShareOptions
    ) -> None:
        self._table = table
        self._tracker = tracker
        self._mirror = NodeTable(["cpu", "memory"], ["gpu"])
        typical = TypicalPods(options.typical_pods)
        measure = Fragmentation(typical) if options.typical_pods else None
        self._scoring = options.scoring
        self._placer = Placer(self._mirror, _POLICIES[options.scoring], fragmentation=measure)
        # By cluster row: the mirror's row, and what it stands for.
        self._rows: list[int] = []
        self._names: list[tuple[str, str]] = []
        self._made = 0
        self._counted: dict[str, None] = {}
        self._shapes: dict[int, int] = {}

    def shape(self, shape: PodShape, request: DeviceRequest | None) -> int:
        """The policy's shape of a pod shape, or :attr:`UNRATED`."""
        known = self._shapes.get(shape.id)
        if known is None:
            if len(self._shapes) >= _REMEMBERED:
                self._shapes.clear()
            known = self._shapes[shape.id] = self._intern(shape, request)
        return known

    def arrived(self, pod: PodInfo, shape: int) -> None:
        """Counts a pod among those that the estimate is made of, at its first attempt only."""
        if shape == UNRATED or pod.uid in self._counted:
            return
        if len(self._counted) >= _REMEMBERED:
            del self._counted[next(iter(self._counted))]
        self._counted[pod.uid] = None
        self._follow()
        self._placer.arrived(shape)

    def epoch(self, shape: int) -> int:
        """Changes when ratings no longer hold, whatever the rows."""
        return 0 if shape == UNRATED else self._placer.epoch(shape)

    def rate(self, shape: int, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Scores of 0..100 by the policy; see :func:`scores_of`."""
        self._follow()
        at = np.array([self._rows[row] for row in rows.tolist()], np.int64)
        return scores_of(self._placer.rate(shape, at).astype(np.int64), self._scoring)

    def choose(self, shape: int, row: int) -> int:
        """The GPUs that the policy takes on a row, as a word; 0 if it has no opinion."""
        if shape == UNRATED:
            return 0
        self._follow()
        return mask(self._placer.choose_gpus(shape, self._rows[row]))

    def _follow(self) -> None:
        """Copies what is free on rows that changed."""
        self._tracker.follow()
        for row in sorted(self._tracker.changed):
            if row < self._table.size:
                self._copy(row)
        self._tracker.changed.clear()

    def _copy(self, row: int) -> None:
        while len(self._rows) <= row:
            self._rows.append(-1)
            self._names.append(("", ""))
        name = self._table.name(row)
        _, model = self._tracker.vendor_and_model(row) if name else ("", "")
        if self._names[row] != (name, model) or self._rows[row] < 0:
            self._open(row, name, model)
        table = self._table
        cpu = int(table.allocatable[CPU, row] - table.requested[CPU, row])
        memory = int(table.allocatable[MEMORY, row] - table.requested[MEMORY, row])
        self._mirror.mirror(self._rows[row], {"cpu": cpu, "memory": memory}, self._gpus(row))

    def _open(self, row: int, name: str, model: str) -> None:
        if self._rows[row] >= 0:
            self._mirror.close_node(self._rows[row])
        self._made += 1
        self._rows[row] = self._mirror.add_node(f"{name}#{self._made}", {}, model=model)
        self._names[row] = (name, model)

    def _gpus(self, row: int) -> list[int]:
        cards = self._tracker.cache.tables[GPU].native
        if not self._tracker.columns.has[GPU][row]:
            return []
        milli = [GPU_MILLI] * len(cards.total(row, CORE))
        for resource in (CORE, RATIO):
            free, total = cards.free(row, resource), cards.total(row, resource)
            for minor, amount in enumerate(free):
                if total[minor]:
                    milli[minor] = min(milli[minor], amount * _MILLI_A_PERCENT)
        exists = [a or b for a, b in zip(cards.total(row, CORE), cards.total(row, RATIO),
                                         strict=True)]  # fmt: skip
        return [free if card else 0 for free, card in zip(milli, exists, strict=True)]

    def _intern(self, shape: PodShape, request: DeviceRequest | None) -> int:
        requested = {name: shape.request.get(name, 0) for name in ("cpu", "memory")}
        if request is None or request.gpu is None:
            return self._mirror.shape(requested)
        percent = max(
            request.gpu.per_card.get(res.GPU_CORE, 0),
            request.gpu.per_card.get(res.GPU_MEMORY_RATIO, 0),
        )
        if not percent or percent > WHOLE:
            return UNRATED
        return self._mirror.shape(
            requested,
            gpus=request.gpu.cards,
            gpu_milli=percent * _MILLI_A_PERCENT,
            models=accepted_models(shape.pod),
        )


def accepted_models(pod: Pod) -> tuple[str, ...]:
    """The GPU models that a pod insists on by selector or required affinity; none for any."""
    selected = pod.spec.node_selector.get(keys.GPU_MODEL)
    if selected:
        return (selected,)
    affinity = pod.spec.affinity
    node = affinity.node_affinity if affinity is not None else None
    required = node.required_during_scheduling_ignored_during_execution if node else None
    models: dict[str, None] = {}
    for term in required.node_selector_terms if required else ():
        named = [
            expression.values
            for expression in term.match_expressions
            if expression.key == keys.GPU_MODEL and expression.operator == "In"
        ]
        if not named:
            return ()  # this alternative takes any model
        models.update(dict.fromkeys(named[0]))
    return tuple(models)


def scores_of(ratings: NDArray[np.int64], scoring: ScoringType) -> NDArray[np.int64]:
    """Ratings as 0..100, each by itself: FGD's are that already, a cost is counted in steps.

    50 costs nothing; every step less or more is 40 GPU milli won or lost. On the openb trace that
    allocates as much as exact costs do (docs/policy-koord.md): what costs nearly the same may as
    well cost the same.
    """
    if scoring is ScoringType.FRAGMENTATION_AWARE:
        ratings = np.where(ratings == OUT, OUT, 50 + ratings // _STEP_MILLI)
    scores: NDArray[np.int64] = np.clip(ratings, 0, 100)
    return scores
