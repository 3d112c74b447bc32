# SPDX-License-Identifier: Apache-2.0
"""Hooks, reconciler and executor over cgroups that are plain files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

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
from koord.kernels.cgroup import Base, Hierarchy
from koord.kernels.cgroup_parse import Version
from tests.agent.hooks.build import LAYOUT, options

FILES = {
    "cpu": {"cpu.shares": "1024", "cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000",
            "cpu.bvt_warp_ns": "0", "cgroup.procs": "", "tasks": ""},
    "cpuset": {"cpuset.cpus": "0-15"},
    "memory": {"memory.limit_in_bytes": "-1"},
}  # fmt: skip


class TreeNode:
    """One node.

    Args:
        root: an empty folder.
        extra: hooks beside those that write cgroup files.
    """

    def __init__(self, root: Path, *extra: BaseHook) -> None:
        self.root = root
        for directory in ("", "kubepods", "kubepods/burstable", "kubepods/besteffort"):
            self.make(directory)
        self.clock = VirtualClock()
        self.hierarchy = Hierarchy(root / "cgroup", Version.V1)
        kinds = [CgroupFileWriter({Base.CGROUP: NativeCgroupFiles(self.hierarchy)})]
        journal = Journal(root / "state", "boot")
        self.executor = HostExecutor(kinds, journal, self.clock, ExecutorOptions(Version.V1))
        facts = SimpleNamespace(layout=LAYOUT, hierarchy=self.hierarchy, page_bytes=4096)
        self.machine = cast("Machine", facts)
        settings = options()
        hooks = [BatchResource(settings), CPUNormalization(settings), CPUSetAllocator(settings),
                 GroupIdentity(settings), *extra]  # fmt: skip
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
