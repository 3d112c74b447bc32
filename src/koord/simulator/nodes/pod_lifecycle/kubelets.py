# SPDX-License-Identifier: Apache-2.0
"""The pods' part of all simulated kubelets: takes each pod through its stages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from koord.api.kinds.meta import Object
from koord.api.kinds.pod import Pod
from koord.api.timestamps import seconds_text
from koord.base import faults
from koord.base.loop_share import loop_share
from koord.kube.controller import Controller
from koord.kube.errors import ApiError
from koord.kube.events import EventType
from koord.kube.patches import Patch
from koord.simulator.nodes.pod_lifecycle import pod_stages, pod_status
from koord.simulator.nodes.pod_lifecycle.admission import KubeletAdmission

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.api.kinds.node import Node
    from koord.base.clock import Clock
    from koord.kube.client import Client
    from koord.kube.informers.informer import Informer
    from koord.simulator.nodes.machine import SimulatedMachine
    from koord.simulator.nodes.pod_lifecycle.pod_stages import PodStage

BY_NODE = "node"
FIELD_MANAGER = "kubelet"

# What it is about, event type, reason, message.
RecordEvent = Callable[[Object, EventType, str, str], None]

_NOT_FOUND, _CONFLICT, _TOO_LARGE = 404, 409, 413
# The status of more takes longer than others are to be kept waiting.
_MANY_CONTAINERS = 200
_FIRST_ADDRESS, _LAST_ADDRESS = 2, 254


class _DueStage(NamedTuple):
    """What is to happen to a pod, and when by the loop's time; ``taken`` once it has."""

    mark: tuple[str, str, int]
    due: float
    taken: bool = False


class Kubelets:
    """Drives the pods of many machines.

    Args:
        client: writes the pods' status and removes them.
        pods: the cache of all pods, with an index :data:`BY_NODE`.
        nodes: the cache of all nodes.
        machines: by name; pods on other nodes are left alone.
        steps: the stages, in the order in which they are tried.
        clock: for what is written down; what is waited for goes by the event loop.
        seed: of every delay and lot.
        record: tells of events; None for none.
        workers: writes in flight at a time.
    """

    def __init__(
        self,
        client: Client,
        pods: Informer[Pod],
        nodes: Informer[Node],
        machines: Mapping[str, SimulatedMachine],
        steps: Sequence[PodStage],
        clock: Clock,
        seed: int,
        record: RecordEvent | None = None,
        workers: int = 16,
    ) -> None:
        self._client = client
        self._pods = pods
        self._nodes = nodes
        self._admission = KubeletAdmission()
        self._machines = machines
        self._steps = steps
        self._clock = clock
        self._seed = seed
        self._record = record
        self._plans: dict[str, _DueStage] = {}
        self._addresses: dict[str, str] = {}
        self._controller: Controller[str] = Controller(
            "simulated-kubelet", self._reconcile, workers=workers
        )
        pods.on_change(added=self._seen, updated=lambda _, pod: self._seen(pod), deleted=self._gone)

    async def run(self) -> None:
        """Works until cancelled."""
        await self._controller.run()

    def _seen(self, pod: Pod) -> None:
        if pod.spec.node_name in self._machines:
            self._admission.seen(pod)
            self._controller.queue.add(_key(pod))

    def _gone(self, pod: Pod, final_state_unknown: bool) -> None:
        del final_state_unknown
        self._admission.gone(pod)
        self._plans.pop(_key(pod), None)
        self._addresses.pop(pod.metadata.uid, None)

    async def _reconcile(self, key: str) -> float | None:
        """Takes the pod's next stage if it is due; else says in how many seconds it is."""
        pod = self._pods.get(key)
        machine = self._machines.get(pod.spec.node_name) if pod else None
        stage = pod_stages.choose(self._steps, pod, self._seed) if pod and machine else None
        if pod is None or machine is None or stage is None:
            self._plans.pop(key, None)
            return None
        now = asyncio.get_running_loop().time()
        mark = (pod.metadata.uid, stage.name, pod_stages.restarts(pod))
        plan = self._plans.get(key)
        if plan is None or plan.mark != mark:
            plan = _DueStage(mark, now + self._left_seconds(stage, pod))
            self._plans[key] = plan
        if plan.taken:
            # The cache has not caught up with what was written.
            return None
        if plan.due > now:
            return plan.due - now
        await self._take(stage, pod, machine)
        if self._plans.get(key) == plan:
            self._plans[key] = plan._replace(taken=True)
        return None

    def _left_seconds(self, stage: PodStage, pod: Pod) -> float:
        """The delay of a stage; what a pod has run counts, also from before a restart of ours."""
        seconds = pod_stages.delay_seconds(stage, pod, self._seed)
        since = pod_stages.running_since(pod)
        if stage.delay.of != "duration" or since is None:
            return seconds
        return seconds - (self._clock.wall_seconds() - since)

    async def _take(self, stage: PodStage, pod: Pod, machine: SimulatedMachine) -> None:
        faults.point("simulator.kubelet.write")
        meta = pod.metadata
        try:
            if stage.next.delete:
                await self._client.delete(
                    Pod, meta.name, meta.namespace, uid=meta.uid, grace_period_seconds=0
                )
            elif refused := self._refused(stage, pod):
                await self._reject(pod, *refused)
                return
            else:
                await self._write(stage, pod, machine)
        except ApiError as error:
            if error.http_status == _TOO_LARGE:
                # It will be at every try.
                await self._reject(pod, "StatusTooLarge", "its status cannot be stored")
                return
            # Gone, or another pod of that name by now: the cache will tell.
            if error.http_status not in (_NOT_FOUND, _CONFLICT):
                raise
            return
        if self._record is not None:
            for event in stage.events:
                for container in pod.spec.containers:
                    text = event.message.format(container=container.name, image=container.image)
                    self._record(pod, event.type, event.reason, text)

    def _refused(self, stage: PodStage, pod: Pod) -> tuple[str, str] | None:
        node = self._nodes.get(pod.spec.node_name) if stage.next.started else None
        return self._admission.refusal(pod, node) if node is not None else None

    async def _reject(self, pod: Pod, reason: str, message: str) -> None:
        status = {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}"}
        await self._send(pod, _patch(pod, status))
        if self._record is not None:
            self._record(pod, "Warning", reason, message)

    async def _write(self, stage: PodStage, pod: Pod, machine: SimulatedMachine) -> None:
        address = self._address(pod, machine) if stage.next.containers == "running" else ""
        share = loop_share()
        if len(pod.spec.containers) > _MANY_CONTAINERS:
            await share.wait()
        with share.taken():
            now = seconds_text(self._clock.wall_seconds())
            status = pod_status.status(pod, stage.next, machine.address, address, now)
            patch = _patch(pod, status)
        await self._send(pod, patch)

    async def _send(self, pod: Pod, patch: Patch) -> None:
        await self._client.patch(
            Pod, pod.metadata.name, patch, pod.metadata.namespace, "status",
            field_manager=FIELD_MANAGER,
        )  # fmt: skip

    def _address(self, pod: Pod, machine: SimulatedMachine) -> str:
        """The pod's IP: the one it has, or the lowest that is free on its machine."""
        own = pod.status.pod_ip or self._addresses.get(pod.metadata.uid)
        if own:
            return own
        neighbours = self._pods.by_index(BY_NODE, machine.name)
        taken = {each.status.pod_ip for each in neighbours}
        taken.update(self._addresses.get(each.metadata.uid, "") for each in neighbours)
        numbers = range(_FIRST_ADDRESS, _LAST_ADDRESS + 1)
        free = (f"{machine.pod_prefix}.{number}" for number in numbers)
        # More pods than addresses: a scheduler that ignores the bound on pods made them.
        address = next((each for each in free if each not in taken), machine.address)
        self._addresses[pod.metadata.uid] = address
        return address


def _patch(pod: Pod, status: Mapping[str, object]) -> Patch:
    # The UID makes the server refuse a pod of the same name that came later.
    return Patch.strategic({"metadata": {"uid": pod.metadata.uid}, "status": status})


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
