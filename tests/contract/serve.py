# SPDX-License-Identifier: Apache-2.0
"""The embedded server that contract tests talk to: ``python -m tests.contract.serve FILE``."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from koord.controlplane import kubeconfig
from koord.controlplane.embedded import EmbeddedControlPlane, Options


async def serve(path: Path, controllers: bool) -> None:
    """Serves until a signal ends it."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with EmbeddedControlPlane(Options(port=0)) as plane:
        kubeconfig.write(path, plane.kubeconfig)
        print("ready", plane.url, flush=True)
        await stopped.wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), "controllers" in sys.argv[2:]))
