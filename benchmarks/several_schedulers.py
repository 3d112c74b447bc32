# SPDX-License-Identifier: Apache-2.0
"""Several schedulers that share a cluster: ``python -m benchmarks.several_schedulers``.

Schedulers of the shipped profile, each with pods of its own (by ``schedulerName``), decide at the
same time over one embedded API server in this process. None waits for another: each believes what
its watch has told it. An API server refuses to bind a pod twice; whether a node has room it does
not ask. So it is counted:

* ``refused``: bindings that the API server refused.
* ``overdrawn``: nodes on which pods ask for more than there is, and ``too many``: pods that the
  kubelets there would send away.

Shares are ``all``: any pod may go to any node; ``pools``: each scheduler's pods go to a part of the
nodes of their own (``nodeSelector``), as where teams have pools. Nodes are ``--full`` percent full
in the end.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from typing import Any, NamedTuple

import msgspec

from koord.api import crds
from koord.base.clock import SystemClock
from koord.controllers.cluster.views import InformerViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from koord.controllers.scheduler.scheduler import Scheduler
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.transport.messages import Request, Response

SHARES = ("all", "pools")
ROOM = 10
_POOL = "pool"
_NEW = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}


class Outcome(NamedTuple):
    """What came of a run; see the head of this file."""

    share: str
    schedulers: int
    bound: int
    refused: int
    overdrawn: int
    too_many: int

    def line(self) -> str:
        """A row of the table."""
        part = self.too_many / max(1, self.bound)
        return (
            f"{self.share:6} {self.schedulers:10} {self.bound:6,} {self.refused:8,}"
            f" {self.overdrawn:9,} {self.too_many:8,} {part:7.1%}"
        )


HEAD = (
    f"{'share':6} {'schedulers':>10} {'bound':>6} {'refused':>8} {'overdrawn':>9} {'too many':>8}"
    f" {'of all':>7}"
)


class Counted:
    """A transport that counts bindings that are refused."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.refused = 0

    async def send(self, request: Request) -> Response:
        """Passes a request on."""
        answer: Response = await self._transport.send(request)
        self.refused += request.path.endswith("/binding") and answer.status >= 400
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def measure(share: str, schedulers: int, nodes: int, full: int) -> Outcome:
    """Fills a cluster with the pods of so many schedulers."""
    return asyncio.run(_measure(share, schedulers, nodes, full))


async def _measure(share: str, schedulers: int, nodes: int, full: int) -> Outcome:
    pods = nodes * ROOM * full // 100 // schedulers * schedulers
    async with EmbeddedControlPlane(Options(port=0, insecure=True, seed=7)) as plane:
        client = Client(plane.transport(), requests_per_second=None)
        names = [name async for name, _ in installing.install(client, crds())]
        await installing.wait_established(client, names, 60.0)
        for index in range(nodes):
            await _create(client, "/api/v1/nodes", _node(index, schedulers))
        counted = [Counted(plane.transport()) for _ in range(schedulers)]
        made = [_scheduler(each, f"scheduler-{i}") for i, each in enumerate(counted)]
        tasks = [asyncio.create_task(views.run()) for views, _ in made]
        try:
            for views, _ in made:
                await views.synced()
            path = "/api/v1/namespaces/default/pods"
            for index in range(pods):
                await _create(client, path, _pod(index, index % schedulers, share))
            while any(len(each.queue) < pods // schedulers for _, each in made):
                await asyncio.sleep(0.01)
            tasks += [asyncio.create_task(each.loop.run()) for _, each in made]
            by_node = await _all_bound(client, pods)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    over = {node: count - ROOM for node, count in by_node.items() if count > ROOM}
    refused = sum(each.refused for each in counted)
    return Outcome(share, schedulers, pods, refused, len(over), sum(over.values()))


async def _all_bound(client: Client, pods: int) -> Counter[str]:
    """How many pods each node has, once all are bound.

    Raises:
        TimeoutError: some stay unbound.
    """
    async with asyncio.timeout(300):
        while True:
            await asyncio.sleep(0.2)
            answer = await client.request(Request("GET", "/api/v1/namespaces/default/pods"))
            items = msgspec.json.decode(answer.body)["items"]
            by_node = Counter(each["spec"].get("nodeName", "") for each in items)
            if not by_node[""] and len(items) == pods:
                return by_node


def _scheduler(transport: Any, name: str) -> tuple[InformerViews, Scheduler]:
    client = Client(transport, requests_per_second=None)
    views, registry = InformerViews(client), Registry(outside=[])
    world = ClusterState(views, SystemClock(), client, None)
    return views, Scheduler(world, shipped(registry, name).profiles, registry)


async def _create(client: Client, path: str, document: dict[str, Any]) -> None:
    await client.request(Request("POST", path, body=msgspec.json.encode(document)))


def _node(index: int, pools: int) -> dict[str, Any]:
    meta = {"name": f"node-{index:05}", "labels": {_POOL: f"{index % pools}"}}
    amounts = {"cpu": f"{ROOM}", "memory": "256Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"allocatable": amounts, "capacity": amounts, "conditions": ready}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


def _pod(index: int, scheduler: int, share: str) -> dict[str, Any]:
    requests = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
    spec: dict[str, Any] = {
        "schedulerName": f"scheduler-{scheduler}", "containers": [container],
        "tolerations": [_NEW],
    }  # fmt: skip
    if share == "pools":
        spec["nodeSelector"] = {_POOL: f"{scheduler}"}
    meta = {"name": f"pod-{index:06}", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def main() -> None:
    """Prints a row for each share and number of schedulers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedulers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--nodes", type=int, default=160)
    parser.add_argument("--full", type=int, default=80)
    parser.add_argument("--share", choices=SHARES, nargs="+", default=SHARES)
    options = parser.parse_args()
    print(HEAD, flush=True)
    for share in options.share:
        for count in options.schedulers:
            print(measure(share, count, options.nodes, options.full).line(), flush=True)


if __name__ == "__main__":
    main()
