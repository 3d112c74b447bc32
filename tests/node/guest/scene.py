# SPDX-License-Identifier: Apache-2.0
"""The scene of NRI in the guest; `Guest.run` starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

DISK = Path("/run/node")
_ETC = ("passwd", "hosts")


def main() -> None:
    """Prepares the machine, plays the scene and writes its figures."""
    prepare()
    os.environ |= {
        "KUBEBUILDER_ASSETS": str(DISK / "bin"), "KOORD_NODE_CACHE": str(DISK / "packages"),
        "KOORD_NODE_PATIENCE": "10", "PYTHONPATH": f"{os.environ['PYTHONPATH']}:{DISK / 'site'}",
    }  # fmt: skip
    sys.path.append(str(DISK / "site"))
    # They speak CRI, and the package for that lies on the disk that was just mounted.
    from tests.node import inside, scene
    from tests.node.guest.machine import GuestNode

    inside.write_figures(lambda folder, _: scene.run(GuestNode(folder)))


def prepare() -> None:
    """Mounts the disk with programs, and what they write over a root that nobody can."""
    DISK.mkdir(exist_ok=True)
    _call("mount", "-t", "ext4", "-o", "ro", "/dev/vdc", str(DISK))
    _call("busybox", "insmod", str(DISK / "overlay.ko"))
    kept = {name: Path("/etc", name).read_bytes() for name in _ETC}
    _call("mount", "-t", "tmpfs", "none", "/etc")
    # runc starts itself anew without LD_LIBRARY_PATH.
    library = next((DISK / "packages").rglob("libseccomp.so.2"))
    made = {"resolv.conf": b"", "hostname": b"guest\n", "ld.so.preload": f"{library}\n".encode()}
    for name, text in {**kept, **made}.items():
        Path("/etc", name).write_bytes(text)
    Path("/var/run").symlink_to("/run")
    for name in ("cni-conf", "nri", "logs", "scratch"):
        Path("/run", name).mkdir()


def _call(*call: str) -> None:
    subprocess.run(call, check=True)


if __name__ == "__main__":
    main()
