# SPDX-License-Identifier: Apache-2.0
"""The same manifests under kube-controller-manager and under ours lead to the same objects."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from koord.api.kinds.meta import Object
from koord.base.clock import SystemClock
from koord.base.documents import Document
from koord.controlplane.controllers import BuiltinControllers
from koord.controlplane.controllers.base.objects import (
    CONTROLLER_REVISION,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    NODE,
    PDB,
    POD,
    REPLICA_SET,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
)
from koord.kube.client import Client
from koord.kube.patches import Patch
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from tests.real.fixtures import need
from tests.real.plane import RealControlPlane

pytestmark = pytest.mark.real

COMPARED = (
    DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB, PDB, POD, CONTROLLER_REVISION,
    SERVICE_ACCOUNT,
)  # fmt: skip
SETTLE_SECONDS = 60
# What no two runs have in common, and what only a scheduler or a kubelet says.
_UNCOMPARED = frozenset(
    (
        "uid", "resourceVersion", "managedFields", "creationTimestamp", "lastTransitionTime",
        "lastUpdateTime", "lastProbeTime", "startTime", "completionTime", "podIP", "podIPs",
        "hostIP", "hostIPs", "nodeName", "startedAt", "controller-uid",
        "batch.kubernetes.io/controller-uid", "containerStatuses",
    )
)  # fmt: skip
_LETTERS = "[bcdfghjklmnpqrstvwxz2456789]"


@pytest.fixture
def planes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RealControlPlane]]:
    """Two API servers with simulated kubelets, one of them with kube-controller-manager."""
    need("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
    theirs = RealControlPlane(tmp_path_factory.mktemp("theirs"))
    ours = RealControlPlane(tmp_path_factory.mktemp("ours"))
    with theirs, ours:
        theirs.start_controller_manager()
        theirs.start_scheduler()
        for plane in (theirs, ours):
            plane.start_kwok()
        yield {"theirs": theirs, "ours": ours}


def workload(kind: str, name: str, image: str = "i:1", **spec: Any) -> Document:
    labels = {"app": name}
    pod: dict[str, Any] = {"containers": [{"name": "c", "image": image}]}
    given: dict[str, Any] = {"template": {"metadata": {"labels": labels}, "spec": pod}, **spec}
    if kind == "Job":
        pod["restartPolicy"] = "Never"
    else:
        given["selector"] = {"matchLabels": labels}
    group = "batch" if kind == "Job" else "apps"
    metadata = {"name": name, "namespace": "default", "annotations": {"team": "x"}}
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, "spec": given}


def budget(name: str, **spec: Any) -> Document:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}}, **spec},
    }


def node(name: str) -> Document:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    status = {"allocatable": amounts, "capacity": amounts}
    annotations = {"kwok.x-k8s.io/node": "fake"}
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def manifests() -> list[Document]:
    return [
        workload("Deployment", "web", replicas=5),
        workload("StatefulSet", "db", replicas=2, serviceName="db"),
        workload("DaemonSet", "agent"),
        workload("Job", "work", completions=3, parallelism=2),
        workload("Job", "indexed", completions=2, completionMode="Indexed"),
        workload("Job", "waiting", suspend=True),
        budget("web", maxUnavailable="30%"),
        budget("db", minAvailable=1),
        budget("nobody", minAvailable="50%"),
    ]


def comparable(value: Any) -> Any:
    """The value without what differs between any two runs; generated names by their pattern."""
    if isinstance(value, dict):
        return {k: comparable(v) for k, v in value.items() if k not in _UNCOMPARED}
    if isinstance(value, list):
        items = [comparable(item) for item in value]
        typed = all(isinstance(item, dict) and "type" in item for item in items)
        return sorted(items, key=lambda item: item["type"]) if typed else items
    if isinstance(value, str):
        value = re.sub(rf"(?<![a-z0-9]){_LETTERS}{{8,10}}(?![a-z0-9])", "HASH", value)
        return re.sub(rf"-{_LETTERS}{{5}}$", "-RANDOM", value)
    return value


async def settled(client: Client, image: str) -> bool:
    """Whether everything asked for is there, observed, and of one image."""
    deployment = await client.get(DEPLOYMENT, "web", "default")
    stateful, daemon = [
        await client.get(kind, name, "default")
        for kind, name in ((STATEFUL_SET, "db"), (DAEMON_SET, "agent"))
    ]
    counts = [
        deployment["status"].get("availableReplicas"),
        deployment["status"].get("replicas"),
        deployment["status"].get("updatedReplicas"),
        stateful["status"].get("availableReplicas"),
        stateful["status"].get("updatedReplicas"),
        daemon["status"].get("numberAvailable"),
        daemon["status"].get("updatedNumberScheduled"),
    ]
    pods = await client.list(POD, namespace="default", label_selector="app in (web,db,agent)")
    images = {pod["spec"]["containers"][0]["image"] for pod in pods.items}
    done = True
    for name in ("work", "indexed"):
        job = await client.get(JOB, name, "default")
        done &= any(c["type"] == "Complete" for c in job["status"].get("conditions", []))
    healthy = [
        (await client.get(PDB, name, "default")).get("status", {}).get("currentHealthy")
        for name in ("web", "db")
    ]
    conditions = deployment["status"].get("conditions", [])
    complete = any(c["reason"] == "NewReplicaSetAvailable" for c in conditions)
    rolled = stateful["status"].get("currentRevision") == stateful["status"].get("updateRevision")
    everything = (counts, images, healthy) == ([5, 5, 5, 2, 2, 2, 2], {image}, [5, 2])
    return bool(everything and done and complete and rolled)


async def story(plane: RealControlPlane, own: bool) -> list[dict[str, list[Any]]]:
    """Applies, rolls and orphans; gives what there is after each step."""
    transport = HttpTransport(load_cluster_config(Path(plane.kubeconfig)))
    client = Client(transport, requests_per_second=None)
    controllers = BuiltinControllers(client, SystemClock())
    if own:
        await controllers.start()
    try:
        seen = []
        for number in range(2):
            await client.create(node(f"n{number}"), kind=NODE)
        for document in manifests():
            await client.create(document)
        await until(lambda: settled(client, "i:1"))
        seen.append(await state(client))
        change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}}
        for kind, name in ((DEPLOYMENT, "web"), (STATEFUL_SET, "db"), (DAEMON_SET, "agent")):
            await client.patch(kind, name, Patch.strategic(change), "default")
        await until(lambda: settled(client, "i:2"))
        seen.append(await state(client, without=("generation", "observedGeneration")))
        await client.delete(DEPLOYMENT, "web", "default", propagation="Orphan")
        await client.delete(STATEFUL_SET, "db", "default", propagation="Foreground")
        await until(lambda: gone(client))
        seen.append(await state(client, without=("generation", "observedGeneration")))
        return seen
    finally:
        await controllers.stop()
        await transport.close()


async def gone(client: Client) -> bool:
    """Whether the two deleted workloads are gone, and the pods of the one."""
    lists = [
        await client.list(Object, kind=kind, namespace="default", label_selector=selector)
        for kind, selector in ((DEPLOYMENT, ""), (STATEFUL_SET, ""), (POD, "app=db"))
    ]
    healthy = (await client.get(PDB, "db", "default"))["status"]["currentHealthy"]
    sets = await client.list(Object, kind=REPLICA_SET, namespace="default")
    let_go = all(not found.metadata.owner_references for found in sets.items)
    return healthy == 0 and let_go and not any(found.items for found in lists)


async def until(holds: Any) -> None:
    async with asyncio.timeout(SETTLE_SECONDS):
        while not await holds():
            await asyncio.sleep(0.2)
    # Statuses follow the last change.
    await asyncio.sleep(1.0)


async def state(client: Client, without: tuple[str, ...] = ()) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for kind in COMPARED:
        items = (await client.list(kind, namespace="default")).items
        found[kind.plural] = sorted((comparable(_less(i, without)) for i in items), key=str)
    return found


def _less(value: Any, names: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {k: _less(v, names) for k, v in value.items() if k not in names}
    return [_less(v, names) for v in value] if isinstance(value, list) else value


def test_ours_lead_to_what_theirs_do(planes: dict[str, RealControlPlane]) -> None:
    async def both() -> list[list[dict[str, list[Any]]]]:
        return await asyncio.gather(story(planes["theirs"], False), story(planes["ours"], True))

    theirs, ours = asyncio.run(both())
    for number, (expected, found) in enumerate(zip(theirs, ours, strict=True)):
        for plural in expected:
            assert found[plural] == expected[plural], f"{plural} after step {number + 1}"
        assert expected["pods"]


def test_names_are_compared_by_their_pattern() -> None:
    assert comparable("web-6bb56c87f4-4hx92") == "web-HASH-RANDOM"
    assert comparable({"pod-template-hash": "6bb56c87f4", "uid": "x"}) == {
        "pod-template-hash": "HASH"
    }
