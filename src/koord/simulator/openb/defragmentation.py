# SPDX-License-Identifier: Apache-2.0
"""What moves are worth: a policy fills the nodes, pods move, and the rest of the arrivals come.

Arrivals up to 100 % of the cluster's GPUs fill the nodes. The others come after so many moves, and
how many of them fit says what the moves were worth. Planned moves are those of
:mod:`koord.controllers.descheduler.planning.defragmentation`; by the one-by-one rule pods are
evicted and the policy places them as any pod that arrives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from koord.base.errors import KoordError
from koord.controllers.descheduler.planning.defragmentation import (
    Defragmentation,
    MovablePod,
    PodKind,
)
from koord.kernels.placement import GPU_MILLI, NodeTable, Placer
from koord.simulator.openb.one_by_one import OneByOne
from koord.simulator.openb.replay import WEIGHTS, Experiment, intern_shape, node_table
from koord.simulator.openb.workload import TraceWorkload

CHECKPOINTS = (0, 50, 100, 200)
"""After so many moves the rest of the arrivals is tried, and after the last one."""
PLANNED, ONE_BY_ONE = "planned", "one by one"


@dataclass(frozen=True, slots=True)
class ArrivalsAfterMoves:
    """What fits after so many moves.

    Attributes:
        moves: done; for the one-by-one rule evictions.
        pods: of the rest of the arrivals that fit.
        gpu_milli: that these ask for.
        allocated_percent: GPU milli that all pods hold in the end, of all.
        fragmented_gpus: the fragmentation amount before the rest arrives.
    """

    moves: int
    pods: int
    gpu_milli: int
    allocated_percent: float
    fragmented_gpus: float


@dataclass(frozen=True, slots=True)
class DefragmentedRun:
    """One policy and workload.

    Attributes:
        policy: fills the nodes, and places what arrives after the moves.
        placed: pods on nodes before any move.
        arrivals: the rest, which comes afterwards.
        curves: by rule, from no move on.
        without_node: pods that the one-by-one rule evicted and that then fitted nowhere.
    """

    policy: str
    workload: TraceWorkload
    placed: int
    arrivals: int
    curves: dict[str, list[ArrivalsAfterMoves]]
    without_node: int
    seconds: float

    def after(self, rule: str, moves: int) -> ArrivalsAfterMoves:
        """What fits after so many moves, or after the last one that there was before."""
        return [each for each in self.curves[rule] if each.moves <= moves][-1]

    def as_json(self) -> dict[str, object]:
        """The run as the command line prints it."""
        workload = self.workload
        origin = {"order": workload.order} if workload.order else {"seed": workload.seed}
        return {
            "policy": self.policy,
            **origin,
            "pods_placed": self.placed,
            "arrivals": self.arrivals,
            **{rule.replace(" ", "_"): [_point(each) for each in curve]
               for rule, curve in self.curves.items()},
            "pods_without_node": self.without_node,
            "seconds": round(self.seconds, 6),
        }  # fmt: skip


def _point(point: ArrivalsAfterMoves) -> dict[str, object]:
    return {
        "moves": point.moves,
        "pods_fit": point.pods,
        "gpus_fit": point.gpu_milli / GPU_MILLI,
        "gpu_allocated_percent": round(point.allocated_percent, 2),
        "fragmented_gpus": round(point.fragmented_gpus, 2),
    }


@dataclass(frozen=True, slots=True)
class MeanAfterMoves:
    """Means over runs after so many moves; see :class:`ArrivalsAfterMoves`."""

    moves: int
    pods: float
    gained_gpus: float
    allocated_percent: float


@dataclass(frozen=True, slots=True)
class MeansOfRule:
    """Means over the runs of a policy, of one of the two rules.

    Attributes:
        points: from no move on.
        without_node: pods that were evicted and then fitted nowhere.
    """

    policy: str
    rule: str
    runs: int
    points: list[MeanAfterMoves]
    without_node: float


def rows_of(runs: Sequence[DefragmentedRun]) -> list[MeansOfRule]:
    """Means by policy and rule, in the order of the runs."""
    by_policy: dict[str, list[DefragmentedRun]] = {}
    for run in runs:
        by_policy.setdefault(run.policy, []).append(run)
    stops = sorted({each.moves for run in runs for curve in run.curves.values() for each in curve})
    wanted = [stop for stop in stops if stop in CHECKPOINTS or stop == stops[-1]]
    return [
        MeansOfRule(
            policy,
            rule,
            len(group),
            [_mean(group, rule, stop) for stop in wanted],
            fmean(run.without_node for run in group) if rule == ONE_BY_ONE else 0.0,
        )
        for policy, group in by_policy.items()
        for rule in (PLANNED, ONE_BY_ONE)
    ]


def _mean(runs: Sequence[DefragmentedRun], rule: str, moves: int) -> MeanAfterMoves:
    ends = [run.after(rule, moves) for run in runs]
    gained = [
        end.gpu_milli - run.curves[rule][0].gpu_milli for run, end in zip(runs, ends, strict=True)
    ]
    return MeanAfterMoves(
        moves,
        fmean(end.pods for end in ends),
        fmean(gained) / GPU_MILLI,
        fmean(end.allocated_percent for end in ends),
    )


@dataclass
class FilledCluster:
    """The nodes once 100 % of GPU requests have arrived.

    Attributes:
        table: with the pods that fitted.
        pods: these, in the order of arrival.
        rest: kinds of the arrivals that are left.
    """

    experiment: Experiment
    policy: str
    workload: TraceWorkload
    table: NodeTable = field(init=False)
    pods: list[MovablePod] = field(init=False)
    rest: list[int] = field(init=False)

    def __post_init__(self) -> None:
        experiment = self.experiment
        self.table = node_table(experiment.nodes)
        self.table.set_ranks(self.workload.ranks)
        self._shapes = [intern_shape(self.table, pod) for pod in experiment.distinct]
        kinds = experiment.kinds[self.workload.arrivals]
        asked = np.array([pod.gpu_total_milli for pod in experiment.distinct], np.int64)
        self._gpu_milli = GPU_MILLI * sum(node.gpus for node in experiment.nodes)
        first = int(np.searchsorted(np.cumsum(asked[kinds]), self._gpu_milli, "right"))
        if first == len(kinds):
            raise KoordError("--load", "", "1 or less", "more than 1: who arrives after the moves")
        self.rest = kinds[first:].tolist()
        shapes = [self._shapes[kind] for kind in kinds[:first].tolist()]
        placed = self.placer().place_batch(shapes)
        self.pods = [
            MovablePod(kind, place)
            for kind, place in zip(kinds[:first].tolist(), placed, strict=True)
            if place is not None
        ]

    def placer(self) -> Placer:
        """The policy, from its beginning."""
        return Placer(
            self.table, self.policy, seed=self.workload.seed or 0,
            fragmentation=self.experiment.fragmentation, weights=WEIGHTS,
        )  # fmt: skip

    def kinds(self) -> list[PodKind]:
        """What pods ask for."""
        distinct = self.experiment.distinct
        return [
            PodKind(shape, pod.shape) for shape, pod in zip(self._shapes, distinct, strict=True)
        ]

    def arrive(self, moves: int) -> ArrivalsAfterMoves:
        """Lets the rest of the arrivals come, and takes it back."""
        distinct = self.experiment.distinct
        fragmented = self._fragmented()
        held = self._gpu_milli - int(self.table.native.gpus_free_sums().sum())
        with self.table.what_if():
            placed = self.placer().place_batch([self._shapes[kind] for kind in self.rest])
        fits = [kind for kind, place in zip(self.rest, placed, strict=True) if place is not None]
        milli = sum(distinct[kind].gpu_total_milli for kind in fits)
        percent = 100 * (held + milli) / self._gpu_milli
        return ArrivalsAfterMoves(moves, len(fits), milli, percent, fragmented / GPU_MILLI)

    def _fragmented(self) -> float:
        free = self.table.free("cpu")
        return sum(
            self.experiment.fragmentation.amount(
                int(free[row]), self.table.gpus_free(row), node.model
            )
            for row, node in enumerate(self.experiment.nodes)
        )


def run_defragmented(
    experiment: Experiment,
    policy: str,
    workload: TraceWorkload,
    moves: int,
    progress: Callable[[int], None] = lambda _: None,
) -> DefragmentedRun:
    """Fills the nodes twice: for planned moves, and for the one-by-one rule.

    Args:
        experiment: cluster and pod list.
        policy: one of :func:`koord.kernels.placement.policy_names`.
        workload: arrivals beyond 100 % of the GPUs, and node ranks.
        moves: at most.
        progress: called with the number of moves since its last call.

    Raises:
        KoordError: nothing arrives after 100 %.
    """
    begin = time.perf_counter()
    stops = sorted({*(stop for stop in CHECKPOINTS if stop < moves), moves})
    planned, walked = (FilledCluster(experiment, policy, workload) for _ in range(2))
    models = [node.model for node in experiment.nodes]
    fragmentation = experiment.fragmentation
    planner = Defragmentation(planned.table, models, planned.kinds(), planned.pods, fragmentation)
    rule = OneByOne(walked.table, walked.placer(), walked.pods)
    curves: dict[str, list[ArrivalsAfterMoves]] = {PLANNED: [], ONE_BY_ONE: []}
    for before, stop in zip([0, *stops], stops, strict=False):
        planner.plan(stop - len(planner.moves))
        rule.evict(stop - rule.evicted)
        for curve, cluster, done in (
            (curves[PLANNED], planned, len(planner.moves)),
            (curves[ONE_BY_ONE], walked, rule.evicted),
        ):
            if not curve or done > curve[-1].moves:
                curve.append(cluster.arrive(done))
        progress(stop - before)
    return DefragmentedRun(
        policy, workload, len(planned.pods), len(planned.rest), curves,
        rule.without_node, time.perf_counter() - begin,
    )  # fmt: skip
