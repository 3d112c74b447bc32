# SPDX-License-Identifier: Apache-2.0
"""The client of the thread that renews a daemon's lease: connections and counters of its own."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from koord.kube.client import Client


def lease_client(
    kubeconfig: Path | None, name: str
) -> Callable[[], AbstractAsyncContextManager[Client]]:
    """Opens a client in whatever event loop it is called.

    Args:
        kubeconfig: where the API server is; read anew, since credentials are renewed in place.
        name: of the daemon.
    """

    @asynccontextmanager
    async def opened() -> AsyncIterator[Client]:
        from koord.kube.client import Client
        from koord.kube.transport.credentials import load_cluster_config
        from koord.kube.transport.http import HttpTransport

        transport = HttpTransport(load_cluster_config(kubeconfig), connections=2)
        try:
            yield Client(transport, name, requests_per_second=None)
        finally:
            await transport.close()

    return opened
