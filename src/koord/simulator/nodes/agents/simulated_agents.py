# SPDX-License-Identifier: Apache-2.0
"""The agents' part of simulated machines: what they report, and what NodeSLOs make them do.

Reported are NodeResourceTopology, Device and NodeMetric. An agent owns the status of a NodeMetric
and never its spec; it creates the object here as long as no manager does. An object annotated
``koordinator.sh/managed: "false"`` is left to its author.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import field

from koord.agent.report.publisher import topology_changes
from koord.api.kinds.device import Device
from koord.api.kinds.meta import Object
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric, NodeMetricSpec
from koord.api.kinds.nodeslo import NodeSLO
from koord.api.kinds.pod import Pod
from koord.api.kinds.registry import kind_of_type
from koord.api.kinds.topology import NodeResourceTopology
from koord.api.objects import decode_as
from koord.api.protocol import keys
from koord.api.protocol.node_reservation import node_reservation
from koord.api.protocol.qos import qos_with_default
from koord.api.protocol.scheduling import resource_status
from koord.base import faults, log, rng
from koord.base.documents import Document
from koord.base.errors import KoordError
from koord.kube.controller import Controller
from koord.kube.errors import ApiError, TransportError
from koord.kube.informers.informer import Informer
from koord.kube.patches import Patch
from koord.simulator.nodes import published_objects
from koord.simulator.nodes.agents.node_metric import SAMPLE_SECONDS, NodeMetricMeter, policy_of
from koord.simulator.nodes.agents.running_pods import RunningPods
from koord.simulator.nodes.agents.usage_model import PodUsageModel
from koord.simulator.nodes.pod_lifecycle.kubelets import BY_NODE
from koord.simulator.nodes.strategies.enforcement import Enforcement
from koord.simulator.nodes.strategies.metrics_exposition import exposition
from koord.simulator.nodes.strategies.node_rows import NodeRow, host_cpus, node_row, whole
from koord.simulator.nodes.strategies.pod_rows import pod_view
from koord.simulator.nodes.strategies.usage_windows import ROUND_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.api.kinds.registry import Kind
    from koord.base.clock import Clock
    from koord.base.feature_gates import FeatureGates
    from koord.kube.client import Client
    from koord.kube.events import EventType
    from koord.simulator.nodes.demand import DemandModel
    from koord.simulator.nodes.machine import SimulatedMachine
    from koord.simulator.nodes.pod_lifecycle.kubelets import RecordEvent

FIELD_MANAGER = "koordlet"

# How often due reports are looked for; reports of one turn are computed together.
_TURN_SECONDS = 1.0
_FIRST_REPORT_SECONDS = 5.0
_RETRY_SECONDS = 5.0
_WRITES_AT_A_TIME = 16
_EXISTS, _NOT_FOUND = 409, 404
_LOG = log.get("simulator.agents")


class MetricView(Object):
    """A NodeMetric without its status, which only agents write."""

    spec: NodeMetricSpec = field(default_factory=NodeMetricSpec)


class _AgentWrite(NamedTuple):
    """An object to bring up to date."""

    what: Literal["topology", "device"]
    row: int


class _NodeEventRecorder:
    """A recorder that passes events on, if anybody listens."""

    def __init__(self, record: RecordEvent | None) -> None:
        self._record = record

    def event(self, about: Object, event_type: EventType, reason: str, message: str) -> None:
        """Says something of an object."""
        if self._record is not None:
            self._record(about, event_type, reason, message)


class SimulatedAgents:
    """Reports for many machines, and enforces what their NodeSLOs say.

    Args:
        client: the way to the API server.
        stand_in: makes NodeMetrics where no manager has.
        machines: what there is.
        pods: the cache of all pods, with an index by node.
        nodes: the cache of all nodes.
        model: what pods use.
        clock: for usage and for what is written down.
        seed: of the usage.
        gates: of every agent; which strategies run.
        record: tells of events; None for none.

    Attributes:
        load: what the machines' pods use.
        enforcement: what is done about it.
    """

    def __init__(
        self,
        client: Client,
        stand_in: Client,
        machines: Sequence[SimulatedMachine],
        pods: Informer[Pod],
        nodes: Informer[Node],
        model: DemandModel,
        clock: Clock,
        seed: int,
        gates: FeatureGates,
        record: RecordEvent | None = None,
    ) -> None:
        self._client, self._stand_in = client, stand_in
        self._machines = machines
        self._rows = {machine.name: row for row, machine in enumerate(machines)}
        self._pods = pods
        self._nodes = nodes
        self._clock = clock
        self._seed = seed
        self._record = record
        self._metrics: Informer[Any] = Informer(client, NodeMetric, project=MetricView)
        self._slos = Informer(client, NodeSLO)
        self._slos.on_change(
            self._slo_seen,
            lambda _, slo: self._slo_seen(slo),
            lambda slo, _: self._slo_gone(slo),
        )
        self._devices = Informer(client, Device)
        self._devices.on_change(
            updated=lambda _, device: self._device_changed(device),
            deleted=lambda device, _: self._device_changed(device),
        )
        self._topologies: Informer[Any] = Informer(client, NodeResourceTopology, project=Object)
        self._topologies.on_change(deleted=lambda topology, _: self._topology_gone(topology))
        for published in (self._devices, self._topologies):
            published.on_served(self._served)
        # Objects that were found to be somebody else's, by kind and name.
        self._left: set[tuple[str, str]] = set()
        load = PodUsageModel(
            [machine.pool.cpu for machine in machines],
            [machine.memory_bytes for machine in machines],
            model,
            seed,
        )
        self.load = load
        self._meter = NodeMetricMeter(machines, load, model.cold_start_seconds)
        self._meter.set_pods([])
        self._controller: Controller[_AgentWrite] = Controller(
            "simulated-agent", self._do, workers=8
        )
        self.enforcement = Enforcement(
            machines, load, gates, client, _NodeEventRecorder(record), clock
        )
        self._running = RunningPods(pods, self._rows, model, seed)
        self._pods_changed = True
        self._annotations: dict[int, dict[str, str]] = {}
        self._next_report: dict[int, float] = {}
        self._spread: set[int] = set()
        pods.on_change(self._pod_seen, lambda _, pod: self._pod_seen(pod), self._pod_gone)
        nodes.on_change(self._node_seen, lambda _, node: self._node_seen(node), self._node_gone)

    async def run(self) -> None:
        """Reports and enforces until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._metrics.run())
            tasks.create_task(self._devices.run())
            tasks.create_task(self._topologies.run())
            tasks.create_task(self._slos.run())
            tasks.create_task(self._controller.run())
            await self._metrics.synced()
            tasks.create_task(self.enforcement.run())
            tasks.create_task(self._sample())
            tasks.create_task(self._enforce())
            tasks.create_task(self._report())

    def series(self) -> bytes:
        """What the agents measured and decided, in Prometheus' text format."""
        names = [machine.name for machine in self._machines]
        return exposition(self.enforcement, names, self.load.read(self._clock.wall_seconds()))

    def _slo_seen(self, slo: NodeSLO) -> None:
        row = self._rows.get(slo.metadata.name)
        if row is not None:
            # Until the first one comes nobody needs to know the pods that well.
            self._pods_changed |= self.enforcement.idle
            self.enforcement.set_slo(row, slo.spec)

    def _slo_gone(self, slo: NodeSLO) -> None:
        row = self._rows.get(slo.metadata.name)
        if row is not None:
            self.enforcement.set_slo(row, None)

    def _node_seen(self, node: Node) -> None:
        row = self._rows.get(node.metadata.name)
        if row is None:
            return
        self.enforcement.nodes.put(row, node_row(node))
        if row not in self._next_report:
            now = asyncio.get_running_loop().time()
            self._next_report[row] = now + self._phase(row) * _FIRST_REPORT_SECONDS
            self._spread.discard(row)
            if self._machines[row].gpus:
                self._controller.queue.add(_AgentWrite("device", row))
        self._controller.queue.add(_AgentWrite("topology", row))

    def _phase(self, row: int) -> float:
        """A machine's place in its interval, from 0 to 1."""
        return rng.stream(self._seed, "report", self._machines[row].name).random()

    def _node_gone(self, node: Node, final_state_unknown: bool) -> None:
        del final_state_unknown
        row = self._rows.get(node.metadata.name)
        if row is not None:
            self.enforcement.nodes.put(row, NodeRow())
            # What the agent published belongs to the node and goes with it.
            self._next_report.pop(row, None)
            self._annotations.pop(row, None)

    def _device_changed(self, device: Device) -> None:
        """An agent reports its devices again, whatever somebody has made of the object."""
        row = self._rows.get(device.metadata.name)
        if row is not None and self._machines[row].gpus:
            self._controller.queue.add(_AgentWrite("device", row))

    def _topology_gone(self, topology: Object) -> None:
        """An agent reports its topology again."""
        row = self._rows.get(topology.metadata.name)
        if row is not None:
            self._annotations.pop(row, None)
            self._controller.queue.add(_AgentWrite("topology", row))

    def _served(self, served: bool) -> None:
        """A kind that comes has nothing of the machines yet."""
        for row in self._next_report if served else ():
            self._controller.queue.add(_AgentWrite("topology", row))
            if self._machines[row].gpus:
                self._controller.queue.add(_AgentWrite("device", row))

    def _pod_seen(self, pod: Pod) -> None:
        row = self._rows.get(pod.spec.node_name)
        if row is None:
            return
        self._pods_changed = True
        if keys.RESOURCE_STATUS in pod.metadata.annotations:
            self._controller.queue.add(_AgentWrite("topology", row))

    def _pod_gone(self, pod: Pod, final_state_unknown: bool) -> None:
        del final_state_unknown
        self._running.forget(pod.metadata.uid)
        self._pod_seen(pod)

    async def _do(self, duty: _AgentWrite) -> float | None:
        faults.point("simulator.agent.write")
        node = self._nodes.get(self._machines[duty.row].name)
        kind = self._topologies if duty.what == "topology" else self._devices
        if node is None or not kind.served:
            return None
        try:
            await (self._topology if duty.what == "topology" else self._device)(duty.row, node)
        except (ApiError, TransportError) as error:
            told = log.fields(node=node.metadata.name, object=duty.what, error=error)
            _LOG.warning("agent could not publish", extra=told)
            return _RETRY_SECONDS
        return None

    async def _topology(self, row: int, node: Node) -> None:
        machine = self._machines[row]
        annotations = published_objects.pool_annotations(
            machine, self._bound(machine), _reservation(node)
        )
        if self._annotations.get(row) == annotations:
            return
        document = published_objects.topology(machine, node.metadata.uid, annotations)
        self._learn_cpus(row, document)
        await self._publish(NodeResourceTopology, document, node)
        self._annotations[row] = annotations

    async def _device(self, row: int, node: Node) -> None:
        document = published_objects.device(self._machines[row], node.metadata.uid)
        known = self._devices.get(node.metadata.name)
        if known is None or known.spec != decode_as(document, Device).spec:
            await self._publish(Device, document, node)

    async def _publish(self, what: type[Object], document: Document, node: Node) -> None:
        """Creates an object, or brings what agents own of it up to date."""
        kind = kind_of_type(what)
        try:
            await self._client.create(document, field_manager=FIELD_MANAGER, kind=kind)
            return
        except ApiError as error:
            if error.http_status != _EXISTS:
                raise
        name = document["metadata"]["name"]
        listed = await self._client.list(what, field_selector=f"metadata.name={name}")
        if not listed.items:
            return  # it has just gone, and comes again
        found = listed.items[0]
        if self._is_left(kind.name, found, node):
            return
        if isinstance(found, NodeResourceTopology):
            document = _beside_others(found, document)
        await self._client.patch(
            Object, name, Patch.merge(document), field_manager=FIELD_MANAGER, kind=kind
        )

    def _is_left(self, kind: str, existing: Object, node: Node) -> bool:
        """Whether an object is its author's; tells so once."""
        left = existing.metadata.annotations.get(keys.MANAGED) == "false"
        known = (kind, existing.metadata.name)
        if left and known not in self._left and self._record is not None:
            text = f'{kind} {existing.metadata.name} is annotated {keys.MANAGED}: "false"'
            self._record(node, "Normal", "LeftToAuthor", f"{text}; nothing is reported in it")
        (self._left.add if left else self._left.discard)(known)
        return left

    def _bound(self, machine: SimulatedMachine) -> list[tuple[Any, str]]:
        """QoS class and CPUs of the pods on a machine that are bound to some."""
        found = []
        for pod in self._pods.by_index(BY_NODE, machine.name):
            if keys.RESOURCE_STATUS not in pod.metadata.annotations or _ended(pod):
                continue
            try:
                cpus = resource_status(pod).cpuset
            except KoordError:
                continue
            if cpus:
                found.append((qos_with_default(pod), cpus))
        return found

    def _learn_cpus(self, row: int, topology: Document) -> None:
        """Whose the machine's CPUs are, as its topology and its pods say."""
        machine = self._machines[row]
        pods = [
            pod_view(pod)
            for pod in self._pods.by_index(BY_NODE, machine.name)
            if keys.RESOURCE_STATUS in pod.metadata.annotations and not _ended(pod)
        ]
        reserved = keys.NODE_RESERVATION in topology["metadata"]["annotations"]
        cpus = whole(machine)
        if pods or reserved:
            cpus = host_cpus(machine, decode_as(topology, NodeResourceTopology), pods)
        self.enforcement.suppression.cpus.put(row, cpus)

    async def _sample(self) -> None:
        while True:
            self._refresh()
            self._meter.sample(self._clock.wall_seconds())
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _enforce(self) -> None:
        """Without a NodeSLO there is nothing to do."""
        while True:
            if not self.enforcement.idle:
                self._refresh()
                self.enforcement.step()
            await asyncio.sleep(ROUND_SECONDS)

    def _refresh(self) -> None:
        """Takes up what became of the pods."""
        if self._pods_changed:
            self._pods_changed = False
            loads = self._running.all()
            self._meter.set_pods(loads)
            if not self.enforcement.idle:
                rows = [load.node for load in loads]
                self.enforcement.set_pods(self._running.strategy_pods(), rows)

    async def _report(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            due = sorted(row for row, when in self._next_report.items() if when <= now)
            if due:
                await self._report_on(due, now)
            await asyncio.sleep(_TURN_SECONDS)

    async def _report_on(self, due: Sequence[int], now: float) -> None:
        known = [self._metrics.get(self._machines[row].name) for row in due]
        policies = [policy_of(each.spec.metric_collect_policy if each else None) for each in known]
        for row, policy in zip(due, policies, strict=True):
            # Machines start together; from their second report on they are spread evenly.
            share = 1.0 if row in self._spread else self._phase(row)
            self._spread.add(row)
            self._next_report[row] = now + share * policy.interval_seconds
        statuses = self._meter.statuses(due, policies, self._clock.wall_seconds())
        writes = [
            (row, status)
            for row, view, status in zip(due, known, statuses, strict=True)
            if self._metrics.served and not (view and self._is_metric_left(view))
        ]
        for start in range(0, len(writes), _WRITES_AT_A_TIME):
            few = writes[start : start + _WRITES_AT_A_TIME]
            await asyncio.gather(*(self._write(row, status, now) for row, status in few))
            # Who else waits for the loop, such as a client of the server, has a turn.
            await asyncio.sleep(0)

    def _is_metric_left(self, view: MetricView) -> bool:
        node = self._nodes.get(view.metadata.name)
        return node is None or self._is_left(NodeMetric.__name__, view, node)

    async def _write(self, row: int, status: Document, now: float) -> None:
        """Writes one status; where that fails, the next turn but a few tries again."""
        name = self._machines[row].name
        kind = kind_of_type(NodeMetric)
        patch = Patch.merge({"status": status})
        try:
            faults.point("simulator.agent.report")
            if self._metrics.get(name) is None:
                await self._create_metric(row, kind)
            await self._client.patch(
                Object, name, patch, subresource="status", field_manager=FIELD_MANAGER, kind=kind
            )
        except (ApiError, TransportError) as error:
            _LOG.warning("agent could not report", extra=log.fields(node=name, error=error))
            if row in self._next_report:
                self._next_report[row] = now + _RETRY_SECONDS

    async def _create_metric(self, row: int, kind: Kind) -> None:
        machine = self._machines[row]
        node = self._nodes.get(machine.name)
        if node is None:
            return
        metadata = {
            "name": machine.name,
            "labels": published_objects.MANAGED_BY,
            "ownerReferences": [published_objects.owner(machine, node.metadata.uid)],
        }
        document = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
        try:
            await self._stand_in.create({**document, "spec": {}}, field_manager=FIELD_MANAGER)
        except ApiError as error:
            if error.http_status != _EXISTS:
                raise


def _beside_others(existing: NodeResourceTopology, document: Document) -> Document:
    """What of a topology is to change for an agent; zones are replaced as a whole, so what others
    keep in them goes along, and the version that was seen."""
    change = topology_changes(existing, decode_as(document, NodeResourceTopology)) or {}
    owners = document["metadata"]["ownerReferences"]
    seen = {"ownerReferences": owners, "resourceVersion": existing.metadata.resource_version}
    return {**change, "metadata": change.get("metadata", {}) | seen}


def _ended(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def _reservation(node: Node) -> Any:
    """The node's reservation; none where it is malformed, as agents take it."""
    try:
        return node_reservation(node)
    except KoordError:
        return None
