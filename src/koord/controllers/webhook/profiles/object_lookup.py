# SPDX-License-Identifier: Apache-2.0
"""Objects by name out of a cache; what is not in it yet is looked up once, with a bound in time.

Rule: docs/reference/admission.md#objects-that-were-made-a-moment-ago.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

from koord.kube.errors import ApiError, TransportError

if TYPE_CHECKING:
    from koord.api.kinds.meta import Object
    from koord.controllers.webhook.framework.handler import HandlerDependencies

ObjectT = TypeVar("ObjectT", bound="Object")
LOOKUP_SECONDS = 1.0
"""A lookup takes no longer, and one that found nothing is not repeated within that time."""
MAX_LOOKUPS = 64
"""As many names are asked for at a time, or remembered as missing; further ones count as missing.
"""


class ObjectLookup(Generic[ObjectT]):
    """Objects of a kind without namespaces.

    Args:
        dependencies: view, client and clock.
        kind: which.
    """

    def __init__(self, dependencies: HandlerDependencies, kind: type[ObjectT]) -> None:
        self._kind = kind
        self._view = dependencies.views.view(kind)
        self._client = dependencies.client
        self._clock = dependencies.clock
        self._running: dict[str, asyncio.Task[ObjectT | None]] = {}
        self._missed: dict[str, float] = {}

    def cached(self, name: str) -> ObjectT | None:
        """The object of a name, as far as the cache knows."""
        return self._view.get(name)

    async def get(self, name: str) -> ObjectT | None:
        """The object of a name; None where there is none, or the server does not say in time."""
        found = self._view.get(name)
        if found is not None or self._is_missed(name):
            return found
        task = self._running.get(name)
        if task is None:
            if len(self._running) + len(self._missed) >= MAX_LOOKUPS:
                return None
            task = self._running[name] = asyncio.create_task(self._ask(name))
        # Others may wait for the same answer: one that goes away does not end it.
        return await asyncio.shield(task)

    def _is_missed(self, name: str) -> bool:
        now = self._clock.monotonic_seconds()
        self._missed = {each: until for each, until in self._missed.items() if now < until}
        return name in self._missed

    async def _ask(self, name: str) -> ObjectT | None:
        found = None
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                found = await self._client.get(self._kind, name)
        except (ApiError, TransportError, TimeoutError):
            self._missed[name] = self._clock.monotonic_seconds() + LOOKUP_SECONDS
        finally:
            del self._running[name]
        return found
