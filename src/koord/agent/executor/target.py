# SPDX-License-Identifier: Apache-2.0
"""What a claim is about: one value of one file, or something else that the executor looks after.

Beside the files of ``koord.kernels.cgroup.CATALOGUE`` there are a few targets of koord's own:

| resource | directory | value |
|---|---|---|
| ``resctrl.group`` | group | 1: the group exists (any claim in a group makes it too) |
| ``resctrl.schemata`` | group | one line, ``L3:0=7;1=7;`` or ``MB:0=90;``; a claim a line |
| ``resctrl.members`` | group | a cgroup directory whose threads belong to it; a claim a directory |
| ``oom_score_adj`` | cgroup of a container | -1000 to 1000, for each of its processes |
| ``core_sched`` | cgroup of a container | the group that shares cores; may be empty |
| ``network.classes`` | empty | a plan of traffic classes, see ``koord.agent.host.traffic.plan`` |
| ``terway.global_bps_config``, ``terway.pod.json`` | empty | the whole file |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from koord.agent.executor.claim import Claim, Layer
from koord.base.errors import KoordError
from koord.kernels.cgroup import CATALOGUE
from koord.kernels.cpuset import CPUSet

Value = str | int

Baseline = Callable[["Target", Value], Value]
"""What a target says while no agent writes it, given what it was found to say."""

QUOTA, PERIOD, BURST = "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us"
CPUS, EFFECTIVE_CPUS, SHARES = "cpuset.cpus", "cpuset.cpus.effective", "cpu.shares"
FEATURES = "sched_features"
RESCTRL_GROUP, RESCTRL_SCHEMATA = "resctrl.group", "resctrl.schemata"
RESCTRL_MEMBERS = "resctrl.members"
OOM_SCORE_ADJ, CORE_SCHED = "oom_score_adj", "core_sched"
TERWAY_BANDWIDTH, TERWAY_PODS = "terway.global_bps_config", "terway.pod.json"
TRAFFIC, CLASSID = "network.classes", "net_cls.classid"

OUTLIVES_REBOOT = frozenset({TERWAY_BANDWIDTH, TERWAY_PODS})
"""Outlive a reboot; everything else is as the kernel starts with it."""

INHERITED = frozenset({CPUS, "cpu.bvt_warp_ns", CLASSID})
"""A new cgroup starts with its parent's value of these."""

SET_ON_TASKS = frozenset({RESCTRL_MEMBERS, OOM_SCORE_ADJ, CORE_SCHED})
"""Set on tasks, which come and go without anybody claiming anything else."""

LIMITS = frozenset({QUOTA, "memory.limit_in_bytes"})
"""Resources where -1 is no limit, and so the largest value."""

QUOTA_LEAST_US = 1000  # kernel/sched/core.c: min_cfs_quota_period
_BYTES = frozenset({"memory.limit_in_bytes", "memory.min", "memory.low", "memory.high",
                    "memory.pagecache_limit.size"})  # fmt: skip
_LINES = "blkio."
_OWN_NUMBERS = frozenset({RESCTRL_GROUP, OOM_SCORE_ADJ})
_OWN_TEXTS = frozenset({RESCTRL_SCHEMATA, RESCTRL_MEMBERS, CORE_SCHED, TERWAY_BANDWIDTH,
                        TERWAY_PODS, TRAFFIC})  # fmt: skip
_TEXTS = frozenset({FEATURES, EFFECTIVE_CPUS, CLASSID}) | _OWN_TEXTS
_INT64_MAX = 2**63 - 1


class Target(NamedTuple):
    """One value that somebody may claim.

    Attributes:
        resource: key of the catalogue, or one of the table above.
        directory: relative to its root.
        field: which of several values in one file: a block device, a scheduler feature, a line of
            schemata, a member; else empty.
    """

    resource: str
    directory: str
    field: str = ""

    def __str__(self) -> str:
        where = "/".join(part for part in (self.directory, self.resource) if part)
        return f"{where}[{self.field}]" if self.field else where


def unchanged_baseline(target: Target, current: Value) -> Value:
    """The baseline of who knows nothing else of a target."""
    return current


def target_of(claim: Claim) -> Target:
    """Which value a claim is about.

    Raises:
        KoordError: no such resource, or a directory that could lead out of its root.
    """
    resource, directory = claim.resource, claim.directory
    if resource not in CATALOGUE and resource not in _OWN_NUMBERS | _OWN_TEXTS:
        raise KoordError("claim", "resource", resource, "a resource that the executor writes")
    if resource in CATALOGUE and not CATALOGUE[resource].writable:
        raise KoordError("claim", "resource", resource, "a resource that can be written")
    check_directory(directory)
    return Target(resource, directory, _field(resource, claim.value))


def check_directory(directory: str) -> None:
    """Refuses what could lead out of a root.

    Raises:
        KoordError: absolute, with ``..``, ``.``, an empty component or a NUL.
    """
    if not directory:
        return
    parts = directory.split("/")
    if "\0" in directory or any(part in ("", ".", "..") for part in parts):
        expected = "a relative path without '..', empty parts or NUL"
        raise KoordError("claim", "directory", directory, expected)


def _field(resource: str, value: str | float) -> str:
    text = str(value)
    if is_device(resource):
        return text.split(" ", 1)[0]
    if resource == FEATURES:
        return text.removeprefix("NO_")
    if resource == RESCTRL_SCHEMATA:
        return text.split(":", 1)[0]
    return text if resource == RESCTRL_MEMBERS else ""


def is_device(resource: str) -> bool:
    """Whether a file has a line a block device, which is the field of a target."""
    return resource.startswith(_LINES)


def is_number(resource: str) -> bool:
    """Whether values of a resource are integers."""
    return resource != CPUS and resource not in _TEXTS and not is_device(resource)


def normalised(claim: Claim, page_bytes: int) -> str | int | float:
    """The value of a claim as it is composed: integers, canonical CPU lists, whole pages.

    Raises:
        KoordError: the value cannot be one of this resource or layer.
    """
    try:
        if claim.layer is Layer.SCALE:
            return _ratio(claim)
        if claim.resource == CPUS:
            return str(CPUSet.parse_wire(str(claim.value)))
        if claim.layer is not Layer.SET and not is_number(claim.resource):
            raise KoordError("claim", "layer", claim.layer.name, "SET for a text")
        if not is_number(claim.resource):
            return str(claim.value)
        return whole_pages(claim.resource, int(claim.value), page_bytes)
    except (ValueError, OverflowError) as error:
        raise KoordError.wrap("claim", claim.resource, error) from None


def _ratio(claim: Claim) -> float:
    ratio = float(claim.value)
    if claim.resource != QUOTA or not 0 < ratio < float("inf"):
        raise KoordError("claim", claim.resource, claim.value, "a ratio above 0, of a quota")
    return ratio


def whole_pages(resource: str, value: int, page_bytes: int) -> int:
    """Bytes as the kernel will say them: it cuts to whole pages."""
    if resource not in _BYTES or value < 0 or value >= _INT64_MAX - page_bytes:
        return value
    return value - value % page_bytes


def unlimited_first(resource: str, value: int) -> int:
    """The value to compare by: no limit is the largest."""
    return _INT64_MAX if resource in LIMITS and value < 0 else value


def parent_of(directory: str) -> str | None:
    """The directory above; None for the root."""
    if not directory:
        return None
    return directory.rpartition("/")[0]


def place_of(target: Target) -> tuple[str, str]:
    """A target's hierarchy and directory: what they have in common is there, or gone, together."""
    known = CATALOGUE.get(target.resource)
    file = known.v1 if known is not None else None
    return file.directory if file is not None else target.resource, target.directory


def depth_of(directory: str) -> int:
    """How many components a directory has."""
    return directory.count("/") + 1 if directory else 0
