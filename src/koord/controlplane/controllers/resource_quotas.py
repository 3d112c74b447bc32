# SPDX-License-Identifier: Apache-2.0
"""ResourceQuota: what is used is counted anew whenever something has gone.

Admission adds what is created to the status; here it is taken away again. Quota and objects are
read from the server, not from a view, and the status is written against the version that was read:
whatever is created meanwhile has changed the quota, and it is counted once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import codec
from koord.api.kinds.registry import Kind
from koord.base.documents import Document
from koord.controlplane.controllers.base import pods
from koord.controlplane.controllers.base.intervals import KeyInterval
from koord.controlplane.controllers.base.objects import Owner, key_of, split_key
from koord.controlplane.quotas import evaluators
from koord.controlplane.quotas.amounts import (
    QuotaAmounts,
    added,
    amounts_of,
    only,
    section,
    texts_of,
)
from koord.controlplane.quotas.evaluators import CLAIMS, PODS, SERVICES
from koord.kernels.quantity import Quantity
from koord.kube.controller import Controller
from koord.kube.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from koord.api.kinds.meta import Object
    from koord.api.kinds.pod import Pod
    from koord.controlplane.controllers.base.runtime import Runtime
    from koord.controlplane.controllers.base.views import KindView


QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas", True, "meta.Object")
# As kube-controller-manager: all is counted anew now and then, e.g. for pods past their deletion.
RESYNC_SECONDS = 300.0
# A burst of deletions is counted a few times, not once each.
_PAUSE_SECONDS = 0.5
_UNKNOWN_SECONDS = 30.0
_NEEDED = frozenset(("create", "list"))


def used_of(quota: Document, objects: Mapping[str, Iterable[Document]], now: float) -> QuotaAmounts:
    """What is used of what a quota limits.

    Args:
        quota: the ResourceQuota.
        objects: of its namespace, by storage; what is not there is not known, and left out.
        now: wall seconds.
    """
    hard = section(quota, "spec", "hard")
    total: QuotaAmounts = {}
    for storage, found in objects.items():
        names = evaluators.names_for(storage, hard)
        total = added(total, {name: Quantity() for name in names})
        for document in found:
            if evaluators.is_in_scope(storage, document, quota):
                total = added(total, only(evaluators.usage(storage, document, now), names))
    return total


def status_of(quota: Document, used: QuotaAmounts) -> Document:
    """The status of a quota; what could not be counted stays as it was."""
    hard = section(quota, "spec", "hard")
    before = amounts_of(section(quota, "status").get("used"))
    return {"hard": dict(hard), "used": texts_of(only({**before, **used}, hard))}


class ResourceQuotaController:
    """Keeps the status of ResourceQuotas true."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._quotas: KindView[Owner] = runtime.view(QUOTA)
        self._kinds: dict[str, Kind] = {}
        self._watched: set[str] = set()
        self._interval = KeyInterval(_PAUSE_SECONDS)
        self.controller: Controller[str] = Controller("resourcequota", self.reconcile, workers=4)
        self._quotas.on_change(self._quota_changed)

    async def reconcile(self, key: str) -> float | None:
        """Counts for one quota; see :class:`koord.kube.controller.Controller`."""
        if self._quotas.get(key) is None:
            self._interval.forget(key)
            return None
        now = self._runtime.now
        wait = self._interval.begin(key, now)
        if wait is not None:
            return wait
        try:
            return await self._count(key, now)
        except ApiError as error:
            if error.http_status == 409:  # Something has been created meanwhile.
                return _PAUSE_SECONDS
            if error.http_status == 404:
                return None
            raise

    async def _count(self, key: str, now: float) -> float:
        namespace, name = split_key(key)
        quota = await self._runtime.client.get(QUOTA, name, namespace)
        hard = section(quota, "spec", "hard")
        storages = sorted({evaluators.storage_of(each) for each in hard} - {""})
        objects = {}
        for storage, kind in (await self._kinds_of(storages)).items():
            try:
                listed = await self._runtime.client.list(kind, namespace=namespace)
            except ApiError as error:
                if error.http_status != 404:
                    raise
                # Its definition has gone; it may come back.
                self._kinds.pop(storage, None)
                self._watched.discard(storage)
                continue
            objects[storage] = listed.items
            self._watch(storage, kind)
        status = status_of(quota, used_of(quota, objects, now))
        owner = codec.convert(quota, Owner, "resourcequota")
        await self._runtime.write_status(QUOTA, owner, status)
        return RESYNC_SECONDS if len(objects) == len(storages) else _UNKNOWN_SECONDS

    async def _kinds_of(self, storages: Sequence[str]) -> dict[str, Kind]:
        """How resources are served, as far as they are; the server is asked once at most."""
        if not self._kinds.keys() >= set(storages):
            served = await self._runtime.client.discover()
            self._kinds = {}
            for item in served:
                kind = item.kind
                if kind.namespaced and set(item.verbs) >= _NEEDED:
                    full = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
                    self._kinds.setdefault(full, kind)
        return {each: self._kinds[each] for each in storages if each in self._kinds}

    def _watch(self, storage: str, kind: Kind) -> None:
        if storage in self._watched:
            return
        self._watched.add(storage)
        view = self._runtime.view_of_resource(kind)
        view.on_change(self._follow(storage))

    def _follow(self, storage: str) -> Callable[[Object | None, Object | None], None]:
        """What to do at changes of a resource: most cannot lower what is used."""

        def changed(before: Object | None, after: Object | None) -> None:
            if before is None:
                return
            if after is not None and storage == PODS:
                if not _releases(before, after):  # type: ignore[arg-type]
                    return
            elif after is not None and storage not in (SERVICES, CLAIMS):
                return
            for quota in self._quotas.by_index("namespace", before.metadata.namespace):
                if evaluators.names_for(storage, quota.spec.get("hard") or ()):
                    self.controller.queue.add(key_of(quota.metadata))

        return changed

    def _quota_changed(self, before: Owner | None, after: Owner | None) -> None:
        found = after or before
        assert found is not None, "a change of nothing"
        if before is None or after is None or before.spec != after.spec or _is_behind(after):
            self.controller.queue.add(key_of(found.metadata))


def _is_behind(quota: Owner) -> bool:
    """Whether a status is not of the spec that is there."""
    return quota.status.get("hard") != quota.spec.get("hard") or "used" not in quota.status


def _releases(before: Pod, after: Pod) -> bool:
    """Whether a pod uses less than before, or is in another scope."""
    if pods.is_finished(after) and not pods.is_finished(before):
        return True
    states = before.status.container_statuses, after.status.container_statuses
    if [state.resources for state in states[0]] != [state.resources for state in states[1]]:
        return True
    # Of a pod's spec little can change: resources and the deadline that puts it in a scope.
    return before.metadata.generation != after.metadata.generation
