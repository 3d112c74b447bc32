# SPDX-License-Identifier: Apache-2.0
"""What the kernel makes of limits, a weight and a cost model for the disk of a guest."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path
from typing import Any

from koord.agent.executor.claim import Claim
from koord.agent.executor.host_executor import ExecutorOptions, HostExecutor
from koord.agent.executor.journal import Journal
from koord.agent.executor.writers.cgroup_files import CgroupFileWriter, NativeCgroupFiles
from koord.base.clock import SystemClock
from koord.kernels.cgroup import Base
from tests.scenes.tree import Tree
from tests.scenes.world import World

_DISK = "/dev/vda"
_MIB = 2**20
_POD = "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poddisk.slice"
_FILES = {"limits": (_POD, "io.max"), "weights": (_POD, "io.weight"),
          "quality": ("", "io.cost.qos"), "model": ("", "io.cost.model")}  # fmt: skip


def run(world: World, limit_bytes: int) -> Any:
    """Reads without a limit, with one, and with the one taken back again."""
    tree = world.tree
    number = Path(_DISK).stat().st_rdev
    device = f"{os.major(number)}:{os.minor(number)}"
    tree.make(_POD)
    kind = CgroupFileWriter({Base.CGROUP: NativeCgroupFiles(tree.hierarchy)})
    journal = Journal(world.folder / "journal", "boot")
    executor = HostExecutor([kind], journal, SystemClock(), ExecutorOptions(tree.version))
    quality = f"{device} enable=1 ctrl=user rpct=95 rlat=3000 wpct=95 wlat=3000"
    claims = [
        Claim("blkio.throttle.read_bps_device", _POD, f"{device} {limit_bytes}", "scene"),
        Claim("blkio.throttle.write_iops_device", _POD, f"{device} 100", "scene"),
        Claim("blkio.throttle.read_iops_device", _POD, f"{device} 0", "scene"),
        Claim("blkio.cost.weight", _POD, f"{device} 50", "scene"),
        Claim("blkio.cost.qos", "", quality, "scene"),
        Claim("blkio.cost.model", "", f"{device} ctrl=auto", "scene"),
    ]
    free = _rate(tree)
    executor.state("blkio", "scene", claims)
    executor.settle()
    figures = {
        "device": device, "free": free, "limited": _rate(tree), "said": _said(tree),
        "unsupported": executor.unsupported(),
        "failures": [failure.result.message for failure in executor.failures()],
    }  # fmt: skip
    left = [failure.result.message for failure in executor.give_all_back()]
    return {**figures, "left": left, "again": _rate(tree), "afterwards": _said(tree)}


def _rate(tree: Tree) -> float:
    """Bytes a second that a process of the pod reads from the disk, past the page cache."""
    before = time.monotonic()
    process = os.fork()
    if process == 0:
        try:
            tree.enter(_POD)
            disk, buffer = os.open(_DISK, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, _MIB)
            for at in range(16):
                os.preadv(disk, [buffer], at * _MIB)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(process, 0)
    assert status == 0, "the disk could not be read"
    return 16 * _MIB / (time.monotonic() - before)


def _said(tree: Tree) -> dict[str, str | None]:
    places = {name: Path(tree.root, *place) for name, place in _FILES.items()}
    return {
        name: place.read_text(encoding="ascii") if place.exists() else None
        for name, place in places.items()
    }
