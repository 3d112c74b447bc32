# SPDX-License-Identifier: Apache-2.0
"""An executor on the model of a kernel, which can be killed and started again."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from koord.agent.executor import write_events
from koord.agent.executor.claim import Claim, Layer
from koord.agent.executor.host_executor import ExecutorOptions, HostExecutor
from koord.agent.executor.journal import Journal
from koord.agent.executor.writers.cgroup_files import CgroupFileWriter
from koord.base.clock import VirtualClock
from koord.kernels.cgroup import Base
from koord.kernels.cgroup_parse import Version
from tests.models.cgroup_kernel import KernelFiles

QUOTA, BURST, CPUS = "cpu.cfs_quota_us", "cpu.cfs_burst_us", "cpuset.cpus"
MEMORY, SHARES = "memory.limit_in_bytes", "cpu.shares"


class Killed(BaseException):
    """kill -9: no handler runs, what is on disk is all that is left."""


class Rig:
    """One node."""

    def __init__(self, state: Path, directories: Sequence[str], **settings: object) -> None:
        self.state, self.clock = state, VirtualClock()
        self.kernel = KernelFiles(directories)
        self.told: list[write_events.WriteEvent] = []
        self._settings = ExecutorOptions(Version.V1, **settings)  # type: ignore[arg-type]
        self.start()

    def start(self) -> None:
        """A new process; what it does not find on disk it does not know."""
        kinds = [CgroupFileWriter({Base.CGROUP: self.kernel})]
        journal = Journal(self.state, "this-boot")
        self.executor = HostExecutor(kinds, journal, self.clock, self._settings, self.told.append)

    def settle(self, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        self.executor.settle()

    def says(self, resource: str, directory: str) -> str | None:
        return self.executor.current(resource, directory)


def want(
    resource: str,
    directory: str,
    value: str | float,
    layer: Layer = Layer.SET,
    reason: str = "test",
) -> Claim:
    return Claim(resource, directory, value, reason, layer)


def quick_directory() -> tempfile.TemporaryDirectory[str]:
    """A directory in memory where there is one: a thousand restarts sync a thousand journals."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
