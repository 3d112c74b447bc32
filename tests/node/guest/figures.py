# SPDX-License-Identifier: Apache-2.0
"""Figures of a scene with a container runtime, in a guest of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.ci import missing
from tests.node.guest import disk
from tests.node.guest.prepare import SCRATCH
from tests.node.packages import MissingPackageError
from tests.node.packages import find as find_package
from tests.real.fixtures import need
from tests.vm import packages
from tests.vm.guest import RESULT
from tests.vm.machine import NUMA, Guest

# It is emulated, and took six minutes beside much else.
SECONDS = 1800.0


def figures(scene: str, folder: Path, hardware: Sequence[str] = (), **order: Any) -> Any:
    """What a scene gives; skips where there is no guest, fails in CI.

    Args:
        scene: the module, whose ``main`` ends with :func:`tests.node.inside.write_figures`.
        folder: for the guest's disk.
        hardware: other than a guest's, as QEMU's arguments.
        order: what it is told.
    """
    need(*disk.RUNTIME)
    try:
        find_package("runc")
        programs = packages.find()
    except (MissingPackageError, packages.MissingVmError) as error:
        missing(error)
    order |= {"module": scene, "scratch": str(SCRATCH), "result": str(RESULT)}
    disks = [disk.write(programs, folder)]
    with Guest(disks=disks, hardware=hardware or NUMA) as guest:
        result = guest.run("tests.node.guest.prepare", order, timeout_seconds=SECONDS)
        print(guest.console[-20_000:])
    assert "figures" in result, result["failure"]
    print(result["figures"])
    return result["figures"]
