# SPDX-License-Identifier: Apache-2.0
"""A small cluster that lives through a history: what happens to it, and when it is quiet.

The real embedded server, a real scheduler on it, in virtual time, in all weathers.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from koord.api import definitions
from koord.api.kinds.pod import Pod
from koord.base import faults
from koord.base.clock import VirtualClock, VirtualLoop
from koord.base.feature_gates import FeatureGates
from koord.controllers.scheduler.app import App
from koord.controllers.scheduler.consistency import checker
from koord.controllers.scheduler.registry import Registry
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.errors import ApiError, Status, TransportError
from koord.kube.events import EventRecorder
from koord.kube.patches import Patch
from tests.controllers.scheduler.histories import documents, invariants, rebuilt, room
from tests.controllers.scheduler.histories.documents import (
    GANG,
    PARENTS,
    QUOTA,
    Document,
    alive,
    kind,
    members,
    pod,
)
from tests.controllers.scheduler.histories.exclusivity import NUMA, CpuWatcher
from tests.controllers.scheduler.histories.weather import STORMS, StormyTransport, Weather

QUIET_SECONDS = 60.0
# What is charged before a quota is there, nobody checks.
_UNLIMITED = 1 << 40


def conflict() -> ApiError:
    return ApiError(Status(status="Failure", reason="Conflict", code=409, message="injected"))


class History:
    """A cluster, its scheduler, and what a user does to them.

    Attributes:
        whole: gangs whose members nobody has deleted or finished, with their size.
        least: how many of a gang's members were once enough, where that was changed.
        broken: those of them that a fault may have broken apart.
        bare, shrunk: nodes that tell nothing of their CPUs, and those that were made smaller.
        limits, floors: by quota its max, and what may be used of it still from before, milli CPU.
        weather: what the scheduler's calls meet.
        recorder: of its events, from the next restart on.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.plane = EmbeddedControlPlane(Options(port=None, seed=1, clock=clock))
        self.client: Client
        self.app: App
        self._task: asyncio.Task[None] | None = None
        self._made: Counter[str] = Counter()
        self.whole: dict[str, int] = {}
        self.least: dict[str, int] = {}
        self.broken: set[str] = set()
        self.floors: dict[str, int] = {}
        self.limits: dict[str, int] = {}
        self.shrunk: set[str] = set()
        self.bare: set[str] = set()
        self.weather = Weather()
        self.stormy = False
        self.cpus = CpuWatcher()
        self.checks = 0
        self.gates: FeatureGates | None = None
        self.recorder: EventRecorder | None = None

    async def start(self) -> None:
        self.client = Client(self.plane.transport(), "user", requests_per_second=None)
        names = [name async for name, _ in installing.install(self.client, definitions.crds())]
        await installing.wait_established(self.client, names, 30.0)
        async for _ in installing.install(
            self.client, definitions.priority_classes(), kind("PriorityClass")
        ):
            pass
        namespace = {"apiVersion": "v1", "kind": "Namespace"}
        for name in ("koordinator-system", documents.GUIDE_SPACE):
            await self.client.create({**namespace, "metadata": {"name": name}})
        await self.restart()

    async def restart(self) -> None:
        """The scheduler's process dies and another one begins, from the API alone."""
        await self.stop()
        transport = StormyTransport(self.plane.transport(), self.weather)
        client = Client(transport, "koord-scheduler", requests_per_second=None)
        registry = Registry(outside=[])
        wish = rebuilt.configuration(registry)
        self.app = App(client, wish, self.clock, self.recorder, self.gates, registry=registry)
        self.cpus.plugin = next(p for p in self.app.scheduler.plugins if p.name == NUMA)
        self.app.scheduler.loop.observe(self.cpus.observe)
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

    async def add_node(self, gpus: bool, bare: bool = False) -> None:
        """A node, with cards or without; a bare one says nothing of its CPUs."""
        name = self.name("node")
        if bare:
            self.bare.add(name)
        else:
            await self.client.create(documents.topology(name))
        if gpus:
            await self.client.create(documents.device(name))
        await self.client.create(documents.node(name, self._made["node"], gpus))
        await self.client.patch(kind("Node"), name, Patch.merge({"spec": {"taints": None}}))

    async def remove_node(self, at: int) -> None:
        found = await self._some("Node", at)
        if found is not None:
            name = found["metadata"]["name"]
            for each in ("Device", "NodeResourceTopology"):
                await self._delete(each, name)
            await self._delete("Node", name)
            # Nobody collects pods here: they go with their machine.
            for each in await self.list("Pod"):
                if each["spec"].get("nodeName") == name:
                    await self._delete_pod(each)

    async def come_back(self, at: int) -> None:
        """A node's object is deleted and made anew while its pods run on."""
        found = await self._some("Node", at)
        if found is not None:
            meta, name = found["metadata"], found["metadata"]["name"]
            await self._delete("Node", name)
            fresh = {**found, "metadata": {"name": name, "labels": meta.get("labels", {})}}
            await self.client.create(fresh)
            await self.client.patch(kind("Node"), name, Patch.merge({"spec": {"taints": None}}))

    async def cordon(self, at: int, off: bool) -> None:
        await self._change("Node", at, {"spec": {"unschedulable": off}})

    async def resize(self, at: int, cpu: int) -> None:
        found = await self._some("Node", at)
        if found is not None:
            self.shrunk.add(found["metadata"]["name"])
            await self._change("Node", at, {"status": {"allocatable": {"cpu": str(cpu)}}}, "status")

    async def resize_pod(self, at: int, cpu: int) -> None:
        """A user resizes a bound pod in place; its node may be too small for it."""
        found = await self._resizable(at)
        if found is not None:
            self.shrunk.add(found["spec"]["nodeName"])
            (container,) = found["spec"]["containers"]
            for amounts in container["resources"].values():
                amounts["cpu"] = str(cpu)
            await self._write(found, {"spec": {"containers": [container]}}, "resize")

    async def report(self, at: int, how: str) -> None:
        """A node says what a pod holds: what it asks for, or more; or that it will never."""
        found = await self._resizable(at)
        if found is not None:
            self.shrunk.add(found["spec"]["nodeName"])
            await self._write(found, {"status": documents.reported(found, how)}, "status")

    async def _resizable(self, at: int) -> Document | None:
        """A bound pod that nobody but its node counts: of no quota, gang or Reservation."""
        found = [
            each
            for each in await self.pods()
            if each["spec"].get("nodeName")
            and each["metadata"]["labels"].keys() == {"form"}
            and each["metadata"]["labels"]["form"] in ("plain", "high", "apart")
        ]
        return found[at % len(found)] if found else None

    async def _write(self, found: Document, change: Document, part: str) -> None:
        meta, patch = found["metadata"], Patch.merge(change)
        await self.client.patch(kind("Pod"), meta["name"], patch, meta["namespace"], part)

    async def relabel(self, at: int, zone: str) -> None:
        await self._change("Node", at, {"metadata": {"labels": {"zone": zone}}})

    async def lose_cards(self, at: int) -> None:
        """A node's Device goes, and comes back."""
        found = await self._some("Device", at)
        if found is not None:
            name = found["metadata"]["name"]
            await self._delete("Device", name)
            await asyncio.sleep(1.0)
            await self.client.create(documents.device(name))

    async def add_pod(self, form: str, cpu: int, quota: str = "", owner: str = "") -> None:
        name = self.name("pod")
        labels = {"form": form, **({"owner": owner} if owner else {})}
        if quota:
            labels[QUOTA + "name"] = quota
        await self.client.create(pod(name, form, cpu, labels))

    async def replace(self, at: int) -> None:
        """A pod is deleted, and another one of its name made at once."""
        found = await self._some("Pod", at)
        if found is None or "gang" in found["metadata"].get("labels", {}):
            return
        meta, labels = found["metadata"], found["metadata"].get("labels", {})
        cpu = int(found["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        await self._delete_pod(found)
        kept = {key: labels[key] for key in ("form", "owner", QUOTA + "name") if key in labels}
        await self.client.create(pod(meta["name"], labels.get("form", "plain"), cpu, kept))

    async def change(self, at: int, how: str) -> None:
        """A pod that waits is changed in what may be changed of it."""
        waiting = [p for p in await self.pods() if not p["spec"].get("nodeName")]
        alone = [p for p in waiting if "gang" not in p["metadata"]["labels"]]
        if alone:
            found = alone[at % len(alone)]
            change = documents.changed(found, how)
            team = change.get("metadata", {}).get("labels", {}).get(QUOTA + "name")
            # It may be on its way to a node already.
            self.floors |= {team: _UNLIMITED, PARENTS[team]: _UNLIMITED} if team else {}
            meta, patch = found["metadata"], Patch.merge(change)
            await self.client.patch(kind("Pod"), meta["name"], patch, meta["namespace"])

    async def resize_gang(self, at: int, least: int) -> None:
        found = await self._some("PodGroup", at)
        if found is not None:
            gang = found["metadata"]["name"]
            before = self.least.get(gang, found["spec"]["minMember"])
            self.least[gang] = min(before, least)
            patch = Patch.merge({"spec": {"minMember": least}})
            await self.client.patch(kind("PodGroup"), gang, patch, "default")

    async def group_gangs(self, at: int, together: bool) -> None:
        """The PodGroups from one on say that their gangs go together, or that each goes alone."""
        there = await self.list("PodGroup")
        found = there[at % len(there) :] if there else []
        names = [each["metadata"]["name"] for each in found]
        said = json.dumps([f"default/{name}" for name in names]) if together else None
        change = Patch.merge({"metadata": {"annotations": {GANG + "groups": said}}})
        for name in names:
            await self.client.patch(kind("PodGroup"), name, change, "default")

    async def add_gang(
        self, size: int, form: str, cpu: int, by: str = "annotations", owner: str = ""
    ) -> None:
        gang = self.name("gang")
        self.whole[gang] = size
        if self.stormy:
            self.broken.add(gang)
        labels, annotations = {"gang": gang, "form": form}, {}
        if owner:
            labels["owner"] = owner
        if by == "PodGroup":
            await self.client.create(documents.pod_group(gang, size))
            labels["pod-group.scheduling.sigs.k8s.io"] = gang
        else:
            annotations = {GANG + "name": gang, GANG + "min-available": str(size)}
        for number in range(size):
            made = pod(f"{gang}-{number}", form, cpu, labels)
            made["metadata"].setdefault("annotations", {}).update(annotations)
            await self.client.create(made)

    async def add_reservation(self, *wish: Any) -> None:
        """One as ``documents.reservation`` makes it."""
        await self.client.create(documents.reservation(self.name("reservation"), *wish))

    async def close_reservation(self, at: int, off: bool) -> None:
        await self._change("Reservation", at, {"spec": {"unschedulable": off}})

    async def set_quota(self, name: str, most: int) -> None:
        # Until the scheduler has heard of it, what was allowed before is: anything, if it was gone.
        before, concerned = self.limits.get(name, 0), {name}
        gone = name not in {each["metadata"]["name"] for each in await self.quotas()}
        if gone and name in self.limits:
            before, concerned = _UNLIMITED, {name, PARENTS.get(name, name)}
        for each in concerned:
            self.floors[each] = max(self.floors.get(each, 0), before)
        self.limits[name] = 1000 * most
        await self.client.apply(documents.quota(name, most), force=True)

    async def delete(self, what: str, at: int) -> None:
        found = await self._some(what, at)
        if found is not None:
            if what == "Pod":
                await self._delete_pod(found)
            else:
                namespace = found["metadata"].get("namespace", "")
                await self._delete(what, found["metadata"]["name"], namespace)

    async def finish(self, at: int) -> None:
        """A bound pod ends well."""
        bound = [p for p in await self.pods() if p["spec"].get("nodeName")]
        if bound:
            chosen = bound[at % len(bound)]["metadata"]
            self.whole.pop(chosen.get("labels", {}).get("gang", ""), None)
            change = Patch.merge({"status": {"phase": "Succeeded"}})
            await self.client.patch(
                kind("Pod"), chosen["name"], change, chosen["namespace"], subresource="status"
            )

    async def _delete_pod(self, found: Document) -> None:
        self.whole.pop(found["metadata"].get("labels", {}).get("gang", ""), None)
        await self._delete("Pod", found["metadata"]["name"], found["metadata"]["namespace"])

    async def _delete(self, what: str, name: str, namespace: str = "") -> None:
        try:
            await self.client.delete(kind(what), name, namespace, grace_period_seconds=0)
        except ApiError as error:
            if error.http_status != 404:
                raise

    async def _change(self, what: str, at: int, change: Document, part: str = "") -> None:
        found = await self._some(what, at)
        if found is not None:
            name = found["metadata"]["name"]
            await self.client.patch(kind(what), name, Patch.merge(change), subresource=part)

    async def _some(self, what: str, at: int) -> Document | None:
        found = await self.list(what)
        return found[at % len(found)] if found else None

    async def list(self, what: str) -> list[Document]:
        found = await self.client.list(kind(what))
        return sorted(found.items, key=lambda each: each["metadata"]["name"])

    async def quotas(self) -> list[Document]:
        """Of both kinds."""
        return [*await self.list("ElasticQuota"), *await self.list("GroupQuota")]

    async def pods(self) -> list[Document]:
        """Those that have not ended."""
        return [p for p in await self.list("Pod") if alive(p)]

    # What goes wrong.

    async def with_faults(self, point: str, rate: float, seed: int, lost: bool) -> None:
        """The next while, calls of everybody fail: refused, or without an answer."""
        error: BaseException = TransportError("injected", sent=False) if lost else conflict()
        plan = faults.FaultPlan(seed=seed, rules={point: faults.FaultRule(rate=rate, error=error)})
        with faults.inject(plan):
            await asyncio.sleep(5.0)
        await self._after_faults()

    def storm(self, name: str, seed: int) -> None:
        """Bad weather until :meth:`calm`, while the history goes on."""
        self.weather.change(STORMS[name], seed)
        self.stormy = True
        self.broken |= set(self.whole)

    async def calm(self) -> None:
        if self.stormy:
            self.weather.change(STORMS["calm"])
            self.stormy = False
            await self._after_faults()

    async def _after_faults(self) -> None:
        # What a failed bind released may be taken by others before the gang is planned again.
        pods = await self.list("Pod")
        for gang, size in self.whole.items():
            if 0 < len([p for p in members(pods, gang) if p["spec"].get("nodeName")]) < size:
                self.broken.add(gang)

    # What must hold.

    async def settle(self) -> None:
        """Waits until nothing more happens, and looks at everything."""
        await self.calm()
        for _ in range(5):
            version = self.app.world.table.version, self.app.scheduler.loop.decided
            await asyncio.sleep(QUIET_SECONDS)
            if version == (self.app.world.table.version, self.app.scheduler.loop.decided):
                break
        await self.check()

    async def check(self) -> None:
        self.checks += 1
        nodes = {n["metadata"]["name"]: n for n in await self.list("Node")}
        pods, held = await self.pods(), await self.list("Reservation")
        whole = {name: each for name, each in nodes.items() if name not in self.shrunk}
        invariants.no_overcommit(whole, pods, held)
        invariants.cpus_once(pods, nodes.keys())
        invariants.cpus_kept(pods, held)
        invariants.devices_once(pods, held)
        quotas = await self.quotas()
        invariants.quotas(quotas, pods, self.floors)
        self.floors = {name: invariants.quota_use(quotas, pods, name) for name in self.floors}
        invariants.pod_groups(await self.list("PodGroup"), await self.list("Pod"))
        invariants.reservations(held, pods)
        there = room.Room(nodes, pods, held, await self.list("Device"), self.bare)
        invariants.gangs(self.whole, self.least, self.broken, there, pods)
        room.nothing_left(there, pods)
        invariants.told(pods)
        assert not self.cpus.wrong, self.cpus.wrong
        drift = checker.drift(self.app.scheduler)
        assert not any(drift.values()), drift
        for followed in self.app.views.followed():
            await self.app.spot_check.check(followed)
        assert not self.app.spot_check.differing()
        await self._rebuilt()

    async def _rebuilt(self) -> None:
        """All that the scheduler believes is what one that begins now reads from the API."""
        live = self.app.scheduler
        assert not live.feed.assumed, sorted(each.key for each in live.feed.assumed.values())
        lists = {each: (await self.client.list(each)).items for each in self.app.views.kinds()}
        fresh = rebuilt.anew(lists, self.clock, self.checks, page=3 * (self.checks % 2))
        probes = [p for p in lists[Pod] if "gang" not in p.metadata.labels]
        found = rebuilt.differences(live, fresh, probes)
        assert not found, "\n".join(found)
        left = rebuilt.left_over(fresh, probes)
        assert not left, "\n".join(left)


class Faults(logging.Handler):
    """Keeps what the scheduler logs as an error: of weather only warnings may come."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("koord.scheduler"):
            raised = record.exc_info[1] if record.exc_info else None
            self.lines.append(f"{record.getMessage()} {raised!r}")


def live(history: Callable[[History], Awaitable[None]], expected: str = "") -> None:
    """Runs a history in virtual time.

    Args:
        history: what happens.
        expected: what may be logged as an error, nothing if empty.
    """
    clock = VirtualClock(1_700_000_000.0)

    async def run() -> None:
        made = History(clock)
        async with made.plane:
            await made.start()
            logger, seen = logging.getLogger("koord"), Faults()
            logger.addHandler(seen)
            try:
                await history(made)
            finally:
                await made.stop()
                logger.removeHandler(seen)
        wrong = [line for line in seen.lines if not expected or expected not in line]
        assert not wrong, wrong

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        runner.run(run())
