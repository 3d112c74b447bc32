# SPDX-License-Identifier: Apache-2.0
"""Requests of one tenant queue behind its own, however many connections it has.

Rule: docs/controlplane.md#who-else-is-on-the-loop.

Every connection that has a request ready would be served in one turn of the event loop, so that who
opens fifty has fifty times what others have: between a pod's creation and its binding lie a dozen
turns. While several tenants ask, each of them begins one request a round. A round ends once the
loop has nothing else to do, so that what the requests before have brought about is done first, or
after a few turns of it. While one tenant asks nobody waits for anything.

What begins is bounded, not what is under way: a request that waits for a webhook, which may ask
this server something, keeps nobody out.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from koord.base.loop_share import loop_share
from koord.controlplane.authorization.identity import ACCOUNT_PREFIX

if TYPE_CHECKING:
    from koord.controlplane.authorization.identity import Identity

# How long a tenant counts as one who asks after its last request.
_RECENT_SECONDS = 1.0
# An iteration of the loop in which nothing else was done takes less.
_IDLE_SECONDS = 0.0003
# Iterations of the loop after which a round ends however busy the loop is.
MOST_ITERATIONS = 4

Tenant = tuple[str, str]


def tenant_of(identity: Identity, path: str) -> Tenant:
    """Whose request it is: of the namespace of a service account, of a user, of an administrator.

    Args:
        path: of the request; administrators are told apart by the namespaces that they name, since
            whoever uses the kubeconfig of the server is one.
    """
    name = identity.name
    if name.startswith(ACCOUNT_PREFIX):
        return ACCOUNT_PREFIX, name[len(ACCOUNT_PREFIX) :].partition(":")[0]
    if not identity.is_master:
        return name, ""
    return name, path.partition("/namespaces/")[2].partition("/")[0]


class FairQueue:
    """Who may begin a request; see the head of this file."""

    def __init__(self) -> None:
        self._recent: OrderedDict[Tenant, float] = OrderedDict()
        self._begun: set[Tenant] = set()  # in this round
        self._waiting: OrderedDict[Tenant, deque[asyncio.Future[None]]] = OrderedDict()
        self._iterations = 0
        self._iterated_at = 0.0
        self._counting = False

    async def wait(self, tenant: Tenant) -> None:
        """Waits until a tenant may begin another request."""
        loop = asyncio.get_running_loop()
        if not self._has_others(tenant, loop.time()):
            return
        loop_share().crowded(_RECENT_SECONDS)
        if tenant not in self._begun and tenant not in self._waiting:
            self._begun.add(tenant)
            self._count_on(loop)
            return
        granted: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(tenant, deque()).append(granted)
        self._count_on(loop)
        await granted

    def _has_others(self, tenant: Tenant, now: float) -> bool:
        """Whether another tenant has asked lately, or waits; notes that this one asks."""
        recent = self._recent
        recent[tenant] = now
        recent.move_to_end(tenant)
        while recent[first := next(iter(recent))] < now - _RECENT_SECONDS:
            del recent[first]
        return len(recent) > 1 or bool(self._waiting)

    def _count_on(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._counting:
            self._counting, self._iterations, self._iterated_at = True, 0, loop.time()
            loop.call_soon(self._iterated, loop)

    def _iterated(self, loop: asyncio.AbstractEventLoop) -> None:
        """An iteration of the loop has ended, and with it the round perhaps."""
        now = loop.time()
        self._iterations += 1
        if self._iterations >= MOST_ITERATIONS or now - self._iterated_at < _IDLE_SECONDS:
            self._iterations = 0
            self._next_round()
        self._iterated_at = now
        self._counting = bool(self._begun)
        if self._counting:
            loop.call_soon(self._iterated, loop)

    def _next_round(self) -> None:
        """One of each tenant that waits begins."""
        self._begun.clear()
        for tenant in list(self._waiting):
            queue = self._waiting[tenant]
            while queue:
                granted = queue.popleft()
                if not granted.done():  # Else its client has gone.
                    granted.set_result(None)
                    self._begun.add(tenant)
                    break
            if not queue:
                del self._waiting[tenant]
