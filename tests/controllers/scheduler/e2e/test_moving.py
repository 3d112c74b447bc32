# SPDX-License-Identifier: Apache-2.0
"""koord-scheduler takes over from Koordinator's, and gives back: docs/guide-moving.md.

On a server with Koordinator's own definitions. The original is a stand-in: whoever holds its Lease,
and pods as it leaves them.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from koord.api import definitions
from koord.api.kinds.registry import KINDS
from koord.controllers.scheduler.config.defaults import shipped_document
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from koord.kube.transport.messages import Request
from tests.contract.conftest import Server
from tests.controllers.scheduler.e2e.cluster import Cluster
from tests.controllers.scheduler.e2e.test_quickstarts import (
    RESOURCE_STATUS,
    bound,
    cpus,
    resources,
    topology,
)

SYSTEM, LEASE = "koordinator-system", "koord-scheduler"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"
DEFINITIONS = sorted((Path(__file__).parents[3] / "data" / "crds").glob("*.yaml"))
# As Koordinator's chart has them, but for the port, and for how soon a dead leader's Lease is free.
FLAGS = (
    "--port=0", "--authentication-skip-lookup=true", "--v=4", "--feature-gates=",
    "--enable-network-topology-manager=true",
)  # fmt: skip


def test_the_scheduler_is_moved_and_moved_back(server: Server, tmp_path: Path) -> None:
    """It waits beside the leader, keeps off the CPUs of its pods, and gives the Lease back."""
    asyncio.run(_story(server.kubeconfig, tmp_path))


async def _story(kubeconfig: Path, folder: Path) -> None:
    async with _connected(kubeconfig) as cluster:
        await _begin(cluster)
        with _scheduler(kubeconfig, folder) as process:
            await cluster.apply(_pod("arrived"))
            # It leads by nobody's leave: the Lease is held and renewed.
            for _ in range(5):
                await _hold(cluster, "original_1")
                await asyncio.sleep(1.0)
                assert not bound(await cluster.get("Pod", "arrived"))
            await _hold(cluster, "")
            arrived = await cluster.until("Pod", "arrived", bound)
            # Those of a pod that the original bound are not given twice.
            assert cpus(arrived) <= {4, 5, 6, 7}
            assert len(cpus(arrived)) == 2
            # The original reads this annotation with these members.
            status = json.loads(arrived["metadata"]["annotations"][RESOURCE_STATUS])
            assert status.keys() <= {"cpuset", "numaNodeResources"}
            assert (await _holder(cluster)).split("_")[0]
            process.terminate()
            assert process.wait(30) == 0, (folder / "log").read_text("utf-8")
        # The original need not wait for it to lapse.
        assert await _holder(cluster) == ""


async def _begin(cluster: Cluster) -> None:
    """A node, and a pod with CPUs of its own, as the original leaves them."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}
    await cluster.apply(namespace)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = [yaml.load(path.read_text("utf-8"), loader) for path in DEFINITIONS]
    names = [name async for name, _ in installing.install(cluster.client, found)]
    await installing.wait_established(cluster.client, names, 30.0)
    classes = next(kind for kind in KINDS if kind.name == "PriorityClass")
    async for _ in installing.install(cluster.client, definitions.priority_classes(), classes):
        pass
    await cluster.apply(resources("node-0", topology(4, 1)))
    await cluster.add_node("node-0", cpus=8)
    kept = _pod("kept", cpu="4")
    kept["metadata"]["annotations"][RESOURCE_STATUS] = '{"cpuset":"0-3"}'
    kept["spec"]["nodeName"] = "node-0"
    await cluster.apply(kept)
    await _hold(cluster, "original_1")


@asynccontextmanager
async def _connected(kubeconfig: Path) -> AsyncIterator[Cluster]:
    transport = HttpTransport(load_cluster_config(kubeconfig))
    try:
        app: Any = None  # That one runs in a process of its own.
        yield Cluster(Client(transport, "test", requests_per_second=None), app)
    finally:
        await transport.close()


@contextmanager
def _scheduler(kubeconfig: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    election = {"leaderElect": True, "resourceName": LEASE, "resourceNamespace": SYSTEM}
    document = {**shipped_document(), "leaderElection": election}
    (folder / "config").write_text(json.dumps(document), "utf-8")
    program = Path(sys.executable).with_name("koord-scheduler")
    words = (f"--config={folder / 'config'}", f"--kubeconfig={kubeconfig}", *FLAGS)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, *words], stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _pod(name: str, cpu: str = "2") -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "1Gi"}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"koordinator.sh/qosClass": "LSR"},
            "annotations": {},
        },
        "spec": {
            "schedulerName": "koord-scheduler",
            "priorityClassName": "koord-prod",
            "containers": [container],
        },
    }


async def _hold(cluster: Cluster, holder: str) -> None:
    """The Lease as a leader keeps it, or gives it back."""
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 15 if holder else 1,
        "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    document = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE, "namespace": SYSTEM},
        "spec": spec,
    }
    kind = next(each for each in KINDS if each.name == "Lease")
    await cluster.client.apply(document, kind=kind, field_manager="original", force=True)


async def _holder(cluster: Cluster) -> str:
    answer = await cluster.client.request(Request("GET", f"{LEASES}/{LEASE}"))
    return str(json.loads(answer.body)["spec"].get("holderIdentity") or "")
