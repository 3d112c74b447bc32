# SPDX-License-Identifier: Apache-2.0
"""The guest's third disk: a container runtime, and what the tests need to speak with it."""

from __future__ import annotations

import shutil
from importlib.metadata import distribution
from pathlib import Path

from tests.node import packages
from tests.real.binaries import find
from tests.vm import image
from tests.vm.packages import Programs

PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr")
# For the CRI; koordlet itself needs none of it here.
_PACKAGES = ("grpcio",)
_MODULE = "fs/overlayfs/overlay.ko"


def write(programs: Programs, folder: Path) -> Path:
    """Makes the disk.

    Args:
        programs: of the guest.
        folder: where to.

    Raises:
        MissingProgramError, MissingPackageError: a program is not there.
    """
    tree = folder / "node"
    (tree / "bin").mkdir(parents=True)
    for name in PROGRAMS:
        shutil.copy2(find(name), tree / "bin" / name)
    packages.find("runc")
    cache = packages.cache_folder()
    shutil.copytree(cache, tree / "packages" / cache.name, symlinks=True)
    shutil.copy2(programs.modules / _MODULE, tree / Path(_MODULE).name)
    for name in _PACKAGES:
        image.copy_package(distribution(name), tree / "site")
    disk = folder / "node.ext4"
    image.make(programs, tree, disk)
    shutil.rmtree(tree)
    return disk
