# SPDX-License-Identifier: Apache-2.0
"""Stories of `tests.scenes.network_scene` in the guest; `Guest.run` starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.node.guest.prepare import DISK, call
from tests.vm import modules

_SECONDS = 600.0


def main() -> None:
    """Plays those that an order names, each in a network of its own."""
    DISK.mkdir(exist_ok=True)
    call("mount", "-t", "ext4", "-o", "ro", "/dev/vdc", str(DISK))
    modules.load(DISK / "modules")
    found = {}
    for story in json.loads(sys.argv[1])["stories"]:
        found[story] = _play(story)
        print(f"{story}: {found[story]}", flush=True)
    Path(os.environ["KOORD_RESULT"]).write_text(json.dumps(found), encoding="utf-8")


def _play(story: str) -> dict[str, Any]:
    words = ["busybox", "unshare", "-n", "-m", sys.executable, "-m", "tests.scenes.network_scene"]
    environment = {
        **os.environ, "KOORD_SCENE_PATIENCE": "10",
        "PATH": f"{DISK / 'bin'}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(DISK / "lib"), "XTABLES_LIBDIR": str(DISK / "lib"),
    }  # fmt: skip
    done = subprocess.run(
        [*words, story], capture_output=True, text=True, check=False, env=environment,
        timeout=_SECONDS,
    )  # fmt: skip
    if done.returncode != 0:
        return {"failure": done.stderr[-3000:]}
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


if __name__ == "__main__":
    main()
