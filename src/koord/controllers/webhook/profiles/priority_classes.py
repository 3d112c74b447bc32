# SPDX-License-Identifier: Apache-2.0
"""The priority classes that profiles name; one that was made a moment ago is looked up.

Rule: docs/reference/admission.md#priority-class-of-a-profile.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.api.kinds.cluster import PriorityClass
from koord.base.errors import Code, KoordError
from koord.kube.errors import ApiError, TransportError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.controllers.cluster.colocation_profiles.profile_index import UsableProfile
    from koord.controllers.webhook.framework.handler import HandlerDependencies

LOOKUP_SECONDS = 1.0
"""A lookup takes no longer, and one that found nothing is not repeated within that time."""


class PriorityClasses:
    """Follows priority classes.

    Args:
        dependencies: views, client and clock.
    """

    def __init__(self, dependencies: HandlerDependencies) -> None:
        self._view = dependencies.views.view(PriorityClass)
        self._client = dependencies.client
        self._clock = dependencies.clock
        self._running: dict[str, asyncio.Task[PriorityClass | None]] = {}
        self._missed: dict[str, float] = {}

    def cached(self, profiles: Iterable[UsableProfile]) -> dict[str, PriorityClass] | None:
        """The classes that profiles name, by name; None where a cache lacks one."""
        found = {}
        for name in _names(profiles):
            known = self._view.get(name)
            if known is None:
                return None
            found[name] = known
        return found

    async def looked_up(self, profiles: Iterable[UsableProfile]) -> dict[str, PriorityClass]:
        """The same, with those that the cache lacks from the server.

        Raises:
            KoordError: there is no such class, or the server did not say in time.
        """
        found = {}
        for name, title in _names(profiles).items():
            known = self._view.get(name) or await self._asked(name)
            if known is None:
                expected = "the name of a PriorityClass that there is"
                raise KoordError(title, "spec.priorityClassName", name, expected, Code.NOT_FOUND)
            found[name] = known
        return found

    async def _asked(self, name: str) -> PriorityClass | None:
        """Asks once for all who wait for the same class."""
        now = self._clock.monotonic_seconds()
        if now - self._missed.get(name, now - LOOKUP_SECONDS) < LOOKUP_SECONDS:
            return None
        task = self._running.get(name)
        if task is None:
            task = self._running[name] = asyncio.create_task(self._get(name))
            task.add_done_callback(lambda _: self._running.pop(name, None))
        found = await asyncio.shield(task)
        self._missed = {each: since for each, since in self._missed.items()
                        if now - since < LOOKUP_SECONDS}  # fmt: skip
        if found is None:
            self._missed[name] = self._clock.monotonic_seconds()
        return found

    async def _get(self, name: str) -> PriorityClass | None:
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                return await self._client.get(PriorityClass, name)
        except (ApiError, TransportError, TimeoutError):
            return None


def _names(profiles: Iterable[UsableProfile]) -> dict[str, str]:
    """The classes that are named, each with the profile that names it first."""
    found: dict[str, str] = {}
    for usable in profiles:
        if usable.profile.spec.priority_class_name:
            found.setdefault(usable.profile.spec.priority_class_name, usable.profile.title)
    return found
