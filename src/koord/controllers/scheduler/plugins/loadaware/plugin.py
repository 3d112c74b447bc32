# SPDX-License-Identifier: Apache-2.0
"""The plugin LoadAwareScheduling at the extension points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.api.protocol.reservations import is_reserve_pod
from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin
from koord.controllers.scheduler.plugins.loadaware import (
    debug,
    filtering,
    queueing_hints,
    scoring,
)
from koord.controllers.scheduler.plugins.loadaware.cache import (
    FILTER,
    FILTER_PROD,
    SCORE,
    SCORE_PROD,
    LoadCache,
)
from koord.controllers.scheduler.plugins.loadaware.estimator import PodEstimate, PodEstimator
from koord.controllers.scheduler.plugins.loadaware.metric_expiration import MetricExpirations
from koord.controllers.scheduler.plugins.loadaware.node_metric import AssignedPod, node_usage
from koord.controllers.scheduler.plugins.loadaware.shortfall import load_shortfalls
from koord.controllers.scheduler.plugins.loadaware.thresholds import Thresholds, aggregate_key
from koord.controllers.scheduler.plugins.noderesources.request_columns import memo_key
from koord.controllers.scheduler.plugins.reservation.objects.reserve_pod import (
    stands_for_reservation,
)
from koord.controllers.scheduler.pod_conditions import became_true
from koord.controllers.scheduler.queue.events import Action
from koord.kernels.placement_board import load_scores, load_within

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import PodBatch, PodInfo, PodShape
    from koord.controllers.scheduler.config.args_koord import LoadAwareSchedulingArgs
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.framework.rejection import Rejection
    from koord.controllers.scheduler.plugins.loadaware.cache import NodeLoad
    from koord.controllers.scheduler.plugins.loadaware.node_metric import NodeUsage
    from koord.controllers.scheduler.queue.events import HintedEvent
    from koord.kernels.placement_board import LoadCheck, LoadRating


class LoadAwareScheduling(Plugin):
    """Filters and scores by real load.

    Rules: docs/reference/load.md#filter and docs/reference/load.md#score.
    """

    name = "LoadAwareScheduling"
    reads = PodField.OWNERS
    restores_from: ClassVar[tuple[str, ...]] = ()
    listens_by_shape: ClassVar[bool] = False
    depends: ClassVar[Aspect] = Aspect.LOAD | Aspect.PODS | Aspect.NODE
    filter_at_once: ClassVar[bool] = True
    score_at_once: ClassVar[bool] = True
    normalization: ClassVar[Normalization] = Normalization.NONE

    def __init__(self, args: LoadAwareSchedulingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args: LoadAwareSchedulingArgs = args
        names, part = _names(args), args.aggregated
        scored = None
        if part is not None:
            scored = aggregate_key(part.score_aggregation_type, part.score_aggregated_duration)
        self.cache = LoadCache(
            names,
            Thresholds.of_args(args),
            scored,
            with_system=args.prod_usage_include_sys,
            expiration_seconds=args.node_metric_expiration_seconds,
        )
        self._estimator = PodEstimator(args, names)
        self._weights = scoring.ScoreWeights(
            [args.resource_weights.get(name, 0) for name in names], args.dominant_resource_weight
        )
        self._key = memo_key(self.name)
        self._expirations = MetricExpirations()
        # When pods that were assumed here were first counted: a what-if must not make them younger.
        self._assumed: dict[str, float] = {}
        self._rows: dict[str, int] = {}
        self._checked = (False, False)
        self._metrics = handle.view(NodeMetric)
        handle.view(Node).on_change(self._node, self._node_changed, self._node_gone)
        self._metrics.on_change(
            self._metric, lambda _, new: self._metric(new), lambda old, _: self._metric_gone(old)
        )
        handle.view(Pod).on_change(updated=self._pod_changed, deleted=self._pod_gone)

    def events(self) -> Sequence[HintedEvent]:
        """Pods that go or use less, reports of less load, nodes with more room or thresholds."""
        lenient = self.args.filter_expired_node_metrics and self._lenient
        return queueing_hints.events(
            self._would_pass, self._is_learned, self.names, lenient=lenient
        )

    @property
    def _lenient(self) -> bool:
        return self.args.enable_schedule_when_node_metrics_expired

    def _is_learned(self, shape: PodShape) -> bool:
        return self._pod_estimate(shape).workload is not None

    def _would_pass(self, shape: PodShape, node: NodeLoad | str) -> bool:
        if isinstance(node, str):
            row = self._rows.get(node)
            if row is None:
                return True
            node = self.cache.node_load(row)
        pod_estimate = self._pod_estimate(shape)
        view = FILTER_PROD if pod_estimate.prod else FILTER
        return filtering.passes_at(
            node, view, pod_estimate.estimate, self._deadline(), self._lenient
        )

    # Nodes and NodeMetrics.

    def _node(self, node: Node) -> None:
        name = node.metadata.name
        row = self.handle.table.row(name)
        if row is None:
            return
        metric = self._metrics.get(name)
        measured = node_usage(metric, self.cache.names) if metric is not None else None
        self._put_node(name, row, node, measured)

    def _put_node(self, name: str, row: int, node: Node, measured: NodeUsage | None) -> None:
        self._rows[name] = row
        self.cache.put_node(row, node, measured)
        self._expirations.put(row, float(self.cache.expires_at[row]))
        self._note_threshold_change()

    def _note_threshold_change(self) -> None:
        """Advances the generation when the first threshold or report comes, or the last goes."""
        checked = self.cache.rows_with_thresholds > 0, self.cache.reporting > 0
        if checked != self._checked:
            self._checked = checked
            self.handle.table.advance_generation()

    def _node_changed(self, old: Node, node: Node) -> None:
        name, names = node.metadata.name, self.cache.names
        row = self._rows.get(name)
        if row is None:
            self._node(node)
        elif old.metadata.annotations != node.metadata.annotations or any(
            old.status.allocatable.get(key) != node.status.allocatable.get(key) for key in names
        ):
            # What it reports has been read, and stays.
            self._put_node(name, row, node, self.cache.metric(row))

    def _node_gone(self, node: Node, unknown: bool) -> None:
        row = self._rows.pop(node.metadata.name, None)
        if row is not None:
            self.cache.close(row)
            self._note_threshold_change()

    def _metric(self, metric: NodeMetric) -> None:
        row = self.handle.table.row(metric.metadata.name)
        if row is not None:
            self._report([(row, node_usage(metric, self.cache.names))])

    @property
    def names(self) -> Sequence[str]:
        """The resources of amounts, in their order."""
        return self.cache.names

    def report(self, reports: Mapping[str, NodeUsage]) -> None:
        """Takes what nodes report from whoever has it in numbers: a simulation of many.

        Args:
            reports: by node; one that is not known is passed over.
        """
        rows = ((self.handle.table.row(node), measured) for node, measured in reports.items())
        known = [(row, measured) for row, measured in rows if row is not None]
        if known:
            self._report(known)

    def _report(self, reports: Sequence[tuple[int, NodeUsage | None]]) -> None:
        changes = [self._load_change(row) for row, _ in reports]
        for row, measured in reports:
            self.cache.put_metric(row, measured)
            if measured is not None:
                self._expirations.put(row, float(self.cache.expires_at[row]))
                self._record_usage(row)
            self.handle.table.touch(row, Aspect.LOAD)
        self._note_threshold_change()
        self._wake(changes)

    def _load_change(self, row: int) -> queueing_hints.LoadChange:
        return queueing_hints.LoadChange(self.handle.table.name(row), self.cache.node_load(row))

    def _wake(self, changes: Sequence[queueing_hints.LoadChange]) -> None:
        self.handle.wake(queueing_hints.NODE_METRICS, Action.UPDATE, changes, None)

    def _metric_gone(self, metric: NodeMetric) -> None:
        row = self.handle.table.row(metric.metadata.name)
        if row is not None:
            self._report([(row, None)])

    def _record_usage(self, row: int) -> None:
        """Remembers what pods use that are past their estimates."""
        histograms, metric = self._estimator.histograms, self.cache.metric(row)
        if histograms is None or metric is None or metric.updated is None:
            return
        cpu, memory = self.cache.names.index("cpu"), self.cache.names.index("memory")
        for uid, pod in self.cache.pods(row).items():
            info = self.handle.pod(uid)
            workload = self._pod_estimate(info.shape).workload if info is not None else None
            if workload is not None and not metric.may_grow(pod):
                usage = metric.pods[pod.key]
                histograms.add(workload, usage[cpu], usage[memory], metric.updated)

    # Pods.

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """Counts what the pod is expected to use until it is measured."""
        if not stands_for_reservation(pod.pod):
            pod_estimate, since = self._pod_estimate(pod.shape), self._since(pod.pod)
            assigned = self._estimator.assigned(pod.key, pod.pod, pod_estimate, since)
            self.cache.add(row, pod.uid, assigned)

    def pods_added(self, batches: Sequence[PodBatch]) -> None:
        """Counts many."""
        counted: list[tuple[int, str, AssignedPod]] = []
        for shape, _, rows, pods in batches:
            pod_estimate, stands = self._pod_estimate(shape), is_reserve_pod(shape.pod)
            for row, pod in zip(rows, pods, strict=True):
                api = pod.pod
                if not stands or not stands_for_reservation(api):
                    assigned = self._estimator.assigned(
                        pod.key, api, pod_estimate, self._since(api)
                    )
                    counted.append((row, pod.uid, assigned))
        self.cache.add_all(counted)

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The inverse."""
        self.cache.drop(row, pod.uid)

    def restore(self, pod: PodInfo) -> None:
        """Nothing is written on pods."""

    def reserve(self, cycle: Cycle, row: int) -> None:
        """The pod is assigned now."""
        uid = cycle.pod.uid
        cycle.state[self.name] = self._assumed.get(uid)
        self._assumed[uid] = self.handle.clock.wall_seconds()

    def unreserve(self, cycle: Cycle, row: int) -> None:
        """It is as before: where an explanation asked, it may be assigned all the same."""
        if self.name not in cycle.state:
            return
        before = cycle.state.pop(self.name)
        if before is None:
            self._assumed.pop(cycle.pod.uid, None)
        else:
            self._assumed[cycle.pod.uid] = before

    def _pod_changed(self, old: Pod, pod: Pod) -> None:
        """Conditions say when a pod was assigned and when it began to run."""
        if old.status.conditions == pod.status.conditions:
            return
        uid = pod.metadata.uid
        info = self.handle.pod(uid)
        known = self.cache.pod(info.row, uid) if info is not None else None
        if info is None or known is None:
            return
        pod_estimate, since = self._pod_estimate(info.shape), self._since(pod)
        fresh = self._estimator.assigned(known.key, pod, pod_estimate, since)
        if (fresh.since, fresh.deadline) == (known.since, known.deadline):
            return
        metric = self.cache.metric(info.row)
        measured = metric is not None and known.key in metric.pods
        # More may be known of its workload than when it was counted.
        moved = measured or fresh.estimate != known.estimate
        change = self._load_change(info.row) if moved else None
        self.cache.reassign(info.row, uid, fresh)
        if change is not None:
            self.handle.table.touch(info.row, Aspect.LOAD)
            self._wake([change])

    def _since(self, pod: Pod) -> float:
        """When a pod was assigned: by its condition, or else when it was first counted."""
        scheduled, uid = became_true(pod, "PodScheduled"), pod.metadata.uid
        if scheduled is not None:
            self._assumed.pop(uid, None)
            return scheduled
        since = self._assumed.get(uid)
        if since is None:
            since = self._assumed[uid] = self.handle.clock.wall_seconds()
        return since

    def _pod_gone(self, pod: Pod, unknown: bool) -> None:
        self._assumed.pop(pod.metadata.uid, None)

    # Answers.

    def _pod_estimate(self, shape: PodShape) -> PodEstimate:
        kept: PodEstimate | None = shape.memo.get(self._key)
        if kept is None or (
            kept.workload is not None and kept.usage is not self._estimator.usage(kept.workload)
        ):
            kept = shape.memo[self._key] = self._estimator.pod_estimate(shape)
        return kept

    def idle_points(self, shape: PodShape) -> Collection[str]:
        """Where all nodes would pass, or all get 0.

        That is Filter where no node has a threshold, and for pods of DaemonSets; Score without
        weights, or where no node reports its load.
        """
        idle = [] if self._filters(shape) else ["filter"]
        if not self.cache.reporting or not self._weights:
            idle.append("score")
        return idle

    def _filters(self, shape: PodShape) -> bool:
        return self.cache.rows_with_thresholds > 0 and not self._pod_estimate(shape).daemon

    def generation(self, cycle: Cycle) -> Hashable:
        """How many NodeMetrics have expired, and what is known of the pod's workload."""
        passed = self._expirations.passed(self.handle.clock.wall_seconds(), self.cache.expires_at)
        return passed, self._pod_estimate(cycle.shape).usage

    def stale_rows(self, cycle: Cycle, since: Any) -> NDArray[np.intp] | None:
        """Whose NodeMetric has expired since then; all if more is known of the workload."""
        passed, usage = since
        return (
            self._expirations.since(passed)
            if usage == self._pod_estimate(cycle.shape).usage
            else None
        )

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """Whether a row stays within its thresholds with the pod."""
        if not self._filters(cycle.shape):
            return np.ones(len(self.cache.reported[rows]), np.bool_)
        return load_within(*self.filter_load(cycle), rows)

    def filter_load(self, cycle: Cycle) -> LoadCheck:
        """The same question, for pods for which it has something to do at Filter."""
        pod_estimate = self._pod_estimate(cycle.shape)
        view = FILTER_PROD if pod_estimate.prod else FILTER
        return filtering.load_check(
            self.cache, view, pod_estimate.estimate, self._deadline(), self._lenient
        )

    def _deadline(self) -> float | None:
        """Until when NodeMetrics that expire have expired; None if the filter does not care."""
        return self.handle.clock.wall_seconds() if self.args.filter_expired_node_metrics else None

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Sequence[Rejection]:
        """Which resource exceeds, or that what is known is too old."""
        pod_estimate = self._pod_estimate(cycle.shape)
        view = FILTER_PROD if pod_estimate.prod else FILTER
        deadline = self._deadline()
        return [
            filtering.rejection(self.name, self.cache, view, pod_estimate.estimate, row, deadline)
            for row in rows.tolist()
        ]

    def shortfall(self, cycle: Cycle, row: int) -> list[str]:
        """How far the load with the pod is above its thresholds."""
        pod_estimate = self._pod_estimate(cycle.shape)
        view = FILTER_PROD if pod_estimate.prod else FILTER
        return load_shortfalls(self.cache, view, pod_estimate.estimate, row, self._deadline())

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """The weighted share that stays unused; 0 where nothing trustworthy is known."""
        return load_scores(*self.score_load(cycle)[1:], rows)

    def score_load(self, cycle: Cycle) -> LoadRating:
        """The same question; its key is the view's."""
        pod_estimate = self._pod_estimate(cycle.shape)
        by_prod = pod_estimate.prod and self.args.score_according_prod_usage
        now = self.handle.clock.wall_seconds()
        view = SCORE_PROD if by_prod else SCORE
        return scoring.load_rating(self.cache, view, pod_estimate.estimate, self._weights, now)

    debug_paths: ClassVar[Sequence[str]] = ("node/:name",)

    def debug(self, path: Sequence[str]) -> object:
        """``node/NAME``: the load of one node as the plugin sees it."""
        if len(path) != 2 or path[0] != "node":
            return super().debug(path)
        row = self.handle.table.row(path[1])
        if row is None:
            raise KeyError(f"cannot find node {path[1]}")
        return debug.node(self.cache, path[1], row, self.handle.clock.wall_seconds())


def _names(args: LoadAwareSchedulingArgs) -> list[str]:
    names = {"cpu", "memory", *args.supported_resources, *args.estimated_scaling_factors}
    names |= {*args.resource_weights, *args.usage_thresholds, *args.prod_usage_thresholds}
    if args.aggregated is not None:
        names |= set(args.aggregated.usage_thresholds)
    return sorted(names)
