# SPDX-License-Identifier: Apache-2.0
"""StarvedPods: best-effort pods that their node has held down for long go where there is CPU.

Rule: docs/reference/descheduling-plugins.md#starvedpods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.duration import Duration
from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.plugins.selection_args import SelectionArgs
from koord.controllers.descheduler.plugins.starvedpods.cooldown import Cooldown
from koord.controllers.descheduler.plugins.starvedpods.offers import NodeOffer, Offers
from koord.controllers.descheduler.plugins.starvedpods.report_history import (
    Report,
    ReportHistories,
)
from koord.controllers.descheduler.plugins.starvedpods.satisfaction import (
    SUPPRESS_THRESHOLD_PERCENT,
    BestEffortPod,
    agent_evicts_sooner,
    best_effort_pods,
    capacity_milli,
    satisfaction_percent,
    suppress_percent,
    used_milli,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.nodemetric import NodeMetric
    from koord.controllers.descheduler.framework.handle import DeschedulerHandle
    from koord.controllers.scheduler.config.field_path import FieldPath

_SECOND = 1_000_000_000


class StarvedPodsArgs(SelectionArgs, frozen=True):
    """When pods count as held down, and how many may go."""

    paused: bool = False
    dry_run: bool = False
    satisfaction_threshold_percent: int = 60
    window: Duration = Duration(600 * _SECOND)
    high_threshold_percent: int | None = None
    max_pods_per_node: int = 2
    cooldown: Duration = Duration(3600 * _SECOND)
    node_metric_expiration_seconds: int = 180

    def check(self, at: FieldPath) -> None:
        """Percentages and times are in range."""
        super().check(at)
        percent = self.satisfaction_threshold_percent
        at.inside("satisfactionThresholdPercent").between(percent, 1, 100)
        if self.high_threshold_percent is not None:
            at.inside("highThresholdPercent").between(self.high_threshold_percent, 1, 100)
        at.inside("maxPodsPerNode").at_least(self.max_pods_per_node, 1)
        seconds = self.node_metric_expiration_seconds
        at.inside("nodeMetricExpirationSeconds").at_least(seconds, 1)
        spot = at.inside("window")
        spot.need(self.window.nanoseconds > 0, str(self.window), "a duration above 0")
        spot = at.inside("cooldown")
        spot.need(self.cooldown.nanoseconds >= 0, str(self.cooldown), "a duration of 0 or more")


class StarvedPods(DeschedulerPlugin):
    """The strategy; it remembers reports of nodes, what pods have used, and whom it moved."""

    name = "StarvedPods"
    args_type = StarvedPodsArgs
    args: StarvedPodsArgs

    def __init__(self, args: StarvedPodsArgs, handle: DeschedulerHandle) -> None:
        super().__init__(args, handle)
        self._window_seconds = args.window.nanoseconds / _SECOND
        gap = args.node_metric_expiration_seconds
        self._histories = ReportHistories(self._window_seconds, gap)
        self._cooldown = Cooldown(args.cooldown.nanoseconds / _SECOND)

    async def balance(self, nodes: Sequence[Node]) -> None:
        """Counts the reports that are new, and evicts off nodes that starve their pods."""
        if self.args.paused:
            return
        now = self.handle.now()
        self._histories.keep([node.metadata.name for node in nodes])
        self._cooldown.forget(now)
        fresh = [node for node in nodes if self._fresh(node, now) is not None]
        pods = {node.metadata.name: self._count(node, now) for node in fresh}
        starved = [node for node in fresh if self._histories.of(node.metadata.name).is_starved(now)]
        names = {node.metadata.name for node in starved}
        others = [node for node in fresh if node.metadata.name not in names]
        offers = Offers(self._offers(others, now), self.handle.node_fit)
        for node in self.args.selected_nodes(starved):
            await self._relieve(node, pods[node.metadata.name], offers, now)

    def _fresh(self, node: Node, now: float) -> NodeMetric | None:
        """The report of a node; None where there is none, or where it is too old."""
        metric = self.handle.snapshot.node_metrics.get(node.metadata.name)
        if metric is None or metric.status.update_time is None:
            return None
        age = now - metric.status.update_time.timestamp()
        return metric if age < self.args.node_metric_expiration_seconds else None

    def _count(self, node: Node, now: float) -> list[BestEffortPod]:
        """The best-effort pods of a node; its report is counted if it is new."""
        metric = self._fresh(node, now)
        if metric is None or metric.status.update_time is None:
            return []
        name, time = node.metadata.name, metric.status.update_time.timestamp()
        history = self._histories.of(name)
        pods = best_effort_pods(self.handle.snapshot.pods_on(name), metric, history.peaks)
        if history.is_new(time):
            percent = suppress_percent(self.handle.snapshot.node_slos.get(name))
            used, capacity = used_milli(metric), capacity_milli(node)
            held = percent is not None and used is not None and 100 * used >= percent * capacity
            satisfied = satisfaction_percent(pods)
            starved = held and satisfied < self.args.satisfaction_threshold_percent
            history.add(Report(time, starved))
            history.note_peaks(pods, held=held)
        return pods

    def _offers(self, nodes: Iterable[Node], now: float) -> list[NodeOffer]:
        offers = []
        for node in nodes:
            metric = self._fresh(node, now)
            used = used_milli(metric) if metric is not None else None
            if used is None:
                continue
            percent = suppress_percent(self.handle.snapshot.node_slos.get(node.metadata.name))
            most = SUPPRESS_THRESHOLD_PERCENT if percent is None else percent
            high = self.args.high_threshold_percent
            limit = (most if high is None else min(most, high)) * capacity_milli(node) / 100
            offers.append(NodeOffer(node, limit, used))
        return offers

    async def _relieve(
        self, node: Node, pods: Sequence[BestEffortPod], offers: Offers, now: float
    ) -> None:
        slo = self.handle.snapshot.node_slos.get(node.metadata.name)
        if agent_evicts_sooner(slo, pods, self._window_seconds):
            return
        evictor = self.handle.evictor
        selected = self.args.pod_filter(evictor.filter)
        left, percent = self.args.max_pods_per_node, satisfaction_percent(pods)
        reason = f"best-effort pods of node {node.metadata.name} get {percent:.0f}% of the CPU"
        for each in sorted(pods, key=_gain_key):
            if left <= 0:
                return
            if each.wanted_milli <= each.usage_milli or not selected(each.pod):
                continue
            offer = None if self._cooldown.holds(each.pod, now) else offers.find(each)
            if offer is None or not evictor.pre_eviction_filter(each.pod):
                continue
            if await evictor.evict(each.pod, reason, dry_run=self.args.dry_run):
                offers.take(offer, each)
                self._cooldown.note(each.pod, now)
                left -= 1


def _gain_key(pod: BestEffortPod) -> tuple[int, str, str]:
    """Those that would gain most first."""
    meta = pod.pod.metadata
    return pod.usage_milli - pod.request_milli, meta.namespace, meta.name
