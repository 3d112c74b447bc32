# SPDX-License-Identifier: Apache-2.0
"""A plain Deployment joins co-location unchanged: from a profile to the cgroups of its pods.

Admission answers the API server: over TLS a kube-apiserver, in the process the embedded one, whose
time is virtual. The same Deployment in a namespace without the label is what it says.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from koord.api import Node, Pod
from koord.api.protocol.resources import BATCH_CPU, BATCH_MEMORY
from koord.base.metrics import registry
from koord.base.supervision import Supervisor
from koord.controllers.manager.feature_gates import feature_gates
from koord.controllers.webhook.all_reviews import review_call, review_service
from koord.controllers.webhook.certificates.certificate_keeper import MUTATING, VALIDATING
from koord.controllers.webhook.framework.default_configurations import (
    SERVICE,
    default_configurations,
)
from koord.controllers.webhook.framework.handler import HandlerDependencies
from koord.controllers.webhook.informer_views import admission_views
from koord.controllers.webhook.options import WebhookOptions
from koord.controlplane.controllers import BuiltinControllers
from koord.kernels.cgroup_parse import Version
from tests.controllers.webhook.e2e.scene import AdmissionScene
from tests.loop.cluster import SYSTEM, Cluster, on_embedded, on_real
from tests.real.fixtures import need
from tests.real.plane import RealControlPlane

Document = dict[str, Any]
NODE, LABELLED, OTHER = "demo", "analytics", "plain"
PROFILE = {
    "apiVersion": "config.koordinator.sh/v1alpha1",
    "kind": "ClusterColocationProfile",
    "metadata": {"name": "batch"},
    "spec": {
        "namespaceSelector": {"matchLabels": {"colocation": "batch"}},
        "qosClass": "BE", "priorityClassName": "koord-batch", "koordinatorPriority": 1000,
        "schedulerName": "koord-scheduler", "labels": {"by": "profile"},
    },
}  # fmt: skip
COLOCATION = {
    "enable": True, "metricReportIntervalSeconds": 1, "metricAggregateDurationSeconds": 10,
    "cpuReclaimThresholdPercent": 60, "memoryReclaimThresholdPercent": 65,
}  # fmt: skip
AMOUNTS = {"cpu": "1", "memory": "1Gi"}


async def story(cluster: Cluster) -> float:
    """The namespace, the profile, the Deployment, and where its pod ends."""
    for name, labels in ((LABELLED, {"colocation": "batch"}), (OTHER, {})):
        meta = {"name": name, "labels": labels}
        await cluster.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    await cluster.admin.create(PROFILE)
    await cluster.add_host(NODE, Version.V1)
    await cluster.configure(colocation=COLOCATION)
    await cluster.until("the node offers batch resources", lambda: _offers(cluster))
    for namespace in (LABELLED, OTHER):
        await cluster.admin.create(_deployment(namespace))
    await cluster.until("both Deployments have their pod", lambda: _both(cluster))
    joined = (await _pods(cluster, LABELLED))[0]
    assert joined.metadata.labels["koordinator.sh/qosClass"] == "BE"
    assert joined.metadata.labels["koordinator.sh/priority"] == "1000"
    assert joined.spec.priority_class_name == "koord-batch"
    assert 5000 <= (joined.spec.priority or 0) <= 5999
    requests = joined.spec.containers[0].resources.requests
    amounts = {BATCH_CPU: "1k", BATCH_MEMORY: "1Gi"}
    assert {name: str(amount) for name, amount in requests.items()} == amounts
    took = await cluster.until("it runs, held in its cgroup", lambda: _held(cluster))
    other = (await _pods(cluster, OTHER))[0]
    assert set(other.metadata.labels) == {"app", "pod-template-hash"}
    assert {k: str(v) for k, v in other.spec.containers[0].resources.requests.items()} == AMOUNTS
    assert other.spec.priority in (None, 0)
    assert other.spec.scheduler_name == "default-scheduler"
    return took


def test_the_profile_demo_on_the_embedded_plane(tmp_path: Path, plain_files: None) -> None:
    async def whole(cluster: Cluster) -> float:
        which = ("deployment", "replicaset")
        async with (
            _in_process(cluster),
            BuiltinControllers(cluster.admin, cluster.plane.clock, which),
        ):
            return await story(cluster)

    on_embedded(tmp_path, whole)


@pytest.mark.real
def test_the_profile_demo_on_a_kube_apiserver(
    own_plane: RealControlPlane, tmp_path: Path, plain_files: None
) -> None:
    need("kube-controller-manager")
    which = ("deployment", "replicaset", "serviceaccount")
    names = ",".join(f"{name}-controller" for name in which)
    own_plane.start_controller_manager(f"--controllers={names}")

    async def whole(cluster: Cluster) -> float:
        scene = AdmissionScene(cluster.admin)
        await scene.install()
        async with scene.replica(koords=True):
            return await story(cluster)

    on_real(own_plane.kubeconfig, tmp_path, whole)


@asynccontextmanager
async def _in_process(cluster: Cluster) -> AsyncIterator[None]:
    """Admission beside an API server on virtual time, on which no socket can be waited for."""
    metrics, gates, clock = registry(), feature_gates(), cluster.plane.clock
    supervisor = Supervisor("webhook", metrics, clock)
    views = admission_views(cluster.admin, metrics, supervisor, gates)
    given = HandlerDependencies(
        cluster.admin, views, gates, WebhookOptions(), clock, lambda *_: None, metrics, supervisor
    )
    service = review_service(given)
    running = asyncio.create_task(views.run())
    try:
        await views.synced()
        assert cluster.plane.register_webhook is not None
        cluster.plane.register_webhook(f"{SYSTEM}/{SERVICE}", review_call(service))
        for kind, document in zip((MUTATING, VALIDATING), default_configurations(), strict=True):
            await cluster.admin.create(document, kind=kind)
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _deployment(namespace: str) -> Document:
    labels = {"app": "report"}
    container = {"name": "main", "image": "none",
                 "resources": {"requests": AMOUNTS, "limits": AMOUNTS}}  # fmt: skip
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "report", "namespace": namespace},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }  # fmt: skip


async def _pods(cluster: Cluster, namespace: str) -> list[Pod]:
    return (await cluster.admin.list(Pod, namespace=namespace)).items


async def _both(cluster: Cluster) -> bool:
    return all([await _pods(cluster, namespace) for namespace in (LABELLED, OTHER)])


async def _offers(cluster: Cluster) -> bool:
    node: Node = await cluster.node(NODE)
    amount = node.status.allocatable.get(BATCH_CPU)
    return amount is not None and amount.value() >= 1000


async def _held(cluster: Cluster) -> bool:
    """One core of quota and the least of shares, by the files of its cgroup."""
    pod = (await _pods(cluster, LABELLED))[0]
    host = cluster.hosts[NODE]
    running = host.pods.get(pod.metadata.name)
    if pod.spec.node_name != NODE or running is None:
        return False
    quota = host.says("cpu.cfs_quota_us", running.directory)
    memory = host.says("memory.limit_in_bytes", running.directory)
    return (quota, memory) == ("100000", str(1 << 30))
