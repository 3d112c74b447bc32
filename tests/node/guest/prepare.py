# SPDX-License-Identifier: Apache-2.0
"""Run in the guest: makes it a machine for a container runtime, then runs an order's ``module``.

Part of what that imports lies on the disk with programs.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

from tests.vm import modules

DISK, SCRATCH = Path("/run/node"), Path("/run/scratch")
_ETC = ("passwd", "hosts")


def prepare() -> None:
    """Mounts the disk with programs, and what they write over a root that nobody can."""
    DISK.mkdir(exist_ok=True)
    call("mount", "-t", "ext4", "-o", "ro", "/dev/vdc", str(DISK))
    modules.load(DISK / "modules")
    kept = {name: Path("/etc", name).read_bytes() for name in _ETC}
    call("mount", "-t", "tmpfs", "none", "/etc")
    # runc starts itself anew without LD_LIBRARY_PATH.
    library = next((DISK / "packages").rglob("libseccomp.so.2"))
    made = {"resolv.conf": b"", "hostname": b"guest\n", "ld.so.preload": f"{library}\n".encode()}
    for name, text in {**kept, **made}.items():
        Path("/etc", name).write_bytes(text)
    Path("/var/run").symlink_to("/run")
    for name in ("cni-conf", "nri", "logs"):
        Path("/run", name).mkdir()
    SCRATCH.mkdir()
    os.environ |= {
        "KUBEBUILDER_ASSETS": str(DISK / "bin"), "KOORD_NODE_CACHE": str(DISK / "packages"),
        "KOORD_NODE_PATIENCE": "10", "PYTHONPATH": f"{os.environ['PYTHONPATH']}:{DISK / 'site'}",
        "PATH": f"{os.environ['PATH']}:{DISK / 'bin'}",
    }  # fmt: skip
    sys.path.append(str(DISK / "site"))


def call(*command: str) -> None:
    """A command that must succeed."""
    subprocess.run(command, check=True)


if __name__ == "__main__":
    prepare()
    runpy.run_module(json.loads(sys.argv[1])["module"], run_name="__main__")
