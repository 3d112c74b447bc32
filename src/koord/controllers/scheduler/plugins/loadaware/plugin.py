# SPDX-License-Identifier: Apache-2.0
"""The plugin: keeps load from piling up where requests alone would not show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.api.protocol.reservations import is_reserve_pod
from koord.controllers.cluster.nodes import Aspect
from koord.controllers.scheduler.conditions import became_true
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin
from koord.controllers.scheduler.plugins.loadaware import answers, debug, hints
from koord.controllers.scheduler.plugins.loadaware.assignment import Ask, Assigner
from koord.controllers.scheduler.plugins.loadaware.expiry import Expiries
from koord.controllers.scheduler.plugins.loadaware.ledger import (
    FILTER,
    FILTER_PROD,
    SCORE,
    SCORE_PROD,
    Ledger,
)
from koord.controllers.scheduler.plugins.loadaware.measured import Assigned, measure
from koord.controllers.scheduler.plugins.loadaware.thresholds import Thresholds, aggregate_key
from koord.controllers.scheduler.plugins.noderesources.room import memo_key
from koord.controllers.scheduler.plugins.reservation.reservepod import stands_for_reservation
from koord.controllers.scheduler.queue.events import Action

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import Arrivals, PodInfo, PodShape
    from koord.controllers.scheduler.config.args_koord import LoadAwareSchedulingArgs
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.framework.rejection import Rejection
    from koord.controllers.scheduler.plugins.loadaware.ledger import Standing
    from koord.controllers.scheduler.plugins.loadaware.measured import Measured
    from koord.controllers.scheduler.queue.events import HintedEvent


class LoadAwareScheduling(Plugin):
    """Filters and scores by real load.

    Rules: docs/reference/load.md#filter and docs/reference/load.md#score.
    """

    name = "LoadAwareScheduling"
    restores_from: ClassVar[tuple[str, ...]] = ()
    told_by_shape: ClassVar[bool] = False
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
        self._cares = (False, False)
        self._metrics = handle.view(NodeMetric)
        handle.view(Node).on_change(self._node, self._node_changed, self._node_gone)
        self._metrics.on_change(
            self._metric, lambda _, new: self._metric(new), lambda old, _: self._metric_gone(old)
        )
        handle.view(Pod).on_change(updated=self._pod_changed, deleted=self._pod_gone)

    def events(self) -> Sequence[HintedEvent]:
        """Pods that go or use less, reports of less load, nodes with more room or thresholds."""
        lenient = self.args.filter_expired_node_metrics and self._lenient
        return hints.events(self._lets, self._guessed, self.names, lenient=lenient)

    @property
    def _lenient(self) -> bool:
        return self.args.enable_schedule_when_node_metrics_expired

    def _guessed(self, shape: PodShape) -> bool:
        return self._ask(shape).workload is not None

    def _lets(self, shape: PodShape, where: Standing | str) -> bool:
        if isinstance(where, str):
            row = self._rows.get(where)
            if row is None:
                return True
            where = self.ledger.standing(row)
        ask = self._ask(shape)
        view = FILTER_PROD if ask.prod else FILTER
        return answers.passes_as(where, view, ask.estimate, self._deadline(), self._lenient)

    # What nodes say.

    def _node(self, node: Node) -> None:
        name = node.metadata.name
        row = self.handle.table.row(name)
        if row is None:
            return
        metric = self._metrics.get(name)
        measured = measure(metric, self.ledger.names) if metric is not None else None
        self._put_node(name, row, node, measured)

    def _put_node(self, name: str, row: int, node: Node, measured: Measured | None) -> None:
        self._rows[name] = row
        self.ledger.put_node(row, node, measured)
        self._expiries.put(row, float(self.ledger.fresh_until[row]))
        self._note_turn()

    def _note_turn(self) -> None:
        """Says so when the first threshold or report of any node comes, or the last one goes."""
        cares = self.ledger.enforcing > 0, self.ledger.reporting > 0
        if cares != self._cares:
            self._cares = cares
            self.handle.table.turn()

    def _node_changed(self, old: Node, node: Node) -> None:
        name, names = node.metadata.name, self.ledger.names
        row = self._rows.get(name)
        if row is None:
            self._node(node)
        elif old.metadata.annotations != node.metadata.annotations or any(
            old.status.allocatable.get(each) != node.status.allocatable.get(each) for each in names
        ):
            # What it reports has been read, and stays.
            self._put_node(name, row, node, self.ledger.metric(row))

    def _node_gone(self, node: Node, unknown: bool) -> None:
        row = self._rows.pop(node.metadata.name, None)
        if row is not None:
            self.ledger.close(row)
            self._note_turn()

    def _metric(self, metric: NodeMetric) -> None:
        row = self.handle.table.row(metric.metadata.name)
        if row is not None:
            self._report([(row, measure(metric, self.ledger.names))])

    @property
    def names(self) -> Sequence[str]:
        """The resources of amounts, in their order."""
        return self.ledger.names

    def report(self, reports: Mapping[str, Measured]) -> None:
        """Takes what nodes report from whoever has it in numbers: a simulation of many.

        Args:
            reports: by node; one that is not known is passed over.
        """
        rows = ((self.handle.table.row(node), measured) for node, measured in reports.items())
        known = [(row, measured) for row, measured in rows if row is not None]
        if known:
            self._report(known)

    def _report(self, reports: Sequence[tuple[int, Measured | None]]) -> None:
        turns = [self._turn(row) for row, _ in reports]
        for row, measured in reports:
            self.ledger.put_metric(row, measured)
            if measured is not None:
                self._expiries.put(row, float(self.ledger.fresh_until[row]))
                self._learn(row)
            self.handle.table.touch(row, Aspect.LOAD)
        self._note_turn()
        self._turned(turns)

    def _turn(self, row: int) -> hints.Turn:
        return hints.Turn(self.handle.table.name(row), self.ledger.standing(row))

    def _turned(self, turns: Sequence[hints.Turn]) -> None:
        self.handle.wake(hints.NODE_METRICS, Action.UPDATE, turns, None)

    def _metric_gone(self, metric: NodeMetric) -> None:
        row = self.handle.table.row(metric.metadata.name)
        if row is not None:
            self._report([(row, None)])

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
        if not stands_for_reservation(pod.pod):
            ask, since = self._ask(pod.shape), self._since(pod.pod)
            assigned = self._assigner.assigned(pod.key, pod.pod, ask, since)
            self.ledger.add(row, pod.uid, assigned)

    def pods_added(self, arrivals: Sequence[Arrivals]) -> None:
        """Counts many."""
        found: list[tuple[int, str, Assigned]] = []
        for shape, _, rows, pods in arrivals:
            ask, stands = self._ask(shape), is_reserve_pod(shape.pod)
            for row, pod in zip(rows, pods, strict=True):
                api = pod.pod
                if not stands or not stands_for_reservation(api):
                    assigned = self._assigner.assigned(pod.key, api, ask, self._since(api))
                    found.append((row, pod.uid, assigned))
        self.ledger.add_all(found)

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The inverse."""
        self.ledger.drop(row, pod.uid)

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
        known = self.ledger.pod(info.row, uid) if info is not None else None
        if info is None or known is None:
            return
        ask, since = self._ask(info.shape), self._since(pod)
        fresh = self._assigner.assigned(known.key, pod, ask, since)
        if (fresh.since, fresh.deadline) == (known.since, known.deadline):
            return
        turn = self._turn(info.row)
        self.ledger.renew(info.row, uid, fresh)
        metric = self.ledger.metric(info.row)
        if metric is not None and known.key in metric.pods:
            self.handle.table.touch(info.row, Aspect.LOAD)
            self._turned([turn])

    def _since(self, pod: Pod) -> float:
        """When a pod was assigned: its condition says, or else when it was first counted."""
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

    def _ask(self, shape: PodShape) -> Ask:
        known: Ask | None = shape.memo.get(self._key)
        if known is None or (
            known.workload is not None and known.known is not self._assigner.known(known.workload)
        ):
            known = shape.memo[self._key] = self._assigner.ask(shape)
        return known

    def idle_at(self, shape: PodShape) -> Collection[str]:
        """Where all nodes would pass, or all get 0.

        That is Filter where no node has a threshold, and for pods of DaemonSets; Score without
        weights, or where no node reports its load.
        """
        idle = [] if self._filters(shape) else ["filter"]
        if not self.ledger.reporting or not self._weights.total:
            idle.append("score")
        return idle

    def _filters(self, shape: PodShape) -> bool:
        return self.ledger.enforcing > 0 and not self._ask(shape).daemon

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
        if not self._filters(cycle.shape):
            return np.ones(len(self.ledger.reported[rows]), np.bool_)
        view = FILTER_PROD if ask.prod else FILTER
        deadline = self._deadline()
        return answers.passes(self.ledger, view, ask.estimate, rows, deadline, self._lenient)

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

    def lacks(self, cycle: Cycle, row: int) -> list[str]:
        """The load against its threshold."""
        ask = self._ask(cycle.shape)
        view = FILTER_PROD if ask.prod else FILTER
        return answers.lacks(self.ledger, view, ask.estimate, row, self._deadline())

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
