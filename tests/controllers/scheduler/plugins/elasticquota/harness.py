# SPDX-License-Identifier: Apache-2.0
"""A scheduler with the ElasticQuota plugin and one that looks at CPU, over views fed by hand."""

from __future__ import annotations

from typing import Any

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import ElasticQuota as CanonicalQuota
from koord.api.kinds.quota import GroupQuota
from koord.base.clock import VirtualClock
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.args_gangs_and_quota import ElasticQuotaArgs
from koord.controllers.scheduler.config.profiles import Profile
from koord.controllers.scheduler.feature_gates import feature_gates
from koord.controllers.scheduler.plugins.elasticquota import ElasticQuota
from koord.controllers.scheduler.scheduler import Scheduler
from tests.controllers.scheduler.decision.test_decider import Room
from tests.controllers.scheduler.world import Told


class WokenRoom(Room):
    def events(self) -> list[Any]:
        return []


class Registry:
    """Makes the two plugins."""

    def make(self, name: str, args: Any, handle: Any) -> Any:
        return ElasticQuota(args, handle) if name == "ElasticQuota" else WokenRoom()


class Cluster:
    """Objects go in by ``put``, come out by ``remove``; ``run`` decides whoever is active."""

    def __init__(self, client: Any = None, gates: str = "", **args: Any) -> None:
        self.views, self.told = LocalViews(), Told()
        self.clock = VirtualClock(1_700_000_000.0)
        self.world = ClusterState(self.views, self.clock, client, self.told, feature_gates(gates))
        profile = Profile(
            "koord-scheduler",
            {"preFilter": ("ElasticQuota",), "filter": ("Room",), "score": ("Room",),
             "postFilter": ("ElasticQuota",), "reserve": ("ElasticQuota",)},
            args={"ElasticQuota": ElasticQuotaArgs(**args)},
        )  # fmt: skip
        registry: Any = Registry()
        self.scheduler = Scheduler(self.world, [profile], registry)
        self.quota: ElasticQuota = next(p for p in self.scheduler.plugins if p.name != "Room")
        self.decider = self.scheduler.deciders["koord-scheduler"]

    def put(self, *objects: Any) -> None:
        for item in objects:
            self.views.view(_kind(item)).put(item.pod if isinstance(item, PodInfo) else item)

    def remove(self, *objects: Any) -> None:
        for item in objects:
            meta = (item.pod if isinstance(item, PodInfo) else item).metadata
            key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
            self.views.view(_kind(item)).remove(key)

    def run(self) -> list[str]:
        """Decides all active pods; the names of those that now have a node, sorted."""
        self.clock.advance(11.0)
        self.scheduler.queue.tick()
        self.scheduler.loop.schedule(5.0)
        return self.placed()

    def placed(self) -> list[str]:
        return sorted(p.pod.metadata.name for p in self.world.accounts.pods().values())

    def said(self, name: str) -> str:
        """The last event about an object."""
        return [message for about, _, message in self.told.events if about == name][-1]


def _kind(item: Any) -> type:
    if isinstance(item, PodInfo):
        return Pod
    return next(kind for kind in (Node, Pod, CanonicalQuota, GroupQuota) if isinstance(item, kind))
