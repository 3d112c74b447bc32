# SPDX-License-Identifier: Apache-2.0
"""Whether the informers' caches have what the API has: one kind in turn, now and then.

An event that got lost on its way leaves no trace in an informer. So the metadata of all objects of
a kind is listed and compared with the cache by uid and version. What is on its way is no
difference: the cache has some seconds to reach what the list said, and what it did not reach must
differ in a second list as well.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from koord.api.kinds.registry import kind_of_type
from koord.base import log, rng
from koord.base.errors import KoordError, one_line
from koord.kube.errors import ApiError, TransportError
from koord.kube.informers.informer import is_newer

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.controllers.cluster.views import FollowedKind, InformerViews
    from koord.kube.client import Client

_LOG = log.get("scheduler")
PERIOD_SECONDS = 300.0
CONFIRM_SECONDS = 15.0
ACCOUNT = "api"
"""The label of what it finds."""
# A period lasts between this much less and more, so that schedulers do not ask together.
_JITTER = 0.2
_PAGE_PAUSE_SECONDS = 0.05


class _Meta(msgspec.Struct, rename="camel", gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Head(msgspec.Struct, gc=False):
    metadata: _Meta


class _ListedVersions(msgspec.Struct):
    """Uid and version of all objects of a kind, by key, at some version of the whole."""

    states: dict[str, tuple[str, str]]
    version: str = ""


class InformerCheck:
    """Compares informers' caches with the API.

    Args:
        client: lists.
        views: whose informers.
        report: gets all that differs after each check, ``KIND NAMESPACE/NAME``.
        seed: of when it asks.

    Attributes:
        period_seconds: from one kind to the next, on average; 0 for never.
        differences: by type, namespace and field selector, what differed when they were looked at
            last.
    """

    def __init__(
        self,
        client: Client,
        views: InformerViews,
        report: Callable[[list[str]], None],
        seed: int = 0,
    ) -> None:
        self._client = client
        self._views = views
        self._report = report
        self._draw = rng.stream(seed, "scheduler", "spot check")
        self.period_seconds = PERIOD_SECONDS
        self.differences: dict[tuple[str, str, str], list[str]] = {}

    def differing(self) -> list[str]:
        """All that differed when its kind was looked at last."""
        return [name for which in sorted(self.differences) for name in self.differences[which]]

    async def run(self) -> None:
        """Looks at one kind after the other until cancelled."""
        turn = 0
        while self.period_seconds > 0:
            await asyncio.sleep(self.period_seconds * self._draw.uniform(1 - _JITTER, 1 + _JITTER))
            followed = self._views.followed()
            await self.check(followed[turn % len(followed)])
            turn += 1

    async def check(self, followed: FollowedKind) -> None:
        """Looks at one kind, and tells.

        Nothing is said where no answer comes, or the informer itself knows that it is behind.
        """
        if not followed.informer.connected:
            return
        try:
            differ = await self._look(followed)
        except (ApiError, TransportError, KoordError) as error:
            where = log.fields(kind=followed.informer.name, error=one_line(str(error)))
            _LOG.warning("the cache could not be compared with the API", extra=where)
            return
        if followed.informer.connected:
            name = followed.informer.name
            # Two kinds of different groups may have one name.
            which = followed.kind.__name__, followed.namespace, followed.field_selector
            self.differences[which] = [f"{name} {key}" for key in differ]
            self._report(self.differing())

    async def _look(self, followed: FollowedKind) -> list[str]:
        """The keys that differ."""
        first = await self._list(followed)
        suspects = _behind(followed, first)
        if not suspects:
            return []
        await asyncio.sleep(CONFIRM_SECONDS)
        suspects &= _behind(followed, first)
        if suspects:
            suspects &= _behind(followed, await self._list(followed))
        return sorted(suspects)

    async def _list(self, followed: FollowedKind) -> _ListedVersions:
        found = _ListedVersions({})
        async for page in self._client.pages(
            _Head,
            kind=kind_of_type(followed.kind),
            namespace=followed.namespace,
            field_selector=followed.field_selector,
            metadata_only=True,
        ):
            found.version = page.resource_version
            for head in page.items:
                meta = head.metadata
                key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
                found.states[key] = meta.uid, meta.resource_version
            if page.continue_token:
                await asyncio.sleep(_PAGE_PAUSE_SECONDS)
        return found


def _behind(followed: FollowedKind, listed: _ListedVersions) -> set[str]:
    """What the cache does not have, or has in an older state, or has though it is gone."""
    cache, unreadable = followed.informer, followed.informer.unreadable
    found = {
        key
        for key, (uid, version) in listed.states.items()
        if _is_older(cache.get(key), uid, version) and unreadable.get(key) != version
    }
    # What is newer than the list was made after it.
    gone = {
        key
        for key, value in cache.items()
        if key not in listed.states
        and not is_newer(value.metadata.resource_version, listed.version)
    }
    return found | gone


def _is_older(cached: Any, uid: str, version: str) -> bool:
    if cached is None:
        return True
    meta = cached.metadata
    if (meta.uid, meta.resource_version) == (uid, version):
        return False
    return is_newer(version, meta.resource_version)
