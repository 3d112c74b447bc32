# SPDX-License-Identifier: Apache-2.0
"""Stands in for ``/proc/stat`` and ``/proc/meminfo`` on a shared machine with cgroup v1.

They tell of the test's own cgroup, with the kernel's figures of it: work of others on the machine
is not the node's. Needs a mount namespace of its own.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from pathlib import Path

_STEP_SECONDS = 0.02
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
# Columns of a line: user nice system idle iowait irq softirq steal guest guest_nice.
_LINE = "{name} {user:012d} 0 {system:012d} {idle:012d} 0 0 0 0 0 0\n"


class OwnMachine:
    """Keeps the two files true while it is entered.

    Args:
        root: where the hierarchies' own directories are mounted.
        memory_bytes: what the node is said to have, and the limit of the own directory.
    """

    def __init__(self, root: Path, memory_bytes: int) -> None:
        self._root = root
        self._memory_kib = memory_bytes // 1024
        self._folder = Path(tempfile.mkdtemp(prefix="koord-proc-"))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._idle_ns = 0
        (root / "memory/memory.limit_in_bytes").write_text(str(memory_bytes))

    def __enter__(self) -> OwnMachine:
        self._files = {}
        for name, text in (("stat", self._stat()), ("meminfo", self._meminfo())):
            path = self._folder / name
            path.write_text(text, encoding="ascii")
            self._files[name] = os.open(path, os.O_WRONLY)
            subprocess.run(["mount", "--bind", str(path), f"/proc/{name}"], check=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for name, descriptor in self._files.items():
            os.close(descriptor)
            subprocess.run(["umount", f"/proc/{name}"], check=True)
            (self._folder / name).unlink()
        self._folder.rmdir()

    def _keep(self) -> None:
        while not self._ended.wait(_STEP_SECONDS):
            # Of one length, in one write: a reader sees the old text or the new one.
            os.pwrite(self._files["stat"], self._stat().encode(), 0)
            os.pwrite(self._files["meminfo"], self._meminfo().encode(), 0)

    def _stat(self) -> str:
        rows = [self._percpu(part) for part in ("user", "sys")]
        lines = [
            _LINE.format(name=f"cpu{cpu}", user=user // _TICK_NS, system=system // _TICK_NS, idle=0)
            for cpu, (user, system) in enumerate(zip(*rows, strict=True))
        ]
        whole = _LINE.format(
            name="cpu", user=sum(rows[0]) // _TICK_NS, system=sum(rows[1]) // _TICK_NS, idle=0
        )
        return whole + "".join(lines) + "btime 0\n"

    def _percpu(self, part: str) -> list[int]:
        path = self._root / f"cpuacct/cpuacct.usage_percpu_{part}"
        return [int(word) for word in path.read_text(encoding="ascii").split()]

    def _meminfo(self) -> str:
        stat = dict(
            line.split() for line in (self._root / "memory/memory.stat").read_text().splitlines()
        )
        # The kernel brings the statistics up to date now and then, the usage at once.
        cache = int(stat["total_inactive_file"]) + int(stat["total_active_file"])
        used = int((self._root / "memory/memory.usage_in_bytes").read_text(encoding="ascii"))
        free = max(0, self._memory_kib - used // 1024)
        available = min(self._memory_kib, free + cache // 1024)
        figures = {
            "MemTotal": self._memory_kib, "MemFree": free, "MemAvailable": available,
            "Buffers": 0, "Cached": cache // 1024, "SwapTotal": 0, "SwapFree": 0,
            "HugePages_Total": 0, "HugePages_Free": 0, "Hugepagesize": 2048,
        }  # fmt: skip
        return "".join(f"{name + ':':<16}{value:>12} kB\n" for name, value in figures.items())
