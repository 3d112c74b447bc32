# SPDX-License-Identifier: Apache-2.0
"""Calls the hook server of a stage: before a call and waited for, or after it and not.

Rule: docs/reference/delivery.md#a-hook-server-that-fails.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.base import log
from koord.delivery.cri.hook_client import HookClient, HookServerError
from koord.delivery.cri.hook_servers import MOST_FILES

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.base.metrics import MetricRegistry
    from koord.delivery.cri.hook_servers import FailurePolicy, HookServer, HookServers
    from koord.delivery.nri.call_log import CallLog

MOST_WAITING = 1024
"""Calls after the fact that wait for their turn; more are dropped and counted."""
_LOG = log.get("runtime-proxy.hooks")


class HookFailure(NamedTuple):
    """A hook server's.

    Attributes:
        policy: what its file says of failures.
        text: hook server, stage, pod and what happened, in one line.
    """

    policy: FailurePolicy
    text: str


class HookCalls:
    """Of one proxy.

    Args:
        servers: who is called.
        timeout_seconds: how long an answer is waited for.
        calls: remembers them.
        clock: of pauses.
        metrics: counts them.

    Attributes:
        servers: those that there are now.
        empty: the files of hook servers whose last answer was an empty one, which changes nothing.
    """

    def __init__(
        self,
        servers: HookServers,
        timeout_seconds: float,
        calls: CallLog,
        clock: Clock,
        metrics: MetricRegistry,
    ) -> None:
        self.servers = servers
        self.empty: set[str] = set()
        self._timeout_seconds, self._calls, self._clock = timeout_seconds, calls, clock
        # By the file's name, with what it said.
        self._clients: dict[str, tuple[HookServer, HookClient]] = {}
        self._closing: set[asyncio.Future[None]] = set()
        self._later: asyncio.Queue[tuple[str, Any, str]] = asyncio.Queue(MOST_WAITING)
        self._errors: dict[str, str] = {}
        self._count = metrics.counter(
            "koord_runtime_proxy_hook_calls_total", "Calls of hook servers.", ("stage", "result")
        )

    async def call(self, stage: str, request: Any, name: str) -> tuple[Any, HookFailure | None]:
        """The answer of the stage's hook server, or how it failed; neither where there is none.

        Args:
            stage: which one.
            request: what it is told.
            name: what it is about, for people.
        """
        server = self.servers.of_stage(stage)
        if server is None:
            return None, None
        with self._calls.call(stage) as call:
            try:
                answer = await self._client(server).call(stage, request)
            except HookServerError as error:
                call.fail(str(error))
                return None, self._failure(server, stage, name, str(error))
        self._note(server.name, answer)
        self._count.labels(stage, "success").inc()
        if self._errors.pop(server.endpoint, ""):
            _LOG.info("hook server answers again", extra=log.fields(endpoint=server.endpoint))
        return answer, None

    def _note(self, name: str, answer: Any) -> None:
        if answer.ByteSize():
            self.empty.discard(name)
        elif name not in self.empty:
            self.empty.intersection_update(each.name for each in self.servers.all())
            self.empty.add(name)

    def _failure(self, server: HookServer, stage: str, name: str, error: str) -> HookFailure:
        self._count.labels(stage, "failure").inc()
        if self._errors.get(server.endpoint) != error:
            self._errors[server.endpoint] = error
            where = log.fields(endpoint=server.endpoint, stage=stage, what=name, error=error)
            _LOG.warning("hook server failed", extra=where)
        text = f"{server.endpoint} ({server.name}): {stage} of {name}: {error}"
        return HookFailure(server.policy, text)

    def call_later(self, stage: str, request: Any, name: str) -> None:
        """Has a hook server told, in the order of calls; nobody waits, and nobody cares how."""
        if self.servers.of_stage(stage) is None:
            return
        try:
            self._later.put_nowait((stage, request, name))
        except asyncio.QueueFull:
            self._count.labels(stage, "dropped").inc()

    async def run(self) -> None:
        """Makes the calls that nobody waits for, until cancelled."""
        while True:
            stage, request, name = await self._later.get()
            await self.call(stage, request, name)
            self._later.task_done()

    async def drain(self) -> None:
        """Waits until no such call is left."""
        await self._later.join()

    def _client(self, server: HookServer) -> HookClient:
        """A server whose file is new is called anew, whatever it failed of before."""
        known = self._clients.get(server.name)
        if known is not None and known[0] == server:
            return known[1]
        if known is None and len(self._clients) >= MOST_FILES:
            known = self._clients.pop(next(iter(self._clients)))
        if known is not None:
            closing = asyncio.ensure_future(known[1].close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        client = HookClient(server.endpoint, self._timeout_seconds, self._clock)
        self._clients[server.name] = server, client
        return client

    async def close(self) -> None:
        """Ends all calls."""
        for _, client in self._clients.values():
            await client.close()
        self._clients.clear()
        await asyncio.gather(*self._closing)
