# SPDX-License-Identifier: Apache-2.0
"""``python -m koord.controlplane``: the API server alone, in a process of its own.

Prints one line once it serves, ``ready URL``, and ends on SIGINT or SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from koord.base.errors import KoordError
from koord.base.memory import garbage_collection
from koord.controlplane.credentials import kubeconfig
from koord.controlplane.embedded import EmbeddedControlPlane, Options


def main(arguments: list[str] | None = None) -> int:
    """Runs the server until a signal ends it; gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m koord.controlplane", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="loopback address to listen on")
    parser.add_argument("--port", type=int, default=0, help="0 for any free one")
    parser.add_argument("--kubeconfig", type=Path, help="file to write, mode 0600")
    parser.add_argument("--data", type=Path, help="folder that keeps the state")
    parser.add_argument("--insecure", action="store_true", help="no TLS, no token")
    parser.add_argument("--seed", type=int, help="of uids and generated names")
    given = parser.parse_args(arguments)
    options = Options(
        data=given.data, host=given.host, port=given.port, insecure=given.insecure, seed=given.seed
    )
    try:
        asyncio.run(_serve(options, given.kubeconfig))
    except KoordError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    return 0


async def _serve(options: Options, path: Path | None) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with EmbeddedControlPlane(options) as plane:
        if path is not None:
            kubeconfig.write(path, plane.kubeconfig)
        print("ready", plane.url, flush=True)
        # Requests make many containers and keep none: looking at them seldom saves a fifth.
        upkeep = asyncio.create_task(garbage_collection.keep_memory_low())
        await stopped.wait()
        upkeep.cancel()


if __name__ == "__main__":
    sys.exit(main())
