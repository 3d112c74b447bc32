# SPDX-License-Identifier: Apache-2.0
"""The machines of ``koord up`` on any API server: ``python -m tests.original.machines``.

A process of its own, so that a real kube-apiserver gets the same nodes, agents' reports and pod
lives as the embedded one. Prints a line once all nodes are there; ends with SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path

from koord.base.clock import SystemClock
from koord.kube.client import Client
from koord.kube.events import EventRecorder
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from koord.simulator.nodes.fleet import Fleet
from koord.simulator.nodes.pools import load_pools


async def _run(kubeconfig: Path, pools: Path) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, _cancel_all)
    transport = HttpTransport(load_cluster_config(kubeconfig))
    client = Client(transport, field_manager="kubelet", requests_per_second=None)
    recorder = EventRecorder(client, "kubelet")
    fleet = Fleet(client, load_pools(pools), SystemClock(), 0, recorder.event)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(recorder.run())
            tasks.create_task(fleet.run())
            await fleet.ready()
            print("ready", flush=True)
    finally:
        await transport.close()


def _cancel_all() -> None:
    for task in asyncio.all_tasks():
        task.cancel()


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.original.machines")
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("pools", type=Path)
    options = parser.parse_args()
    try:
        asyncio.run(_run(options.kubeconfig, options.pools))
    except asyncio.CancelledError:
        return


if __name__ == "__main__":
    main()
