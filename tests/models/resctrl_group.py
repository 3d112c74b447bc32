# SPDX-License-Identifier: Apache-2.0
"""A resctrl tree of plain files that makes and removes groups as the kernel does."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from koord.agent.executor.writers.rooted_files import RootedFiles

WAYS = 0xFFF


class ResctrlGroups(RootedFiles):
    """Two caches of 12 ways, bandwidth in tens of percent, a few ids.

    Threads are moved by plain appends, so a thread may stand in two groups' files.
    """

    def __init__(self, root: Path, num_closids: int = 4) -> None:
        super().__init__(root)
        self.path, self._ids = root, num_closids
        for name, text in {"L3/cbm_mask": "fff\n", "L3/min_cbm_bits": "2\n",
                           "L3/num_closids": f"{num_closids}\n", "MB/num_closids": "8\n",
                           "MB/bandwidth_gran": "10\n", "MB/min_bandwidth": "10\n",
                           "last_cmd_status": "ok\n"}.items():  # fmt: skip
            (root / "info" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "info" / name).write_text(text)
        self._fill(root)

    def _fill(self, group: Path) -> None:
        (group / "schemata").write_text("    MB:0=100;1=100\n    L3:0=fff;1=fff\n")
        (group / "tasks").write_text("")

    def groups(self) -> list[str]:
        return [name for name in self.directories() if name != "info"]

    def lines(self, group: str) -> list[str]:
        return [line.strip() for line in (self.path / group / "schemata").read_text().splitlines()]

    def tasks(self, group: str = "") -> list[int]:
        return [int(line) for line in (self.path / group / "tasks").read_text().split()]

    def make_directory(self, path: str) -> None:
        if len(self.groups()) + 1 >= self._ids:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        super().make_directory(path)
        self._fill(self.path / path)

    def remove_directory(self, path: str) -> None:
        if not self.exists(path):
            raise FileNotFoundError(errno.ENOENT, "no such group", path)
        shutil.rmtree(self.path / path)

    def write(self, path: str, text: str) -> None:
        group = path.rpartition("/")[0]
        table, _, pairs = text.strip().partition(":")
        values = dict(pair.split("=") for pair in pairs.strip(";").split(";"))
        for value in values.values():
            if table == "L3" and bin(int(value, 16)).count("1") < 2:
                (self.path / "info/last_cmd_status").write_text("Mask too narrow\n")
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        kept = []
        for line in self.lines(group):
            name, _, old = line.partition(":")
            if name == table:
                merged = dict(pair.split("=") for pair in old.split(";")) | values
                line = f"{name}:" + ";".join(f"{k}={v}" for k, v in merged.items())
            kept.append(f"    {line}\n")
        (self.path / group / "schemata").write_text("".join(kept))
