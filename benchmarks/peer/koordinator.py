# SPDX-License-Identifier: Apache-2.0
"""Pods that only Koordinator's schedulers understand, and the objects that they are about.

Gangs of ten, quotas of a tree of two levels, and CPUs of a pod's own. Both koord-scheduler and the
original's have the profile that they ship with; kube-scheduler has no part in these.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from benchmarks.peer.nodes import MOST_CPUS, node_name, pod
from koord.api.protocol import keys
from koord.base.documents import Document

GANG_MEMBERS = 10
PARENTS, CHILDREN = 5, 10
NAMESPACE = "koordinator-system"
_CORES, _ZONES = 16, 2

Objects = Iterator[tuple[str, Document]]
"""Collection paths, and what is created there."""


def common() -> Objects:
    """What both schedulers expect of a cluster, besides definitions."""
    yield "/api/v1/namespaces", _named("v1", "Namespace", NAMESPACE)
    made = _named("scheduling.k8s.io/v1", "PriorityClass", "koord-prod") | {"value": 9000}
    yield "/apis/scheduling.k8s.io/v1/priorityclasses", made


def gang_member(name: str) -> Document:
    """A plain pod of the gang that its number says."""
    return pod(name, labels={"app": "measured", keys.POD_GROUP: _gang(_number(name))})


def gangs(nodes: int, pods: int) -> Objects:
    """A PodGroup for every ten pods; the last one needs as many as there are."""
    del nodes
    path = f"/apis/{_SIGS}/namespaces/{{namespace}}/podgroups"
    for first in range(0, pods, GANG_MEMBERS):
        made = _named(_SIGS, "PodGroup", _gang(first), "default")
        yield path, made | {"spec": {"minMember": min(GANG_MEMBERS, pods - first)}}


def charged(name: str) -> Document:
    """A plain pod, charged to one of the leaves in turn."""
    number = _number(name) % (PARENTS * CHILDREN)
    return pod(name, labels={"app": "measured", keys.QUOTA_NAME: _leaf(number)})


def quotas(nodes: int, pods: int) -> Objects:
    """Five parents with ten leaves each, which are promised half of the cluster together."""
    del pods
    cpus = nodes * MOST_CPUS
    share = max(1, cpus // (2 * PARENTS * CHILDREN))
    for parent in range(PARENTS):
        labels = {keys.QUOTA_IS_PARENT: "true"}
        yield _quota(f"team-{parent}", share * CHILDREN, cpus, labels)
    for leaf in range(PARENTS * CHILDREN):
        labels = {keys.QUOTA_PARENT: f"team-{leaf % PARENTS}", keys.QUOTA_IS_PARENT: "false"}
        yield _quota(_leaf(leaf), share, cpus, labels)


def bound_to_cpus(name: str) -> Document:
    """An LSR pod with a physical core of its own."""
    amounts = {"cpu": "2", "memory": "1Gi"}
    made = pod(
        name, labels={"app": "measured", keys.QOS_CLASS: "LSR"}, requests=amounts,
        priorityClassName="koord-prod",
    )  # fmt: skip
    made["spec"]["containers"][0]["resources"]["limits"] = amounts
    policy = json.dumps({"preferredCPUBindPolicy": "FullPCPUs"})
    made["metadata"]["annotations"] = {keys.RESOURCE_SPEC: policy}
    return made


def topologies(nodes: int, pods: int) -> Objects:
    """A NodeResourceTopology for each node: two zones, two threads a core."""
    del pods
    path = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies"
    detail = [
        {"id": cpu, "core": cpu % _CORES, "socket": 0, "node": cpu % _CORES * _ZONES // _CORES}
        for cpu in range(MOST_CPUS)
    ]
    notes = {keys.CPU_TOPOLOGY: json.dumps({"detail": detail}, separators=(",", ":"))}
    zones = [_zone(zone) for zone in range(_ZONES)]
    for number in range(nodes):
        made = _named("topology.node.k8s.io/v1alpha1", "NodeResourceTopology", node_name(number))
        made["metadata"]["annotations"] = notes
        yield path, made | {"topologyPolicies": ["None"], "zones": zones}


_SIGS = "scheduling.sigs.k8s.io/v1alpha1"


def _zone(zone: int) -> Document:
    amounts = {"cpu": str(MOST_CPUS // _ZONES), "memory": "128Gi"}
    resources = [
        {"name": name, "capacity": amount, "allocatable": amount, "available": amount}
        for name, amount in amounts.items()
    ]
    return {"name": f"node-{zone}", "type": "Node", "resources": resources}


def _quota(name: str, least: int, most: int, labels: dict[str, str]) -> tuple[str, Document]:
    made = _named(_SIGS, "ElasticQuota", name, "default")
    made["metadata"]["labels"] = labels
    bounds = {
        which: {"cpu": str(cpus), "memory": f"{8 * cpus}Gi"}
        for which, cpus in (("min", least), ("max", most))
    }
    return f"/apis/{_SIGS}/namespaces/{{namespace}}/elasticquotas", made | {"spec": bounds}


def _named(version: str, kind: str, name: str, namespace: str = "") -> Document:
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": meta}


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _gang(number: int) -> str:
    return f"gang-{number // GANG_MEMBERS:05}"


def _leaf(number: int) -> str:
    return f"queue-{number:02}"
