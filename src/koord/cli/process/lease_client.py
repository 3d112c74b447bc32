# SPDX-License-Identifier: Apache-2.0
"""How a daemon holds its Lease: the elector, and the client of the thread that renews, which has
connections and counters of its own.
"""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from koord.base.clock import Clock
    from koord.base.metrics import MetricRegistry
    from koord.controllers.scheduler.config.configuration_file import LeaderElection
    from koord.kube.client import Client
    from koord.kube.election import LeaderElector, Timing


def leader_elector(
    client: Client,
    name: str,
    namespace: str,
    metrics: MetricRegistry,
    url: str = "",
    timing: Timing | None = None,
    clock: Clock | None = None,
    identity: str = "",
    renewal_client: Callable[[], AbstractAsyncContextManager[Client]] | None = None,
) -> LeaderElector:
    """A daemon's elector.

    Args:
        client: of the Lease.
        name, namespace: of the Lease.
        metrics: where it counts.
        url: where the leader answers questions, an annotation of the Lease; empty for none.
        timing: how long a lead lasts; Kubernetes' usual times where it is None.
        clock: what the lead is counted by; the machine's own where it is None.
        identity: of this process; made up where it is empty.
        renewal_client: opens the client of a thread that renews; None renews by the event loop.
    """
    from koord.api.protocol import keys
    from koord.kube.election import LeaderElector, Timing

    return LeaderElector(
        client,
        name,
        namespace,
        identity or f"{socket.gethostname()}_{uuid4()}",
        timing=timing or Timing(),
        annotations={keys.LEADER_ENDPOINT: url} if url else None,
        clock=clock,
        metrics=metrics,
        renewal_client=renewal_client,
    )


def configured_timing(election: LeaderElection) -> Timing:
    """How long a lead lasts by a configuration file."""
    from koord.kube.election import Timing

    return Timing(
        int(election.lease_duration.nanoseconds // 10**9),
        election.renew_deadline.nanoseconds / 1e9,
        election.retry_period.nanoseconds / 1e9,
    )


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
