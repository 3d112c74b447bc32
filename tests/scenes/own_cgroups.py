# SPDX-License-Identifier: Apache-2.0
"""Removes cgroup directories that a test made: its own, and those that killed runs left."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path


def remove(folder: Path) -> None:
    """Removes a directory that a test made, and ends what is still in it."""
    for _ in range(200):
        # Another worker may be removing it, too: os.walk passes over what has gone meanwhile.
        for path in sorted((Path(at) for at, _, _ in os.walk(folder)), reverse=True):
            with contextlib.suppress(OSError):
                for pid in (path / "cgroup.procs").read_text(encoding="ascii").split():
                    os.kill(int(pid), signal.SIGKILL)
                path.rmdir()
        if not folder.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{folder} cannot be removed")


def remove_left(base: Path, prefix: str) -> None:
    """Removes what killed runs left.

    Args:
        base: the directory above.
        prefix: of their names.
    """
    for folder in left(base, prefix):
        remove(folder)


def left(base: Path, prefix: str) -> list[Path]:
    """Directories ``PREFIX-PID-...`` whose process is gone."""
    return [
        folder
        for folder in sorted(base.glob(f"{prefix}-*-*"))
        if not Path("/proc", folder.name.removeprefix(f"{prefix}-").split("-")[0]).exists()
    ]
