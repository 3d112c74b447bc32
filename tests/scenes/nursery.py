# SPDX-License-Identifier: Apache-2.0
"""Python programs as processes of their own, forked from a process that has imported much already.

Under emulation imports take longer than all that a scene does. What is started is a real process
with a name of its own: it can be killed, and nothing of the parent's state but modules is in it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import runpy
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.scenes.capabilities import confine

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


class Nursery:
    """Starts programs; make it before there are threads.

    It ends with the process that made it, and so do the programs.
    """

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sys.stdout.flush()
        if os.fork() == 0:
            self._line.close()
            _nurse(theirs)
        theirs.close()

    def start(
        self,
        module: str,
        arguments: Sequence[str],
        output: Path,
        environment: Mapping[str, str] | None = None,
        capabilities: Sequence[str] | None = None,
    ) -> Program:
        """Runs a module as ``python -m`` does, with what it prints in a file.

        With capabilities it has these alone; else all of this process.
        """
        order = {
            "module": module,
            "arguments": list(arguments),
            "output": str(output),
            "environment": dict(environment or {}),
            "capabilities": None if capabilities is None else list(capabilities),
        }
        self._line.sendall(json.dumps(order).encode())
        return Program(int(self._line.recv(64)))


class Program:
    """A process that a nursery started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def send(self, number: int) -> None:
        """Sends a signal, unless it is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self, seconds: float = 60.0) -> None:
        """Waits for its end; TimeoutError where it does not end."""
        ends = time.monotonic() + seconds
        while self.alive:
            if time.monotonic() > ends:
                raise TimeoutError(f"process {self.pid} does not end")
            time.sleep(0.01)

    def kill(self) -> None:
        """kill -9."""
        self.send(signal.SIGKILL)
        self.wait()


def _nurse(line: socket.socket) -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    # The kernel buries the children, so that one that is dead is gone.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    while order := line.recv(65536):
        child = os.fork()
        if child == 0:
            line.close()
            _become(json.loads(order))
        line.sendall(str(child).encode())
    os._exit(0)


def _become(order: dict[str, object]) -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    output = os.open(str(order["output"]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    environment, arguments = order["environment"], order["arguments"]
    capabilities = order["capabilities"]
    assert isinstance(environment, dict)
    assert isinstance(arguments, list)
    os.environ.update(environment)
    if capabilities is not None:
        assert isinstance(capabilities, list)
        confine(capabilities)
    os._exit(run_module(str(order["module"]), arguments))


def run_module(module: str, arguments: Sequence[str]) -> int:
    """Runs a module as the main one; its exit status."""
    sys.argv = [module, *arguments]
    # Run anew even where it was imported before.
    sys.modules.pop(module, None)
    status = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status
