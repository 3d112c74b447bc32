# SPDX-License-Identifier: Apache-2.0
"""Runs one experiment: ``python -m tests.scenes.stage '{"experiment": NAME, ...}'``, as root.

On this machine it expects mount and process namespaces of its own. On cgroup v1 each hierarchy's
directory that the test made is mounted beneath one root, and what ``/proc`` tells of the whole
machine is replaced by what is true of that directory, so that other work on the machine is none of
the node's.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from koord.kernels.cgroup_path import Driver
from tests.scenes.nursery import Nursery
from tests.scenes.owntree import OwnMachine
from tests.scenes.tree import HANDED_DOWN, V1_HIERARCHIES
from tests.scenes.world import World

V1_MEMORY_BYTES = 2 * 2**30


def main() -> int:
    """Writes figures, or what went wrong, to ``KOORD_RESULT``."""
    order = json.loads(sys.argv[1])
    try:
        result: dict[str, Any] = {"figures": perform(order)}
    except Exception as error:
        traceback.print_exc()
        result = {"failure": f"{type(error).__name__}: {error}"}
    Path(os.environ["KOORD_RESULT"]).write_text(json.dumps(result), encoding="utf-8")
    return 0


def perform(order: dict[str, Any]) -> Any:
    """Builds the world that an order asks for and runs the experiment in it."""
    module = importlib.import_module(f"tests.scenes.experiments.{order['experiment']}")
    program = Path(order["program"])
    given = (Driver(order.get("driver", Driver.SYSTEMD)), order.get("capabilities"))
    if order["own"] is None:
        nursery = Nursery()
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        with World(Path("/sys/fs/cgroup"), program, memory, nursery, *given) as world:
            return module.run(world, **order["argument"])
    if order["own"].startswith("/"):
        root = mount_unified(Path(order["own"]))
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        with World(root, program, memory, Nursery(), *given) as world:
            return module.run(world, **order["argument"])
    root = mount_own(order["own"])
    go_first(root)
    nursery = Nursery()
    with (
        OwnMachine(root, V1_MEMORY_BYTES),
        World(root, program, V1_MEMORY_BYTES, nursery, *given) as world,
    ):
        return module.run(world, **order["argument"])


def go_first(root: Path) -> None:
    """What is no pod, so this process and the agent, is not kept waiting by hogs.

    It stays outside the other hierarchies: what it uses is none of the node's usage.
    """
    system = root / "cpu/system.slice"
    system.mkdir()
    (system / "cpu.shares").write_text("8192")
    (system / "cgroup.procs").write_text(str(os.getpid()))


def mount_unified(own: Path) -> Path:
    """A cgroup root that is one directory of cgroup v2; in the guest it is made here."""
    if not own.is_dir():
        (own.parent / "cgroup.subtree_control").write_text(HANDED_DOWN)
        own.mkdir()
    root = Path(tempfile.mkdtemp(prefix="koord-root-"))
    subprocess.run(["mount", "--bind", str(own), str(root)], check=True)
    return root


def mount_own(name: str) -> Path:
    """A cgroup root whose hierarchies are the directories of that name alone."""
    root = Path(tempfile.mkdtemp(prefix="koord-root-"))
    subprocess.run(["mount", "-t", "tmpfs", "none", str(root)], check=True)
    for hierarchy in V1_HIERARCHIES:
        (root / hierarchy).mkdir()
        own = f"/sys/fs/cgroup/{hierarchy}/{name}"
        subprocess.run(["mount", "--bind", own, str(root / hierarchy)], check=True)
    return root


if __name__ == "__main__":
    began = time.monotonic()
    status = main()
    print(f"experiment: {time.monotonic() - began:.1f} s", flush=True)
    # Without waiting for threads of servers.
    os._exit(status)
