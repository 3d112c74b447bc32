# SPDX-License-Identifier: Apache-2.0
"""A cluster whose node is the guest: ``python -m tests.node.guest.control_plane ORDER``.

The control plane is that of `tests.node.cluster`, in a network of its own. There the guest's card
ends: the node reaches loopback as `HOST`, and the API server the kubelet by a forwarded port.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from tests.node.cluster.control_plane import ADDRESS, NODE, Cluster, serve
from tests.node.cluster.visitor import troubles_in
from tests.node.guest import disk
from tests.node.guest.prepare import SCRATCH
from tests.node.machine import CGROUP, mount_cgroups
from tests.vm import image, packages
from tests.vm.guest import RESULT
from tests.vm.machine import Guest

PROGRAMS = (*disk.RUNTIME, "kubelet", "kubectl")
# Its network, and this machine's loopback there.
HOST, _NETWORK = "10.99.0.254", "10.99.0.0/24"
_KUBELET_PORT = 10250
_DRIVERS = ("overlay", "bridge", "veth", "virtio_net")
_MEMORY_MIB, _SCRATCH_MIB = 8192, 4096
_PROCESSORS = 4
_FILES = (
    "admin.crt", "admin.key", "authority.crt", "koordlet.kubeconfig", "kubeconfig", "kubelet.crt",
    "kubelet.key", "kubelet.kubeconfig", f"system:node:{NODE}.crt", f"system:node:{NODE}.key",
)  # fmt: skip
# Of 16 processes: processors of the guest, and a control plane.
_SHARES = 16 * 1024
# Emulated, beside a control plane.
STORY_SECONDS = 3000.0


def run_in_guest(cluster: Cluster, order: dict[str, Any]) -> None:
    """Runs the story on a node in the guest."""
    folder = Path(order["scratch"])
    # What a killed run leaves is found there.
    tempfile.tempdir = str(folder)
    come_from_outside()
    programs = packages.find()
    node = disk.write(programs, folder, PROGRAMS, _DRIVERS)
    with Guest(echo=True, disks=[node], hardware=_hardware(programs, folder)) as guest:
        print(f"the guest runs after {guest.boot_seconds:.0f} s", flush=True)
        told = order | {
            "module": "tests.node.guest.story", "host": HOST, "files": _files(cluster),
            "scratch": str(SCRATCH), "result": str(RESULT),
        }  # fmt: skip
        result = guest.run("tests.node.guest.prepare", told, STORY_SECONDS)
        result["figures"]["release"] = guest.release
    result["figures"]["told"] += troubles_in(*cluster.folder.glob("koord-*.log"))
    Path(order["result"]).write_text(json.dumps(result), encoding="utf-8")


def come_from_outside() -> None:
    """Whoever calls the node's address here calls from the guest's gateway.

    Without more the kernel would call from that address itself, and the guest hear from its own.
    """
    for line in (
        f"addr add {HOST}/32 dev lo",
        f"route replace local {ADDRESS} dev cni0 table local src {HOST}",
    ):
        subprocess.run(["ip", *line.split()], check=True)


def _hardware(programs: packages.Programs, folder: Path) -> list[str]:
    empty, scratch = folder / "empty", folder / "scratch.ext4"
    empty.mkdir()
    image.make(programs, empty, scratch, _SCRATCH_MIB)
    forwarded = f"hostfwd=tcp:{ADDRESS}:{_KUBELET_PORT}-{ADDRESS}:{_KUBELET_PORT}"
    return [
        "-smp", str(_PROCESSORS), "-m", f"{_MEMORY_MIB}M",
        "-drive", f"file={scratch},format=raw,if=virtio",
        "-netdev", f"user,id=net,net={_NETWORK},host={HOST},{forwarded}",
        # It starts from no network.
        "-device", "virtio-net-pci,netdev=net,romfile=",
    ]  # fmt: skip


def _files(cluster: Cluster) -> dict[str, str]:
    """What the node and its administrator know of the cluster."""
    return {
        name: (cluster.folder / name)
        .read_text(encoding="utf-8")
        .replace("https://127.0.0.1:", f"https://{HOST}:")
        for name in _FILES
    }


def raise_share() -> None:
    """All that runs here is in one cgroup, which would have the part of a single process."""
    mount_cgroups()
    (CGROUP / "cpu/cpu.shares").write_text(str(_SHARES))


if __name__ == "__main__":
    raise_share()
    status = serve(partial(Cluster, server_addresses=(HOST,)), run_in_guest)
    sys.stdout.flush()
    # What it started ends with the namespace.
    os._exit(status)
