# SPDX-License-Identifier: Apache-2.0
"""A scene in which koordlet, as its own service account, does all that it ever asks of the API."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from koord.agent.app import Agent, AgentServices
from koord.agent.options import AgentOptions
from koord.agent.states.own_node import own_node
from koord.api import definitions
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.nodeslo import NodeSLO
from koord.api.kinds.pod import Pod
from koord.api.objects import decode_as
from koord.base.clock import SystemClock
from koord.base.metrics import registry
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.events import EventRecorder
from koord.kube.transport.messages import MERGE_PATCH, Request
from tests.agent.machine_tree import MachineTree
from tests.real.rbac.account import Account
from tests.real.rbac.grants import Grant
from tests.real.rbac.recording import Recorder

NODE = "n1"
PATIENCE_SECONDS = 90.0
# The kubelet asks for these, koordlet never does.
BY_KUBELET = tuple(Grant("", "", f"nodes/{name}", "get") for name in ("configz", "pods"))


async def play(account: Account, folder: Path) -> Recorder:
    """Plays the scene until every grant was used, or for a time."""
    admin = Client(account.admin, "admin", requests_per_second=None)
    names = [name async for name, _ in installing.install(admin, definitions.crds())]
    await installing.wait_established(admin, names, PATIENCE_SECONDS)
    await account.apply()
    await _prepare(admin)
    recorder = Recorder(account.transport())
    try:
        await _run(admin, Client(recorder, "koordlet", requests_per_second=None), account, folder)
    finally:
        await recorder.close()
    return recorder


async def _prepare(admin: Client) -> None:
    await admin.create(Node(metadata=ObjectMeta(name=NODE)))
    await admin.create(NodeSLO(metadata=ObjectMeta(name=NODE)))
    await admin.create(NodeMetric(metadata=ObjectMeta(name=NODE)))
    for name in ("one", "two"):
        document = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "none"}]},
        }
        await admin.create(decode_as(document, Pod))


async def _run(admin: Client, client: Client, account: Account, folder: Path) -> None:
    tree = MachineTree(folder / "machine")
    _describe_accelerator(tree, well=True)
    clock, metrics = SystemClock(), registry()
    events = EventRecorder(client, "koordlet", host=NODE, clock=clock)
    await own_node(client, NODE)
    options = replace(
        AgentOptions(),
        node_name=NODE,
        pods_from="apiserver",
        disable_query_kubelet_config=True,
        only_evict_by_api=True,
        node_topology_sync_interval=0.2,
        collect_node_cpu_info_interval=0.5,
        feature_gates="Accelerators=true,BlkIOReconcile=true",
        audit_log_dir=str(folder / "audit"),
        prediction_checkpoint_filepath=str(folder / "checkpoints"),
    )
    agent = Agent(options, tree.machine(), AgentServices(client, events, None, metrics, clock))
    tasks = [asyncio.create_task(agent.run()), asyncio.create_task(events.run())]
    try:
        await agent.ready()
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await _happen(admin, agent, tree, account)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _happen(admin: Client, agent: Agent, tree: MachineTree, account: Account) -> None:
    ticks = 0
    while unused(account.grants, _recorder(agent)):
        ticks += 7
        tree.stat([ticks] * 4)
        await agent.metric.report()
        for pod in agent.store.snapshot().pods.value:
            # Said again and again, so that an event is counted on and patched.
            agent.evictor.evict(pod, "MemoryEvict", "scene")
            agent._services.recorder.event(pod.pod, "Normal", "Again", "scene")
        # What the objects say changes, so they are written anew.
        note = json.dumps({"reservedCPUs": str(ticks % 4)})
        await _annotate(admin, "node.koordinator.sh/reservation", note)
        _describe_accelerator(tree, well=ticks % 2 == 0)
        await asyncio.sleep(0.5)


def unused(grants: list[Grant], recorder: Recorder) -> list[Grant]:
    """What is granted and was not needed."""
    wanted = [each for each in grants if each not in BY_KUBELET]
    return [each for each in wanted if not any(each.covers(used) for used in recorder.used)]


def _recorder(agent: Agent) -> Recorder:
    transport: Any = agent._services.client._calls._transport
    return transport  # type: ignore[no-any-return]


async def _annotate(admin: Client, key: str, text: str) -> None:
    body = json.dumps({"metadata": {"annotations": {key: text}}}).encode()
    await admin.request(
        Request("PATCH", f"/api/v1/nodes/{NODE}", body=body, content_type=MERGE_PATCH)
    )


def _describe_accelerator(tree: MachineTree, well: bool) -> None:
    card = {
        "vendor": "acme", "model": "x1", "uuid": "card-0", "minor": "0",
        "resources": {"gpu-core": 100, "gpu-memory": "16Gi"}, "status": {"healthy": well},
    }  # fmt: skip
    tree.write("var/run/koordlet/xpu-device-infos/cards", json.dumps([card]))
