# SPDX-License-Identifier: Apache-2.0
"""What files refer to, looked up in a cluster without a write."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from koord.api import crds
from koord.check.live_cluster import LiveCluster
from koord.check.runner import check
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.client import Client
from koord.kube.crds import install
from koord.kube.requests.retry import RetryPolicy
from koord.kube.transport.messages import Request, Response, Stream, Transport

GUIDE = "elasticquotas.quota.koordinator.sh"
THERE = """\
{"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
 "metadata": {"name": "root", "namespace": "default",
              "labels": {"quota.scheduling.koordinator.sh/is-parent": "true"}},
 "spec": {"min": {"cpu": 10}, "max": {"cpu": 50}}}
"""


class Recorded:
    """A transport that keeps the requests that went through it."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.requests: list[Request] = []

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        return await self.inner.send(request)

    async def open(self, request: Request) -> Stream:
        raise AssertionError("a check watches nothing")

    async def close(self) -> None:
        await self.inner.close()


@pytest.fixture
def cluster() -> Iterator[tuple[LiveCluster, Recorded]]:
    """koord's definitions but the guide's quota, a node, and one quota that is a parent."""
    with asyncio.Runner() as runner:
        plane = EmbeddedControlPlane(Options(seed=1))
        runner.run(plane.start())
        recorded = Recorded(plane.transport())
        runner.run(_fill(Client(plane.transport(), "test")))
        try:
            policy = RetryPolicy(attempts=1)
            yield LiveCluster(runner, Client(recorded, "koord", policy=policy)), recorded
        finally:
            runner.run(plane.stop())


async def _fill(client: Client) -> None:
    documents = [each for each in crds() if each["metadata"]["name"] != GUIDE]
    async for _ in install(client, documents):
        pass
    path = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/elasticquotas"
    await client.request(Request("POST", path, body=THERE.encode()))
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
    await client.request(Request("POST", "/api/v1/nodes", body=json.dumps(node).encode()))


FILE = """\
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: a, labels: {quota.scheduling.koordinator.sh/parent: PARENT}}
spec: {min: {cpu: MIN}, max: {cpu: 50}}
---
apiVersion: v1
kind: Pod
metadata:
  name: p
  labels: {quota.scheduling.koordinator.sh/name: QUOTA, pod-group.scheduling.sigs.k8s.io: GANG}
spec:
  priorityClassName: CLASS
  containers: [{name: c, image: i}]
---
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: Reservation
metadata: {name: r}
spec:
  template: {spec: {nodeName: NODE, containers: [{name: c}]}}
  owners: [{object: {name: p, namespace: default}}]
---
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: PodMigrationJob
metadata: {name: j}
spec: {podRef: {namespace: default, name: gone}}
---
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: g}
spec: {minMember: 1}
"""
RIGHT = {"PARENT": "root", "MIN": "5", "QUOTA": "a", "GANG": "g", "CLASS": "koord-prod",
         "NODE": "node-1"}  # fmt: skip
GONE = (
    "25: error: PodMigrationJob j: spec.podRef.name: got 'gone', "
    "expected the name of a Pod of the files or the cluster"
)
WRONG = {
    "PARENT=rooot": "3: error: ElasticQuota a: metadata.labels[quota.scheduling.koordinator.sh/"
    "parent]: got 'rooot', expected the name of a quota of the files or the cluster, such as root",
    "MIN=11": "4: warning: ElasticQuota a: spec.min.cpu: got '11 together', "
    "expected minimums of a that add up to at most 10, the min of root",
    "QUOTA=b": "10: error: Pod p: metadata.labels[quota.scheduling.koordinator.sh/name]: got 'b', "
    "expected the name of a quota of the files or the cluster",
    "GANG=h": "10: error: Pod p: metadata.labels[pod-group.scheduling.sigs.k8s.io]: got 'h', "
    "expected the name of a PodGroup of the files or the cluster",
    "CLASS=koord-bach": "12: error: Pod p: spec.priorityClassName: got 'koord-bach', "
    "expected the name of a PriorityClass of the files or the cluster, such as koord-batch",
    "NODE=node-2": "19: error: Reservation r: spec.template.spec.nodeName: got 'node-2', "
    "expected the name of a Node of the files or the cluster",
}


def found(path: Path, cluster: LiveCluster, **words: str) -> list[str]:
    text = FILE
    for word, value in {**RIGHT, **words}.items():
        text = text.replace(word, value)
    path.write_text(text)
    return [str(each).removeprefix(f"{path}:") for each in check([str(path)], cluster).problems]


@pytest.mark.parametrize(("change", "line"), WRONG.items(), ids=WRONG)
def test_references_are_looked_up(
    cluster: tuple[LiveCluster, Recorded], tmp_path: Path, change: str, line: str
) -> None:
    live, recorded = cluster
    assert found(tmp_path / "a.yaml", live) == [GONE]
    word, value = change.split("=")
    assert sorted(found(tmp_path / "a.yaml", live, **{word: value})) == sorted([line, GONE])
    assert {each.method for each in recorded.requests} == {"GET"}
    paths = [each.path for each in recorded.requests]
    assert len(paths) == len(set(paths))


def test_the_guides_kind_is_asked_for(
    cluster: tuple[LiveCluster, Recorded], tmp_path: Path
) -> None:
    live, _ = cluster
    path = tmp_path / "guide.yaml"
    path.write_text(
        "apiVersion: quota.koordinator.sh/v1alpha1\nkind: ElasticQuota\n"
        "metadata: {name: q, namespace: a}\nspec: {max: {cpu: 1}}\n"
    )
    assert [(each.severity, each.path) for each in check([str(path)], live).problems] == [
        ("error", "apiVersion")
    ]
