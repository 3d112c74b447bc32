# SPDX-License-Identifier: Apache-2.0
"""A disk with the tools of a network, as this machine has them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tests.vm import image, modules
from tests.vm.packages import Programs

TOOLS = ("ip", "iptables", "tc")
# Of the guest's own, which it has no names for.
_OWN = ("sleep", "unshare")
# What classes, packets' marks, cgroups of sockets and a node that masquerades take.
_DRIVERS = (
    "veth", "sch_htb", "sch_tbf", "nf_tables", "nft_socket", "nft_compat", "nft_chain_nat",
    "xt_MASQUERADE",
)  # fmt: skip
_EXTENSION = "libxt_MASQUERADE.so"


def write(programs: Programs, folder: Path) -> Path:
    """Makes the disk.

    Args:
        programs: of the guest.
        folder: where to.

    Raises:
        MissingVmError: the guest's kernel lacks a module.
    """
    tree = folder / "tools"
    (tree / "bin").mkdir(parents=True)
    (tree / "lib").mkdir()
    modules.lay(programs, tree / "modules", *_DRIVERS)
    for name in _OWN:
        (tree / "bin" / name).symlink_to("/bin/busybox")
    for name in TOOLS:
        found = shutil.which(name)
        assert found
        shutil.copy2(Path(found).resolve(), tree / "bin" / name)
        _copy_libraries(Path(found), tree / "lib")
    disk = folder / "tools.ext4"
    image.make(programs, tree, disk)
    return disk


def _copy_libraries(program: Path, folder: Path) -> None:
    """What it is linked against; and beside libxtables the extension that masquerading takes."""
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True)
    for found in re.findall(r"=> (/\S+) \(0x", done.stdout):
        shutil.copy2(found, folder)
        for extension in Path(found).parent.glob(f"xtables/{_EXTENSION}"):
            shutil.copy2(extension, folder)
