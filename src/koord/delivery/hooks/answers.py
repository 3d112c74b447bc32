# SPDX-License-Identifier: Apache-2.0
"""Answers of the hook service: what was told, with what hooks want laid over it.

A proxy takes some fields of an answer as they stand, empty or 0, so one that says anything of a
container's resources says all that it was told of them.
Rule: docs/reference/delivery.md#answers-to-a-proxy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.delivery.hooks.messages import HOOKS

if TYPE_CHECKING:
    from koord.agent.hooks.container_values import ContainerValues


def pod_answer(request: Any) -> Any:
    """A ``PodSandboxHookResponse`` that changes nothing."""
    made = HOOKS.PodSandboxHookResponse(
        labels=request.labels, annotations=request.annotations, cgroup_parent=request.cgroup_parent
    )
    if request.HasField("resources"):
        made.resources.CopyFrom(request.resources)
    return made


def container_answer(request: Any, values: ContainerValues | None = None) -> Any:
    """A ``ContainerResourceHookResponse``.

    Args:
        request: a ``ContainerResourceHookRequest``.
        values: what hooks want of the container; None and empty change nothing. Mounts, devices and
            groups of resctrl have no field.
    """
    made = HOOKS.ContainerResourceHookResponse(
        container_annotations=request.container_annotations,
        pod_cgroup_parent=request.pod_cgroup_parent,
        container_envs=request.container_envs,
    )
    if request.HasField("container_resources"):
        made.container_resources.CopyFrom(request.container_resources)
    if values is not None:
        made.container_envs.update(values.environment)
        _lay_over(made, values)
    return made


def _lay_over(made: Any, values: ContainerValues) -> None:
    wanted = {
        "cpu_shares": values.cpu_shares,
        "cpu_quota": values.cfs_quota_us,
        "cpuset_cpus": values.cpus or None,
        "memory_limit_in_bytes": values.memory_limit_bytes,
        "oom_score_adj": values.oom_score_adj,
    }
    for name, value in wanted.items():
        if value is not None:
            setattr(made.container_resources, name, value)
