# SPDX-License-Identifier: Apache-2.0
"""Starts the embedded server for the contract tests, in a process of its own."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

STOP_SECONDS = 10.0


@dataclass(frozen=True)
class Embedded:
    """A running embedded server, as its kubeconfig describes it."""

    port: int
    authority: str
    headers: Mapping[str, str]
    kubeconfig: Path

    def tls(self) -> ssl.SSLContext:
        """Trusts the server."""
        return ssl.create_default_context(cadata=self.authority)


@contextmanager
def start_embedded(folder: Path, *, controllers: bool) -> Iterator[Embedded]:
    """Runs ``tests.contract.serve``; ends it on leaving.

    Raises:
        AssertionError: it did not come up; what it said is in the message.
    """
    path, log = folder / "kubeconfig", folder / "embedded.log"
    command = [sys.executable, "-m", "tests.contract.serve", str(path)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *(["controllers"] if controllers else [])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
        )
    assert process.stdout is not None
    try:
        assert process.stdout.readline().startswith(b"ready"), log.read_text()
        yield _read(path)
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
    assert process.returncode == 0, log.read_text()


def _read(path: Path) -> Embedded:
    config = json.loads(path.read_text(encoding="utf-8"))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    port = urlsplit(cluster["server"]).port
    assert port is not None
    return Embedded(port, authority, {"Authorization": f"Bearer {user['token']}"}, path)
