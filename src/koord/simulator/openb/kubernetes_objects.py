# SPDX-License-Identifier: Apache-2.0
"""The trace's nodes and pods as Kubernetes objects, as a scheduler is given them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from koord.api.codec import convert
from koord.api.kinds.device import Device
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.protocol import keys
from koord.api.protocol import resources as res
from koord.base.errors import KoordError
from koord.kernels.placement import GPU_MILLI

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.simulator.openb.trace import TraceNode, TracePod

NAMESPACE = "openb"
# Pods ask for shares, so it does not matter how much memory a card has; but it must have some.
_CARD_MEMORY = "16Gi"
_WHOLE = 100
_MILLI_A_PERCENT = GPU_MILLI // _WHOLE


def names_by_rank(nodes: Sequence[TraceNode], ranks: Sequence[int]) -> list[str]:
    """Names that sort by rank: a scheduler that breaks ties by name breaks them as the replay."""
    digits = len(str(len(nodes)))
    return [f"{rank:0{digits}}-{node.name}" for node, rank in zip(nodes, ranks, strict=True)]


def node_objects(node: TraceNode, name: str, pods_a_node: int) -> tuple[Node, Device]:
    """A node as the kubelet and koord-manager leave it, and its cards as the agent reports them.

    Args:
        node: of the trace.
        name: what to call it.
        pods_a_node: how many pods it may run.
    """
    offered = {
        "cpu": f"{node.cpu_milli}m",
        "memory": f"{node.memory_mib}Mi",
        "pods": str(pods_a_node),
    }
    if node.gpus:
        percent = str(node.gpus * _WHOLE)
        offered |= {
            res.NVIDIA_GPU: str(node.gpus),
            res.GPU: percent,
            res.GPU_CORE: percent,
            res.GPU_MEMORY_RATIO: percent,
        }
    labels = {"kubernetes.io/hostname": name, keys.GPU_MODEL: node.model}
    made = {
        "metadata": {"name": name, "labels": {k: v for k, v in labels.items() if v}},
        "status": {"allocatable": offered, "capacity": offered},
    }
    cards = {"metadata": {"name": name}, "spec": {"devices": [_card(i) for i in range(node.gpus)]}}
    return convert(made, Node, f"Node {name}"), convert(cards, Device, f"Device {name}")


def _card(minor: int) -> dict[str, Any]:
    resources = {
        res.GPU_CORE: str(_WHOLE),
        res.GPU_MEMORY: _CARD_MEMORY,
        res.GPU_MEMORY_RATIO: str(_WHOLE),
    }
    return {
        "type": "gpu",
        "minor": minor,
        "id": f"GPU-{minor}",
        "health": True,
        "resources": resources,
    }


def pod_template(pod: TracePod, scheduler_name: str) -> Pod:
    """A pod that asks for what a pod of the trace asks for: shares in percent, or whole GPUs.

    Raises:
        KoordError: a share that is no whole percentage of a GPU.
    """
    shape = pod.shape
    requests = {"cpu": f"{shape.cpu_milli}m", "memory": f"{pod.memory_mib}Mi"}
    if shape.gpu_milli == GPU_MILLI:
        requests[res.NVIDIA_GPU] = str(shape.gpu_count)
    elif shape.gpu_milli:
        requests |= _share(pod)
    spec: dict[str, Any] = {
        "schedulerName": scheduler_name,
        "containers": [{"name": "main", "resources": {"requests": requests}}],
    }
    models = [model for model in shape.gpu_spec.split("|") if model] if shape.gpu_count else []
    if models:
        expression = {"key": keys.GPU_MODEL, "operator": "In", "values": models}
        terms = [{"matchExpressions": [expression]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    made = {"metadata": {"name": pod.name, "namespace": NAMESPACE}, "spec": spec}
    return convert(made, Pod, f"Pod {pod.name}")


def _share(pod: TracePod) -> dict[str, str]:
    """The same part of compute and memory, on each of several cards where there are several."""
    percent, rest = divmod(pod.shape.gpu_milli, _MILLI_A_PERCENT)
    if rest:
        expected = f"a multiple of {_MILLI_A_PERCENT}: pods ask for GPU shares in percent"
        raise KoordError(f"pod {pod.name}", "gpu_milli", pod.shape.gpu_milli, expected)
    total = str(percent * pod.shape.gpu_count)
    asked = {res.GPU_CORE: total, res.GPU_MEMORY_RATIO: total}
    if pod.shape.gpu_count > 1:
        asked[res.GPU_SHARED] = str(pod.shape.gpu_count)
    return asked


def pod_object(template: Pod, name: str) -> Pod:
    """A pod like another but for its name; what makes its shape is shared, so it is told at once.

    Args:
        template: see :func:`pod_template`.
        name: name and uid of the pod.
    """
    made, meta = copy.copy(template), copy.copy(template.metadata)
    meta.name = meta.uid = name
    made.metadata = meta
    return made
