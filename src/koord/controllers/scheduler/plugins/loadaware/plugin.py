# SPDX-License-Identifier: Apache-2.0
"""The plugin: keeps load from piling up where requests alone would not show it."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.protocol import annotation, keys
from koord.api.protocol.priority import PriorityClass, class_with_default
from koord.base.errors import KoordError
from koord.controllers.cluster.load_estimate import estimate
from koord.controllers.cluster.nodes import Aspect
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.loadaware.ledger import Assigned, Ledger
from koord.controllers.scheduler.plugins.loadaware.thresholds import Thresholds
from koord.controllers.scheduler.queue import events as ev
from koord.controllers.scheduler.queue.events import Action, ClusterEvent, HintedEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.api.kinds.pod import Pod
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.config.args_koord import LoadAwareSchedulingArgs
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows

NODE_METRICS = "nodemetrics.v1alpha1.slo.koordinator.sh"
EXPIRED = "node(s) nodeMetric expired"


class _Ask:
    """What is the same for all pods of a shape."""

    __slots__ = ("daemon", "estimate", "prod")

    def __init__(self, daemon: bool, prod: bool, vector: NDArray[np.int64]) -> None:
        self.daemon = daemon
        self.prod = prod
        self.estimate = vector


class LoadAwareScheduling(Plugin):
    """Filters and scores by real load (scheduler spec, section 4)."""

    name = "LoadAwareScheduling"
    depends: ClassVar[Aspect] = Aspect.LOAD | Aspect.PODS | Aspect.NODE
    normalization: ClassVar[Normalization] = Normalization.NONE

    def __init__(self, args: LoadAwareSchedulingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args: LoadAwareSchedulingArgs = args
        thresholds = Thresholds.of_args(args)
        self.ledger = Ledger(
            _names(args), thresholds, args.prod_usage_include_sys, _scored_aggregate(args)
        )
        self._weights = self.ledger.vector(args.resource_weights)
        # Rows by the moment their NodeMetric expires, earliest first.
        self._expiries: list[tuple[float, int]] = []
        self._metrics = handle.view(NodeMetric)
        handle.view(Node).on_change(self._node, self._node_changed, self._node_gone)
        self._metrics.on_change(
            self._metric, lambda _, new: self._metric(new), lambda old, _: self._metric_gone(old)
        )

    def events(self) -> Sequence[HintedEvent]:
        """Pods that go, and every change of a NodeMetric."""
        changed = Action.ADD | Action.UPDATE | Action.DELETE
        return (
            HintedEvent(ev.ASSIGNED_POD_DELETE),
            HintedEvent(ClusterEvent(NODE_METRICS, changed)),
        )

    # Accounts.

    def _node(self, node: Node) -> None:
        row = self.handle.table.row(node.metadata.name)
        if row is None:
            return
        self.ledger.put_node(row, node)
        metric = self._metrics.get(node.metadata.name)
        if metric is not None:
            self._metric(metric)
        else:
            self.ledger.put_metric(row, None)

    def _node_changed(self, old: Node, node: Node) -> None:
        if (
            old.status.allocatable != node.status.allocatable
            or old.metadata.annotations != node.metadata.annotations
        ):
            self._node(node)

    def _node_gone(self, node: Node, unknown: bool) -> None:
        del node, unknown  # the row is put anew when a node opens it again

    def _metric(self, metric: NodeMetric) -> None:
        row = self.handle.table.row(metric.metadata.name)
        if row is None:
            return
        self.ledger.put_metric(row, metric)
        updated = self.ledger.updated[row]
        if updated == updated:
            end = float(updated) + self.args.node_metric_expiration_seconds
            heapq.heappush(self._expiries, (end, row))
        self.handle.table.touch(row, Aspect.LOAD)
        self.handle.wake(NODE_METRICS, Action.UPDATE, None, metric)

    def _metric_gone(self, metric: NodeMetric) -> None:
        row = self.handle.table.row(metric.metadata.name)
        if row is not None:
            self.ledger.put_metric(row, None)
            self.handle.table.touch(row, Aspect.LOAD)
            self.handle.wake(NODE_METRICS, Action.DELETE, metric, None)

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """Counts what the pod is expected to use until it is measured."""
        if getattr(pod, "reservation", None) is not None:
            return
        ask = self._ask(pod.shape)
        since = _since(pod.pod, "PodScheduled")
        if since is None:
            since = self.handle.clock.wall_seconds()
        deadline = self._deadline(pod.pod, since)
        self.ledger.add(row, pod.uid, Assigned(pod.key, ask.estimate, since, deadline, ask.prod))

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The inverse."""
        self.ledger.drop(row, pod.uid)

    def restore(self, pod: PodInfo) -> None:
        """Nothing is written on pods."""

    def _deadline(self, pod: Pod, since: float) -> float:
        after_scheduled = self._seconds(
            pod, keys.LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED,
            self.args.estimated_seconds_after_pod_scheduled,
        )  # fmt: skip
        after_initialized = self._seconds(
            pod, keys.LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED,
            self.args.estimated_seconds_after_initialized,
        )  # fmt: skip
        initialized = _since(pod, "Initialized")
        if initialized is not None and after_initialized > 0:
            return initialized + after_initialized
        return since + after_scheduled if after_scheduled > 0 else 0.0

    def _seconds(self, pod: Pod, key: str, default: int | None) -> int:
        if self.args.allow_customize_estimation:
            text = pod.metadata.annotations.get(key, "")
            if text.isascii() and text.isdigit():
                return int(text)
        return default or 0

    # Answers.

    def _ask(self, shape: PodShape) -> _Ask:
        known: _Ask | None = shape.memo.get(self.name)
        if known is None:
            daemon = shape.owner is not None and shape.owner.kind == "DaemonSet"
            prod = class_with_default(shape.pod) is PriorityClass.PROD
            amounts = estimate(shape.pod, self._factors(shape.pod))
            known = shape.memo[self.name] = _Ask(daemon, prod, self.ledger.vector(amounts))
        return known

    def _factors(self, pod: Pod) -> dict[str, int]:
        factors = dict(self.args.estimated_scaling_factors)
        if self.args.allow_customize_estimation:
            try:
                own = annotation.read(pod, keys.LOAD_ESTIMATED_SCALING_FACTORS, dict[str, int])
            except KoordError:
                own = None
            factors.update(own or {})
        return factors

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        """Marks rows whose NodeMetric has expired since somebody last asked."""
        now = self.handle.clock.wall_seconds()
        while self._expiries and self._expiries[0][0] <= now:
            _, row = heapq.heappop(self._expiries)
            if row < self.handle.table.size:
                self.handle.table.touch(row, Aspect.LOAD)
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """Whether a row stays within its thresholds with the pod."""
        return self._codes(cycle, rows) == 0

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Sequence[Rejection]:
        """Which resource exceeds."""
        return [self._rejection(int(code)) for code in self._codes(cycle, rows)]

    def _rejection(self, code: int) -> Rejection:
        if code < 0:
            return Rejection(self.name, (EXPIRED,))
        aggregated = "aggregated " if code > len(self.ledger.names) else ""
        resource = self.ledger.names[(code - 1) % len(self.ledger.names)]
        return Rejection(self.name, (f"node(s) {resource} {aggregated}usage exceed threshold",))

    def _codes(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """0 passes, -1 expired, 1.. the first resource that exceeds, by index; then aggregated."""
        ask, book = self._ask(cycle.shape), self.ledger
        known = book.known[rows]
        codes = np.zeros(len(known), np.int64)
        if ask.daemon:
            return codes
        by_prod = (book.prod_limit[:, rows] > 0).any(axis=0) & ask.prod
        by_aggregate = ~by_prod & (book.aggregate_limit[:, rows] > 0).any(axis=0)
        limit = np.where(
            by_prod, book.prod_limit[:, rows],
            np.where(by_aggregate, book.aggregate_limit[:, rows], book.limit[:, rows]),
        )  # fmt: skip
        used = np.where(
            by_prod, book.prod[:, rows],
            np.where(by_aggregate, book.aggregate[:, rows], book.plain[:, rows]),
        )  # fmt: skip
        checked = known & (limit > 0).any(axis=0)
        expired = checked & self._expired(rows)
        if self.args.filter_expired_node_metrics:
            if not self.args.enable_schedule_when_node_metrics_expired:
                codes[expired] = -1
            checked &= ~expired
        checked &= book.reported[rows]
        capacity = book.capacity[:, rows]
        over = _percent(used + ask.estimate[:, None], capacity) > limit
        over &= checked & (limit > 0) & (capacity > 0)
        first = over.argmax(axis=0) + 1 + len(book.names) * by_aggregate
        return np.where(over.any(axis=0), first, codes)

    def _expired(self, rows: Rows) -> NDArray[np.bool_]:
        updated = self.ledger.updated[rows]
        limit = self.args.node_metric_expiration_seconds
        # Not a number stands for "never updated", and is expired.
        fresh: NDArray[np.bool_] = self.handle.clock.wall_seconds() - updated < limit
        return ~fresh

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """The weighted share that stays unused; 0 where nothing trustworthy is known."""
        ask, book, dominant = (
            self._ask(cycle.shape),
            self.ledger,
            self.args.dominant_resource_weight,
        )
        valid = book.known[rows] & book.reported[rows] & ~self._expired(rows)
        total = int(self._weights.sum()) + dominant
        if not total:
            return np.zeros(len(valid), np.int64)
        by_prod = self.args.score_according_prod_usage and ask.prod
        used = (book.prod if by_prod else book.scored)[:, rows] + ask.estimate[:, None]
        capacity = book.capacity[:, rows]
        fits = (capacity > 0) & (used <= capacity)
        left = np.where(fits, (capacity - used) * 100 // np.maximum(capacity, 1), 0)
        score = (left * self._weights[:, None]).sum(axis=0)
        if dominant:
            score = score + np.minimum(100, left.min(axis=0)) * dominant
        return np.where(valid, score // total, 0)

    def debug(self, path: Sequence[str]) -> object:
        """``node/NAME``: the load of one node as the plugin sees it."""
        if len(path) != 2 or path[0] != "node":
            return super().debug(path)
        row = self.handle.table.row(path[1])
        if row is None:
            raise KeyError(f"there is no node {path[1]}")
        book = self.ledger
        return {
            view: dict(zip(book.names, getattr(book, view)[:, row].tolist(), strict=True))
            for view in ("plain", "prod", "aggregate", "scored", "capacity")
        } | {"known": bool(book.known[row]), "expired": bool(self._expired(np.array([row]))[0])}


def _percent(used: NDArray[np.int64], capacity: NDArray[np.int64]) -> NDArray[np.int64]:
    """``used`` in percent of ``capacity``, rounded half up; no capacity reads as 0."""
    safe = np.maximum(capacity, 1)
    return np.where(capacity > 0, (used * 200 + safe) // (2 * safe), 0)


def _names(args: LoadAwareSchedulingArgs) -> list[str]:
    found = {"cpu", "memory", *args.supported_resources, *args.estimated_scaling_factors}
    found |= {*args.resource_weights, *args.usage_thresholds, *args.prod_usage_thresholds}
    if args.aggregated is not None:
        found |= set(args.aggregated.usage_thresholds)
    return sorted(found)


def _scored_aggregate(args: LoadAwareSchedulingArgs) -> tuple[str, int] | None:
    part = args.aggregated
    if part is None or not part.score_aggregation_type:
        return None
    duration = part.score_aggregated_duration
    return part.score_aggregation_type, duration.nanoseconds // 10**9 if duration else 0


def _since(pod: Pod, kind: str) -> float | None:
    """Wall seconds when a condition became true; None if it is not."""
    for condition in pod.status.conditions:
        if condition.type == kind and condition.status == "True":
            moment = condition.last_transition_time
            return moment.timestamp() if moment is not None else None
    return None
