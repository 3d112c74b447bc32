# SPDX-License-Identifier: Apache-2.0
"""What koordlet's modules take of memory: ``python -m benchmarks.agent_memory``.

A fresh interpreter imports what a running koordlet has imported, a part after the other. Prints one
JSON document: MiB of resident memory that each part adds to those before it, and the whole above
the bare interpreter; the process of :mod:`benchmarks.agent_process` has its data beside that. Run
it twice where modules are not compiled yet.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys

from benchmarks.resident import resident_bytes

PARTS = {
    "standard library": (
        "argparse", "asyncio", "ctypes", "email.message", "http.server",
        "inspect", "logging", "ssl", "urllib.request", "uuid", "wsgiref.simple_server",
    ),
    "msgspec": ("msgspec",),
    "prometheus-client": ("prometheus_client",),
    "aiohttp": ("aiohttp.web",),
    "NumPy": ("numpy",),
    "koord, native": ("koord._native.wire", "koord._native.core"),
    "koord": (
        "koord.cli.daemons.koordlet", "koord.cli.daemons.runtime_part", "koord.agent.app",
        "koord.agent.endpoints", "koord.agent.states.kubelet", "koord.kube.transport.http",
        "koord.cli.process.secure_port",
    ),
}  # fmt: skip


def main() -> None:
    """In an interpreter that has imported nothing before; this module's own names are little."""
    if "--inside" in sys.argv:
        print(json.dumps(measure(), indent=2))
        return
    # As koordlet has it: no system authorities, no threads of linear algebra.
    environment = {**os.environ, "SSL_CERT_FILE": os.devnull, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.agent_memory", "--inside"]
    subprocess.run(command, check=True, env=environment)


def measure() -> dict[str, float]:
    """MiB by part, in this order."""
    first = before = resident_bytes()
    found: dict[str, float] = {}
    for part, modules in PARTS.items():
        for name in modules:
            importlib.import_module(name)
        now = resident_bytes()
        found[part], before = round((now - before) / 2**20, 1), now
    return {**found, "all": round((before - first) / 2**20, 1)}


if __name__ == "__main__":
    main()
