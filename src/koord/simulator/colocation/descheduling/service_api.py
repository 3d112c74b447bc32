# SPDX-License-Identifier: Apache-2.0
"""An API server in virtual time on which the services are Deployments, and their kubelets.

Deployments are carried out by the built-in controllers. A pod that is bound is ready after
:data:`START_SECONDS`; one that is deleted serves no more, and is gone after :data:`STOP_SECONDS`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from koord.api import crds
from koord.api.kinds.pod import Pod
from koord.controllers.cluster.views import InformerViews
from koord.controlplane.controllers import BuiltinControllers
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube import crds as cluster_crds
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.kube.patches import Patch
from koord.simulator.colocation.descheduling.workloads import (
    NAMESPACE,
    PRIORITY_CLASS,
    manifest,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from koord.base.clock import VirtualClock
    from koord.kube.transport.messages import Transport
    from koord.simulator.colocation.descheduling.service_replicas import ServiceSlots
    from koord.simulator.colocation.descheduling.workloads import ServiceDeployment
    from koord.simulator.colocation.inputs.scenario import Scenario

START_SECONDS = 30.0
"""From a pod's binding until it is ready."""
STOP_SECONDS = 10.0
"""From a pod's deletion until it is gone."""
_PRIORITY = 9500
_CONTROLLERS = ("deployment", "replicaset")
# Nobody's connection breaks here: bookmarks would be most of what some fifty watches have to do.
_BOOKMARK_SECONDS = 86_400.0


class DayStoppedError(Exception):
    """A day that was stopped before its end."""


class ServiceApi:
    """The server, its controllers and kubelets.

    Args:
        clock: of the loop that runs it.
        seed: of uids and generated names.
        stopped: whether nobody wants more of the day.
    """

    def __init__(self, clock: VirtualClock, seed: int, stopped: Callable[[], bool]) -> None:
        self._clock, self._stopped = clock, stopped
        self._plane = EmbeddedControlPlane(
            Options(port=None, clock=clock, seed=seed, bookmark_seconds=_BOOKMARK_SECONDS)
        )
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failure: BaseException | None = None
        self._seen: set[tuple[str, bool]] = set()
        self._slots: ServiceSlots | None = None
        self._machine_of: dict[str, int] = {}

    async def start(self) -> None:
        """The server is there, with koord's kinds and the controllers of workloads."""
        await self._plane.start()
        self.client = self.new_client("simulation")
        names = []
        async for name, _ in cluster_crds.install(self.client, crds(), force=True):
            names.append(name)
            self.check()
        await cluster_crds.wait_established(self.client, names, 60.0)
        controllers = BuiltinControllers(self.new_client("controllers"), self._clock, _CONTROLLERS)
        self.views = InformerViews(self.new_client("kubelets"))
        self.views.view(Pod).on_change(self._pod_changed, lambda old, new: self._pod_changed(new))
        self.keep(controllers.run)

    def new_client(self, name: str) -> Client:
        """A way in for one of the parts."""
        return Client(self.transport(), name, requests_per_second=None)

    def transport(self) -> Transport:
        """The same, for a client of another kind."""
        return self._plane.transport()

    def keep(self, run: Callable[[], Awaitable[Any]]) -> None:
        """Lets a part run until the end; see :meth:`check`."""

        async def running() -> None:
            await run()

        task = asyncio.create_task(running())
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            self._failure = self._failure or task.exception()

    def check(self) -> None:
        """Call often.

        Raises:
            DayStoppedError: nobody wants more of the day.
            Exception: what a part has failed of, without which it would go on as another day.
        """
        if self._failure is not None:
            raise self._failure
        if self._stopped():
            raise DayStoppedError

    async def create_services(
        self,
        scenario: Scenario,
        deployments: Sequence[ServiceDeployment],
        nodes: Sequence[str],
        machine: Sequence[int],
        scheduler: str,
        slots: ServiceSlots,
    ) -> None:
        """Deployments, whose pods are bound to the machines of their rows and ready at once.

        Args:
            scenario: the services.
            deployments: which.
            nodes: names, by machine.
            machine: of each row.
            scheduler: that later pods name.
            slots: told who serves what.
        """
        await self._create_frame(nodes)
        for each in deployments:
            self.check()
            await self.client.create(manifest(each, scenario.services[each.service], scheduler))
        total = sum(len(each.rows) for each in deployments)
        while len(pods := (await self.client.list(Pod, namespace=NAMESPACE)).items) < total:
            await asyncio.sleep(0.1)
        by_name: dict[str, list[Pod]] = {each.name: [] for each in deployments}
        for pod in sorted(pods, key=lambda pod: pod.metadata.name):
            by_name[pod.metadata.labels["app"]].append(pod)
        for each in deployments:
            for pod, row in zip(by_name[each.name], each.rows, strict=True):
                self.check()
                self._seen.add((pod.metadata.uid, False))
                await self.client.bind(pod, nodes[machine[row]])
                await self._make_ready(pod)
                slots.begin(pod.metadata.uid, row)
        self._slots = slots
        self.keep(self.views.run)
        await self.views.synced()

    async def _create_frame(self, nodes: Sequence[str]) -> None:
        """The namespace, the class of services, and the nodes as others name them."""
        meta = {"metadata": {"name": NAMESPACE}}
        await self.client.create({"apiVersion": "v1", "kind": "Namespace", **meta})
        await self.client.create(
            {
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": PRIORITY_CLASS}, "value": _PRIORITY,
            }
        )  # fmt: skip
        for row, name in enumerate(nodes):
            self._machine_of[name] = row
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
            await self.client.create(node)

    def _pod_changed(self, pod: Pod) -> None:
        """Kubelets begin and end pods, each once."""
        ends = pod.metadata.deletion_timestamp is not None
        key = pod.metadata.uid, ends
        if key in self._seen or not (ends or pod.spec.node_name) or self._slots is None:
            return
        self._seen.add(key)
        if ends:
            self._slots.leave(pod.metadata.uid)
        self.keep(lambda: self._stop(pod) if ends else self._begin(pod))

    async def _begin(self, pod: Pod) -> None:
        await asyncio.sleep(START_SECONDS)
        with suppress(ApiError):  # It may have gone meanwhile.
            await self._make_ready(pod)
            assert self._slots is not None
            machine = self._machine_of[pod.spec.node_name]
            labels, now = pod.metadata.labels, self._clock.monotonic_seconds()
            self._slots.enter(pod.metadata.uid, labels["app"], machine, now)

    async def _stop(self, pod: Pod) -> None:
        await asyncio.sleep(STOP_SECONDS)
        meta = pod.metadata
        with suppress(ApiError):
            await self.client.delete(
                Pod, meta.name, meta.namespace, uid=meta.uid, grace_period_seconds=0
            )

    async def _make_ready(self, pod: Pod) -> None:
        ready = [{"type": "Ready", "status": "True"}]
        change = {"status": {"phase": "Running", "conditions": ready}}
        meta = pod.metadata
        await self.client.patch(Pod, meta.name, Patch.strategic(change), meta.namespace, "status")

    async def close(self) -> None:
        """Ends everything."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._plane.stop()
