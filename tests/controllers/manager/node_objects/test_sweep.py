# SPDX-License-Identifier: Apache-2.0
"""A change of the configuration on ten thousand nodes: looked at once each, written where due."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from koord.api import Node, NodeSLO
from koord.api.kinds.cluster import ConfigMap
from koord.api.kinds.meta import ObjectMeta
from koord.base.clock import SystemClock
from koord.base.faults import FaultPlan, inject
from koord.controllers.manager.dependencies import ControllerDependencies
from koord.controllers.manager.metrics import ManagerMetrics
from koord.controllers.manager.node_objects.nodeslo import NodeSLOs
from koord.controllers.manager.node_objects.nodeslo_extenders import NodeSLOExtenders
from koord.controllers.manager.node_objects.object_controller import difference
from koord.controllers.manager.options import ManagerOptions
from koord.controllers.manager.sloconfig.config_cache import ConfigCache
from koord.controllers.scheduler.cache.local_views import LocalViews

NODES, POOLS = 10_000, 50


class Writes:
    """A client that stores nothing, and remembers what it was asked."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def patch(self, target: Any, name: str, *rest: Any, **options: Any) -> None:
        self.names.append(name)


def data(percent: int) -> dict[str, str]:
    strategies = [
        {"nodeSelector": {"matchLabels": {"pool": f"p{i}"}}, "cpuBurstPercent": i}
        for i in range(1, POOLS)
    ]
    strategies.append({"nodeSelector": {"matchLabels": {"pool": "p0"}}, "cpuBurstPercent": percent})
    return {"cpu-burst-config": json.dumps({"nodeStrategies": strategies})}


def test_a_change_for_one_pool_is_found_fast_and_written_there_alone() -> None:
    views: Any = LocalViews()
    space, name = "koordinator-system", "slo-controller-config"
    config_map = ConfigMap(metadata=ObjectMeta(name=name, namespace=space), data=data(100))
    views.view(ConfigMap).put(config_map)
    config = ConfigCache(views.view(ConfigMap), lambda *told: None)
    client: Any = Writes()
    options = ManagerOptions()
    around = ControllerDependencies(
        client, views, config, SystemClock(), lambda *told: None, options.gates(),
        ManagerMetrics(), options, NodeSLOExtenders(),
    )  # fmt: skip
    slos = NodeSLOs(around)
    config.start()
    assert config.config is not None
    for i in range(NODES):
        meta = ObjectMeta(name=f"n{i}", labels={"pool": f"p{i % POOLS}", "host": str(i)})
        node = Node(metadata=meta)
        views.view(Node).put(node)
        # A spec of its own, as it comes off the wire.
        views.view(NodeSLO).put(
            NodeSLO(metadata=ObjectMeta(name=f"n{i}"), spec=config.config.node_slo_spec(node))
        )

    async def run() -> float:
        task = asyncio.create_task(slos.run())
        await asyncio.sleep(0.1)
        assert client.names == [], "all is as it should be"
        began = time.process_time()
        config.sync(ConfigMap(metadata=config_map.metadata, data=data(50)))
        while len(client.names) < NODES // POOLS:
            await asyncio.sleep(0)
        spent = time.process_time() - began
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return spent

    with inject(FaultPlan(seed=1, rules={})) as plan:
        together = asyncio.run(run())
    assert plan.passed["manager.companions.write"] == NODES // POOLS
    assert sorted(client.names) == sorted(f"n{i}" for i in range(0, NODES, POOLS))
    # The plain way: every spec from scratch, and every one compared as documents.
    began = time.process_time()
    for _, node in list(views.view(Node).items())[: NODES // 20]:
        there = views.view(NodeSLO).get(node.metadata.name)
        difference(there.spec, config.config.node_slo_spec(node))
    alone = (time.process_time() - began) * 20
    print(f"{NODES} nodes: {together:.2f} s of CPU, one by one {alone:.2f} s")
    assert together < alone / 2
