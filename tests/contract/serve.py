# SPDX-License-Identifier: Apache-2.0
"""The embedded server that contract tests talk to: ``python -m tests.contract.serve FILE``."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from koord.base.clock import Clock
from koord.controlplane.controllers import NAMES, BuiltinControllers
from koord.controlplane.credentials import kubeconfig, pki
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.client import Client
from koord.kube.transport.messages import Transport


async def control(transport: Transport, clock: Clock) -> None:
    """What kube-controller-manager does; pods are bound by nobody, as on the real server."""
    which = [name for name in NAMES if name != "binder"]
    await BuiltinControllers(Client(transport), clock, which).run()


async def serve(path: Path, controllers: bool) -> None:
    """Serves until a signal ends it."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    options = Options(port=0, controllers=[control] if controllers else [])
    async with EmbeddedControlPlane(options) as plane:
        kubeconfig.write(path, plane.kubeconfig)
        assert plane.credentials_folder is not None
        for name in (pki.CLIENT_AUTHORITY, pki.CLIENT_AUTHORITY_KEY):
            pki.write_private(path.parent / name, (plane.credentials_folder / name).read_bytes())
        print("ready", plane.url, flush=True)
        await stopped.wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), "controllers" in sys.argv[2:]))
