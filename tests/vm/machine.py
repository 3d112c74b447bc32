# SPDX-License-Identifier: Apache-2.0
"""Starts the guest, gives it work, and ends it."""

from __future__ import annotations

import ctypes
import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from tests.vm import image, packages

BOOT_SECONDS = 120.0
_BOOTS = 2
# Two sockets, four cores each, two threads a core, a NUMA node a socket.
NUMA = (
    "-smp", "16,sockets=2,cores=4,threads=2", "-m", "3G",
    "-object", "memory-backend-ram,id=m0,size=1536M",
    "-object", "memory-backend-ram,id=m1,size=1536M",
    "-numa", "node,nodeid=0,cpus=0-7,memdev=m0", "-numa", "node,nodeid=1,cpus=8-15,memdev=m1",
)  # fmt: skip
# Skylake-Server: the EPYC models show no SMT under emulation.
_MACHINE = (
    "-accel tcg,thread=multi -cpu Skylake-Server "
    "-display none -nodefaults -no-user-config -no-reboot -monitor none"
)
_KERNEL = (
    "console=ttyS0 quiet panic=-1 psi=1 cgroup_no_v1=all mitigations=off random.trust_cpu=on "
    # Beside much other work ten ticks may not come while it looks, and then it boots no further.
    "no_timer_check"
)
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


class GuestError(Exception):
    """The guest did not start, ended, or an order in it failed; ends with its last words."""


class Guest:
    """A running guest; a context manager that leaves no process and no file.

    One that hung or ended is started anew for the next order, with koord as it was at first.

    Args:
        echo: whether its console goes to stderr as it comes.
        disks: further ones to read, ``/dev/vdc`` on; nobody mounts them.
        hardware: processors, memory and other devices, as QEMU's arguments.

    Attributes:
        release: its kernel's.
        boot_seconds: from QEMU's start until Python in the guest took orders.
    """

    def __init__(
        self,
        echo: bool = False,
        disks: Sequence[Path] = (),
        hardware: Sequence[str] = NUMA,
    ) -> None:
        self.release = ""
        self.boot_seconds = 0.0
        self._echo = echo
        self._console: list[str] = []
        self._orders = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._disks: list[Path] = []
        self._more = list(disks)
        self._hardware = list(hardware)
        self._folder = Path(tempfile.mkdtemp(prefix="koord-vm-"))

    def __enter__(self) -> Guest:
        try:
            self._boot_patiently()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def console(self) -> str:
        """All that it has printed."""
        return "".join(self._console)

    def run(self, module: str, argument: Any = None, timeout_seconds: float = 120.0) -> Any:
        """Runs a module's ``main`` in the guest as root.

        Args:
            module: as for ``python -m``; it finds `argument` as JSON in its first argument and
                writes its result as JSON to the file that the variable ``KOORD_RESULT`` names.
            argument: anything JSON.
            timeout_seconds: after which it is killed.

        Returns:
            The result; None when it wrote none.

        Raises:
            GuestError: it ended with another status than 0, or not in time.
        """
        if self._process is None:
            self._boot_patiently()
        self._orders += 1
        order = {
            "id": self._orders,
            "module": module,
            "argument": argument,
            "timeout_seconds": timeout_seconds,
        }
        try:
            self._line.sendall(json.dumps(order).encode() + b"\n")
            # The guest ends it itself; the rest is for a guest that hangs.
            answer = self._answer(timeout_seconds + 60)
        except (GuestError, OSError):
            self._end()
            raise
        if answer["status"] != 0:
            ended = "timed out" if answer["status"] is None else f"ended with {answer['status']}"
            raise GuestError(f"{module} {ended}\n{self._last_words()}")
        return answer["result"]

    def close(self) -> None:
        """Ends QEMU and removes its files."""
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            self._line.close()

    def _boot_patiently(self) -> None:
        """On a loaded machine an emulated CPU now and then misses its timer and the boot hangs."""
        programs = packages.find()
        if not self._disks:
            self._disks = [image.base(programs), image.source(programs, self._folder)]
        for left in reversed(range(_BOOTS)):
            try:
                self._boot(programs)
                break
            except GuestError:
                if not left:
                    raise
                self._end()

    def _boot(self, programs: packages.Programs) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(1.0)
        self._line = ours
        command = [
            *programs.command("usr/bin/qemu-system-x86_64"),
            *(w for f in ("qemu", "seabios") for w in ("-L", str(programs.root / "usr/share" / f))),
            *_MACHINE.split(),
            *("-kernel", str(programs.kernel), "-initrd", str(image.small(programs))),
            *("-append", _KERNEL, "-serial", "stdio"),
            *("-chardev", f"socket,id=orders,fd={theirs.fileno()}", "-serial", "chardev:orders"),
        ]
        for disk in [*self._disks, *self._more]:
            command += ["-drive", f"file={disk},format=raw,if=virtio,readonly=on"]
        command += self._hardware
        before = time.monotonic()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=programs.environment(),
            pass_fds=[theirs.fileno()],
            preexec_fn=_die_with_parent,
        )
        theirs.close()
        self._buffer = b""
        assert self._process.stdout
        threading.Thread(target=self._listen, args=[self._process.stdout], daemon=True).start()
        self.release = self._answer(BOOT_SECONDS)["ready"]
        self.boot_seconds = time.monotonic() - before

    def _listen(self, stream: BinaryIO) -> None:
        with stream:
            for line in stream:
                text = line.decode(errors="replace").replace("\r", "")
                if "TCG doesn't support" in text:
                    continue
                self._console.append(text)
                if self._echo:
                    print(f"guest| {text}", end="", file=sys.stderr, flush=True)

    def _answer(self, seconds: float) -> dict[str, Any]:
        ends = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            try:
                part = self._line.recv(65536)
            except TimeoutError:
                part = None
            if part:
                self._buffer += part
            elif part == b"" or time.monotonic() > ends:
                why = "hangs" if part is None else "ended"
                raise GuestError(f"the guest {why}\n{self._last_words()}")
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        return "".join(self._console[-60:])


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
