# SPDX-License-Identifier: Apache-2.0
"""What a change of slo-controller-config costs the manager: ``python -m benchmarks.manager_path``.

From the ConfigMap's event to the last write: strategies, offers, resources, annotations, zones and
NodeSLOs of all nodes, through the controllers themselves. First nothing is answered until it is
decided which nodes have to be written, then all is written. CPU seconds of one thread, on virtual
time; the API's own work, here a stand-in's, is taken off. Pods and reports are made when they are
told of, and not kept: 100,000 nodes with 3,000,000 pods take a minute to fill.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from benchmarks.manager import NOW, PODS_A_NODE, a_metric, a_node, a_pod, a_topology
from benchmarks.resident import resident_bytes
from koord.api.codec import convert, to_document
from koord.api.kinds.cluster import ConfigMap
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.api.kinds.topology import NodeResourceTopology
from koord.base.clock import VirtualClock, VirtualLoop
from koord.base.memory import garbage_collection
from koord.controllers.manager.dependencies import ControllerDependencies
from koord.controllers.manager.metrics import ManagerMetrics
from koord.controllers.manager.node_objects.nodeslo import NodeSLOs
from koord.controllers.manager.node_objects.nodeslo_extenders import NodeSLOExtenders
from koord.controllers.manager.noderesource.controller import NodeResource
from koord.controllers.manager.options import ManagerOptions
from koord.controllers.manager.sloconfig.config_cache import ConfigCache
from koord.controllers.scheduler.cache.local_views import LocalView, LocalViews
from koord.kube.patches import Patch

NODES = 10_000
# Longer than anything waits that is due at once, shorter than any pause.
SETTLE_SECONDS = 5.0
START = {"reclaim": 60, "pool": 70, "burst": 300}


class Api:
    """Answers patches as a server does, and counts what that takes.

    Attributes:
        writes: how many patches there were, by kind.
        seconds: CPU seconds spent here.
        answers: objects as they are now, for :meth:`Cluster.echo`.
        answering: whether patches are answered; until then they wait.
    """

    def __init__(self, views: LocalViews) -> None:
        self._views = views
        self._version = 1
        self.writes: dict[str, int] = {}
        self.seconds = 0.0
        self.answers: dict[tuple[type, str], Any] = {}
        self.answering = asyncio.Event()
        self.answering.set()

    async def patch(
        self, target: type[Any], name: str, patch: Patch, *, kind: Any = None, subresource: str = ""
    ) -> Any:
        """Merges a patch into the object that there is."""
        del subresource
        await self.answering.wait()
        begin = time.thread_time()
        found: type[Any] = target if kind is None else kind.type
        self.writes[found.__name__] = self.writes.get(found.__name__, 0) + 1
        before = self.answers.get((found, name)) or self._views.view(found).get(name)
        merged = _merged(to_document(before), msgspec.json.decode(patch.body))
        self._version += 1
        merged["metadata"]["resourceVersion"] = str(self._version)
        answer = self.answers[found, name] = convert(merged, found, "benchmark")
        self.seconds += time.thread_time() - begin
        return answer

    async def create(self, made: Any) -> Any:
        """Takes an object over as it is."""
        made.metadata.resource_version = "1"
        self.answers[type(made), made.metadata.name] = made
        return made


def _merged(old: Any, change: Any) -> Any:
    """RFC 7386."""
    if not isinstance(change, dict):
        return change
    found = dict(old) if isinstance(old, dict) else {}
    for key, value in change.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = _merged(found.get(key), value)
    return found


def config_map(said: dict[str, int]) -> ConfigMap:
    """Strategies for the cluster and for one pool in four, and a NodeSLO section."""
    pool = {"nodeSelector": {"matchLabels": {"pool": "1"}}}
    threshold = said["pool"]
    data = {
        "colocation-config": {
            "enable": True, "cpuReclaimThresholdPercent": said["reclaim"],
            "nodeConfigs": [{**pool, "name": "p", "memoryReclaimThresholdPercent": threshold}],
        },
        "cpu-burst-config": {
            "clusterStrategy": {"cfsQuotaBurstPercent": said["burst"]},
            "nodeStrategies": [{**pool, "policy": "auto"}],
        },
    }  # fmt: skip
    meta = ObjectMeta(name="slo-controller-config", namespace="koordinator-system")
    return ConfigMap(metadata=meta, data={key: json.dumps(value) for key, value in data.items()})


class UnkeptView(LocalView[Any]):
    """Objects that are made for whoever registers handlers, and let go again."""

    def __init__(self, made: Callable[[], Iterator[Any]]) -> None:
        super().__init__()
        self._made = made

    def on_change(self, added: Any = None, *others: Any, **named: Any) -> None:
        """Tells of all objects, once."""
        for value in self._made() if added is not None else ():
            added(value)
        super().on_change(added, *others, **named)


class MadeViews(LocalViews):
    """Views of which some keep nothing."""

    def place(self, kind: type, made: Callable[[], Iterator[Any]]) -> None:
        """Objects of a kind are those that a function makes, each time anew."""
        self._views[kind] = UnkeptView(made)


class ChangeSeconds(NamedTuple):
    """CPU seconds until it was decided what a change means, and of all writes after that."""

    decided: float
    written: float


class Cluster:
    """The controllers ``noderesource`` and ``nodeslo`` over a cluster that has come to rest.

    Attributes:
        api: what they write to.
    """

    def __init__(self, count: int, pods_a_node: int = PODS_A_NODE) -> None:
        self.count = count
        self.said = dict(START)
        self._clock = VirtualClock(NOW)
        self._runner = asyncio.Runner(loop_factory=lambda: VirtualLoop(self._clock))
        self._views = views = MadeViews()
        self.api = Api(views)
        self._fill(pods_a_node)
        views.view(ConfigMap).put(config_map(self.said))
        self._config = ConfigCache(views.view(ConfigMap), lambda *told: None)
        options, known = ManagerOptions(), NodeSLOExtenders()
        world: Any = (self.api, views, self._config, self._clock, lambda *told: None)
        around = ControllerDependencies(*world, options.gates(), ManagerMetrics(), options, known)
        self.resources, slos = NodeResource(around), NodeSLOs(around)
        self._config.start()
        self._tasks: list[asyncio.Task[None]] = []

        async def begin() -> None:
            self._tasks += [asyncio.create_task(part.run()) for part in (self.resources, slos)]
            await asyncio.sleep(SETTLE_SECONDS)

        self.do(begin())
        self.echo()

    def _fill(self, pods_a_node: int) -> None:
        views, count = self._views, self.count
        made = [a_pod(0, at) for at in range(pods_a_node)]

        def pods() -> Iterator[Pod]:
            return (another_pod(n, at, made[at]) for n in range(count) for at in range(pods_a_node))

        views.place(Pod, pods)
        views.place(NodeMetric, lambda: (shared_metric(n, pods_a_node) for n in range(count)))
        for number in range(count):
            node = a_node(number)
            node.metadata.resource_version = "1"
            views.view(Node).put(node)
            topology = a_topology(number)
            topology.metadata.resource_version = "1"
            views.view(NodeResourceTopology).put(topology)

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs something on the cluster's loop."""
        return self._runner.run(work)

    def configure(self, **said: int) -> ChangeSeconds:
        """What a new ConfigMap takes to be decided, and then to be written, without the API's."""
        self.said |= said
        found = config_map(self.said)
        self.api.writes, self.api.seconds = {}, 0.0
        self.api.answering.clear()

        async def decide() -> None:
            self._views.view(ConfigMap).put(found)
            await asyncio.sleep(SETTLE_SECONDS)

        async def write() -> None:
            self.api.answering.set()
            await asyncio.sleep(SETTLE_SECONDS)

        begin = time.thread_time()
        self.do(decide())
        decided = time.thread_time()
        self.do(write())
        return ChangeSeconds(decided - begin, time.thread_time() - decided - self.api.seconds)

    def echo(self) -> float:
        """CPU seconds that the informers' news of these writes take, until all rests again."""

        async def tell() -> None:
            answers, self.api.answers = self.api.answers, {}
            for (kind, _), found in answers.items():
                self._views.view(kind).put(found)
            await asyncio.sleep(SETTLE_SECONDS)

        begin = time.thread_time()
        self.do(tell())
        return time.thread_time() - begin

    def close(self) -> None:
        """Ends it."""

        async def end() -> None:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        self.do(end())
        self._runner.close()


def another_pod(number: int, at: int, made: Pod) -> Pod:
    """As :func:`benchmarks.manager.a_pod`, with all but its name and node from another."""
    name = f"pod-{number}-{at}"
    meta = replace(made.metadata, name=name, uid=name)
    return replace(made, metadata=meta, spec=replace(made.spec, node_name=f"node-{number}"))


def shared_metric(number: int, pods: int) -> NodeMetric:
    """A report whose equal parts are one, as an informer's."""
    found = a_metric(number, pods, 0)
    for pod in found.status.pods_metric:
        pod.pod_usage = found.status.pods_metric[0].pod_usage
    return found


CHANGES: dict[str, dict[str, int]] = {
    "every node, below the threshold": {"reclaim": 61},
    "one node in four, past the threshold": {"pool": 40},
    "every node and NodeSLO, past the threshold": {"reclaim": 30, "burst": 400},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--pods-a-node", type=int, default=PODS_A_NODE)
    options = parser.parse_args()
    begin = time.thread_time()
    cluster = Cluster(options.nodes, options.pods_a_node)
    garbage_collection.collect_rarely()
    pods = options.nodes * options.pods_a_node
    print(f"{options.nodes} nodes, {pods} pods; CPU seconds, without the API's own")
    filled = time.thread_time() - begin - cluster.api.seconds
    print(f"{'filled and written at first':40}{filled:10.3f}", flush=True)
    print(f"{'':40}{'decided':>10}{'written':>10}{'news':>10}")
    for what, said in CHANGES.items():
        took = cluster.configure(**said)
        writes, news = cluster.api.writes, cluster.echo()
        line = f"{took.decided:10.3f}{took.written:10.3f}{news:10.3f}"
        print(f"{what:40}{line}  {writes}", flush=True)
    print(f"{resident_bytes() / 2**20:.0f} MiB resident")
    cluster.close()


if __name__ == "__main__":
    main()
