# SPDX-License-Identifier: Apache-2.0
"""Pods, nodes and strategies as hooks see them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from koord.agent.hooks.hook import ContainerContext, PodContext
from koord.agent.hooks.options import HookOptions
from koord.agent.hooks.pod_contexts import container_context, pod_context
from koord.agent.host.cgroup_layout import CgroupLayout
from koord.agent.states.pod_state import PodState, pod_state
from koord.agent.states.snapshot import Snapshot, Timestamped
from koord.api import codec
from koord.api.kinds.node import Node
from koord.api.kinds.nodeslo import NodeSLOSpec
from koord.api.kinds.pod import Pod
from koord.api.kinds.topology import NodeResourceTopology
from koord.kernels.cgroup_path import Driver

LAYOUT = CgroupLayout(Driver.CGROUPFS)
BATCH_CPU, BATCH_MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
STATUS = "scheduling.koordinator.sh/resource-status"
DEVICES = "scheduling.koordinator.sh/device-allocated"


def container(
    name: str, requests: Mapping[str, str] = {}, limits: Mapping[str, str] = {}
) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": dict(requests), "limits": dict(limits)}}


def pod(
    qos: str = "",
    kube_qos: str = "Burstable",
    containers: list[dict[str, Any]] | None = None,
    annotations: Mapping[str, Any] | None = None,
    **more: Any,
) -> PodState:
    """A running pod; annotations that are no texts become JSON. ``more``: uid, labels, init..."""
    uid = more.get("uid", "u1")
    rows = [container("main")] if containers is None else containers
    init = more.get("init", [])
    labels = {"koordinator.sh/qosClass": qos} if qos else {}
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in (annotations or {}).items()}
    document = {
        "metadata": {"name": f"pod-{uid}", "namespace": "default", "uid": uid,
                     "labels": labels | more.get("labels", {}), "annotations": texts},
        "spec": {"containers": rows, "initContainers": init, **more.get("spec", {})},
        "status": {
            "phase": more.get("phase", "Running"), "qosClass": kube_qos,
            "containerStatuses": [_status(uid, row["name"], more) for row in rows],
            "initContainerStatuses": [_status(uid, row["name"], more) for row in init],
        },
    }  # fmt: skip
    return pod_state(codec.convert(document, Pod, "pod", ""), LAYOUT)


def _status(uid: str, name: str, more: Mapping[str, Any]) -> dict[str, Any]:
    started = more.get("started", True)
    return {"name": name, "containerID": f"containerd://{uid}{name}" if started else ""}


def context(state: PodState) -> PodContext:
    return pod_context(state)


def inner(state: PodState, index: int = 0) -> ContainerContext:
    return container_context(pod_context(state), state.containers[index])


def snapshot(
    *pods: PodState,
    slo: Mapping[str, Any] | None = None,
    node: Mapping[str, str] | None = None,
    nrt: Mapping[str, Any] | None = None,
) -> Snapshot:
    """What the cluster says; ``node`` and ``nrt`` are annotations."""
    made_node = made_nrt = None
    if node is not None:
        document: dict[str, Any] = {"metadata": {"name": "n", "annotations": dict(node)}}
        made_node = codec.convert(document, Node, "node", "")
    if nrt is not None:
        texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in nrt.items()}
        document = {"metadata": {"name": "n", "annotations": texts}, "zones": []}
        made_nrt = codec.convert(document, NodeResourceTopology, "nrt", "")
    made_slo = None if slo is None else codec.convert(dict(slo), NodeSLOSpec, "slo", "")
    return Snapshot(
        pods=Timestamped(tuple(pods), 0.0), slo=Timestamped(made_slo), node=Timestamped(made_node),
        topology=Timestamped(made_nrt),
    )  # fmt: skip


def options(on: set[str] | None = None, **more: Any) -> HookOptions:
    """Everything is there; gates as named."""
    gates = on or set()
    settings: dict[str, Any] = {"gate": lambda name: name in gates, "has": lambda feature: True}
    return HookOptions(**(settings | more))


def qualities(policy: str = "", **classes: Mapping[str, Any]) -> dict[str, Any]:
    """A NodeSLO with the CPU quality of classes: ``lsr={"enable": True, ...}``."""
    strategy: dict[str, Any] = {
        f"{name}Class": {"cpuQOS": dict(quality)} for name, quality in classes.items()
    }
    if policy:
        strategy["policies"] = {"cpuPolicy": policy}
    return {"resourceQOSStrategy": strategy}


POOLS = {
    "node.koordinator.sh/cpu-shared-pools": [
        {"socket": 0, "node": 0, "cpuset": "0-7"}, {"socket": 1, "node": 1, "cpuset": "8-15"},
    ],
    "node.koordinator.sh/be-cpu-shared-pools": [
        {"socket": 0, "node": 0, "cpuset": "0-5"}, {"socket": 1, "node": 1, "cpuset": "10-15"},
    ],
}  # fmt: skip
