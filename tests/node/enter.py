# SPDX-License-Identifier: Apache-2.0
"""Runs a module as root in namespaces and cgroups of its own: a node on a machine with cgroup v1.

All that it starts dies with it, what it mounts is gone with it, and its cgroups are removed here,
with those that a killed run left.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.scenes.own_cgroups import left, remove, remove_left

ROOT = Path(__file__).resolve().parents[2]
CGROUP = Path("/sys/fs/cgroup")
_PREFIX = "koord-node"
_UNSHARE = (
    "unshare", "--mount", "--cgroup", "--pid", "--net", "--ipc", "--uts", "--fork",
    "--kill-child", "--mount-proc",
)  # fmt: skip
_NEEDED = {"cpu", "cpuset", "memory"}
# Most machines have net_cls mounted nowhere: here for as long as a shell does something with it.
_WITH_NET_CLS = ("unshare", "--mount", "--propagation", "private", "sh", "-ec")
_MAKE = 'mount -t cgroup -o "$1" none "$0"; mkdir "$0/$2"'
_ENTER = (
    'mount -t cgroup -o "$1" none "$0"; echo $$ >"$0/$2/cgroup.procs"; umount "$0"; shift 2; '
    'exec "$@"'
)
_REMOVE = """mount -t cgroup -o "$1" none "$0"
while read -r process; do kill -9 "$process" || true; done <"$0/$2/cgroup.procs"
find "$0/$2" -depth -type d -exec rmdir {} \\;
"""


class MissingNodeError(Exception):
    """No node can be made here; the message is one line that says why."""


def hierarchies() -> dict[str, Path]:
    """This process's directory in each cgroup v1 hierarchy, by the hierarchy's folder.

    Raises:
        MissingNodeError: one that a node needs is not there or cannot be written.
    """
    found = {}
    for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        _, name, path = line.split(":", 2)
        folder = CGROUP / name.removeprefix("name=")
        if name and os.access(folder / path.lstrip("/"), os.W_OK):
            found[name] = folder / path.lstrip("/")
    if missing := _NEEDED - set(found):
        raise MissingNodeError(f"no cgroup v1 hierarchy {', '.join(sorted(missing))} to write in")
    for tool in ("unshare", "mount", "ip"):
        if shutil.which(tool) is None:
            raise MissingNodeError(f"no program {tool} here")
    return found


def run_inside(
    module: str, order: dict[str, Any], timeout_seconds: float, *, live: bool = False
) -> Any:
    """Runs ``python -m MODULE ORDER`` as a node of its own; gives what it wrote.

    Args:
        module: writes JSON to the file that ``order["result"]`` names.
        order: what else it is told.
        timeout_seconds: then all of it is killed.
        live: whether what it prints is printed as it comes, not its end at the end.
    """
    with _directories() as made, _scratch() as scratch, _net_cls(Path(scratch)) as enter:
        result = Path(scratch) / "result.json"
        order |= {"result": str(result), "scratch": scratch}
        with Path(scratch, "output").open("wb") as output:
            process = subprocess.Popen(
                [*enter, *_UNSHARE, sys.executable, "-m", module, json.dumps(order)],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=None if live else output,
                stderr=subprocess.STDOUT,
                preexec_fn=lambda: _move(made), start_new_session=True,
            )  # fmt: skip
            try:
                process.wait(timeout_seconds)
            finally:
                process.kill()
                process.wait()
        words = Path(scratch, "output").read_text(encoding="utf-8", errors="replace")
        print(words[-20_000:])
        if not result.is_file():
            raise AssertionError(f"{module} ended with {process.returncode} and no result")
        return json.loads(result.read_text(encoding="utf-8"))


def _move(made: list[Path]) -> None:
    for folder in made:
        (folder / "cgroup.procs").write_text(str(os.getpid()))
    # 1 is PR_SET_PDEATHSIG: a test run that is killed takes its node along.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@contextlib.contextmanager
def _scratch() -> Iterator[str]:
    for folder in left(Path(tempfile.gettempdir()), _PREFIX):
        shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}-{os.getpid()}-") as scratch:
        yield scratch


@contextlib.contextmanager
def _net_cls(scratch: Path) -> Iterator[list[str]]:
    """A directory in net_cls, which few machines have mounted; gives what enters it and goes on.

    Nothing is given where that is mounted like the others, or the kernel has it not.
    """
    rows = [line.split() for line in Path("/proc/cgroups").read_text(encoding="ascii").splitlines()]
    own = next((row[1] for row in rows if row[0] == "net_cls"), None)
    if own is None or any("net_cls" in name for name in hierarchies()):
        yield []
        return
    # With those that share the hierarchy, if there is one already.
    names = ",".join(row[0] for row in rows if row[1] == own != "0") or "net_cls"
    place, name = scratch / "net_cls", f"{_PREFIX}-{os.getpid()}-{time.monotonic_ns()}"
    place.mkdir()
    words = [str(place), names, name]
    subprocess.run([*_WITH_NET_CLS, _MAKE, *words], check=True)
    try:
        yield [*_WITH_NET_CLS, _ENTER, *words]
    finally:
        subprocess.run([*_WITH_NET_CLS, _REMOVE, *words], check=True)


@contextlib.contextmanager
def _directories() -> Iterator[list[Path]]:
    found = hierarchies()
    made: list[Path] = []
    try:
        for name, folder in found.items():
            remove_left(folder, _PREFIX)
            own = folder / f"{_PREFIX}-{os.getpid()}-{time.monotonic_ns()}"
            own.mkdir()
            made.append(own)
            if name == "cpuset":
                for file in ("cpuset.cpus", "cpuset.mems"):
                    (own / file).write_text((folder / file).read_text(encoding="ascii"))
        yield made
    finally:
        for folder in made:
            remove(folder)
