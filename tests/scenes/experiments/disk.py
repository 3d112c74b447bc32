# SPDX-License-Identifier: Apache-2.0
"""What the kernel makes of limits, a weight and a cost model for the disk of the root."""

from __future__ import annotations

import errno
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

_GUESTS = "/dev/vda"
_MIB = 2**20
_BYTES = 16 * _MIB
_POD = "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poddisk.slice"
_FILES = {"limits": (_POD, "io.max"), "weights": (_POD, "io.weight"),
          "quality": ("", "io.cost.qos"), "model": ("", "io.cost.model")}  # fmt: skip


def run(world: World, limit_bytes: int, direct: bool = True) -> Any:
    """Reads without a limit, with one, and with the one taken back again.

    Args:
        world: where.
        limit_bytes: a second.
        direct: whether the page cache is passed by; some disks refuse that, and then it is emptied.
    """
    tree, disk = world.tree, _disk()
    number = Path(disk).stat().st_rdev
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
    free = _rate(tree, disk, direct)
    executor.state("blkio", "scene", claims)
    executor.settle()
    figures = {
        "device": device, "free": free, "limited": _rate(tree, disk, direct), "said": _said(tree),
        "unsupported": executor.unsupported(),
        "failures": [failure.result.message for failure in executor.failures()],
    }  # fmt: skip
    left = [failure.result.message for failure in executor.give_all_back()]
    return {**figures, "left": left, "again": _rate(tree, disk, direct), "afterwards": _said(tree)}


def _disk() -> str:
    """The whole disk that the root is on; the guest's where that cannot be told."""
    number = Path("/").stat().st_dev
    place = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if place.exists():
        own = place.resolve()
        name = own.parent.name if (own / "partition").exists() else own.name
        if Path("/dev", name).is_block_device():
            return f"/dev/{name}"
    return _GUESTS


def _rate(tree: Tree, disk: str, direct: bool) -> float:
    """Bytes a second that a process of the pod reads from the disk."""
    before = time.monotonic()
    process = os.fork()
    if process == 0:
        try:
            tree.enter(_POD)
            if not (direct and _read_past_cache(disk)):
                _read_emptied(disk)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(process, 0)
    assert status == 0, f"{disk} could not be read"
    return _BYTES / (time.monotonic() - before)


def _read_past_cache(disk: str) -> bool:
    """Whether the disk takes direct reads."""
    try:
        descriptor, buffer = os.open(disk, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, _MIB)
        for at in range(0, _BYTES, _MIB):
            os.preadv(descriptor, [buffer], at)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
        return False
    return True


def _read_emptied(disk: str) -> None:
    """Reads through the page cache, of which what is read is thrown out before."""
    descriptor = os.open(disk, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, _BYTES, os.POSIX_FADV_DONTNEED)
    for at in range(0, _BYTES, _MIB):
        os.pread(descriptor, _MIB, at)


def _said(tree: Tree) -> dict[str, str | None]:
    places = {name: Path(tree.root, *place) for name, place in _FILES.items()}
    return {
        name: place.read_text(encoding="ascii") if place.exists() else None
        for name, place in places.items()
    }
