# SPDX-License-Identifier: Apache-2.0
"""The objects of a history, as wire documents."""

from __future__ import annotations

import json
from typing import Any

from koord.api.kinds.registry import KINDS

Document = dict[str, Any]
CPUS, THREADS, GPUS = 8, 2, 2
GROUP = "scheduling.koordinator.sh/"
ALLOCATED, CPU_STATUS = GROUP + "reservation-allocated", GROUP + "resource-status"
CPU_SPEC, DEVICES = GROUP + "resource-spec", GROUP + "device-allocated"
QUOTA = "quota.scheduling.koordinator.sh/"
# Two teams of a company, and a quota without a tree for the pods of a namespace of its own.
COMPANY, GUIDE, GUIDE_SPACE = "company", "guide", "guides"
PARENTS = {"team-a": COMPANY, "team-b": COMPANY}
MINIMA = {COMPANY: 4, "team-a": 2, "team-b": 1, GUIDE: 1}
GANG = "gang.scheduling.koordinator.sh/"
MINOR = ("koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio")
# By form: QoS class, bind policy, exclusive policy.
CPU_FORMS = {
    "bound": ("LSR", "FullPCPUs", ""),
    "spread": ("LSE", "SpreadByPCPUs", ""),
    "pcpu": ("LSR", "SpreadByPCPUs", "PCPULevel"),
    "pcpu-full": ("LSE", "FullPCPUs", "PCPULevel"),
    "numa": ("LSR", "FullPCPUs", "NUMANodeLevel"),
    "numa-spread": ("LSE", "SpreadByPCPUs", "NUMANodeLevel"),
}


def kind(name: str, group: str | None = None) -> Any:
    if name == "ElasticQuota" and group is None:
        group = "scheduling.sigs.k8s.io"
    elif name == "GroupQuota":
        name, group = "ElasticQuota", "quota.koordinator.sh"
    return next(k for k in KINDS if k.name == name and group in (None, k.group))


def node(name: str, number: int, gpus: bool) -> Document:
    amounts = {"cpu": str(CPUS), "memory": "16Gi", "pods": "20"}
    if gpus:
        whole = str(100 * GPUS)
        amounts |= dict.fromkeys(MINOR, whole)
        amounts["koordinator.sh/gpu-memory"] = f"{16 * GPUS}Gi"
    labels = {"kubernetes.io/hostname": name, "zone": f"z{number % 2}"}
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": ready},
    }


def topology_rows() -> list[tuple[int, int, int, int]]:
    """CPU, core, socket and NUMA node of each CPU of a node."""
    half = CPUS // 2
    return [(cpu, cpu // THREADS, cpu // half, cpu // half) for cpu in range(CPUS)]


def topology(name: str) -> Document:
    detail = [
        {"id": cpu, "core": core, "socket": socket, "node": zone}
        for cpu, core, socket, zone in topology_rows()
    ]
    annotations = {
        "node.koordinator.sh/cpu-topology": json.dumps({"detail": detail}),
        "kubelet.koordinator.sh/cpu-manager-policy": '{"policy":"none"}',
    }
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name, "annotations": annotations},
        "topologyPolicies": ["None"],
        "zones": [],
    }


def device(name: str, count: int = GPUS) -> Document:
    each = dict.fromkeys(MINOR, "100") | {"koordinator.sh/gpu-memory": "16Gi"}
    devices = [
        {"type": "gpu", "id": f"{name}-{minor}", "minor": minor, "health": True, "resources": each}
        for minor in range(count)
    ]
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": name},
        "spec": {"devices": devices},
    }


def reservation(
    name: str, cpu: int, policy: str, once: bool, ttl: str = "0s", form: str = "plain"
) -> Document:
    """Room for pods of one form, with the CPUs and cards that these would have."""
    owners = [{"labelSelector": {"matchLabels": {"owner": "r"}}}]
    made = pod("", form, cpu, {})
    template = {"metadata": made["metadata"], "spec": made["spec"]}
    spec = {"template": template, "owners": owners, "ttl": ttl}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name},
        "spec": {**spec, "allocateOnce": once, "allocatePolicy": policy},
    }


def quota(name: str, most: int) -> Document:
    """A quota of the tree, or the guide's, of which the lesser of two limits holds."""
    least = {"cpu": str(min(most, MINIMA.get(name, 0))), "memory": "0"}
    limits = {"cpu": str(most), "memory": "64Gi"}
    if name == GUIDE:
        loose = limits | {"cpu": str(most + 4)}
        both = {"hard": limits, "max": loose} if most % 2 else {"hard": loose, "max": limits}
        return {
            "apiVersion": "quota.koordinator.sh/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": name, "namespace": GUIDE_SPACE},
            "spec": {"min": least, "priority": 1, **both},
        }
    labels = {QUOTA + "is-parent": str(name == COMPANY).lower()}
    if name in PARENTS:
        labels[QUOTA + "parent"] = PARENTS[name]
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"min": least, "max": limits},
    }


def pod_group(name: str, least: int) -> Document:
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": least},
    }


def pod(name: str, form: str, cpu: int, labels: dict[str, str]) -> Document:
    """A pod of one of several forms; deleted at once, as no kubelet would confirm it."""
    requests = {"cpu": str(cpu), "memory": "256Mi"}
    labels, annotations, spec = dict(labels), {}, {}
    if form in CPU_FORMS:
        qos, bind, exclusive = CPU_FORMS[form]
        labels["koordinator.sh/qosClass"] = qos
        spec["priorityClassName"] = "koord-prod"
        wish = {"preferredCPUBindPolicy": bind, "preferredCPUExclusivePolicy": exclusive}
        annotations[CPU_SPEC] = json.dumps({key: each for key, each in wish.items() if each})
    elif form == "share":
        requests |= dict.fromkeys(MINOR, "50")
    elif form == "gpus":
        requests |= {resource: str(100 * cpu) for resource in MINOR}
        requests["cpu"] = "1"
    elif form == "high":
        spec["priorityClassName"] = "koord-prod"
    elif form == "apart":
        term = {"topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"form": "apart"}}}  # fmt: skip
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        spec["affinity"] = {"podAntiAffinity": rule}
    elif form == "gated":
        spec["schedulingGates"] = [{"name": "example.com/wait"}]
    elif form == "broken":
        annotations[CPU_SPEC] = "{"
    container = {"name": "main", "image": "i",
                 "resources": {"requests": requests, "limits": requests}}  # fmt: skip
    space = GUIDE_SPACE if labels.get(QUOTA + "name") == GUIDE else "default"
    metadata: Document = {"namespace": space, "labels": labels, "annotations": annotations}
    if name:
        metadata["name"] = name
    base = {"schedulerName": "koord-scheduler", "terminationGracePeriodSeconds": 0}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**base, "containers": [container], **spec},
    }


def changed(found: Document, how: str) -> Document:
    """What to change of a pod: its owner, its team, what cannot be read of it, and the like."""
    labels, spec = found["metadata"]["labels"], found["spec"]
    team = labels.get(QUOTA + "name")
    if how == "owner":
        return {"metadata": {"labels": {"owner": None if "owner" in labels else "r"}}}
    if how == "team" and team in PARENTS:
        other = next(each for each in PARENTS if each != team)
        return {"metadata": {"labels": {QUOTA + "name": other}}}
    if how == "mend" and labels.get("form") == "broken":
        return {"metadata": {"labels": {"form": "plain"}, "annotations": {CPU_SPEC: None}}}
    if how == "tolerate":
        cordon = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
        return {"spec": {"tolerations": [*spec.get("tolerations", []), cordon]}}
    return {"spec": {"schedulingGates": None}} if how == "ungate" else {}


def reported(found: Document, how: str) -> Document:
    """What a node says of a pod that may be resized: of its container, and of the resize."""
    (container,) = found["spec"]["containers"]
    held = dict(container["resources"]["requests"])
    if how == "lag":
        held["cpu"] = "3"
    known = found["status"].get("containerStatuses")
    state = {
        "name": container["name"], "image": "i", "imageID": "", "ready": True, "restartCount": 0,
        "allocatedResources": held, "resources": {"requests": held},
    }  # fmt: skip
    refused = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    conditions = found["status"].get("conditions", [])
    kept = [each for each in conditions if each["type"] != refused["type"]]
    if how == "refuse":
        return {"containerStatuses": known or [state], "conditions": [*kept, refused]}
    return {"containerStatuses": [state], "conditions": kept}


def members(pods: list[Document], gang: str) -> list[Document]:
    return [p for p in pods if p["metadata"].get("labels", {}).get("gang") == gang]


def alive(each: Document) -> bool:
    return each.get("status", {}).get("phase") not in ("Succeeded", "Failed")
