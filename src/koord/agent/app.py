# SPDX-License-Identifier: Apache-2.0
"""The agent as a whole: sources, eyes, strategies, hooks and reports, tasks of one event loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.agent.baseline import Baseline
from koord.agent.executor.audit import AuditLog, reporter
from koord.agent.executor.startup import open_executor
from koord.agent.executor.write_events import WritePlanned
from koord.agent.hooks import registry as hooks
from koord.agent.hooks.creation import CreationHooks
from koord.agent.hooks.options import machine_options
from koord.agent.hooks.reconciliation.reconciler import Reconciler
from koord.agent.metrics.collection_loop import CollectionLoop
from koord.agent.metrics.collectors.cold_pages import SCAN
from koord.agent.metrics.prometheus.agent_exporter import AgentExporter
from koord.agent.metrics.registry import collectors
from koord.agent.metrics.storage.metric_cache import MetricCache
from koord.agent.prediction.checkpoints import Checkpoints
from koord.agent.prediction.training import train
from koord.agent.prediction.usage_models import NODE, SYSTEM, UsageModels, class_model
from koord.agent.report.devices import DeviceReporter
from koord.agent.report.hardware import read_hardware
from koord.agent.report.publisher import Publisher
from koord.agent.report.reporters import MetricReporter, TopologyReporter
from koord.agent.states.annotation_checks.annotation_checker import REASON, AnnotationChecker
from koord.agent.states.bound_volumes import BoundVolumes
from koord.agent.states.cluster_informers import ClusterStates
from koord.agent.states.pod_poller import PodPoller
from koord.agent.states.snapshot import Snapshot, SnapshotPart
from koord.agent.states.state_store import StateStore
from koord.agent.strategies.eviction.api_evictor import ApiEvictor
from koord.agent.strategies.eviction.cgroup_killer import CgroupKiller
from koord.agent.strategies.eviction.cgroup_processes import CgroupProcesses
from koord.agent.strategies.eviction.dry_run_evictor import DryEvictor
from koord.agent.strategies.options import StrategyOptions
from koord.agent.strategies.registry import strategies
from koord.agent.strategies.strategy import Actuators
from koord.agent.strategies.strategy_loop import StrategyLoop, TickSource
from koord.agent.strategies.strategy_metrics import StrategyMetrics
from koord.agent.write_history import WriteHistory
from koord.api.kinds.device import Device
from koord.api.kinds.topology import NodeResourceTopology
from koord.api.protocol.priority import PriorityClass
from koord.base import log
from koord.base.errors import KoordError
from koord.base.supervision import Supervisor, cause_of
from koord.kube.daemon.missing_kinds import log_missing_kinds
from koord.kube.informers.informer import Informer
from koord.kube.informers.reflector import InformerMetrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from koord.agent.executor.host_executor import HostExecutor
    from koord.agent.executor.write_events import WriteEvent
    from koord.agent.hooks.options import HookOptions
    from koord.agent.host.machine import Machine
    from koord.agent.options import AgentOptions
    from koord.agent.states.kubelet import Kubelet
    from koord.agent.strategies.strategy import Tick
    from koord.base.clock import Clock
    from koord.base.metrics import MetricRegistry
    from koord.kube.client import Client
    from koord.kube.events import EventRecorder

    Run = Callable[[], Awaitable[object]]

_CHECKPOINT_STEP_SECONDS = 60.0
_FIRST_ROUNDS_SECONDS = 60.0
_MILLI = 1000
_LOG = log.get("agent")
_WITHOUT = {
    "Device": "devices are not reported",
    "NodeMetric": "use is not reported",
    "NodeResourceTopology": "CPUs and NUMA zones are not reported",
    "NodeSLO": "no strategy acts",
}
"""What is not done without a kind, by its informer's name."""
_FOLLOWED = SnapshotPart.NODE | SnapshotPart.PODS | SnapshotPart.SLO | SnapshotPart.TOPOLOGY
_SCANNER, _NODE_SCOPE = "cold-pages", "node"


class AgentServices(NamedTuple):
    """What an agent talks to.

    Attributes:
        client: the way to the API server.
        recorder: of events.
        kubelet: of this node; None where it cannot be asked.
        registry: of metrics.
        clock: time.
        supervisor: of the program's parts; None for the agent's own.
    """

    client: Client
    recorder: EventRecorder
    kubelet: Kubelet | None
    registry: MetricRegistry
    clock: Clock
    supervisor: Supervisor | None = None


class Agent:
    """One node's agent.

    Args:
        options: flags, checked.
        machine: what the host is.
        around: what it talks to.

    Attributes:
        supervisor: keeps each loop going, whatever another fails of.
        creation: the hooks as a container runtime asks for them.
        runtime_status: what the delivery by a runtime tells of itself; empty without one.

    Raises:
        KoordError: the journal cannot be read, an outside plugin makes no sense, or the client
            writes in a dry run.
    """

    def __init__(self, options: AgentOptions, machine: Machine, services: AgentServices) -> None:
        self.options, self.machine, self._services = options, machine, services
        clock, dry_run = services.clock, services.client.dry_run
        if options.dry_run and dry_run is None:
            raise KoordError("--dry-run", "", "a client that writes", "one that does not")
        self._dry_run = dry_run
        self.gates = options.gates()
        self.supervisor = services.supervisor or Supervisor("koordlet", services.registry, clock)
        self.annotations = AnnotationChecker(
            machine,
            lambda pod, text: services.recorder.event(pod.pod, "Warning", REASON, text),
            lambda minor: self.advisor.facts.gpu_bytes(minor),
        )
        self.store = StateStore(clock, self.supervisor, self.annotations)
        self._watches = InformerMetrics(services.registry)
        self.cluster = ClusterStates(
            services.client,
            options.node_name,
            self.store,
            machine.layout if options.pods_from == "apiserver" else None,
            self.supervisor,
            self._watches,
        )
        # Of the kinds of others that run from the start or later.
        self.informers: list[Informer[Any]] = list(self.cluster.informers)
        self.pods = self._polled_pods()
        settings = options.metrics()
        self.cache = MetricCache(settings)
        eyes = collectors(settings, self.gates, machine.features) if options.acts else []
        self.advisor = CollectionLoop(
            machine, self.store.snapshot, self.cache, eyes, clock, supervisor=self.supervisor
        )
        self._exports = AgentExporter(
            services.registry, options.node_name, per_cpu=self.gates.enabled("PerCPUMetric"),
            reported=self.gates.enabled("NodeMetricPromMetrics"),
        )  # fmt: skip
        started = services.registry.gauge("koordlet_start_time", "Unix seconds.", ("node",))
        started.labels(options.node_name).set(int(clock.wall_seconds()))
        self._settings = settings
        self.owners = WriteHistory(self.store)
        self.audit = AuditLog(
            Path(options.audit_log_dir) if dry_run is None else None, clock,
            options.audit_max_disk_space_mb, options.audit_verbose,
        )  # fmt: skip
        self.executor = self._open_executor()
        asked = self._hook_options()
        hooked = hooks.load(asked)
        self.reconciler = Reconciler(hooked, self.executor, machine, supervisor=self.supervisor)
        self.creation = CreationHooks(
            hooked, self.executor, machine, self.supervisor, asked.host_has
        )
        self.evictor = self._evictor()
        limits_io = self.gates.enabled("BlkIOReconcile") and options.acts
        self.volumes = BoundVolumes(services.client, self.supervisor) if limits_io else None
        self.loop = self._strategy_loop()
        self.models = UsageModels(options.prediction())
        self._checkpoints = Checkpoints(options.prediction_checkpoint_filepath, dry_run)
        self._publisher = Publisher(services.client, self.store, services.recorder)
        self._make_reports()
        self._ready = asyncio.Event()
        self._acting = self._restored = False
        self.runtime_status: Callable[[], dict[str, Any]] = dict

    def _make_reports(self) -> None:
        options, machine, around = self.options, self.machine, self._services
        by_name = f"metadata.name={options.node_name}"
        self._topologies = Informer(
            around.client, NodeResourceTopology, field_selector=by_name, share=False,
            supervisor=self.supervisor, metrics=self._watches,
        )  # fmt: skip
        self._devices = Informer(
            around.client, Device, field_selector=by_name, share=False,
            supervisor=self.supervisor, metrics=self._watches,
        )  # fmt: skip
        reports_topology = self.gates.enabled("NodeTopologyReport")
        self.topology = TopologyReporter(
            self.store,
            read_hardware(machine, huge_pages=self.gates.enabled("HugePageReport")),
            None if options.disable_query_kubelet_config else around.kubelet,
            machine.roots.kubelet,
            self._topologies if reports_topology else None,
            self._publisher,
            options.node_topology_sync_interval,
            self.supervisor,
        )
        self.devices = DeviceReporter(
            self.store, self.advisor, self._devices, self._publisher, around.clock,
            options.node_topology_sync_interval, self.supervisor,
        )  # fmt: skip
        self.metric = MetricReporter(
            self.cluster, self.store, self.cache, self.models, self._publisher, around.clock,
            summaries=options.report_class_summary,
            cold_pages=_SCANNER in self.advisor.collector_states,
            supervisor=self.supervisor,
        )  # fmt: skip

    @property
    def dry_run(self) -> bool:
        """Whether nothing is written, because the client takes all writes."""
        return self._dry_run is not None

    @property
    def is_ready(self) -> bool:
        """Whether strategies and hooks run."""
        return self._ready.is_set()

    async def ready(self) -> None:
        """Waits for that."""
        await self._ready.wait()

    def refresh_metrics(self) -> None:
        """Brings the series of what is measured up to date, before they are served."""
        now_ms = int(self._services.clock.wall_seconds() * _MILLI)
        collector_states, snapshot = self.advisor.collector_states, self.store.snapshot()
        self._exports.refresh(
            collector_states, self.cache, snapshot, self._settings, now_ms, self.metric.last,
            self.executor,
        )  # fmt: skip

    def restate(self, uid: str) -> list[str]:
        """A runtime begins a pod: what hooks want of its cgroup is written now.

        Returns:
            What hooks failed of, a line each.
        """
        with self.supervisor.round("hooks") as asked:
            return self.reconciler.restate(uid)
        return [cause_of(asked.error)] if asked.error else []

    def recheck(self) -> None:
        """A runtime may have written any file: all are compared now."""
        with self.supervisor.round("hooks"):
            self.executor.recheck()
            self.executor.settle()

    async def run(self) -> None:
        """Works until cancelled; then strategies and hooks take back what they hold.

        Without ``restore_on_exit`` the files stay, and the journal with what they said before: the
        next agent takes both over, or ``koord node restore`` gives it back.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._start(tasks)
        finally:
            self._end()

    async def _start(self, tasks: asyncio.TaskGroup) -> None:
        """Begins one loop after the other, each when what it needs is there."""

        def loop(name: str, run: Run) -> None:
            tasks.create_task(self.supervisor.keep(name, run), name=name)

        loop("cluster states", self.cluster.run)
        if self.pods is not None:
            loop("pods", self.pods.run)
        if self.volumes is not None:
            tasks.create_task(self.volumes.run(), name="volumes")
        await self._states_ready()
        if self.gates.enabled("NodeTopologyReport"):
            self._watch(tasks, self._topologies)
        if self.options.node_topology_sync_interval > 0:
            loop("topology", self.topology.run)
            if self.gates.enabled("Accelerators") or self.gates.enabled("RDMADevices"):
                self._watch(tasks, self._devices)
                loop("Device", self.devices.run)
        told = log_missing_kinds(_LOG, self.informers, _WITHOUT)
        tasks.create_task(told, name="kinds that are not served")
        if self.options.acts:
            loop("metrics", self.advisor.run)
            # Whoever measures for the first time may hang, or fail again and again.
            with suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_ROUNDS_SECONDS):
                    await self.advisor.wait_ready()
        loop("prediction", self._predict)
        if self.options.enable_node_metric_report:
            loop("NodeMetric", self.metric.run)
        self._acting = True
        self.store.subscribe(_FOLLOWED, self._changed)
        loop("hooks", self._hook)
        loop("strategies", partial(self.loop.run, gives_back=False))
        if isinstance(self.evictor, ApiEvictor):
            loop("evictions", self.evictor.run)
        self._ready.set()

    def _watch(self, tasks: asyncio.TaskGroup, informer: Informer[Any]) -> None:
        self.informers.append(informer)
        tasks.create_task(informer.run(), name=f"informer of {informer.name}")

    # -- parts ---------------------------------------------------------------------------------

    def _polled_pods(self) -> PodPoller | None:
        if self.options.pods_from == "apiserver":
            return None
        kubelet = self._services.kubelet
        if kubelet is None:
            raise KoordError(
                "--pods-from", "", "kubelet", "apiserver, where the kubelet cannot be asked"
            )
        return PodPoller(
            kubelet.pods, self.machine.layout, self.store, self._services.clock,
            self.options.kubelet_sync_interval, self.machine.groups_root,
        )  # fmt: skip

    def _open_executor(self) -> HostExecutor:
        audited = reporter(self.audit, self.owners.subject)
        dry_run = self._dry_run

        def record(event: WriteEvent) -> None:
            self.owners.note(event, self._services.clock.wall_seconds())
            if self.gates.enabled("AuditEvents") or dry_run is not None:
                audited(event)
            if isinstance(event, WritePlanned) and dry_run is not None:
                value, owners = str(event.made.value), ",".join(event.made.owners)
                dry_run.record_local("write", str(event.target), event.target.resource,
                              value=value, owners=owners, reason=event.made.reason)  # fmt: skip

        return open_executor(
            self.machine,
            self._services.clock,
            force_seconds=self.options.resource_force_update_seconds,
            dry_run=dry_run is not None,
            reporter=record,
            baseline=Baseline(self.machine, lambda: self.store.snapshot().pods.value),
        )

    def _hook_options(self) -> HookOptions:
        return machine_options(
            self.gates.enabled,
            self.machine.features,
            self.machine.roots,
            disable_unset_cpu_quota=self.options.disable_unset_cpu_quota,
            hami_library=self.options.hami_core_library_directory_path,
            dry_run=self._dry_run,
        )

    def _evictor(self) -> ApiEvictor | CgroupKiller | DryEvictor:
        around = self._services
        if self._dry_run is not None:
            return DryEvictor(around.clock, self._dry_run)
        if self.options.only_evict_by_api:
            return ApiEvictor(around.client, around.recorder, around.clock)
        processes = CgroupProcesses(self.machine.hierarchy)
        return CgroupKiller(processes, around.recorder, around.clock)

    def _strategy_loop(self) -> StrategyLoop:
        options, clock = self.options, self._services.clock
        chosen = StrategyOptions(
            gates=self.gates,
            instruments=StrategyMetrics(self._services.registry, options.node_name),
            reconcile_interval_seconds=options.reconcile_interval_seconds,
            cpu_suppress_interval_seconds=options.cpu_suppress_interval_seconds,
            cpu_evict_interval_seconds=options.cpu_evict_interval_seconds,
            memory_evict_interval_seconds=options.memory_evict_interval_seconds,
            collect_interval_seconds=options.collect_res_used_interval,
            memory_evict_cool_seconds=options.memory_evict_cool_time_seconds,
            cpu_evict_cool_seconds=options.cpu_evict_cool_time_seconds,
            storage=self._storage,
        )
        if self.volumes is not None:
            chosen = replace(chosen, volume_of=self.volumes.volume_of)
        hands = Actuators(self.executor, self.evictor)
        view = TickSource(self.store, self.cache, self.machine)
        loop = strategies(chosen) if options.acts else []
        after = (self._after_round,)
        return StrategyLoop(loop, hands, view, chosen, clock, after, self.supervisor)

    def _storage(self) -> Any:
        found = self.advisor.facts.storage.value
        if found is None:
            raise KoordError("storage", "", None, "block devices, read once BlkIOReconcile is on")
        return found

    def _after_round(self, tick: Tick) -> None:
        if isinstance(self.evictor, ApiEvictor):
            self.evictor.observe(tick.snapshot.pods.value)
        elif isinstance(self.evictor, CgroupKiller):
            self.evictor.watch()

    # -- tasks ---------------------------------------------------------------------------------

    async def _states_ready(self) -> None:
        await self.cluster.ready()
        if self.pods is not None:
            await self.pods.ready()

    def _end(self) -> None:
        """Takes back what was done to the host, unless that is left to the next agent."""
        round_ = self.supervisor.round
        if self._acting and self.options.restore_on_exit:
            with round_("strategies"):
                self.loop.stop()
            with round_("hooks"):
                self.executor.withdraw(_SCANNER)
                self.reconciler.stop()
        with round_("hooks"):
            self.executor.close()
        with round_("metrics"):
            self.advisor.stop()
        with round_("audit log"):
            self.audit.flush()

    async def _hook(self) -> None:
        if _SCANNER in self.advisor.collector_states:
            self.executor.state(_SCANNER, _NODE_SCOPE, list(SCAN))
        self._changed(self.store.snapshot(), _FOLLOWED)
        while True:
            await asyncio.sleep(self.options.runtime_hooks_reconcile_interval)
            with self.supervisor.round("hooks"):
                self.reconciler.tick()
            with self.supervisor.round("audit log"):
                self.audit.flush()

    def _changed(self, snapshot: Snapshot, parts: SnapshotPart) -> None:
        with self.supervisor.round("hooks"):
            self.reconciler.changed(snapshot, parts)

    def _restore_models(self) -> None:
        known = {pod.uid for pod in self.store.snapshot().pods.value}
        known |= {NODE, SYSTEM, *map(class_model, PriorityClass)}
        with self.supervisor.round("checkpoints"):
            self._checkpoints.restore(self.models, known)

    async def _predict(self) -> None:
        """Trains every interval, and writes a few checkpoints a minute."""
        if not self._restored:
            self._restored = True
            self._restore_models()
        next_step = 0.0
        while True:
            await asyncio.sleep(self.models.options.training_seconds)
            now_ms = int(self._services.clock.wall_seconds() * _MILLI)
            with self.supervisor.round("prediction"):
                train(self.models, self.cache, self.store.snapshot().pods.value, now_ms)
            now = self._services.clock.monotonic_seconds()
            if now < next_step:
                continue
            next_step = now + _CHECKPOINT_STEP_SECONDS
            with self.supervisor.round("checkpoints"):
                self._checkpoints.step(self.models, now_ms)
