# SPDX-License-Identifier: Apache-2.0
"""Values of hooks in NRI's terms: what a new container gets, and what one that runs is given.

Rule: docs/reference/delivery.md#adjustments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.delivery.nri.messages import NRI

if TYPE_CHECKING:
    from koord.agent.hooks.container_values import ContainerValues


def environment_of(container: Any) -> dict[str, str]:
    """The variables of a ``Container``."""
    return dict(each.partition("=")[::2] for each in container.env)


def adjustment(values: ContainerValues) -> Any:
    """The ``ContainerAdjustment`` of a container that is being made."""
    made = NRI.ContainerAdjustment()
    for name, value in values.environment.items():
        made.env.add(key=name, value=value)
    for source, destination in values.mounts:
        made.mounts.add(source=source, destination=destination, type="bind", options=["rbind"])
    if values.oom_score_adj is not None:
        made.linux.oom_score_adj.value = values.oom_score_adj
    for device in values.devices:
        row = made.linux.devices.add(path=device.path, type=device.kind)
        row.major, row.minor, row.file_mode.value = device.major, device.minor, device.mode
    resources = _resources(values)
    if values.resctrl_group is not None:
        resources.rdt_class.value = values.resctrl_group
    if resources.ByteSize():
        made.linux.resources.CopyFrom(resources)
    return made


def update(container_id: str, values: ContainerValues, *, may_fail: bool = False) -> Any | None:
    """The ``ContainerUpdate`` of one that is there; None where nothing is to be said.

    Args:
        container_id: the container's, as the runtime names it.
        values: what hooks want.
        may_fail: whether the runtime goes on where it cannot do it.
    """
    resources = _resources(values)
    if not resources.ByteSize():
        return None
    made = NRI.ContainerUpdate(container_id=container_id, ignore_failure=may_fail)
    made.linux.resources.CopyFrom(resources)
    return made


def is_met(resources: Any, values: ContainerValues) -> bool:
    """Whether the ``LinuxResources`` that a runtime has of a container say all of the values."""
    cpu, memory = resources.cpu, resources.memory
    told = (
        (values.cpus, cpu.cpus),
        (values.cpu_shares, cpu.shares.value if cpu.HasField("shares") else None),
        (values.cfs_quota_us, cpu.quota.value if cpu.HasField("quota") else None),
        (values.memory_limit_bytes, memory.limit.value if memory.HasField("limit") else None),
    )
    return all(wanted is None or wanted == there for wanted, there in told)


def _resources(values: ContainerValues) -> Any:
    made = NRI.LinuxResources()
    if values.cpus:
        made.cpu.cpus = values.cpus
    if values.cpu_shares is not None:
        made.cpu.shares.value = values.cpu_shares
    if values.cfs_quota_us is not None:
        made.cpu.quota.value = values.cfs_quota_us
    if values.memory_limit_bytes is not None:
        made.memory.limit.value = values.memory_limit_bytes
    return made
