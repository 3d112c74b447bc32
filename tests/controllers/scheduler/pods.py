# SPDX-License-Identifier: Apache-2.0
"""Pods, nodes and a decider for tests, from few words."""

from __future__ import annotations

from typing import Any

from koord.api.codec import convert
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.controllers.cluster.node_table import NodeTable
from koord.controllers.cluster.pods import PodInfo, Shapes

SHAPES = Shapes()


def pod(name: str, cpu: str = "", memory: str = "", **spec: Any) -> Pod:
    """A pending pod of one container; ``spec`` is in wire names, ``labels`` and the like too."""
    meta = {
        "name": name,
        "namespace": spec.pop("namespace", "default"),
        "uid": spec.pop("uid", f"uid-{name}"),
        "labels": spec.pop("labels", {}),
        "annotations": spec.pop("annotations", {}),
        "ownerReferences": spec.pop("owners", []),
    }
    requests = {**({"cpu": cpu} if cpu else {}), **({"memory": memory} if memory else {})}
    requests.update(spec.pop("requests", {}))
    containers = [{"name": "main", "resources": {"requests": requests}}]
    status = spec.pop("status", {})
    document = {
        "metadata": meta,
        "spec": {"containers": containers, "schedulerName": "koord-scheduler", **spec},
        "status": status,
    }
    return convert(document, Pod, f"Pod {name}")


def info(pod: Pod) -> PodInfo:
    """The pod with its shape."""
    return SHAPES.info(pod)


def node(name: str, cpu: str = "32", memory: str = "128Gi", **more: Any) -> Node:
    """A node; ``labels``, ``annotations``, ``taints``, ``allocatable`` in wire form."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": more.pop("pods", "110")}
    allocatable.update(more.pop("allocatable", {}))
    document = {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **more.pop("labels", {})},
            "annotations": more.pop("annotations", {}),
        },
        "spec": {"taints": more.pop("taints", []), **more.pop("spec", {})},
        "status": {"allocatable": allocatable, "capacity": allocatable, **more},
    }
    return convert(document, Node, f"Node {name}")


def table(*nodes: Node) -> NodeTable:
    """A table of these nodes."""
    made = NodeTable()
    for each in nodes:
        made.put(each)
    return made
