# SPDX-License-Identifier: Apache-2.0
"""The program that containers run, compiled once into the cache."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from tests.vm.packages import cache_folder

SOURCE = Path(__file__).parent / "load.c"


def build() -> Path:
    """The program ``load``: static, so that it runs in the guest and in any container."""
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]
    path = cache_folder() / f"load-{digest}"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(f".{os.getpid()}")
        command = ["cc", "-O1", "-static", "-Wall", "-Werror", "-o", str(scratch), str(SOURCE)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        scratch.rename(path)
    return path
