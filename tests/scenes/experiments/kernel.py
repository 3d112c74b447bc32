# SPDX-License-Identifier: Apache-2.0
"""What the kernel makes of values that are written to the cgroups of busy containers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.scenes import measure
from tests.scenes.runtime import pod
from tests.scenes.world import World

_SECONDS = 2.0


def run(world: World) -> Any:
    """A container of one full CPU: free, throttled to a fifth, then moved to the last CPU."""
    tree = world.tree
    busy = world.runtime.start(pod("busy", ["burn 100"], qos="BE"))
    time.sleep(0.5)
    free = measure.over(busy.pids, _SECONDS)
    before = tree.number(busy.directory, "cpu.stat", "nr_throttled")
    tree.write(busy.directory, cpu__cfs_quota_us=20_000)
    throttled = measure.over(busy.pids, _SECONDS)
    throttles = tree.number(busy.directory, "cpu.stat", "nr_throttled") - before
    pressure = _pressure(tree.root / busy.directory)
    tree.write(busy.directory, cpu__cfs_quota_us=-1)
    last = str(world.cpus - 1)
    tree.write(busy.containers[0].directory, cpuset__cpus=last)
    time.sleep(0.5)
    memory = world.runtime.start(pod("memory", [f"hold {64 * 2**20}"], qos="BE"))
    used = tree.number(memory.directory, "memory.usage_in_bytes")
    world.runtime.stop_container(memory.containers[0].id)
    return {
        "free": free.got,
        "throttled": throttled.got,
        "throttles": throttles,
        "pressure": pressure,
        "allowed": _allowed(busy.pids[0]),
        "last": last,
        "cpus": tree.cpus(busy.containers[0].directory),
        "memory": used,
        "running": world.runtime.running(),
        "left": len(tree.all_pids(memory.directory)),
    }


def _pressure(directory: Path) -> float | None:
    path = directory / "cpu.pressure"
    return measure.pressure(path) if path.exists() else None


def _allowed(pid: int) -> str:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("Cpus_allowed_list"))
    return line.split()[1]
