# SPDX-License-Identifier: Apache-2.0
"""API servers in processes of their own, to be killed and started again by a test."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from tests.real.fixtures import need
from tests.real.plane import RealControlPlane, free_port

BOTH = ["embedded", pytest.param("real", marks=pytest.mark.real)]
SOURCES = Path(__file__).resolve().parents[2]


class Plane(Protocol):
    """What a test does to an API server; its state outlives it."""

    kubeconfig: Path

    def kill(self) -> None:
        """SIGKILL, and waits for the end."""
        ...

    def restart(self) -> None:
        """Starts it again at the same address and waits until it serves."""
        ...


class EmbeddedProcess:
    """``python -m koord.controlplane`` with a data folder."""

    def __init__(self, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self._arguments = [
            sys.executable, "-m", "koord.controlplane", "--port", str(free_port()),
            "--data", str(folder / "data"), "--kubeconfig", str(self.kubeconfig),
        ]  # fmt: skip
        self._process: subprocess.Popen[str] | None = None

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and waits for the end."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        self._process = subprocess.Popen(self._arguments, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("ready "):
            self.kill()
            raise AssertionError(f"the server did not start: {line}")

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        process.wait(20)
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def started(name: str, folder: Path) -> Iterator[Plane]:
    """A server for one test: ``embedded`` or ``real``."""
    if name == "real":
        need("etcd", "kube-apiserver")
        with RealControlPlane(folder) as real:
            yield real
        return
    embedded = EmbeddedProcess(folder)
    embedded.restart()
    try:
        yield embedded
    finally:
        embedded.stop()
