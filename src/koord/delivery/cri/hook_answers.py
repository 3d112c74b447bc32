# SPDX-License-Identifier: Apache-2.0
"""Puts a hook server's answer into the kubelet's request: what differs from what it was told, as
far as the kernel takes it.

Rules: docs/reference/delivery.md#answers, docs/reference/delivery.md#what-a-kernel-refuses.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from koord.kernels.cgroup_parse import Version
from koord.kernels.cpuset import CPUSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.delivery.cri.cgroup_limits import CgroupLimits

_DEFAULT_PERIOD = 100_000
_LEAST_PERIOD, _MOST_PERIOD = 1000, 1_000_000
_LEAST_QUOTA, _MOST_QUOTA = 1000, 1 << 40
_LEAST_SHARES, _MOST_SHARES = 2, 262_144
_LEAST_MEMORY = 4096
_SCORES = range(-1000, 1001)
_UNIFIED = re.compile(r"[a-z0-9_]+(\.[A-Za-z0-9_]+)+", re.ASCII)
_POSITIVE = ("cpu_period", "cpu_shares", "memory_limit_in_bytes", "memory_swap_limit_in_bytes")


def wanted_resources(before: Any, answer: Any) -> dict[str, Any]:
    """What a hook changes of a container's resources, by field; ``unified`` has what is added.

    Args:
        before: ``LinuxContainerResources`` that the hook server was told.
        answer: those of its answer.
    """
    wanted: dict[str, Any] = {}
    for name in _POSITIVE:
        value = getattr(answer, name)
        if value > 0 and value != getattr(before, name):
            wanted[name] = value
    if answer.cpu_quota not in (0, before.cpu_quota):
        wanted["cpu_quota"] = answer.cpu_quota
    if answer.oom_score_adj in _SCORES and answer.oom_score_adj != before.oom_score_adj:
        wanted["oom_score_adj"] = answer.oom_score_adj
    for name in ("cpuset_cpus", "cpuset_mems"):
        if getattr(answer, name) != getattr(before, name):
            wanted[name] = getattr(answer, name)
    added = {k: v for k, v in answer.unified.items() if before.unified.get(k) != v}
    return wanted | {"unified": added} if added else wanted


def clamp(wanted: Mapping[str, Any], before: Any, limits: CgroupLimits) -> dict[str, Any]:
    """The same as far as the kernel and runc take it; what they refuse altogether is left out."""
    made = dict(wanted)
    if not _LEAST_PERIOD <= made.get("cpu_period", _DEFAULT_PERIOD) <= _MOST_PERIOD:
        del made["cpu_period"]
    if "cpu_shares" in made:
        made["cpu_shares"] = min(max(made["cpu_shares"], _LEAST_SHARES), _MOST_SHARES)
    _clamp_memory(made, before)
    _clamp_quota(made, before, limits)
    _clamp_cpusets(made, limits)
    if "unified" in made:
        kept = {k: v for k, v in made["unified"].items() if _UNIFIED.fullmatch(k) and "\n" not in v}
        made["unified"] = kept if limits.version is Version.V2 else {}
        if not made["unified"]:
            del made["unified"]
    return made


def _clamp_memory(made: dict[str, Any], before: Any) -> None:
    """The limit of memory and swap is never below that of memory."""
    if 0 < made.get("memory_limit_in_bytes", _LEAST_MEMORY) < _LEAST_MEMORY:
        del made["memory_limit_in_bytes"]
    memory = made.get("memory_limit_in_bytes", before.memory_limit_in_bytes)
    swap = made.get("memory_swap_limit_in_bytes", before.memory_swap_limit_in_bytes)
    if 0 < swap < memory:
        made["memory_swap_limit_in_bytes"] = memory


def _clamp_quota(made: dict[str, Any], before: Any, limits: CgroupLimits) -> None:
    """A quota by the period that it is for, within that of the directories above on cgroup v1."""
    if "cpu_quota" not in made and "cpu_period" not in made:
        return
    quota = made.get("cpu_quota", before.cpu_quota)
    period = made.get("cpu_period", before.cpu_period) or _DEFAULT_PERIOD
    if quota <= 0 or quota > _MOST_QUOTA:
        made["cpu_quota"] = -1  # as much as the directories above have
        return
    quota = max(quota, _LEAST_QUOTA)
    if not limits.readable:
        _keep_quota(made, before, quota, period)
        return
    if limits.quota is not None:
        most = limits.quota[0] * period // limits.quota[1]
        quota = min(quota, most) if most >= _LEAST_QUOTA else -1
    made["cpu_quota"] = quota


def _keep_quota(made: dict[str, Any], before: Any, quota: int, period: int) -> None:
    """Where nothing is known of the pod a quota may only become less."""
    old_period = before.cpu_period or _DEFAULT_PERIOD
    if before.cpu_quota > 0 and quota * old_period <= before.cpu_quota * period:
        made["cpu_quota"] = quota
    else:
        made.pop("cpu_quota", None)
        made.pop("cpu_period", None)


def _clamp_cpusets(made: dict[str, Any], limits: CgroupLimits) -> None:
    """CPUs and memory nodes that the pod has; empty says the same as the pod's own."""
    for name, most in (("cpuset_cpus", limits.cpus), ("cpuset_mems", limits.mems)):
        if not made.get(name):
            continue
        ids = _ids(made[name])
        if most is not None and not ids <= most:
            ids = CPUSet.from_ids(ids & most)
            made[name] = str(ids)
        if not ids or not limits.readable:
            del made[name]


def _ids(text: str) -> CPUSet:
    try:
        return CPUSet.parse(text)
    except ValueError:
        return CPUSet.parse("")


def put_resources(message: Any, wanted: Mapping[str, Any]) -> None:
    """Sets fields of a CRI ``LinuxContainerResources``."""
    for name, value in wanted.items():
        if name == "unified":
            message.unified.update(value)
        else:
            setattr(message, name, value)


def put_environment(config: Any, before: Mapping[str, str], answer: Mapping[str, str]) -> None:
    """Makes a container's variables those of an answer, in the order in which they were.

    Args:
        config: the ``ContainerConfig``.
        before: what the hook server was told.
        answer: all variables there shall be; none says nothing. Those that it was not told stay.
    """
    if not answer or dict(answer) == dict(before):
        return
    kept = []
    for pair in config.envs:
        if pair.key not in before:
            kept.append((pair.key, pair.value))
        elif pair.key in answer:
            changed = answer[pair.key] != before[pair.key]
            kept.append((pair.key, answer[pair.key].encode() if changed else pair.value))
    have = {pair.key for pair in config.envs}
    kept += [(key, value.encode()) for key, value in sorted(answer.items()) if key not in have]
    del config.envs[:]
    for key, value in kept:
        config.envs.add(key=key, value=value)


def is_cgroup_parent(text: str, before: str) -> bool:
    """Whether a pod's cgroups may lie there: a path of the same form, without ``..``."""
    if not before or len(text) > 4096 or "\0" in text:
        return False
    slices = text.endswith(".slice") == before.endswith(".slice")
    rooted = text.startswith("/") == before.startswith("/")
    return slices and rooted and ".." not in text.split("/")
