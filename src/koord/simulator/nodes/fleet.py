# SPDX-License-Identifier: Apache-2.0
"""Runs simulated machines against an API server: heartbeats, pods, and what agents report.

All machines share three informers and one work queue; what a machine does from time to time is a
key of that queue which comes back after its interval. Time is the event loop's, so that a virtual
loop runs a day of a cluster in seconds.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from koord.api.kinds.cluster import Lease
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.timestamps import micros_text, seconds_text
from koord.base import faults, log, rng
from koord.base.documents import Document
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity
from koord.kube.controller import Controller
from koord.kube.errors import ApiError, TransportError
from koord.kube.informers.informer import Informer
from koord.kube.patches import Patch
from koord.simulator.nodes import published_objects
from koord.simulator.nodes.agents.simulated_agents import SimulatedAgents
from koord.simulator.nodes.machine import machines
from koord.simulator.nodes.pod_lifecycle import pod_stages
from koord.simulator.nodes.pod_lifecycle.kubelets import BY_NODE, FIELD_MANAGER, Kubelets

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.kube.client import Client
    from koord.simulator.nodes.pod_lifecycle.kubelets import RecordEvent
    from koord.simulator.nodes.pools import NodePools

KUBELET_VERSION = "v1.35.4"

LEASE_INTERVAL_SECONDS = 10.0
STATUS_INTERVAL_SECONDS = 300.0
_RETRY_SECONDS = 2.0
_EXISTS, _NOT_FOUND = 409, 404
_LEASES = "kube-node-lease"
_LOG = log.get("simulator.nodes")


class _NodeWrite(NamedTuple):
    """Something a machine does again and again."""

    what: Literal["register", "lease", "status"]
    row: int


class Fleet:
    """Simulated machines.

    Args:
        client: the way to the API server; without a rate limit, since it speaks for all machines.
        pools: which machines, and how they behave.
        clock: for what is written down.
        seed: of every identity, delay and usage.
        record: tells of events; None for none.
        kubelet_version: what the nodes report.
        record_agent: tells of what agents do; as ``record`` by default.
        agent_client: the way of agents to the API server; as ``client`` by default.

    Attributes:
        machines: in the order of their rows.
        pods, nodes: caches of all there are.
        agents: of all machines.
    """

    def __init__(
        self,
        client: Client,
        pools: NodePools,
        clock: Clock,
        seed: int = 0,
        record: RecordEvent | None = None,
        kubelet_version: str = KUBELET_VERSION,
        record_agent: RecordEvent | None = None,
        agent_client: Client | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._seed = seed
        self._version = kubelet_version
        self.machines = machines(pools, seed)
        self._rows = {machine.name: row for row, machine in enumerate(self.machines)}
        self.pods = Informer(client, Pod, indexers={BY_NODE: lambda pod: [pod.spec.node_name]})
        self.nodes = Informer(client, Node)
        self.nodes.on_change(added=self._node_added)
        by_name = {machine.name: machine for machine in self.machines}
        steps = pod_stages.load_stages(chaos=pools.chaos)
        self._kubelets = Kubelets(
            client, self.pods, self.nodes, by_name, steps, clock, seed, record
        )
        self.agents = SimulatedAgents(
            agent_client or client, client, self.machines, self.pods, self.nodes, pools.demand,
            clock, seed, pools.agents.gates(), record_agent or record,
        )  # fmt: skip
        self._controller: Controller[_NodeWrite] = Controller(
            "simulated-node", self._do, workers=16
        )
        self._registered: set[int] = set()
        self._all_registered = asyncio.Event()

    @property
    def registered(self) -> int:
        """How many machines have registered so far."""
        return len(self._registered)

    def series(self) -> bytes:
        """What the agents of all machines measured and decided, in Prometheus' text format."""
        return self.agents.series()

    async def ready(self) -> None:
        """Waits until every machine has registered."""
        if self.machines:
            await self._all_registered.wait()

    async def run(self) -> None:
        """Runs all machines until cancelled."""
        for row in range(len(self.machines)):
            self._controller.queue.add(_NodeWrite("register", row))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.pods.run())
            tasks.create_task(self.nodes.run())
            tasks.create_task(self._controller.run())
            await self.pods.synced()
            await self.nodes.synced()
            tasks.create_task(self._kubelets.run())
            tasks.create_task(self.agents.run())

    def _node_added(self, node: Node) -> None:
        row = self._rows.get(node.metadata.name)
        if row is None:
            return
        # Machines do not beat in step: each begins somewhere in its interval.
        phase = rng.stream(self._seed, "phase", node.metadata.name).random()
        queue = self._controller.queue
        queue.add(_NodeWrite("lease", row))
        queue.add_after(_NodeWrite("lease", row), phase * LEASE_INTERVAL_SECONDS)
        if _is_reported(node, self.machines[row].capacity):
            queue.add_after(_NodeWrite("status", row), phase * STATUS_INTERVAL_SECONDS)
        else:
            queue.add(_NodeWrite("status", row))

    async def _do(self, duty: _NodeWrite) -> float | None:
        faults.point("simulator.node.write")
        try:
            return await getattr(self, f"_{duty.what}")(duty.row)  # type: ignore[no-any-return]
        except (ApiError, TransportError, KoordError) as error:
            # A machine goes on trying at its own pace, however long the server is away.
            told = log.fields(node=self.machines[duty.row].name, duty=duty.what, error=error)
            _LOG.warning("machine could not reach the API server", extra=told)
            return _RETRY_SECONDS

    async def _register(self, row: int) -> None:
        document = published_objects.node(self.machines[row], self._version, self._now())
        try:
            await self._client.create(document, field_manager=FIELD_MANAGER)
        except ApiError as error:
            # Here from an earlier run: its status is brought up to date when the informer has it.
            if error.http_status != _EXISTS:
                raise
        self._registered.add(row)
        if len(self._registered) == len(self.machines):
            self._all_registered.set()

    async def _status(self, row: int) -> float | None:
        machine = self.machines[row]
        node = self.nodes.get(machine.name)
        if node is None:
            return None
        since = {
            each.type: seconds_text(each.last_transition_time)
            for each in node.status.conditions
            # What is not so any more has changed just now.
            if each.last_transition_time is not None and each.reason.startswith("Kubelet")
        }
        status = published_objects.node_status(machine, self._version, self._now(), since)
        # Capacity that others add, such as batch resources, stays.
        patch = Patch.strategic({"status": status})
        await self._patch(Node, machine.name, patch, subresource="status")
        return STATUS_INTERVAL_SECONDS

    async def _lease(self, row: int) -> float | None:
        machine = self.machines[row]
        node = self.nodes.get(machine.name)
        if node is None:
            return None
        renewed = micros_text(self._clock.wall_seconds())
        change = {"spec": {"holderIdentity": machine.name, "renewTime": renewed}}
        try:
            await self._patch(Lease, machine.name, Patch.merge(change), namespace=_LEASES)
        except ApiError as error:
            if error.http_status != _NOT_FOUND:
                raise
            await self._create_lease(published_objects.lease(machine, node.metadata.uid, renewed))
        return LEASE_INTERVAL_SECONDS

    async def _create_lease(self, document: Document) -> None:
        try:
            await self._client.create(document, field_manager=FIELD_MANAGER)
        except ApiError as error:
            if error.http_status != _NOT_FOUND:
                raise
            await self._create_lease_namespace()
            await self._client.create(document, field_manager=FIELD_MANAGER)

    async def _create_lease_namespace(self) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _LEASES}}
        try:
            await self._client.create(namespace)
        except ApiError as error:
            if error.http_status != _EXISTS:
                raise

    async def _patch(self, kind: Any, name: str, patch: Patch, **options: Any) -> None:
        await self._client.patch(kind, name, patch, field_manager=FIELD_MANAGER, **options)

    def _now(self) -> str:
        return seconds_text(self._clock.wall_seconds())


def _is_reported(node: Node, capacity: dict[str, str]) -> bool:
    """Whether the status is one of a machine like this one, not of one before a change."""
    ready = any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
    had = node.status.capacity
    same = all(had.get(name) == Quantity.parse(text) for name, text in capacity.items())
    return ready and same
