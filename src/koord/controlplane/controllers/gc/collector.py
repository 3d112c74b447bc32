# SPDX-License-Identifier: Apache-2.0
"""The garbage collector: keeps the owner graph true over all that is served, and acts on it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.api.kinds.meta import Object
from koord.api.kinds.registry import Kind
from koord.base import log
from koord.controlplane.controllers.gc.owner_graph import AbsentOwner, GraphNode, OwnerGraph
from koord.kube.controller import Controller
from koord.kube.errors import ApiError, TransportError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from koord.controlplane.controllers.base.runtime import Runtime
    from koord.controlplane.controllers.base.views import KindView
    from koord.kube.requests.discovery import ServedKind

_LOG = log.get("garbage")
_DISCOVER_SECONDS = 30.0
_UNSEEN_SECONDS = 1.0
_MOST_ABSENT = 10_000
_NEEDED = frozenset({"delete", "list", "watch"})
CRD = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False,
    "meta.Object",
)  # fmt: skip


def collectable(served: Iterable[ServedKind]) -> dict[tuple[str, str], Kind]:
    """The resources whose objects can own and be owned, each at its first version; no events."""
    kinds: dict[tuple[str, str], Kind] = {}
    for item in served:
        kind = item.kind
        if set(item.verbs) >= _NEEDED and kind.plural != "events":
            kinds.setdefault((kind.group, kind.plural), kind)
    return kinds


class GarbageCollector:
    """Deletes what lost its owners, by :mod:`~koord.controlplane.controllers.gc.owner_graph`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._graph = OwnerGraph()
        self._watched: dict[tuple[str, str], KindView[Object]] = {}
        self._by_name: dict[tuple[str, str], Kind] = {}
        self._changed = asyncio.Event()
        self.controller: Controller[str] = Controller("garbage", self.reconcile, workers=8)
        runtime.view(CRD, Object).on_change(lambda _before, _after: self._changed.set())

    async def follow_discovery(self) -> None:
        """Watches whatever is served, until cancelled."""
        while True:
            self._changed.clear()
            try:
                await self._discover()
            except (ApiError, TransportError) as error:
                _LOG.warning("discovery failed", extra=log.fields(error=str(error)))
                await asyncio.sleep(_UNSEEN_SECONDS)
                continue
            try:
                async with asyncio.timeout(_DISCOVER_SECONDS):
                    await self._changed.wait()
                # A definition is served a moment after it has changed.
                await asyncio.sleep(_UNSEEN_SECONDS)
            except TimeoutError:
                continue

    async def reconcile(self, uid: str) -> float | None:
        """Looks at one object; see :class:`koord.kube.controller.Controller`."""
        missing = self._graph.missing(uid)
        if missing:
            known = [await self._ask(owner) for owner in missing]
            if not all(known):
                return _UNSEEN_SECONDS
        item = self._graph.items.get(uid)
        actions = self._graph.decide(uid)
        if item is not None and actions:
            owner = Object(metadata=item.metadata)
            try:
                await self._runtime.carry_out(actions, item.kind, owner)
            except ApiError as error:
                if error.reason != "Conflict":
                    raise
                # Decided from an old state; the new one is on its way.
                return _UNSEEN_SECONDS
        return None

    async def _ask(self, missing: AbsentOwner) -> bool:
        """Asks the server for an owner; whether it is known now that it does not exist."""
        reference, namespace = missing.reference, missing.namespace
        kind = self._by_name.get((reference.api_version, reference.kind))
        if kind is None:
            # Not served: it may be one day, so nothing is deleted for it.
            return False
        where = namespace if kind.namespaced else ""
        if not kind.namespaced or where:
            try:
                found = await self._runtime.client.get(kind, reference.name, where)
            except ApiError as error:
                if error.http_status != 404:
                    raise
            else:
                if found["metadata"]["uid"] == reference.uid:
                    return False
        if len(self._graph.absent) >= _MOST_ABSENT:
            self._graph.absent.clear()
        self._graph.absent.add((reference.uid, namespace))
        return True

    async def _discover(self) -> None:
        served = await self._runtime.client.discover()
        self._by_name = {(s.kind.api_version, s.kind.name): s.kind for s in served}
        kinds = collectable(served)
        for name in self._watched.keys() - kinds.keys():
            self._runtime.forget(self._watched.pop(name))
        for name, kind in kinds.items():
            if name not in self._watched:
                self._watch(name, kind)

    def _watch(self, name: tuple[str, str], kind: Kind) -> None:
        view = self._runtime.view_of_resource(kind)
        self._watched[name] = view
        view.on_change(lambda before, after: self._follow(view.kind, before, after))
        for value in view.all():
            self._follow(view.kind, None, value)

    def _follow(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        uids: Sequence[str] = ()
        if after is not None:
            uids = self._graph.put(GraphNode(kind, after.metadata))
        elif before is not None:
            uids = self._graph.remove(before.metadata.uid)
        for uid in uids:
            if self._concerns(uid):
                self.controller.queue.add(uid)

    def _concerns(self, uid: str) -> bool:
        """Most changes are of objects without owners that nobody deletes: no work."""
        item = self._graph.items[uid]
        return bool(item.metadata.owner_references) or item.deleting
