# SPDX-License-Identifier: Apache-2.0
"""All components on an API server without koord's kinds, with Koordinator's alone, and while kinds
come and go.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from koord.api import definitions
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.quota import ElasticQuota
from koord.api.kinds.topology import NodeResourceTopology
from koord.api.protocol.resources import BATCH_CPU
from koord.kernels.cgroup_parse import Version
from koord.kernels.quantity import Rounding
from koord.kube import crds as installing
from koord.kube.daemon.missing_kinds import unserved
from koord.kube.errors import ApiError
from tests.kube.harness import logged
from tests.loop.cluster import Cluster, on_embedded, on_real
from tests.real.plane import RealControlPlane

DATA = Path(__file__).resolve().parents[1] / "data" / "crds"
# Plain Python takes seconds for these.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
REFERENCE = [yaml.load(path.read_text("utf-8"), _LOADER) for path in sorted(DATA.glob("*.yaml"))]
GUIDES, QUOTA = "ElasticQuota.quota.koordinator.sh", "ElasticQuota.scheduling.sigs.k8s.io"
GOING = (
    "elasticquotas.scheduling.sigs.k8s.io",
    "nodemetrics.slo.koordinator.sh",
    "nodeslos.slo.koordinator.sh",
)
# The agent of the first is there before any kind; that of the other reports sooner, for its first
# interval is the one that was asked for.
NODE, OTHER = "node-1", "node-2"
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
    for part in (_without_any_kind, _with_koordinators, _some_go, _they_come_back):
        await part(cluster)
        print(f"{part.__name__}: {time.monotonic() - begin:.0f} s")
    return time.monotonic() - begin


def test_on_the_embedded_plane(tmp_path: Path, plain_files: None) -> None:
    on_embedded(tmp_path, story, list)


def test_each_says_in_one_line_what_it_does_not_do(tmp_path: Path, plain_files: None) -> None:
    async def started(cluster: Cluster) -> float:
        await cluster.add_host(NODE, Version.V2)
        await asyncio.sleep(5.0)
        return 0.0

    with logged("koord", logging.WARNING) as records:
        on_embedded(tmp_path, started, list)
    lines = {
        each.name: each.__dict__["koord_fields"]["without"]
        for each in records
        if each.message == "kinds are not served"
    }
    assert lines == {
        "koord.agent": "NodeMetric: use is not reported; NodeResourceTopology: CPUs and NUMA zones "
        "are not reported; NodeSLO: no strategy acts",
        "koord.manager": "Device: nodes do not offer GPU shares; "
        "ElasticQuota.scheduling.sigs.k8s.io: quota trees have no roots; ElasticQuotaProfile: "
        "there are no quota trees by node pool; NodeMetric: no batch or mid resources are offered; "
        "NodeResourceTopology: nothing is offered by NUMA zone; NodeSLO: agents get no settings",
        "koord.scheduler": "ClusterNetworkTopology: jobs are not kept together on the network; "
        "Device: pods that ask for GPU shares find no node; ElasticQuota.scheduling.sigs.k8s.io: "
        "only the built-in quotas hold; NodeMetric: nodes are not judged by their use; "
        "NodeResourceTopology: pods that ask for CPUs of their own find no node; PodGroup: jobs "
        "are known by annotations alone; Reservation: nothing is reserved",
    }


def test_koordinators_kinds_lack_nothing_that_is_missed(tmp_path: Path, plain_files: None) -> None:
    """The guide's quota is no loss, and pods are bound without it."""

    async def bound(cluster: Cluster) -> float:
        assert cluster.scheduler.views.readiness() == f"not served: {GUIDES}"
        await cluster.add_host(NODE, Version.V2)
        await _submit(cluster, "plain")
        await _runs(cluster, "plain")
        return 0.0

    with logged("koord", logging.WARNING) as records:
        on_embedded(tmp_path, bound, lambda: REFERENCE)
    assert "kinds are not served" not in [each.message for each in records]


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
    cluster.missed.clear()
    await _submit(cluster, "plain")
    await _runs(cluster, "plain")
    # Nobody tries to write what cannot be there.
    await asyncio.sleep(4.0)
    assert cluster.missed == []


async def _with_koordinators(cluster: Cluster) -> None:
    await cluster.define(REFERENCE)

    async def described() -> bool:
        return bool((await cluster.admin.list(NodeMetric)).items)

    await cluster.until("the manager says how to report", described)
    await cluster.add_host(OTHER, Version.V2)
    await _offers(cluster)
    await _knows(cluster, [GUIDES])
    assert cluster.scheduler.views.readiness() == f"not served: {GUIDES}"
    assert cluster.manager.views.readiness() is None
    await _knows_all(cluster)
    await cluster.admin.create(TEAM)
    await _builtin(cluster)
    await _submit(cluster, "over", quota="team", cpu="2")
    await _waits(cluster, "over")


async def _some_go(cluster: Cluster) -> None:
    """What was in them is gone for all who used it."""
    for name in GOING:
        await cluster.admin.delete(installing.CRD, name)
    # It is in no quota now.
    await _runs(cluster, "over")

    async def taken_back() -> bool:
        return not await _batch(cluster)

    await cluster.until("nothing is offered without reports", taken_back)
    await _knows(cluster, ["NodeMetric", GUIDES, QUOTA])

    async def agents_know() -> bool:
        agents = cluster.agents.values()
        return all(unserved(each.informers) == ["NodeMetric", "NodeSLO"] for each in agents)

    await cluster.until("both agents know what went", agents_know)
    # Settings stay what they were last.
    assert cluster.agents[OTHER].store.snapshot().slo.value is not None


async def _they_come_back(cluster: Cluster) -> None:
    await cluster.define(definitions.crds())

    async def described() -> bool:
        metrics = (await cluster.admin.list(NodeMetric)).items
        agents = cluster.agents.values()
        return len(metrics) == 2 and not any(unserved(each.informers) for each in agents)

    await cluster.until("reports are asked for again", described)
    await _knows(cluster, [])
    await cluster.admin.create(TEAM)
    await _builtin(cluster)
    await _submit(cluster, "again", quota="team", cpu="2")
    await _waits(cluster, "again")


async def _knows(cluster: Cluster, names: list[str]) -> None:
    async def known() -> bool:
        return sorted(unserved(cluster.scheduler.views.informers())) == sorted(names)

    await cluster.until(f"the scheduler finds {names} not served", known)


async def _knows_all(cluster: Cluster) -> None:
    agent = cluster.agents[NODE]

    async def known() -> bool:
        topology = await cluster.admin.list(NodeResourceTopology)
        return not unserved(agent.informers) and len(topology.items) == 2

    await cluster.until("the first agent finds all kinds served, and reports", known)
    assert agent.store.snapshot().slo.value is not None


async def _offers(cluster: Cluster) -> None:
    async def offered() -> bool:
        return await _batch(cluster) >= 1000

    await cluster.until("the node offers batch resources", offered)


async def _batch(cluster: Cluster) -> int:
    found = (await cluster.node(OTHER)).status.allocatable.get(BATCH_CPU)
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
