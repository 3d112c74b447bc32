# SPDX-License-Identifier: Apache-2.0
"""A small cluster that lives through a history, and what must hold of it at every quiet moment.

The real embedded server, a real scheduler on it, in virtual time, with faults.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from koord.api import definitions
from koord.api.kinds.registry import KINDS
from koord.base import faults
from koord.base.clock import VirtualClock, VirtualLoop
from koord.controllers.scheduler import checker
from koord.controllers.scheduler.app import App
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.errors import ApiError, Status, TransportError
from koord.kube.patches import Patch
from tests.models.stock_scheduler import Cluster as PlainModel
from tests.models.stock_scheduler import amount, requests_of

Document = dict[str, Any]
CPUS, THREADS, GPUS = 8, 2, 2
QUIET_SECONDS = 60.0
GROUP = "scheduling.koordinator.sh/"
ALLOCATED, CPU_STATUS = GROUP + "reservation-allocated", GROUP + "resource-status"
DEVICES = GROUP + "device-allocated"
QUOTA = "quota.scheduling.koordinator.sh/"
MINOR = ("koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio")


def kind(name: str, group: str | None = None) -> Any:
    return next(k for k in KINDS if k.name == name and group in (None, k.group))


def conflict() -> ApiError:
    return ApiError(Status(status="Failure", reason="Conflict", code=409, message="injected"))


class History:
    """A cluster, its scheduler, and what a user does to them."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.plane = EmbeddedControlPlane(Options(port=None, seed=1, clock=clock))
        self.client: Client
        self.app: App
        self._task: asyncio.Task[None] | None = None
        self._made: Counter[str] = Counter()
        # Gangs whose members nobody has deleted or finished.
        self.whole: dict[str, int] = {}

    async def start(self) -> None:
        self.client = Client(self.plane.transport(), "user", requests_per_second=None)
        names = [name async for name, _ in installing.install(self.client, definitions.crds())]
        await installing.wait_established(self.client, names, 30.0)
        async for _ in installing.install(
            self.client, definitions.priority_classes(), kind("PriorityClass")
        ):
            pass
        namespace = {"apiVersion": "v1", "kind": "Namespace"}
        await self.client.create({**namespace, "metadata": {"name": "koordinator-system"}})
        await self.restart()

    async def restart(self) -> None:
        """The scheduler's process dies and another one begins, from the API alone."""
        await self.stop()
        client = Client(self.plane.transport(), "koord-scheduler", requests_per_second=None)
        registry = Registry(outside=[])
        wish = shipped(registry, "koord-scheduler", "default-scheduler")
        self.app = App(client, wish, self.clock, registry=registry)
        self._task = asyncio.create_task(self.app.run())
        await self.app.ready()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def name(self, what: str) -> str:
        self._made[what] += 1
        return f"{what}-{self._made[what]:03}"

    # What users do.

    async def add_node(self, gpus: bool) -> None:
        name = self.name("node")
        amounts = {"cpu": str(CPUS), "memory": "16Gi", "pods": "20"}
        if gpus:
            whole = str(100 * GPUS)
            amounts |= dict.fromkeys(MINOR, whole)
            amounts["koordinator.sh/gpu-memory"] = f"{16 * GPUS}Gi"
        labels = {"kubernetes.io/hostname": name, "zone": f"z{self._made['node'] % 2}"}
        await self._topology(name)
        if gpus:
            await self._device(name)
        status = {"capacity": amounts, "allocatable": amounts}
        ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        await self.client.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "status": {**status, "conditions": ready},
            }
        )
        await self.client.patch(kind("Node"), name, Patch.merge({"spec": {"taints": None}}))

    async def _topology(self, node: str) -> None:
        half = CPUS // 2
        detail = [
            {"id": cpu, "core": cpu // THREADS, "socket": cpu // half, "node": cpu // half}
            for cpu in range(CPUS)
        ]
        annotations = {
            "node.koordinator.sh/cpu-topology": json.dumps({"detail": detail}),
            "kubelet.koordinator.sh/cpu-manager-policy": '{"policy":"none"}',
        }
        await self.client.create(
            {
                "apiVersion": "topology.node.k8s.io/v1alpha1",
                "kind": "NodeResourceTopology",
                "metadata": {"name": node, "annotations": annotations},
                "topologyPolicies": ["None"],
                "zones": [],
            }
        )

    async def _device(self, node: str) -> None:
        each = dict.fromkeys(MINOR, "100") | {"koordinator.sh/gpu-memory": "16Gi"}
        devices = [
            {"type": "gpu", "id": f"{node}-{minor}", "minor": minor, "health": True,
             "resources": each}
            for minor in range(GPUS)
        ]  # fmt: skip
        await self.client.create(
            {
                "apiVersion": "scheduling.koordinator.sh/v1alpha1",
                "kind": "Device",
                "metadata": {"name": node},
                "spec": {"devices": devices},
            }
        )

    async def remove_node(self, at: int) -> None:
        nodes = await self.list("Node")
        if nodes:
            name = nodes[at % len(nodes)]["metadata"]["name"]
            for each in ("Device", "NodeResourceTopology"):
                await self._delete(each, name)
            await self._delete("Node", name)
            # Nobody collects pods here: they go with their machine.
            for pod in await self.list("Pod"):
                if pod["spec"].get("nodeName") == name:
                    await self._delete_pod(pod)

    async def cordon(self, at: int, off: bool) -> None:
        nodes = await self.list("Node")
        if nodes:
            name = nodes[at % len(nodes)]["metadata"]["name"]
            change = Patch.merge({"spec": {"unschedulable": off}})
            await self.client.patch(kind("Node"), name, change)

    async def add_pod(self, form: str, cpu: int, quota: str = "", owner: str = "") -> None:
        name = self.name("pod")
        labels = {"form": form, **({"owner": owner} if owner else {})}
        if quota:
            labels[QUOTA + "name"] = quota
        await self.client.create(pod(name, form, cpu, labels))

    async def add_gang(self, size: int, form: str, cpu: int) -> None:
        gang = self.name("gang")
        self.whole[gang] = size
        annotations = {
            "gang.scheduling.koordinator.sh/name": gang,
            "gang.scheduling.koordinator.sh/min-available": str(size),
        }
        for number in range(size):
            made = pod(f"{gang}-{number}", form, cpu, {"gang": gang})
            made["metadata"].setdefault("annotations", {}).update(annotations)
            await self.client.create(made)

    async def add_reservation(self, cpu: int, policy: str, once: bool) -> None:
        name = self.name("reservation")
        template = pod("", "plain", cpu, {})
        owners = [{"labelSelector": {"matchLabels": {"owner": "r"}}}]
        spec = {"template": {"spec": template["spec"]}, "owners": owners, "ttl": "0s"}
        await self.client.create(
            {
                "apiVersion": "scheduling.koordinator.sh/v1alpha1",
                "kind": "Reservation",
                "metadata": {"name": name},
                "spec": {**spec, "allocateOnce": once, "allocatePolicy": policy},
            }
        )

    async def set_quota(self, name: str, most: int) -> None:
        spec = {"min": {"cpu": "0", "memory": "0"}, "max": {"cpu": str(most), "memory": "64Gi"}}
        document = {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": name, "namespace": "default"},
            "spec": spec,
        }
        await self.client.apply(document, force=True)

    async def delete(self, what: str, at: int) -> None:
        found = await self.list(what)
        if not found:
            return
        chosen = found[at % len(found)]
        if what == "Pod":
            await self._delete_pod(chosen)
        else:
            await self._delete(what, chosen["metadata"]["name"])

    async def finish(self, at: int) -> None:
        """A bound pod ends well."""
        bound = [p for p in await self.list("Pod") if p["spec"].get("nodeName") and alive(p)]
        if bound:
            chosen = bound[at % len(bound)]["metadata"]
            self.whole.pop(chosen.get("labels", {}).get("gang", ""), None)
            change = Patch.merge({"status": {"phase": "Succeeded"}})
            await self.client.patch(
                kind("Pod"), chosen["name"], change, "default", subresource="status"
            )

    async def _delete_pod(self, found: Document) -> None:
        self.whole.pop(found["metadata"].get("labels", {}).get("gang", ""), None)
        await self._delete("Pod", found["metadata"]["name"], "default")

    async def _delete(self, what: str, name: str, namespace: str = "") -> None:
        try:
            await self.client.delete(kind(what), name, namespace, grace_period_seconds=0)
        except ApiError as error:
            if error.http_status != 404:
                raise

    async def with_faults(self, point: str, rate: float, seed: int, lost: bool) -> None:
        """The next while, calls of everybody fail: refused, or without an answer."""
        error: BaseException = TransportError("injected", sent=False) if lost else conflict()
        plan = faults.Plan(seed=seed, rules={point: faults.Rule(rate=rate, error=error)})
        with faults.inject(plan):
            await asyncio.sleep(5.0)
        # What a failed bind released may be taken by others before the gang is planned again.
        pods = await self.list("Pod")
        for gang, size in list(self.whole.items()):
            if 0 < len([p for p in members(pods, gang) if p["spec"].get("nodeName")]) < size:
                del self.whole[gang]

    async def list(self, what: str) -> list[Document]:
        group = "scheduling.sigs.k8s.io" if what == "ElasticQuota" else None
        found = await self.client.list(kind(what, group))
        return sorted(found.items, key=lambda each: each["metadata"]["name"])

    # What must hold.

    async def settle(self) -> None:
        """Waits until nothing more happens, and looks at everything."""
        for _ in range(5):
            version = self.app.world.table.version, self.app.scheduler.loop.decided
            await asyncio.sleep(QUIET_SECONDS)
            if version == (self.app.world.table.version, self.app.scheduler.loop.decided):
                break
        await self.check()

    async def check(self) -> None:
        nodes = {n["metadata"]["name"]: n for n in await self.list("Node")}
        pods = [p for p in await self.list("Pod") if alive(p)]
        held = await self.list("Reservation")
        _no_overcommit(nodes, pods, held)
        _cpus_once(pods)
        _devices_once(pods)
        _quotas(await self.list("ElasticQuota"), pods)
        _reservations(held, pods)
        self._gangs(pods)
        self._nothing_left(nodes, pods, held)
        drift = checker.drift(self.app.scheduler)
        assert not any(drift.values()), drift
        self._rebuilt()

    def _gangs(self, pods: list[Document]) -> None:
        for gang, size in self.whole.items():
            found = members(pods, gang)
            bound = sum(1 for p in found if p["spec"].get("nodeName"))
            if len(found) == size:
                assert bound in (0, size), f"{gang}: {bound} of {size} are bound"

    def _nothing_left(
        self, nodes: dict[str, Document], pods: list[Document], held: list[Document]
    ) -> None:
        """No plain pod waits while the plain model has a node for it."""
        model = PlainModel()
        for node in nodes.values():
            model.nodes[node["metadata"]["name"]] = node
        for each in pods:
            if each["spec"].get("nodeName") in nodes:
                model.placed.append((each, each["spec"]["nodeName"]))
        for reservation in held:
            if is_active(reservation):
                rest = _rest(reservation, pods)
                model.placed.append((rest, rest["spec"]["nodeName"]))
        for each in pods:
            labels = each["metadata"].get("labels", {})
            if each["spec"].get("nodeName") or labels.get("form") != "plain":
                continue
            if QUOTA + "name" in labels or "gang" in labels or "owner" in labels:
                continue
            fits = [name for name in nodes if model.refusal(each, name) is None]
            assert not fits, f"{each['metadata']['name']} waits, and fits on {fits}"

    def _rebuilt(self) -> None:
        """Amounts by node are what a scheduler that begins now adds up from the API."""
        table = self.app.world.table
        for name in table.names():
            row = table.row(name)
            assert row is not None
            assert (table.requested[:, row] >= 0).all(), name


def pod(name: str, form: str, cpu: int, labels: dict[str, str]) -> Document:
    """A pod of one of several forms; deleted at once, as no kubelet would confirm it."""
    requests = {"cpu": str(cpu), "memory": "256Mi"}
    labels, annotations, spec = dict(labels), {}, {}
    if form == "bound":
        labels["koordinator.sh/qosClass"] = "LSR"
        spec["priorityClassName"] = "koord-prod"
        annotations[GROUP + "resource-spec"] = '{"preferredCPUBindPolicy":"FullPCPUs"}'
    elif form == "share":
        requests |= dict.fromkeys(MINOR, "50")
    elif form == "gpus":
        requests |= {resource: str(100 * cpu) for resource in MINOR}
        requests["cpu"] = "1"
    elif form == "high":
        spec["priorityClassName"] = "koord-prod"
    elif form == "apart":
        term = {"topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"form": "apart"}}}  # fmt: skip
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        spec["affinity"] = {"podAntiAffinity": rule}
    elif form == "broken":
        annotations[GROUP + "resource-spec"] = "{"
    container = {"name": "main", "image": "i",
                 "resources": {"requests": requests, "limits": requests}}  # fmt: skip
    metadata: Document = {"namespace": "default", "labels": labels, "annotations": annotations}
    if name:
        metadata["name"] = name
    base = {"schedulerName": "koord-scheduler", "terminationGracePeriodSeconds": 0}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**base, "containers": [container], **spec},
    }


def members(pods: list[Document], gang: str) -> list[Document]:
    return [p for p in pods if p["metadata"].get("labels", {}).get("gang") == gang]


def alive(pod: Document) -> bool:
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def is_active(reservation: Document) -> bool:
    return reservation.get("status", {}).get("phase") == "Available"


def _owners(reservation: Document, pods: list[Document]) -> list[Document]:
    uid = reservation["metadata"]["uid"]
    found = []
    for each in pods:
        mark = each["metadata"].get("annotations", {}).get(ALLOCATED)
        if mark and json.loads(mark)["uid"] == uid and each["spec"].get("nodeName"):
            found.append(each)
    return found


def _rest(reservation: Document, pods: list[Document]) -> Document:
    """What is left of a reservation, as a pod in its place."""
    held = {k: amount(k, v) for k, v in reservation["status"]["allocatable"].items()}
    used: Counter[str] = Counter()
    for each in _owners(reservation, pods):
        used.update(requests_of(each))
    left = {name: max(0, total - used[name]) for name, total in held.items()}
    texts = {name: f"{value}m" if name == "cpu" else str(value) for name, value in left.items()}
    container = {"name": "held", "resources": {"requests": texts}}
    return {
        "metadata": {"name": reservation["metadata"]["name"], "namespace": "default"},
        "spec": {"nodeName": reservation["status"]["nodeName"], "containers": [container]},
    }


def _no_overcommit(nodes: dict[str, Document], pods: list[Document], held: list[Document]) -> None:
    there = [*pods, *(_rest(r, pods) for r in held if is_active(r))]
    for name, node in nodes.items():
        used: Counter[str] = Counter()
        for each in there:
            if each["spec"].get("nodeName") == name:
                used.update(requests_of(each))
        for resource, text in node["status"]["allocatable"].items():
            total = amount(resource, text)
            assert used[resource] <= total, f"{name}: {used[resource]} of {total} {resource}"


def _cpus_once(pods: list[Document]) -> None:
    taken: dict[tuple[str, int], str] = {}
    for each in pods:
        text = each["metadata"].get("annotations", {}).get(CPU_STATUS)
        node = each["spec"].get("nodeName")
        cpuset = json.loads(text).get("cpuset", "") if text and node else ""
        cpus = [cpu for part in cpuset.split(",") if part for cpu in _span(part)]
        if cpus:
            assert len(cpus) * 1000 == requests_of(each)["cpu"], each["metadata"]["name"]
        for cpu in cpus:
            other = taken.setdefault((node, cpu), each["metadata"]["name"])
            assert other == each["metadata"]["name"], f"{node} CPU {cpu}: {other} and another"


def _span(part: str) -> range:
    first, _, last = part.partition("-")
    return range(int(first), int(last or first) + 1)


def _devices_once(pods: list[Document]) -> None:
    used: Counter[tuple[str, int, str]] = Counter()
    for each in pods:
        text = each["metadata"].get("annotations", {}).get(DEVICES)
        node = each["spec"].get("nodeName")
        if not text or not node:
            continue
        for device in json.loads(text).get("gpu", []):
            for resource in MINOR:
                value = int(str(device["resources"].get(resource, "0")))
                used[node, device["minor"], resource] += value
    for key, value in used.items():
        assert value <= 100, f"{key}: {value} of 100"


def _quotas(quotas: list[Document], pods: list[Document]) -> None:
    for quota in quotas:
        name = quota["metadata"]["name"]
        most = quota.get("spec", {}).get("max", {}).get("cpu")
        if most is None or not name.startswith("team"):
            continue
        used = sum(
            requests_of(each)["cpu"]
            for each in pods
            if each["spec"].get("nodeName")
            and each["metadata"].get("labels", {}).get(QUOTA + "name") == name
        )
        assert used <= amount("cpu", str(most)), f"{name}: {used} of {most} CPU"


def _reservations(held: list[Document], pods: list[Document]) -> None:
    for reservation in held:
        if not is_active(reservation):
            continue
        status, name = reservation["status"], reservation["metadata"]["name"]
        owners = _owners(reservation, pods)
        listed = sorted(each["name"] for each in status.get("currentOwners", []))
        assert listed == sorted(each["metadata"]["name"] for each in owners), name
        used: Counter[str] = Counter()
        for each in owners:
            used.update(requests_of(each))
        told = {k: amount(k, str(v)) for k, v in status.get("allocated", {}).items()}
        for resource in status["allocatable"]:
            assert told.get(resource, 0) == used[resource], f"{name}: {resource}"


def live(history: Callable[[History], Awaitable[None]]) -> None:
    """Runs a history in virtual time."""
    clock = VirtualClock(1_700_000_000.0)

    async def run() -> None:
        made = History(clock)
        async with made.plane:
            await made.start()
            try:
                await history(made)
            finally:
                await made.stop()

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        runner.run(run())
