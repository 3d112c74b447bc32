# SPDX-License-Identifier: Apache-2.0
"""Modules of the guest's kernel: which of them need which.

Nothing in the guest looks for a module by itself: what is needed is loaded by name.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tests.vm.packages import MissingVmError, Programs

_NEEDS = re.compile(rb"\0depends=([^\0]*)\0")


def ordered(programs: Programs, *names: str) -> list[Path]:
    """Modules with all that they need, in the order in which the kernel takes them.

    Args:
        programs: of the guest.
        names: e.g. ``overlay``.

    Raises:
        MissingVmError: the kernel has none of a name.
    """
    files = {_name(path): path for path in programs.modules.rglob("*.ko")}
    found: dict[str, Path] = {}

    def add(name: str) -> None:
        if name in found:
            return
        if name not in files:
            raise MissingVmError(f"{programs.kernel.name} has no module {name}")
        needs = _NEEDS.search(files[name].read_bytes())
        for needed in needs[1].decode().split(",") if needs and needs[1] else ():
            add(needed.replace("-", "_"))
        found[name] = files[name]

    for name in names:
        add(name)
    return list(found.values())


def lay(programs: Programs, folder: Path, *names: str) -> None:
    """Copies them into a folder of a disk, for `load`."""
    folder.mkdir(parents=True)
    for number, path in enumerate(ordered(programs, *names)):
        shutil.copy2(path, folder / f"{number:02}.{path.name}")


def load(folder: Path) -> None:
    """In the guest: loads what `lay` laid there and is not loaded yet."""
    for path in sorted(folder.iterdir()):
        name = path.name.partition(".")[2].removesuffix(".ko").replace("-", "_")
        if not Path("/sys/module", name).is_dir():
            subprocess.run(["busybox", "insmod", str(path)], check=True)


def _name(path: Path) -> str:
    return path.stem.replace("-", "_")
