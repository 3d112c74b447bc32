# SPDX-License-Identifier: Apache-2.0
"""The agent as a whole: sources, eyes, strategies, hooks and reports, tasks of one event loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.agent.baseline import Baseline
from koord.agent.executor.audit import AuditLog, reporter
from koord.agent.executor.opening import open_executor
from koord.agent.executor.report import Planned
from koord.agent.hardware import read_hardware
from koord.agent.hooks import registry as hooks
from koord.agent.hooks.options import machine_options
from koord.agent.hooks.reconciler import Reconciler
from koord.agent.metrics.advisor import Advisor
from koord.agent.metrics.cache import MetricCache
from koord.agent.metrics.collectors.cold_pages import SCAN
from koord.agent.metrics.exports import Exports
from koord.agent.metrics.registry import collectors
from koord.agent.owners import Owners
from koord.agent.prediction.checkpoints import Checkpoints
from koord.agent.prediction.models import NODE, SYSTEM, Models, class_model
from koord.agent.prediction.training import train
from koord.agent.report.device import device_changes, device_object
from koord.agent.report.publisher import Attempt, Publisher
from koord.agent.report.reporters import MetricReporter, TopologyReporter
from koord.agent.states.informers import ClusterStates
from koord.agent.states.pods_source import PolledPods
from koord.agent.states.snapshot import Part, Snapshot
from koord.agent.states.store import StateStore
from koord.agent.states.volumes import Volumes
from koord.agent.strategies.eviction.api import ApiEvictor
from koord.agent.strategies.eviction.cgroup import CgroupKiller
from koord.agent.strategies.eviction.dry import DryEvictor
from koord.agent.strategies.eviction.processes import Processes
from koord.agent.strategies.instruments import Instruments
from koord.agent.strategies.loop import StrategyLoop, View
from koord.agent.strategies.options import StrategyOptions
from koord.agent.strategies.registry import strategies
from koord.agent.strategies.strategy import Hands
from koord.api.kinds.device import Device
from koord.api.kinds.topology import NodeResourceTopology
from koord.api.protocol.priority import PriorityClass
from koord.base import log
from koord.base.errors import KoordError
from koord.base.supervision import Supervisor
from koord.kube.informer import Informer
from koord.kube.reflector import InformerMetrics
from koord.kube.served import tell_of_start

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from koord.agent.executor.executor import HostExecutor
    from koord.agent.executor.report import Told
    from koord.agent.hooks.hook import Hook
    from koord.agent.host.machine import Machine
    from koord.agent.options import AgentOptions
    from koord.agent.states.kubelet import Kubelet
    from koord.agent.strategies.strategy import Tick
    from koord.base.clock import Clock
    from koord.base.metrics import Registry
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
_FOLLOWED = Part.NODE | Part.PODS | Part.SLO | Part.TOPOLOGY
_SCANNER, _NODE_SCOPE = "cold-pages", "node"


class Surroundings(NamedTuple):
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
    registry: Registry
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

    Raises:
        KoordError: the journal cannot be read, an outside plugin makes no sense, or the client
            writes in a dry run.
    """

    def __init__(self, options: AgentOptions, machine: Machine, around: Surroundings) -> None:
        self.options, self.machine, self._around = options, machine, around
        clock, dry_run = around.clock, around.client.dry_run
        if options.dry_run and dry_run is None:
            raise KoordError("--dry-run", "", "a client that writes", "one that does not")
        self._dry_run = dry_run
        self.gates = options.gates()
        self.supervisor = around.supervisor or Supervisor("koordlet", around.registry, clock)
        self.store = StateStore(clock, self.supervisor)
        self._watches = InformerMetrics(around.registry)
        self.cluster = ClusterStates(
            around.client,
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
        self.advisor = Advisor(
            machine, self.store.snapshot, self.cache, eyes, clock, supervisor=self.supervisor
        )
        self._exports = Exports(
            around.registry, options.node_name, per_cpu=self.gates.enabled("PerCPUMetric"),
            reported=self.gates.enabled("NodeMetricPromMetrics"),
        )  # fmt: skip
        started = around.registry.gauge("koordlet_start_time", "Unix seconds.", ("node",))
        started.labels(options.node_name).set(int(clock.wall_seconds()))
        self._settings = settings
        self.owners = Owners(self.store)
        self.audit = AuditLog(
            Path(options.audit_log_dir) if dry_run is None else None, clock,
            options.audit_max_disk_space_mb, options.audit_verbose,
        )  # fmt: skip
        self.executor = self._open_executor()
        self.reconciler = Reconciler(
            self._hooks(), self.executor, machine, supervisor=self.supervisor
        )
        self.evictor = self._evictor()
        limits_io = self.gates.enabled("BlkIOReconcile") and options.acts
        self.volumes = Volumes(around.client, self.supervisor) if limits_io else None
        self.loop = self._strategy_loop()
        self.models = Models(options.prediction())
        self._checkpoints = Checkpoints(options.prediction_checkpoint_filepath, dry_run)
        self._publisher = Publisher(around.client, self.store, around.recorder)
        self._make_reports()
        self._ready = asyncio.Event()
        self._acting = self._restored = False

    def _make_reports(self) -> None:
        options, machine, around = self.options, self.machine, self._around
        by_name = f"metadata.name={options.node_name}"
        self._topologies = Informer(
            around.client, NodeResourceTopology, field_selector=by_name,
            supervisor=self.supervisor, metrics=self._watches,
        )  # fmt: skip
        self._devices = Informer(
            around.client, Device, field_selector=by_name, supervisor=self.supervisor,
            metrics=self._watches,
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
        self.metric = MetricReporter(
            self.cluster, self.store, self.cache, self.models, self._publisher, around.clock,
            summaries=options.report_class_summary,
            cold_pages=_SCANNER in self.advisor.standings,
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
        now_ms = int(self._around.clock.wall_seconds() * _MILLI)
        standings, snapshot = self.advisor.standings, self.store.snapshot()
        self._exports.refresh(
            standings, self.cache, snapshot, self._settings, now_ms, self.metric.last
        )

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
        loop("topology", self.topology.run)
        if self.gates.enabled("Accelerators") or self.gates.enabled("RDMADevices"):
            self._watch(tasks, self._devices)
            loop("Device", self._report_devices)
        told = tell_of_start(_LOG, self.informers, _WITHOUT)
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

    def _polled_pods(self) -> PolledPods | None:
        if self.options.pods_from == "apiserver":
            return None
        kubelet = self._around.kubelet
        if kubelet is None:
            raise KoordError(
                "--pods-from", "", "kubelet", "apiserver, where the kubelet cannot be asked"
            )
        return PolledPods(
            kubelet.pods, self.machine.layout, self.store, self._around.clock,
            self.options.kubelet_sync_interval,
        )  # fmt: skip

    def _open_executor(self) -> HostExecutor:
        audited = reporter(self.audit, self.owners.subject)
        dry_run = self._dry_run

        def tell(told: Told) -> None:
            self.owners.note(told, self._around.clock.wall_seconds())
            if self.gates.enabled("AuditEvents") or dry_run is not None:
                audited(told)
            if isinstance(told, Planned) and dry_run is not None:
                value, owners = str(told.made.value), ",".join(told.made.owners)
                dry_run.local("write", str(told.target), told.target.resource,
                              value=value, owners=owners, reason=told.made.reason)  # fmt: skip

        return open_executor(
            self.machine,
            self._around.clock,
            force_seconds=self.options.resource_force_update_seconds,
            dry_run=dry_run is not None,
            reporter=tell,
            baseline=Baseline(self.machine, lambda: self.store.snapshot().pods.value),
        )

    def _hooks(self) -> list[Hook]:
        options = machine_options(
            self.gates.enabled,
            self.machine.features,
            self.machine.roots,
            disable_unset_cpu_quota=self.options.disable_unset_cpu_quota,
            hami_library=self.options.hami_core_library_directory_path,
            dry_run=self._dry_run,
        )
        return hooks.load(options)

    def _evictor(self) -> ApiEvictor | CgroupKiller | DryEvictor:
        around = self._around
        if self._dry_run is not None:
            return DryEvictor(around.clock, self._dry_run)
        if self.options.only_evict_by_api:
            return ApiEvictor(around.client, around.recorder, around.clock)
        processes = Processes(self.machine.hierarchy)
        return CgroupKiller(processes, around.recorder, around.clock)

    def _strategy_loop(self) -> StrategyLoop:
        options, clock = self.options, self._around.clock
        chosen = StrategyOptions(
            gates=self.gates,
            instruments=Instruments(self._around.registry, options.node_name),
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
        hands = Hands(self.executor, self.evictor)
        view = View(self.store, self.cache, self.machine)
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
        with round_("metrics"):
            self.advisor.stop()
        with round_("audit log"):
            self.audit.flush()

    async def _hook(self) -> None:
        if _SCANNER in self.advisor.standings:
            self.executor.state(_SCANNER, _NODE_SCOPE, list(SCAN))
        self._changed(self.store.snapshot(), _FOLLOWED)
        while True:
            await asyncio.sleep(self.options.runtime_hooks_reconcile_interval)
            with self.supervisor.round("hooks"):
                self.reconciler.tick()
            with self.supervisor.round("audit log"):
                self.audit.flush()

    def _changed(self, snapshot: Snapshot, parts: Part) -> None:
        with self.supervisor.round("hooks"):
            self.reconciler.changed(snapshot, parts)

    async def _report_devices(self) -> None:
        await self._devices.synced()
        while True:
            await asyncio.sleep(self.options.node_topology_sync_interval)
            with self.supervisor.round("Device"), Attempt(self.supervisor, "Device"):
                await self._report_device()

    async def _report_device(self) -> None:
        node = self.store.snapshot().node.value
        if node is None:
            return
        now = datetime.fromtimestamp(int(self._around.clock.wall_seconds()), UTC)
        wanted = device_object(node, self.advisor.facts, now)
        if wanted is not None and self._devices.served:
            there = self._devices.get(wanted.metadata.name)
            await self._publisher.publish(wanted, there, device_changes)

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
            now_ms = int(self._around.clock.wall_seconds() * _MILLI)
            with self.supervisor.round("prediction"):
                train(self.models, self.cache, self.store.snapshot().pods.value, now_ms)
            now = self._around.clock.monotonic_seconds()
            if now < next_step:
                continue
            next_step = now + _CHECKPOINT_STEP_SECONDS
            with self.supervisor.round("checkpoints"):
                self._checkpoints.step(self.models, now_ms)
