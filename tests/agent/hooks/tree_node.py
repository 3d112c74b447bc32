# SPDX-License-Identifier: Apache-2.0
"""Hooks, reconciler and executor over cgroups that are plain files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from koord.agent.executor.host_executor import ExecutorOptions, HostExecutor
from koord.agent.executor.journal import Journal
from koord.agent.executor.writers.cgroup_files import CgroupFileWriter, NativeCgroupFiles
from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.builtin.batch_resource import BatchResource
from koord.agent.hooks.builtin.cpu_normalization import CPUNormalization
from koord.agent.hooks.builtin.cpuset_allocator import CPUSetAllocator
from koord.agent.hooks.builtin.group_identity import GroupIdentity
from koord.agent.hooks.creation import CreationHooks
from koord.agent.hooks.reconciliation.reconciler import Reconciler
from koord.agent.host.machine import Machine
from koord.agent.states.pod_state import PodState
from koord.base.clock import VirtualClock
from koord.base.supervision import Supervisor
from koord.kernels.cgroup import Base, Hierarchy, Outcome, Written
from koord.kernels.cgroup_parse import Version
from tests.agent.hooks.build import LAYOUT, options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.agent.executor.target import Target, Value
    from koord.agent.executor.writers.target_writer import TargetWriter, WriteRequest

FILES = {
    "cpu": {"cpu.shares": "1024", "cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000",
            "cpu.bvt_warp_ns": "0", "cgroup.procs": "", "tasks": ""},
    "cpuset": {"cpuset.cpus": "0-15"},
    "memory": {"memory.limit_in_bytes": "-1"},
}  # fmt: skip


class Remembered:
    """Stands in for what is no cgroup file: says what was written last.

    Args:
        resources: which it takes.
    """

    def __init__(self, *resources: str) -> None:
        self._resources = resources
        self.written: dict[Target, Value] = {}

    def takes(self, resource: str) -> bool:
        return resource in self._resources

    def refusal(self, target: Target, value: Value) -> str:
        return ""

    def held(self, target: Target) -> Value:
        return self.written.get(target, 0)

    original = held

    def write(self, requests: Sequence[WriteRequest], now_seconds: float) -> list[Written]:
        self.written |= {request.target: request.value for request in requests}
        return [Written(Outcome.WRITTEN, 0, "") for _ in requests]


class TreeNode:
    """One node.

    Args:
        root: an empty folder.
        extra: hooks beside those that write cgroup files.
        kinds: writers of what is no cgroup file.
    """

    def __init__(self, root: Path, *extra: BaseHook, kinds: Sequence[TargetWriter] = ()) -> None:
        self.root = root
        for directory in ("", "kubepods", "kubepods/burstable", "kubepods/besteffort"):
            self.make(directory)
        self.clock = VirtualClock()
        self.hierarchy = Hierarchy(root / "cgroup", Version.V1)
        files = CgroupFileWriter({Base.CGROUP: NativeCgroupFiles(self.hierarchy)})
        journal = Journal(root / "state", "boot")
        self.executor = HostExecutor(
            [files, *kinds], journal, self.clock, ExecutorOptions(Version.V1)
        )
        facts = SimpleNamespace(layout=LAYOUT, hierarchy=self.hierarchy, page_bytes=4096)
        self.machine = cast("Machine", facts)
        asked = options()
        hooks = [BatchResource(asked), CPUNormalization(asked), CPUSetAllocator(asked),
                 GroupIdentity(asked), *extra]  # fmt: skip
        self.supervisor = Supervisor("hooks")
        self.reconciler = Reconciler(hooks, self.executor, self.machine, supervisor=self.supervisor)
        self.creation = CreationHooks(hooks, self.executor, self.machine, self.supervisor)

    def make(self, directory: str) -> None:
        for subsystem, files in FILES.items():
            place = self.root / "cgroup" / subsystem / directory
            place.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                if not (place / name).exists():
                    (place / name).write_text(text)

    def start(self, state: PodState, sandbox: str = "") -> PodState:
        for directory in (state.directory, *(c.directory for c in state.containers)):
            self.make(directory)
        if sandbox:
            self.make(f"{state.directory}/{sandbox}")
        return state

    def says(self, directory: str, file: str) -> str:
        subsystem = file.split(".")[0]
        return (self.root / "cgroup" / subsystem / directory / file).read_text().strip()

    def cpu(self, directory: str) -> list[str]:
        return [self.says(directory, f"cpu.{name}") for name in ("shares", "cfs_quota_us")]
