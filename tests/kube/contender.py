# SPDX-License-Identifier: Apache-2.0
"""One process that contends for a lease and writes a fencing record while it leads.

``python -m tests.kube.contender KUBECONFIG NAMESPACE LEASE IDENTITY`` prints one line an act:
``lead VERSION``, ``act VERSION SECONDS`` (boot time before the check that allowed it), ``fenced``
when the server refused a write, ``lost``.
"""

from __future__ import annotations

import asyncio
import sys

from koord.api import ConfigMap, ObjectMeta
from koord.kube.client import Client
from koord.kube.election import BootClock, LeaderElector, LeadLostError, Timing
from koord.kube.errors import ApiError, TransportError
from koord.kube.requests.retry import RetryPolicy
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport

RECORD = "record"
TIMING = Timing(lease_seconds=1, renew_deadline_seconds=0.7, retry_seconds=0.15)
ACT_SECONDS = 0.02


class Fence:
    """A record that only the latest lead can write: each write names its lead and the version."""

    def __init__(self, client: Client, namespace: str, elector: LeaderElector) -> None:
        self._client = client
        self._namespace = namespace
        self._elector = elector
        self._record: ConfigMap | None = None
        self._acts = 0

    async def act(self) -> None:
        """Writes once, if the lead allows it.

        Raises:
            LeadLostError: it does not, or a later lead has written.
        """
        token = self._elector.token
        if self._record is None:
            self._record = await self._read()
            if int(self._record.data.get("token", "0")) > token.version:
                raise LeadLostError("a later lead has written")
        self._acts += 1
        self._record.data = {
            "token": str(token.version), "by": self._elector.identity, "act": str(self._acts),
        }  # fmt: skip
        moment = BootClock().monotonic_seconds()
        self._elector.check()
        print("act", token.version, moment, flush=True)
        try:
            self._record = await self._client.update(self._record)
        except ApiError as error:
            if error.http_status != 409:
                raise
            print("fenced", flush=True)
            raise LeadLostError("the record has been written by another") from None

    async def _read(self) -> ConfigMap:
        try:
            return await self._client.get(ConfigMap, RECORD, self._namespace)
        except ApiError as error:
            if error.http_status != 404:
                raise
        meta = ObjectMeta(name=RECORD, namespace=self._namespace)
        return await self._client.create(ConfigMap(metadata=meta))


async def contend(kubeconfig: str, namespace: str, lease: str, identity: str) -> None:
    """Contends until the process ends."""
    transport = HttpTransport(load_cluster_config(kubeconfig))
    client = Client(transport, policy=RetryPolicy(attempts=1), requests_per_second=None)
    elector = LeaderElector(client, lease, namespace, identity, timing=TIMING)

    async def work() -> None:
        print("lead", elector.token.version, flush=True)
        fence = Fence(client, namespace, elector)
        while True:
            await fence.act()
            await asyncio.sleep(ACT_SECONDS)

    while True:
        try:
            await elector.lead(work)
        except (LeadLostError, ApiError, TransportError) as error:
            print("lost", error, flush=True)


if __name__ == "__main__":
    asyncio.run(contend(*sys.argv[1:]))
