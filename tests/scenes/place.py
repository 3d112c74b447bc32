# SPDX-License-Identifier: Apache-2.0
"""Where experiments run: here on cgroup v1 or v2, or in the guest on cgroup v2."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.scenes import capabilities, program
from tests.scenes.own_cgroups import remove, remove_left
from tests.scenes.tree import V1_HIERARCHIES, V2_CONTROLLERS
from tests.vm.machine import Guest
from tests.vm.packages import cache_folder

CGROUP = Path("/sys/fs/cgroup")
ROOT = Path(__file__).resolve().parents[2]
_PREFIX = "koord-scene"
# The kernel's most: the own directory goes before all that others run, which are single processes
# of the root beside it.
_SHARES = 262144
# They judge what CPUs are used for; the others judge what is written, and mostly wait.
_ALONE = frozenset({"burst", "hostile", "kernel", "suppress"})
# What scenes of this machine take from the guest meanwhile looks like waiting in it.
_ALONE_IN_GUEST = frozenset({"contention"})
# Beside other work an emulated CPU now and then stops for good, and is not waited for longer: the
# longest scene took 144 s on a machine with 30 processes waiting.
_GUEST_SECONDS = 300.0
_DELEGATE = "KOORD_CGROUP2 may name a directory that hands them down"
_UNSHARE = [
    "unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child",
    "--mount-proc",
]  # fmt: skip


class Place(ABC):
    """Runs experiments of ``tests.scenes.experiments``.

    Attributes:
        version: of cgroups.
        emulated: whether its processors are, which are many and slow.
    """

    version: int
    emulated = False

    def run(
        self,
        experiment: str,
        *,
        timeout_seconds: float = 600.0,
        driver: str = "systemd",
        without: str = "",
        added: Iterable[str] = (),
        **argument: Any,
    ) -> Any:
        """Runs one to its end; gives its figures, AssertionError with what went wrong in it.

        The agent has the capabilities of the chart's, but for the one that it is `without`, and
        those that are `added`.
        """
        held = [*(name for name in capabilities.of_chart() if name != without), *added]
        order = {"experiment": experiment, "argument": argument, "driver": driver}
        order |= {"capabilities": held}
        result = self._perform(order, timeout_seconds)
        if "failure" in result:
            raise AssertionError(result["failure"])
        return result["figures"]

    @abstractmethod
    def _perform(self, order: dict[str, Any], timeout_seconds: float) -> Any: ...


class MissingPlaceError(Exception):
    """No experiment can run here; one line says why."""


class GuestPlace(Place):
    """The guest: cgroup v2, NUMA, SMT."""

    version = 2
    emulated = True

    def __init__(self, guest: Guest, own: str | None = None) -> None:
        self.guest = guest
        self._own = own

    def _perform(self, order: dict[str, Any], timeout_seconds: float) -> Any:
        order |= {"program": "/opt/koord/load", "own": self._own}
        alone = order["experiment"] in _ALONE_IN_GUEST
        with _turn(alone=True) if alone else contextlib.nullcontext():
            return self.guest.run("tests.scenes.stage", order, min(timeout_seconds, _GUEST_SECONDS))


class HierarchiesPlace(Place):
    """This machine's cgroup v1 hierarchies, in directories of its own.

    The experiment has namespaces of its own for mounts and processes: whatever happens, all it
    mounted and started ends with it. The directories are removed here.
    """

    version = 1

    def _perform(self, order: dict[str, Any], timeout_seconds: float) -> Any:
        name = f"{_PREFIX}-{os.getpid()}-{time.monotonic_ns()}"
        order |= {"program": str(program.build()), "own": name}
        with _turn(order["experiment"] in _ALONE), _directories(name):
            return _in_namespaces(order, timeout_seconds)


class UnifiedPlace(Place):
    """A directory of its own in this machine's cgroup v2, with namespaces as above.

    What ``/proc`` tells is the whole machine's: it should be quiet.

    Args:
        base: the directory above, which hands the controllers down.
    """

    version = 2

    def __init__(self, base: Path) -> None:
        self._base = base

    def _perform(self, order: dict[str, Any], timeout_seconds: float) -> Any:
        own = self._base / f"{_PREFIX}-{os.getpid()}-{time.monotonic_ns()}"
        order |= {"program": str(program.build()), "own": str(own)}
        with _turn(alone=True):
            remove_left(self._base, _PREFIX)
            own.mkdir()
            try:
                return _in_namespaces(order, timeout_seconds)
            finally:
                remove(own)


def find_unified(environment: Mapping[str, str] = os.environ, proc: str = "/proc") -> UnifiedPlace:
    """The place on this machine: beneath the directory that KOORD_CGROUP2 names, else where cgroup
    v2 is mounted.

    Raises:
        MissingPlaceError: none that hands down all controllers and may be written.
    """
    named = environment.get("KOORD_CGROUP2")
    base = Path(named) if named else _unified_mount(proc)
    for file in ("cgroup.controllers", "cgroup.subtree_control"):
        try:
            there = (base / file).read_text(encoding="ascii").split()
        except OSError as error:
            raise MissingPlaceError(f"no cgroup v2 in {base}: {error.strerror}") from None
        lacks = [name for name in V2_CONTROLLERS if name not in there]
        if lacks:
            why = "v1 hierarchies have them" if file == "cgroup.controllers" else _DELEGATE
            raise MissingPlaceError(f"{base}/{file} has no {', '.join(lacks)}: {why}")
    if not os.access(base, os.W_OK):
        raise MissingPlaceError(f"{base} is not writable")
    _check_namespaces()
    return UnifiedPlace(base)


def _unified_mount(proc: str) -> Path:
    for line in Path(proc, "self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        if after.split()[0] == "cgroup2":
            return Path(before.split()[4])
    raise MissingPlaceError("no cgroup v2 is mounted")


def find_hierarchies() -> HierarchiesPlace:
    """The place on this machine.

    Raises:
        MissingPlaceError: no writable cgroup v1 hierarchies, or no right to namespaces.
    """
    for hierarchy in V1_HIERARCHIES:
        if not (CGROUP / hierarchy / "cgroup.procs").exists():
            raise MissingPlaceError(f"no cgroup v1 hierarchy {hierarchy} is mounted")
        if not os.access(CGROUP / hierarchy, os.W_OK):
            raise MissingPlaceError(f"the cgroup v1 hierarchy {hierarchy} is not writable")
    _check_namespaces()
    return HierarchiesPlace()


def _check_namespaces() -> None:
    for tool in ("unshare", "mount"):
        if shutil.which(tool) is None:
            raise MissingPlaceError(f"no program {tool} here")
    tried = subprocess.run([*_UNSHARE, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        raise MissingPlaceError(f"no namespaces here: {tried.stderr.strip()}")


@contextlib.contextmanager
def _turn(alone: bool) -> Iterator[None]:
    """Waits until an experiment may run: with others of its sort, or without any other."""
    lock = cache_folder() / "scene.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        _remove_left()
        yield


def _remove_left() -> None:
    """Removes what a killed run of these tests left: directories whose process is gone."""
    for hierarchy in V1_HIERARCHIES:
        remove_left(CGROUP / hierarchy, _PREFIX)


@contextlib.contextmanager
def _directories(name: str) -> Iterator[None]:
    made: list[Path] = []
    try:
        for hierarchy in V1_HIERARCHIES:
            made.append(CGROUP / hierarchy / name)
            _own(hierarchy, name)
        yield
    finally:
        for folder in made:
            if folder.exists():
                remove(folder)


def _own(hierarchy: str, name: str) -> None:
    folder = CGROUP / hierarchy / name
    folder.mkdir()
    if hierarchy == "cpuset":
        for file in ("cpuset.cpus", "cpuset.mems"):
            (folder / file).write_text((CGROUP / hierarchy / file).read_text(encoding="ascii"))
    if hierarchy == "cpu":
        (folder / "cpu.shares").write_text(str(_SHARES))


def _in_namespaces(order: dict[str, Any], timeout_seconds: float) -> Any:
    with tempfile.TemporaryDirectory(prefix="koord-stage-") as scratch:
        result = Path(scratch) / "result.json"
        process = subprocess.Popen(
            [*_UNSHARE, sys.executable, "-m", "tests.scenes.stage", json.dumps(order)],
            cwd=ROOT,
            env={
                **os.environ,
                "KOORD_RESULT": str(result),
                "TMPDIR": scratch,
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            },
            stdin=subprocess.DEVNULL,
            preexec_fn=_die_with_parent,
        )
        try:
            status = process.wait(timeout_seconds)
        finally:
            process.kill()
            process.wait()
        if not result.is_file():
            raise AssertionError(f"{order['experiment']} ended with {status} and no result")
        return json.loads(result.read_text(encoding="utf-8"))


def _die_with_parent() -> None:
    # 1 is PR_SET_PDEATHSIG: a test run that is killed takes its experiment along.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
