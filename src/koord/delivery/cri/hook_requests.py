# SPDX-License-Identifier: Apache-2.0
"""What a hook server is told, made of what the kubelet asks of the runtime.

Rule: docs/reference/delivery.md#hook-service.
"""

from __future__ import annotations

from typing import Any

from koord.delivery.cri.messages import recast
from koord.delivery.hooks.messages import HOOKS


def pod_request(config: Any, runtime_handler: str = "") -> Any:
    """Of a ``PodSandboxConfig``."""
    made = HOOKS.PodSandboxHookRequest(
        runtime_handler=runtime_handler,
        labels=config.labels,
        annotations=config.annotations,
        cgroup_parent=config.linux.cgroup_parent,
    )
    made.pod_meta.CopyFrom(recast(config.metadata, HOOKS.PodSandboxMetadata))
    for name in ("overhead", "resources"):
        if config.linux.HasField(name):
            value = recast(getattr(config.linux, name), HOOKS.LinuxContainerResources)
            getattr(made, name).CopyFrom(value)
    return made


def container_request(pod: Any, config: Any) -> Any:
    """Of a ``ContainerConfig`` and the request of its pod."""
    made = HOOKS.ContainerResourceHookRequest(
        container_annotations=config.annotations, container_envs=environment_of(config)
    )
    made.container_meta.CopyFrom(recast(config.metadata, HOOKS.ContainerMetadata))
    resources = recast(config.linux.resources, HOOKS.LinuxContainerResources)
    made.container_resources.CopyFrom(resources)
    add_pod(made, pod)
    return made


def add_pod(request: Any, pod: Any) -> None:
    """Says in a container's request whose it is."""
    request.pod_meta.CopyFrom(pod.pod_meta)
    if pod.HasField("resources"):
        request.pod_resources.CopyFrom(pod.resources)
    request.pod_annotations.update(pod.annotations)
    request.pod_labels.update(pod.labels)
    request.pod_cgroup_parent = pod.cgroup_parent


def environment_of(config: Any) -> dict[str, str]:
    """Variables whose values are text; others are no hook's business."""
    made = {}
    for pair in config.envs:
        try:
            made[pair.key] = pair.value.decode("utf-8")
        except UnicodeDecodeError:
            made.pop(pair.key, None)
    return made


_NUMBERS = ("cpu_period", "cpu_shares", "memory_limit_in_bytes", "memory_swap_limit_in_bytes")
_CPUSETS = ("cpuset_cpus", "cpuset_mems")


def add_update(resources: Any, update: Any) -> None:
    """Puts over a container's resources what an update says of them; 0 and empty say nothing."""
    for name in _NUMBERS:
        if getattr(update, name) > 0:
            setattr(resources, name, getattr(update, name))
    if update.cpu_quota:
        resources.cpu_quota = update.cpu_quota
    for name in _CPUSETS:
        if getattr(update, name):
            setattr(resources, name, getattr(update, name))
    resources.unified.update(update.unified)
