# SPDX-License-Identifier: Apache-2.0
"""A scheduler without a cluster: views fed by hand, time moved by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from koord.api.kinds.meta import ObjectReference
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.base.clock import VirtualClock
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.scheduler import Scheduler


class Told:
    """Events that were said."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def __call__(self, about: Any, kind: str, reason: str, message: str) -> None:
        name = about.name if isinstance(about, ObjectReference) else about.metadata.name
        self.events.append((name, reason, message))


class SomePlugins:
    """A profile and a registry of plugin objects that exist already."""

    def __init__(self, name: str, points: Mapping[str, list[Any]]) -> None:
        self.scheduler_name = name
        self.args: dict[str, Any] = {}
        self._points = points
        self._made = {plugin.name: plugin for each in points.values() for plugin in each}

    def plugin_names(self) -> list[str]:
        return list(self._made)

    def at(self, point: str) -> list[str]:
        return [plugin.name for plugin in self._points.get(point, [])]

    def weight(self, name: str) -> int:
        return 1

    def make(self, name: str, args: Any, handle: Any) -> Any:
        return self._made[name]


def scheduler(
    points: Mapping[str, list[Any]],
    nodes: Iterable[Node] = (),
    pods: Iterable[Pod] = (),
    name: str = "koord-scheduler",
) -> tuple[Scheduler, LocalViews, VirtualClock, Told]:
    """A scheduler of some plugins; call ``loop.schedule`` inside an event loop."""
    views, clock, told = LocalViews(), VirtualClock(1_700_000_000.0), Told()
    world = ClusterState(views, clock, None, told)
    profile: Any = SomePlugins(name, points)
    made = Scheduler(world, [profile], profile)
    for each in nodes:
        views.view(Node).put(each)
    for pod in pods:
        views.view(Pod).put(pod)
    return made, views, clock, told
