# SPDX-License-Identifier: Apache-2.0
"""The plugin: keeps load from piling up where requests alone would not show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.controllers.cluster.nodes import Aspect
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin
from koord.controllers.scheduler.plugins.loadaware import answers, debug
from koord.controllers.scheduler.plugins.loadaware.assignment import Ask, Assigner, became_true
from koord.controllers.scheduler.plugins.loadaware.expiry import Expiries
from koord.controllers.scheduler.plugins.loadaware.ledger import (
    FILTER,
    FILTER_PROD,
    SCORE,
    SCORE_PROD,
    Ledger,
)
from koord.controllers.scheduler.plugins.loadaware.measured import measure
from koord.controllers.scheduler.plugins.loadaware.thresholds import Thresholds, aggregate_key
from koord.controllers.scheduler.plugins.noderesources.room import memo_key
from koord.controllers.scheduler.plugins.reservation.reservepod import stands_for_reservation
from koord.controllers.scheduler.queue import events as ev
from koord.controllers.scheduler.queue.events import Action, ClusterEvent, HintedEvent

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.config.args_koord import LoadAwareSchedulingArgs
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.framework.rejection import Rejection

NODE_METRICS = "nodemetrics.v1alpha1.slo.koordinator.sh"
_NODE = Action.ADD | Action.UPDATE_NODE_ALLOCATABLE | Action.UPDATE_NODE_ANNOTATION


class LoadAwareScheduling(Plugin):
    """Filters and scores by real load (scheduler spec, section 4)."""

    name = "LoadAwareScheduling"
    depends: ClassVar[Aspect] = Aspect.LOAD | Aspect.PODS | Aspect.NODE
    normalization: ClassVar[Normalization] = Normalization.NONE

    def __init__(self, args: LoadAwareSchedulingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args: LoadAwareSchedulingArgs = args
        names, part = _names(args), args.aggregated
        scored = None
        if part is not None:
            scored = aggregate_key(part.score_aggregation_type, part.score_aggregated_duration)
        self.ledger = Ledger(
            names,
            Thresholds.of_args(args),
            scored,
            with_system=args.prod_usage_include_sys,
            expiration_seconds=args.node_metric_expiration_seconds,
        )
        self._assigner = Assigner(args, names)
        self._weights = answers.Weights.of(
            [args.resource_weights.get(name, 0) for name in names], args.dominant_resource_weight
        )
        self._key = memo_key(self.name)
        self._expiries = Expiries()
        # When pods that were assumed here were first counted: a what-if must not make them younger.
        self._assumed: dict[str, float] = {}
        self._rows: dict[str, int] = {}
        self._metrics = handle.view(NodeMetric)
        handle.view(Node).on_change(self._node, self._node_changed, self._node_gone)
        self._metrics.on_change(
            self._metric, lambda _, new: self._metric(new), lambda old, _: self._metric_gone(old)
        )
        handle.view(Pod).on_change(updated=self._pod_changed, deleted=self._pod_gone)

    def events(self) -> Sequence[HintedEvent]:
        """Pods that go, every change of a NodeMetric, nodes with more room or other thresholds."""
        changed = Action.ADD | Action.UPDATE | Action.DELETE
        return (
            HintedEvent(ev.ASSIGNED_POD_DELETE),
            HintedEvent(ClusterEvent(NODE_METRICS, changed)),
            HintedEvent(ClusterEvent(ev.NODE, _NODE)),
        )

    # What nodes say.

    def _node(self, node: Node) -> None:
        name = node.metadata.name
        row = self.handle.table.row(name)
        if row is None:
            return
        self._rows[name] = row
        metric = self._metrics.get(name)
        ledger = self.ledger
        ledger.put_node(row, node, measure(metric, ledger.names) if metric is not None else None)
        self._expiries.put(row, float(ledger.fresh_until[row]))

    def _node_changed(self, old: Node, node: Node) -> None:
        if (
            old.status.allocatable != node.status.allocatable
            or old.metadata.annotations != node.metadata.annotations
        ):
            self._node(node)

    def _node_gone(self, node: Node, unknown: bool) -> None:
        row = self._rows.pop(node.metadata.name, None)
        if row is not None:
            self.ledger.close(row)

    def _metric(self, metric: NodeMetric) -> None:
        row = self.handle.table.row(metric.metadata.name)
        if row is None:
            return
        self.ledger.put_metric(row, measure(metric, self.ledger.names))
        self._expiries.put(row, float(self.ledger.fresh_until[row]))
        self._learn(row)
        self.handle.table.touch(row, Aspect.LOAD)
        self.handle.wake(NODE_METRICS, Action.UPDATE, None, metric)

    def _metric_gone(self, metric: NodeMetric) -> None:
        row = self.handle.table.row(metric.metadata.name)
        if row is not None:
            self.ledger.put_metric(row, None)
            self.handle.table.touch(row, Aspect.LOAD)
            self.handle.wake(NODE_METRICS, Action.DELETE, metric, None)

    def _learn(self, row: int) -> None:
        """Remembers what pods use that are past their estimates."""
        learned, metric = self._assigner.learned, self.ledger.metric(row)
        if learned is None or metric is None or metric.updated is None:
            return
        cpu, memory = self.ledger.names.index("cpu"), self.ledger.names.index("memory")
        for uid, pod in self.ledger.pods(row).items():
            info = self.handle.pod(uid)
            workload = self._ask(info.shape).workload if info is not None else None
            if workload is not None and not metric.awaited(pod):
                usage = metric.pods[pod.key]
                learned.add(workload, usage[cpu], usage[memory], metric.updated)

    # Pods.

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """Counts what the pod is expected to use until it is measured."""
        if stands_for_reservation(pod.pod):
            return
        ask, since = self._ask(pod.shape), self._since(pod.pod)
        self.ledger.add(row, pod.uid, self._assigner.assigned(pod.key, pod.pod, ask, since))

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The inverse."""
        self.ledger.drop(row, pod.uid)

    def restore(self, pod: PodInfo) -> None:
        """Nothing is written on pods."""

    def reserve(self, cycle: Cycle, row: int) -> None:
        """The pod is assigned now."""
        self._assumed[cycle.pod.uid] = self.handle.clock.wall_seconds()

    def unreserve(self, cycle: Cycle, row: int) -> None:
        """It is not."""
        self._assumed.pop(cycle.pod.uid, None)

    def _pod_changed(self, old: Pod, pod: Pod) -> None:
        """Conditions say when a pod was assigned and when it began to run."""
        if old.status.conditions == pod.status.conditions:
            return
        uid = pod.metadata.uid
        info = self.handle.pod(uid)
        known = self.ledger.pod(info.row, uid) if info is not None else None
        if info is None or known is None:
            return
        ask, since = self._ask(info.shape), self._since(pod)
        fresh = self._assigner.assigned(known.key, pod, ask, since)
        if (fresh.since, fresh.deadline) == (known.since, known.deadline):
            return
        self.ledger.drop(info.row, uid)
        self.ledger.add(info.row, uid, fresh)
        metric = self.ledger.metric(info.row)
        if metric is not None and known.key in metric.pods:
            self.handle.table.touch(info.row, Aspect.LOAD)

    def _since(self, pod: Pod) -> float:
        """When a pod was assigned: its condition says, or else when it was first counted."""
        uid = pod.metadata.uid
        scheduled = became_true(pod, "PodScheduled")
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

    def _ask(self, shape: PodShape) -> Ask:
        known: Ask | None = shape.memo.get(self._key)
        if known is None or known.known is not self._assigner.known(known.workload):
            known = shape.memo[self._key] = self._assigner.ask(shape)
        return known

    def filter_applies(self, cycle: Cycle) -> bool:
        """Not where no node has a threshold, and not to pods of DaemonSets."""
        return self.ledger.enforcing > 0 and not self._ask(cycle.shape).daemon

    def score_applies(self, cycle: Cycle) -> bool:
        """Not without weights, nor where no node reports its load: all would get 0."""
        return self.ledger.reporting > 0 and self._weights.total > 0

    def stamp(self, cycle: Cycle) -> Hashable:
        """How many NodeMetrics have expired, and what is known of the pod's workload."""
        passed = self._expiries.passed(self.handle.clock.wall_seconds(), self.ledger.fresh_until)
        return passed, self._ask(cycle.shape).known

    def stale_rows(self, cycle: Cycle, since: Any) -> NDArray[np.intp] | None:
        """Whose NodeMetric has expired since then; all if more is known of the workload."""
        passed, known = since
        return self._expiries.since(passed) if known == self._ask(cycle.shape).known else None

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """Whether a row stays within its thresholds with the pod."""
        ask = self._ask(cycle.shape)
        if not self.filter_applies(cycle):
            return np.ones(len(self.ledger.reported[rows]), np.bool_)
        view = FILTER_PROD if ask.prod else FILTER
        lenient = self.args.enable_schedule_when_node_metrics_expired
        return answers.passes(self.ledger, view, ask.estimate, rows, self._deadline(), lenient)

    def _deadline(self) -> float | None:
        """Until when NodeMetrics that expire have expired; None if the filter does not care."""
        return self.handle.clock.wall_seconds() if self.args.filter_expired_node_metrics else None

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Sequence[Rejection]:
        """Which resource exceeds, or that what is known is too old."""
        ask = self._ask(cycle.shape)
        view = FILTER_PROD if ask.prod else FILTER
        deadline = self._deadline()
        return [
            answers.refusal(self.name, self.ledger, view, ask.estimate, row, deadline)
            for row in rows.tolist()
        ]

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """The weighted share that stays unused; 0 where nothing trustworthy is known."""
        ask = self._ask(cycle.shape)
        by_prod = ask.prod and self.args.score_according_prod_usage
        return answers.score(
            self.ledger,
            SCORE_PROD if by_prod else SCORE,
            ask.estimate,
            self._weights,
            rows,
            self.handle.clock.wall_seconds(),
        )

    debug_paths: ClassVar[Sequence[str]] = ("node/:name",)

    def debug(self, path: Sequence[str]) -> object:
        """``node/NAME``: the load of one node as the plugin sees it."""
        if len(path) != 2 or path[0] != "node":
            return super().debug(path)
        row = self.handle.table.row(path[1])
        if row is None:
            raise KeyError(f"cannot find node {path[1]}")
        return debug.node(self.ledger, path[1], row, self.handle.clock.wall_seconds())


def _names(args: LoadAwareSchedulingArgs) -> list[str]:
    found = {"cpu", "memory", *args.supported_resources, *args.estimated_scaling_factors}
    found |= {*args.resource_weights, *args.usage_thresholds, *args.prod_usage_thresholds}
    if args.aggregated is not None:
        found |= set(args.aggregated.usage_thresholds)
    return sorted(found)
