# SPDX-License-Identifier: Apache-2.0
"""Gangs, networks and schedulers with gangs for tests, from few words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from msgspec import structs

from koord.api.codec import convert
from koord.api.kinds.network_topology import ClusterNetworkTopology
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import PodGroup
from koord.base.clock import VirtualClock
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.args_gangs_and_quota import CoschedulingArgs
from koord.controllers.scheduler.plugins.coscheduling.plugin import Coscheduling
from koord.controllers.scheduler.queue import events as ev
from koord.controllers.scheduler.scheduler import Scheduler
from tests.controllers.scheduler.decision.test_decider import Room
from tests.controllers.scheduler.pods import node, pod
from tests.controllers.scheduler.world import SomePlugins, Told

PREFIX = "gang.scheduling.koordinator.sh/"
LABEL = "pod-group.scheduling.sigs.k8s.io"


def member(name: str, gang: str = "g", least: object = 2, cpu: str = "2", **more: Any) -> Pod:
    """A pod of a gang declared by annotations; ``notes`` are more of them, without prefix."""
    notes = {"name": gang, "min-available": str(least), **more.pop("notes", {})}
    annotations = {PREFIX + key: value for key, value in notes.items() if value is not None}
    annotations.update(more.pop("annotations", {}))
    return pod(name, cpu=cpu, annotations=annotations, **more)


def grouped(name: str, gang: str = "g", cpu: str = "2", **more: Any) -> Pod:
    """A pod of a gang that a PodGroup declares."""
    return pod(name, cpu=cpu, labels={LABEL: gang, **more.pop("labels", {})}, **more)


def pod_group(name: str = "g", least: int = 2, **more: Any) -> PodGroup:
    """A PodGroup; ``notes`` are annotations without prefix, ``status`` in wire form."""
    notes = {PREFIX + key: value for key, value in more.pop("notes", {}).items()}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": notes}
    meta.update(more.pop("metadata", {}))
    status = more.pop("status", {})
    document = {"metadata": meta, "spec": {"minMember": least, **more}, "status": status}
    return convert(document, PodGroup, f"PodGroup {name}")


def bound(pod: Pod, node_name: str) -> Pod:
    """The pod as the API shows it once it is bound."""
    return structs.replace(pod, spec=structs.replace(pod.spec, node_name=node_name))


def layers(*names: str) -> ClusterNetworkTopology:
    """``default`` with layers from the highest down; each is labelled by its own name."""
    all_names = ["ClusterTopologyLayer", *names]
    specs = [
        {"topologyLayer": name, "parentTopologyLayer": above, "labelKey": [name]}
        for above, name in zip(all_names, names, strict=False)
    ]
    specs.append({"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": all_names[-1]})
    document = {"metadata": {"name": "default", "uid": "t"}, "spec": {"networkTopologySpec": specs}}
    return convert(document, ClusterNetworkTopology, "ClusterNetworkTopology default")


class GangRoom(Room):
    """CPU alone; wakes pods when there may be more of it."""

    def events(self) -> list[ev.HintedEvent]:
        return [ev.HintedEvent(ev.ASSIGNED_POD_DELETE), ev.HintedEvent(ev.NODE_ADD)]


class GangWorld:
    """A scheduler with Coscheduling and CPU as the only resource.

    Args:
        nodes: names and CPUs, or whole nodes.
        args: of the plugin, in Python names.
        more: more plugins by extension point, after Coscheduling.
    """

    def __init__(
        self,
        nodes: Mapping[str, str] | Iterable[Node] = (),
        args: Mapping[str, Any] | None = None,
        more: Mapping[str, list[Any]] | None = None,
    ) -> None:
        self.views, self.told = LocalViews(), Told()
        self.clock = VirtualClock(1_700_000_000.0)
        self.world = ClusterState(self.views, self.clock, None, self.told)
        self.plugin = Coscheduling(CoschedulingArgs(**(args or {})), self.world)
        more = more or {}
        points: dict[str, list[Any]] = {
            point: [self.plugin, *more.get(point, [])]
            for point in (
                "preEnqueue", "preFilter", "postFilter", "reserve", "permit", "preBind", "postBind"
            )
        }  # fmt: skip
        self.room = GangRoom()
        points["bind"] = more.get("bind", [])
        points["filter"] = [self.room, *more.get("filter", [])]
        points["score"] = [self.room, self.plugin]
        profile: Any = SomePlugins("koord-scheduler", points)
        self.scheduler = Scheduler(self.world, [profile], profile)
        if isinstance(nodes, Mapping):
            nodes = [node(name, cpu=cpu) for name, cpu in nodes.items()]
        for each in nodes:
            self.put(each)

    def put(self, *values: Any) -> None:
        for value in values:
            self.views.view(type(value)).put(value)

    def remove(self, value: Any) -> None:
        meta = value.metadata
        key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        self.views.view(type(value)).remove(key)

    async def schedule(self) -> None:
        """Decides all there is, and lets bindings end."""
        self.scheduler.queue.tick()
        self.scheduler.loop.schedule(5.0)
        await settle()

    def where(self) -> dict[str, str]:
        """Pods that count on a node, by name."""
        accounts = self.world.accounts
        return {
            info.pod.metadata.name: self.world.table.name(info.row)
            for info in sorted(accounts.pods().values(), key=lambda info: info.key)
        }

    def confirm(self) -> None:
        """The API says of all that count that they are bound."""
        for info in list(self.world.accounts.pods().values()):
            if not info.pod.spec.node_name:
                self.put(bound(info.pod, self.world.table.name(info.row)))

    def said(self, name: str, reason: str = "FailedScheduling") -> list[str]:
        """What events told of a pod."""
        return [text for about, why, text in self.told.events if (about, why) == (name, reason)]


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def running(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Runs a test in an event loop."""

    def run() -> None:
        asyncio.run(test())

    run.__name__ = test.__name__
    return run
