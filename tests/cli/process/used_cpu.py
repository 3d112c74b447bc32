# SPDX-License-Identifier: Apache-2.0
"""How much CPU a program has had, to meet it in the midst of its work on any machine."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


class ResultSeconds:
    """CPU of simulations since they began what they can show a part of.

    From there on one catches SIGALRM (``koord.cli.process.signals``); to read its input, however
    long that takes on a machine, does not count.
    """

    def __init__(self) -> None:
        self._began: dict[int, float] = {}

    def of(self, pid: int) -> float:
        """Of a process; 0 before it began."""
        status = Path(f"/proc/{pid}/status").read_text()
        caught = int(status.partition("SigCgt:")[2].split(maxsplit=1)[0], 16)
        if not caught >> signal.SIGALRM - 1 & 1:
            return 0.0
        used = cpu_seconds(pid)
        return used - self._began.setdefault(pid, used)
