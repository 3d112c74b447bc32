# SPDX-License-Identifier: Apache-2.0
"""What runs inside the guest: takes orders by the second serial line, one JSON document a line.

An order names a module, its argument and how long it may take; the answer carries what the module
wrote to the file that ``KOORD_RESULT`` names. Between two orders nothing is left: no process, no
cgroup.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
import tty
from pathlib import Path
from typing import Any

from tests.scenes.nursery import run_module
from tests.scenes.warm import warm

CGROUP = Path("/sys/fs/cgroup")
RESULT = Path("/tmp/result.json")
_NEW_MOUNTS = 0x20000  # CLONE_NEWNS


def carry_out(order: dict[str, Any]) -> dict[str, Any]:
    """Runs one module to its end, or kills it when its time is over."""
    RESULT.unlink(missing_ok=True)
    if order["module"] == "tests.scenes.stage":
        warm(order["argument"]["experiment"])
    process = os.fork()
    if process == 0:
        console = os.open("/dev/console", os.O_WRONLY)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(console, 1)
        os.dup2(console, 2)
        os.environ["KOORD_RESULT"] = str(RESULT)
        # What it mounts goes with it.
        ctypes.CDLL(None).unshare(_NEW_MOUNTS)
        os._exit(run_module(order["module"], [json.dumps(order["argument"])]))
    status = _wait(process, order["timeout_seconds"])
    sweep()
    text = RESULT.read_text(encoding="utf-8") if RESULT.is_file() else "null"
    return {"id": order["id"], "status": status, "result": json.loads(text)}


def _wait(process: int, seconds: float) -> int | None:
    """The exit status; None for a process that had to be killed."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def sweep() -> None:
    """Ends all processes but this one and init, then removes all cgroups."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    for _ in range(100):
        folders = sorted((p for p in CGROUP.rglob("*") if p.is_dir()), reverse=True)
        if not folders:
            return
        for folder in folders:
            with contextlib.suppress(OSError):
                folder.rmdir()
        time.sleep(0.05)


def main() -> None:
    """Says that it is ready, then serves until the line is cut."""
    tty.setraw(0)
    tty.setraw(1)
    answers = sys.stdout
    print(json.dumps({"ready": os.uname().release}), file=answers, flush=True)
    for line in sys.stdin:
        if line.strip():
            print(json.dumps(carry_out(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
