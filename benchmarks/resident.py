# SPDX-License-Identifier: Apache-2.0
"""How much memory this process holds; imports little, for what others add is measured by it."""

from __future__ import annotations

from pathlib import Path


def resident_bytes() -> int:
    """Resident memory of this process, from ``smaps_rollup``.

    That is counted page by page; ``statm`` and ``status`` leave out what each processor has
    not added up yet.
    """
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Rss:")) * 1024
