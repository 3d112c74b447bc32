# SPDX-License-Identifier: Apache-2.0
"""Two managers on one cluster: both follow it, the leader alone writes, the other takes over."""

from __future__ import annotations

import asyncio
from typing import Any

from koord.api import ConfigMap, Lease, NodeSLO
from koord.controllers.manager.app import LEASE, ManagerApp
from koord.controllers.manager.options import ManagerOptions
from koord.kube.client import Client
from koord.kube.election import LeaderElector
from koord.kube.events import EventRecorder
from koord.kube.patches import Patch
from tests.controllers.manager.cluster import Scene, add_node, perform

SYSTEM = "koordinator-system"


def contender(scene: Scene, name: str) -> ManagerApp:
    client = Client(scene.world.plane.transport(), name, requests_per_second=None)
    elector = LeaderElector(client, LEASE, SYSTEM, name, clock=scene.world.clock)
    recorder = EventRecorder(client, name, clock=scene.world.clock)
    return ManagerApp(client, ManagerOptions(), scene.world.clock, recorder, elector)


async def managers(scene: Scene) -> list[str]:
    """Who wrote the NodeSLOs."""
    found = (await scene.client.list(NodeSLO)).items
    return [each.metadata.name for each in found]


def test_the_leader_alone_writes_and_another_takes_over() -> None:
    async def script(scene: Scene) -> None:
        await scene.configure({})
        apps = [contender(scene, name) for name in ("one", "two")]
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(app.run()) for app in apps]
        for app in apps:
            await app.ready()
        await scene.settle(5)
        leading = [app.leading for app in apps]
        assert sorted(leading) == [False, True]
        gauges = [b"is_leader 1.0" in app.metrics.internal.expose() for app in apps]
        assert gauges == leading
        await add_node(scene, "a")
        assert await managers(scene) == ["a"]
        first = leading.index(True)
        # The lead goes while the configuration changes: who takes over goes by the new one.
        data = {"cpu-burst-config": '{"clusterStrategy":{"cpuBurstPercent":7}}'}
        tasks[first].cancel()
        await asyncio.gather(tasks[first], return_exceptions=True)
        assert b"is_leader 0.0" in apps[first].metrics.internal.expose()
        await scene.client.patch(
            ConfigMap, "slo-controller-config", Patch.merge({"data": data}), SYSTEM
        )
        await add_node(scene, "b")
        await scene.settle(60)
        assert await managers(scene) == ["a", "b"]
        found = (await scene.client.get(NodeSLO, "a")).spec.cpu_burst_strategy
        assert found is not None
        assert found.cpu_burst_percent == 7
        lease = await scene.client.get(Lease, LEASE, SYSTEM)
        assert lease.spec.holder_identity == ("two" if first == 0 else "one")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    perform(script)


def test_a_whole_namespace_is_all_that_is_looked_at_where_the_flag_says_so() -> None:
    options = ManagerOptions(namespace="only", sync_period="30s", controllers="quotaprofile")

    async def script(scene: Scene) -> None:
        await scene.start("quotaprofile", namespace="only")
        for space in ("only", "other"):
            await scene.client.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
            )
            await scene.client.create(
                {
                    "apiVersion": "quota.koordinator.sh/v1alpha1", "kind": "ElasticQuotaProfile",
                    "metadata": {"name": "p", "namespace": space},
                    "spec": {"quotaName": "root", "nodeSelector": {}},
                }
            )  # fmt: skip
        await scene.settle(15)
        quotas = [each for each in scene.writes if "elasticquotas" in each]
        assert quotas == ["POST only/elasticquotas"]

    options.check()
    perform(script)
