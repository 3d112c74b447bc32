# SPDX-License-Identifier: Apache-2.0
"""The guest's third disk: a container runtime, and what the tests need to speak with it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

from tests.node import packages
from tests.real.binaries import find
from tests.vm import image, modules
from tests.vm.packages import Programs

RUNTIME = ("containerd", "containerd-shim-runc-v2", "ctr")
# For the CRI; koordlet itself needs none of it here.
_PACKAGES = ("grpcio",)


def write(
    programs: Programs,
    folder: Path,
    names: Sequence[str] = RUNTIME,
    drivers: Sequence[str] = ("overlay",),
) -> Path:
    """Makes the disk.

    Args:
        programs: of the guest.
        folder: where to.
        names: of programs.
        drivers: modules of the kernel.

    Raises:
        MissingProgramError, MissingPackageError, MissingVmError: one is not there.
    """
    tree = folder / "node"
    (tree / "bin").mkdir(parents=True)
    for name in names:
        shutil.copy2(find(name), tree / "bin" / name)
    # Of the guest's own, which it has no name for.
    (tree / "bin/ip").symlink_to("/bin/busybox")
    packages.find("runc")
    cache = packages.cache_folder()
    shutil.copytree(cache, tree / "packages" / cache.name, symlinks=True)
    modules.lay(programs, tree / "modules", *drivers)
    for name in _PACKAGES:
        image.copy_package(distribution(name), tree / "site")
    disk = folder / "node.ext4"
    image.make(programs, tree, disk)
    shutil.rmtree(tree)
    return disk
