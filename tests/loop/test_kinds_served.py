# SPDX-License-Identifier: Apache-2.0
"""All components on an API server without koord's kinds, with Koordinator's alone, and while kinds
come and go.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from koord.api import definitions
from koord.api.kinds.quota import ElasticQuota
from koord.api.protocol.resources import BATCH_CPU
from koord.kernels.cgroup_parse import Version
from koord.kernels.quantity import Rounding
from koord.kube import crds as installing
from koord.kube.errors import ApiError
from koord.kube.served import unserved
from tests.controlplane.plane import RealControlPlane
from tests.loop.cluster import Cluster, on_embedded, on_real

DATA = Path(__file__).resolve().parents[1] / "data" / "crds"
REFERENCE = [yaml.safe_load(path.read_text("utf-8")) for path in sorted(DATA.glob("*.yaml"))]
GUIDES, QUOTA = "ElasticQuota.quota.koordinator.sh", "ElasticQuota.scheduling.sigs.k8s.io"
NODE = "node-1"
COLOCATION = {
    "enable": True,
    "metricReportIntervalSeconds": 1,
    "metricAggregateDurationSeconds": 10,
}
MOST_SECONDS = 180.0
TEAM = {
    "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
    "kind": "ElasticQuota",
    "metadata": {"name": "team", "namespace": "default"},
    "spec": {"max": {"cpu": "1", "memory": "1Gi"}, "min": {}},
}


async def story(cluster: Cluster) -> float:
    """Everything in its order; how long it took outside."""
    begin = time.monotonic()
    await _without_any_kind(cluster)
    await _with_koordinators(cluster)
    await _some_go(cluster)
    await _they_come_back(cluster)
    return time.monotonic() - begin


def test_on_the_embedded_plane(tmp_path: Path, plain_files: None) -> None:
    on_embedded(tmp_path, story, list)


@pytest.mark.real
def test_on_a_kube_apiserver(
    own_plane: RealControlPlane, tmp_path: Path, plain_files: None
) -> None:
    took = on_real(own_plane.kubeconfig, tmp_path, story, list)
    print(f"\n{took:.0f} s")
    assert took < MOST_SECONDS


async def _without_any_kind(cluster: Cluster) -> None:
    assert cluster.scheduler.views.readiness() == (
        "not served: ClusterNetworkTopology, Device, ElasticQuota.quota.koordinator.sh, "
        "ElasticQuota.scheduling.sigs.k8s.io, NodeMetric, NodeResourceTopology, PodGroup, "
        "Reservation"
    )
    assert cluster.manager.views.readiness() == (
        "not served: Device, ElasticQuota.scheduling.sigs.k8s.io, "
        "ElasticQuotaProfile, NodeMetric, NodeResourceTopology, NodeSLO"
    )
    await cluster.add_host(NODE, Version.V2)
    agent = cluster.agents[NODE]

    async def known() -> bool:
        return len(unserved(agent.informers)) == 3

    await cluster.until("the agent knows what is not served", known)
    assert unserved(agent.informers) == ["NodeMetric", "NodeResourceTopology", "NodeSLO"]
    await cluster.configure(colocation=COLOCATION)
    await _submit(cluster, "plain")
    await _runs(cluster, "plain")


async def _with_koordinators(cluster: Cluster) -> None:
    await cluster.define(REFERENCE)
    await _offers(cluster)
    await _knows(cluster, [GUIDES])
    assert cluster.scheduler.views.readiness() == f"not served: {GUIDES}"
    assert cluster.manager.views.readiness() is None
    assert unserved(cluster.agents[NODE].informers) == []
    await cluster.admin.create(TEAM)
    await _builtin(cluster)
    await _submit(cluster, "over", quota="team", cpu="2")
    await _waits(cluster, "over")


async def _some_go(cluster: Cluster) -> None:
    """What was in them is gone for all who used it."""
    for name in ("elasticquotas.scheduling.sigs.k8s.io", "nodemetrics.slo.koordinator.sh"):
        await cluster.admin.delete(installing.CRD, name)
    # It is in no quota now.
    await _runs(cluster, "over")

    async def taken_back() -> bool:
        return not await _batch(cluster)

    await cluster.until("nothing is offered without reports", taken_back)
    await _knows(cluster, ["NodeMetric", GUIDES, QUOTA])
    assert unserved(cluster.agents[NODE].informers) == ["NodeMetric"]


async def _they_come_back(cluster: Cluster) -> None:
    await cluster.define(definitions.crds())
    await _offers(cluster)
    await _knows(cluster, [])
    await cluster.admin.create(TEAM)
    await _builtin(cluster)
    await _submit(cluster, "again", quota="team", cpu="2")
    await _waits(cluster, "again")


async def _knows(cluster: Cluster, names: list[str]) -> None:
    async def known() -> bool:
        return sorted(unserved(cluster.scheduler.views.informers())) == sorted(names)

    await cluster.until(f"the scheduler finds {names} not served", known)


async def _offers(cluster: Cluster) -> None:
    async def offered() -> bool:
        return await _batch(cluster) >= 1000

    await cluster.until("the node offers batch resources", offered)


async def _batch(cluster: Cluster) -> int:
    found = (await cluster.node(NODE)).status.allocatable.get(BATCH_CPU)
    return 0 if found is None else found.value(Rounding.UP)


async def _builtin(cluster: Cluster) -> None:
    async def made() -> bool:
        try:
            found = await cluster.admin.list(ElasticQuota, namespace="koordinator-system")
        except ApiError:
            return False
        return len(found.items) == 3

    await cluster.until("there are the built-in quotas", made)


async def _submit(cluster: Cluster, name: str, quota: str = "", cpu: str = "1") -> None:
    labels = {"quota.scheduling.koordinator.sh/name": quota} if quota else {}
    await cluster.submit(name, NODE, "koord-prod", labels, cpu=cpu, memory="1Gi")


async def _waits(cluster: Cluster, name: str) -> None:
    async def told() -> bool:
        return "quota" in await cluster.message(name)

    await cluster.until(f"{name} says that its quota is too small", told)
    assert await cluster.bound(name) == ""


async def _runs(cluster: Cluster, name: str) -> None:
    async def bound() -> Any:
        return await cluster.bound(name) == NODE and name in cluster.hosts[NODE].pods

    await cluster.until(f"{name} runs", bound)
