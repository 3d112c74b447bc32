# SPDX-License-Identifier: Apache-2.0
"""The files of a cgroup v1 tree as the kernel would keep them: what it refuses is refused here."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

from koord.kernels.cgroup import Outcome, Write, Written, file_text, loosened, says_same
from koord.kernels.cgroup_parse import Version
from koord.kernels.cpuset import CPUSet

QUOTA, BURST, CPUS = "cpu.cfs_quota_us", "cpu.cfs_burst_us", "cpuset.cpus"
ALL_CPUS = "0-7"
DEFAULTS = {QUOTA: "-1", BURST: "0", CPUS: ALL_CPUS, "cpu.shares": "1024",
            "memory.limit_in_bytes": "9223372036854771712", "memory.min": "0"}  # fmt: skip


class KernelFiles:
    """Files by (directory, resource); directories may come and go.

    Attributes:
        before_write: called before each write; may raise to refuse it or to end the process.
        writes: every write that was taken: resource, directory, text.
        refused: every write that was not, the same way.
        exceeds: whether a burst may be above its quota, as kernels of some vendors have it.
    """

    def __init__(self, directories: Sequence[str]) -> None:
        self.values = {(d, resource): text for d in ["", *directories]
                       for resource, text in DEFAULTS.items()}  # fmt: skip
        self.before_write: Callable[[], None] = lambda: None
        self.writes: list[tuple[str, str, str]] = []
        self.refused: list[tuple[str, str, str]] = []
        self.exceeds = False
        self.version = Version.V1

    def make(self, directory: str) -> None:
        for resource, text in DEFAULTS.items():
            self.values.setdefault((directory, resource), text)
        above = directory.rpartition("/")[0]
        self.values[directory, CPUS] = self.values[above, CPUS]

    def remove(self, directory: str) -> None:
        self.values = {
            key: text
            for key, text in self.values.items()
            if not f"{key[0]}/".startswith(f"{directory}/")
        }

    def text(self, resource: str, directory: str) -> str:
        try:
            return self.values[directory, resource] + "\n"
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such file", directory) from None

    def number(self, resource: str, directory: str) -> int:
        value = int(self.text(resource, directory))
        unlimited = resource == "memory.limit_in_bytes" and value >= 0x7FFFFFFFFFFFF000
        return -1 if unlimited else value

    def numbers(self, resource: str, directories: Sequence[str]) -> list[int | None]:
        found = {d for d, name in self.values if name == resource}
        return [self.number(resource, d) if d in found else None for d in directories]

    def texts(self, resource: str, directories: Sequence[str]) -> list[str | None]:
        return [self.values.get((directory, resource)) for directory in directories]

    def is_absent(self, resource: str, directory: str) -> bool:
        return not self.gone(resource, directory) and (directory, resource) not in self.values

    def gone(self, resource: str, directory: str) -> bool:
        return not any(each == directory for each, _ in self.values)

    def put(self, resource: str, directory: str, text: str) -> None:
        """One write(2): OSError for what the kernel refuses."""
        self.before_write()
        self.text(resource, directory)
        try:
            self._put(resource, directory, text.strip())
        except OSError:
            self.refused.append((resource, directory, text.strip()))
            raise

    def _put(self, resource: str, directory: str, text: str) -> None:
        if resource == QUOTA:
            self._quota(directory, int(text))
        elif resource == BURST:
            quota = int(self.values[directory, QUOTA])
            if 0 <= quota < int(text) and not self.exceeds:
                raise OSError(errno.EINVAL, "burst above quota")
        elif resource == CPUS:
            self._cpus(directory, text)
        elif resource.startswith("memory."):
            number = int(text)
            text = "9223372036854771712" if number < 0 else str(number - number % 4096)
        self.values[directory, resource] = text
        self.writes.append((resource, directory, text))

    def _quota(self, directory: str, quota: int) -> None:
        burst = 0 if self.exceeds else int(self.values[directory, BURST])
        if quota >= 0 and (quota < 1000 or quota < burst):
            raise OSError(errno.EINVAL, "quota too small, or below the burst")
        before = self.values[directory, QUOTA]
        self.values[directory, QUOTA] = str(quota)
        if not self.quotas_nest():
            self.values[directory, QUOTA] = before
            raise OSError(errno.EINVAL, "a child above its parent")

    def quotas_nest(self) -> bool:
        for directory, resource in self.values:
            own = int(self.values[directory, QUOTA])
            above = directory
            while resource == QUOTA and own >= 0 and above:
                above = above.rpartition("/")[0]
                if 0 <= int(self.values[above, QUOTA]) < own:
                    return False
        return True

    def _cpus(self, directory: str, text: str) -> None:
        cpus = CPUSet.parse_wire(text)
        if not cpus:
            raise OSError(errno.ENOSPC, "no CPUs for tasks")
        above = directory.rpartition("/")[0]
        if directory and not cpus <= CPUSet.parse_wire(self.values[above, CPUS]):
            raise OSError(errno.EACCES, "CPUs that the parent does not have")
        for (other, resource), held in self.values.items():
            below = resource == CPUS and other and other.rpartition("/")[0] == directory
            if below and other != directory and not CPUSet.parse_wire(held) <= cpus:
                raise OSError(errno.EBUSY, "a child has these CPUs")

    def write_leveled(
        self, levels: Sequence[Sequence[Write]], now_seconds: float
    ) -> list[list[Written]]:
        """As the native writer: loosens downwards, then writes upwards, bursts last."""
        done: dict[Write, Written] = {}
        wrote: set[Write] = set()
        for level in levels:
            for write in level:
                self._loosen(write, done, wrote)
        for level in reversed(levels):
            for bursts in (False, True):
                for write in level:
                    if (write.resource == BURST) == bursts and write not in done:
                        done[write] = self._update(write, wrote)
        return [[done[write] for write in level] for level in levels]

    def _loosen(self, write: Write, done: dict[Write, Written], wrote: set[Write]) -> None:
        text = file_text(write.resource, Version.V1, write.value)
        if write.resource not in (QUOTA, BURST, CPUS, "memory.min"):
            done[write] = self._update(write, wrote)
            return
        try:
            step = loosened(write.resource, Version.V1, text, self.text(*write[:2]))
            if step is not None:
                self.put(*write[:2], step)
                wrote.add(write)
        except OSError:
            return

    def _update(self, write: Write, wrote: set[Write]) -> Written:
        text = file_text(write.resource, Version.V1, write.value)
        try:
            if not says_same(write.resource, Version.V1, text, self.text(*write[:2])):
                self.put(*write[:2], text)
                wrote.add(write)
        except OSError as error:
            gone = error.errno == errno.ENOENT
            outcome = Outcome.MISSING if gone else Outcome.FAILED
            return Written(outcome, error.errno or 0, str(error))
        return Written(Outcome.WRITTEN if write in wrote else Outcome.UNCHANGED, 0, "")
