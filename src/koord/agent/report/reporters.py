# SPDX-License-Identifier: Apache-2.0
"""The loops that report: NodeMetric at its interval, NodeResourceTopology when it changes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from koord.agent.prediction.reclaimable import PredictedPod, predict
from koord.agent.prediction.usage_models import PeakUsage
from koord.agent.report.nodemetric_status import NodeMetricInputs, measured_pods, status
from koord.agent.report.publisher import PublishAttempt, topology_changes
from koord.agent.report.topology_object import (
    STATIC,
    KubeletView,
    NodeHardware,
    kubelet_allocations,
    topology_object,
)
from koord.agent.states import cpu_manager
from koord.agent.states.effective_specs import effective_metric_spec
from koord.agent.states.snapshot import NEVER, SnapshotPart
from koord.api.kinds.nodemetric import NodeMetricSpec
from koord.api.protocol.nodes import raw_allocatable
from koord.api.requests import effective
from koord.base import log
from koord.base.errors import KoordError
from koord.base.supervision import Supervisor
from koord.kernels.quantity import Quantity, Rounding

if TYPE_CHECKING:
    from koord.agent.metrics.reader import MetricReader
    from koord.agent.prediction.reclaimable import Reclaimable
    from koord.agent.prediction.usage_models import UsageModels
    from koord.agent.report.publisher import Publisher
    from koord.agent.states.cluster_informers import ClusterStates
    from koord.agent.states.kubelet import Kubelet, KubeletConfiguration
    from koord.agent.states.pod_state import PodState
    from koord.agent.states.snapshot import SnapshotSource
    from koord.agent.states.state_store import StateStore
    from koord.api.kinds.node import Node
    from koord.api.kinds.nodemetric import NodeMetricStatus
    from koord.api.kinds.topology import NodeResourceTopology
    from koord.base.clock import Clock
    from koord.kernels.cpuset import CPUSet
    from koord.kube.informers.informer import Informer

_LOG = log.get("agent.report")
_MILLI = 1000
# One report in ten seconds is what Koordinator's limiter lets through.
_AGAIN_SECONDS = 10.0
# The kubelet reads its configuration when it starts, so that an answer stays true for long.
_ASK_AGAIN_SECONDS = 10.0


class MetricReporter:
    """Reports usage; the NodeMetric itself is the manager's to make.

    Args:
        cluster: with the NodeMetric as it is.
        states: pods, NodeSLO and spec.
        metrics: what was measured.
        models: what was learnt; None where nothing is predicted.
        publisher: the way out.
        clock: of the report.
        summaries: whether sums by class are filled in.
        cold_pages: whether pages are told apart by age.
        supervisor: told of failures.
    """

    def __init__(
        self,
        cluster: ClusterStates,
        states: SnapshotSource,
        metrics: MetricReader,
        models: UsageModels | None,
        publisher: Publisher,
        clock: Clock,
        *,
        summaries: bool = False,
        cold_pages: bool = False,
        supervisor: Supervisor | None = None,
    ) -> None:
        self._supervisor = supervisor or Supervisor("report", clock=clock)
        self._cluster = cluster
        self._states = states
        self._metrics = metrics
        self._models = models
        self._publisher = publisher
        self._clock = clock
        self._summaries = summaries
        self._cold_pages = cold_pages
        self.last: NodeMetricStatus | None = None
        # Why nothing could be predicted last time; empty where it could.
        self._unpredicted = ""

    async def run(self) -> None:
        """Reports until cancelled; an interval passes before the first time.

        A report that failed is made anew every ten seconds: who decides by it counts a node without
        one as lost after a few intervals, and an interval may be long.
        """
        while True:
            spec = self._states.snapshot().metric_spec.value
            policy = spec.metric_collect_policy if spec else None
            interval = float((policy and policy.report_interval_seconds) or 60)
            await asyncio.sleep(interval)
            while not await self._reported():
                await asyncio.sleep(min(_AGAIN_SECONDS, interval))

    async def _reported(self) -> bool:
        """Whether nothing is left to do until the next interval."""
        attempt = PublishAttempt(self._supervisor, "NodeMetric")
        with self._supervisor.round("NodeMetric"), attempt:
            await self.report()
        return not attempt.again

    async def report(self) -> bool:
        """One report; False where there is nothing to report or nobody to report to."""
        self.last = self.status()
        there = next((metric for _, metric in self._cluster.metric.items()), None)
        if self.last is None or there is None:
            return False
        await self._publisher.write_status(there, self.last, _AGAIN_SECONDS)
        return True

    def status(self) -> NodeMetricStatus | None:
        """What would be reported now."""
        snapshot = self._states.snapshot()
        spec = snapshot.metric_spec.value
        slo = snapshot.slo.value
        reported = NodeMetricInputs(
            spec=spec or effective_metric_spec(NodeMetricSpec()),
            pods=snapshot.pods.value,
            applications=slo.host_applications if slo else [],
            metrics=self._metrics,
            cold_pages=self._cold_pages,
            summaries=self._summaries,
        )
        now_ms = int(self._clock.wall_seconds() * _MILLI)
        predicted = self._predicted(snapshot.node.value, measured_pods(reported, now_ms))
        return status(replace(reported, predicted=predicted), now_ms)

    def _predicted(self, node: Node | None, measured: list[PodState]) -> Reclaimable | None:
        if self._models is None or node is None:
            return None
        now = self._clock.wall_seconds()
        pods = [predicted_pod(pod, now) for pod in measured]
        try:
            found = predict(self._models, pods, _allocatable(node))
        except KoordError as error:
            # As long as nothing is learnt there is nothing to predict from: no failure.
            if str(error) != self._unpredicted:
                _LOG.info("nothing predicted", extra=log.fields(reason=error))
            self._unpredicted = str(error)
            return None
        self._unpredicted = ""
        return found


def predicted_pod(pod: PodState, now_seconds: float) -> PredictedPod:
    """What predictors look at of a pod, at a wall time."""
    metadata = pod.pod.metadata
    created = metadata.creation_timestamp
    asked = effective(pod.pod)
    return PredictedPod(
        uid=pod.uid,
        priority_class=pod.priority_class,
        age_seconds=now_seconds - created.timestamp() if created else 0.0,
        ended=pod.terminated or metadata.deletion_timestamp is not None,
        request=PeakUsage(asked.get("cpu", 0), asked.get("memory", 0)),
    )


def _allocatable(node: Node) -> PeakUsage:
    """Before amplification, where the node says what that was."""
    try:
        amounts = raw_allocatable(node)
    except KoordError as error:
        _LOG.info("taken for not amplified", extra=log.fields(reason=error))
        amounts = None
    if amounts is None:
        amounts = node.status.allocatable
    zero = Quantity()
    return PeakUsage(
        amounts.get("cpu", zero).milli(Rounding.DOWN),
        amounts.get("memory", zero).value(Rounding.DOWN),
    )


class _ComputedTopology(NamedTuple):
    """An object, and what it was computed from."""

    node: Node
    pods: tuple[PodState, ...]
    view: KubeletView
    topology: NodeResourceTopology


class TopologyReporter:
    """Computes CPUs, pools and zones, for this agent's own use and for the API.

    Args:
        store: gets the object as computed.
        hardware: what the machine has.
        kubelet: asked for its configuration; None where it is not.
        kubelet_root: where the kubelet keeps ``cpu_manager_state``.
        existing: the object in the API; None where it is not reported.
        publisher: the way out.
        interval_seconds: between two looks.
        supervisor: told of failures.
    """

    def __init__(
        self,
        store: StateStore,
        hardware: NodeHardware,
        kubelet: Kubelet | None,
        kubelet_root: str,
        existing: Informer[NodeResourceTopology] | None,
        publisher: Publisher,
        interval_seconds: float = 3.0,
        supervisor: Supervisor | None = None,
    ) -> None:
        self._supervisor = supervisor or Supervisor("report")
        self._store = store
        self._hardware = hardware
        self._kubelet = kubelet
        self._state_file = Path(kubelet_root) / cpu_manager.NAME
        self._existing = existing
        self._publisher = publisher
        self._interval_seconds = interval_seconds
        self._configuration: KubeletConfiguration | None = None
        self._answer_seconds = NEVER
        self._computed: _ComputedTopology | None = None
        self._malformed: list[str] = []

    async def run(self) -> None:
        """Looks again and again until cancelled."""
        while True:
            attempt = PublishAttempt(self._supervisor, "NodeResourceTopology")
            with self._supervisor.round("topology"), attempt:
                await self.report()
            await asyncio.sleep(self._interval_seconds)

    async def report(self) -> None:
        """One look: computes, keeps, and writes if something changed."""
        snapshot = self._store.snapshot()
        node = snapshot.node.value
        if node is None:
            return
        await self._ask_kubelet()
        view = KubeletView(self._configuration, self._allocations())
        wanted = self._object(node, snapshot.pods.value, view)
        self._store.put(SnapshotPart.TOPOLOGY, wanted)
        if self._existing is None or not self._existing.has_synced:
            return
        if self._existing.served:
            there = self._existing.get(wanted.metadata.name)
            await self._publisher.publish(wanted, there, topology_changes)

    def _object(
        self, node: Node, pods: tuple[PodState, ...], view: KubeletView
    ) -> NodeResourceTopology:
        """The one before while node and pods are the same objects and the kubelet says the same."""
        before = self._computed
        if before and before.node is node and before.pods is pods and before.view == view:
            return before.topology
        found: list[str] = []
        wanted = topology_object(node, self._hardware, pods, view, found.append)
        self._log_malformed(found)
        self._computed = _ComputedTopology(node, pods, view, wanted)
        return wanted

    def _log_malformed(self, malformed: list[str]) -> None:
        """Each malformed annotation once, and again when it was well, or says something else."""
        for line in malformed:
            if line not in self._malformed:
                _LOG.warning(line)
        self._malformed = malformed

    async def _ask_kubelet(self) -> None:
        now_seconds = asyncio.get_running_loop().time()
        if self._kubelet is None or now_seconds - self._answer_seconds < _ASK_AGAIN_SECONDS:
            return
        # What it said last stays true until it restarts, and then it answers again.
        with self._supervisor.round("kubelet's configuration"):
            self._configuration = await self._kubelet.configuration()
            self._answer_seconds = now_seconds

    def _allocations(self) -> dict[str, CPUSet]:
        configuration = self._configuration
        if configuration is None or configuration.cpu_manager_policy != STATIC:
            return {}
        try:
            return kubelet_allocations(self._state_file.read_bytes())
        except FileNotFoundError:
            return {}
