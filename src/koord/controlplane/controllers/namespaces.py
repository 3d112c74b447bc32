# SPDX-License-Identifier: Apache-2.0
"""Namespaces: their end, and what every one of them holds from the start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koord.api.kinds.meta import Object
from koord.base.documents import Document
from koord.controlplane.controllers.base import conditions
from koord.controlplane.controllers.base.objects import (
    CONFIG_MAP,
    NAMESPACE,
    SERVICE_ACCOUNT,
    Owner,
)
from koord.controlplane.controllers.base.plans import Create
from koord.kube.controller import Controller
from koord.kube.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.api.kinds.registry import Kind
    from koord.controlplane.controllers.base.runtime import Runtime
    from koord.controlplane.controllers.base.views import KindView
    from koord.kube.requests.discovery import ServedKind

FINALIZER = "kubernetes"
# What is left is looked at again after so long.
_AGAIN_SECONDS = 1.0


@dataclass
class RemainingContent:
    """What a namespace still holds.

    Attributes:
        left: objects by resource, e.g. ``pods.`` or ``deployments.apps``.
        finalizers: how many of those objects wait for each finalizer.
        undiscovered: why discovery failed; empty if it did not.
        failures: why deletions failed.
    """

    left: dict[str, int] = field(default_factory=dict)
    finalizers: dict[str, int] = field(default_factory=dict)
    undiscovered: str = ""
    failures: list[str] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether nothing is left, as far as all could be asked."""
        return not (self.left or self.undiscovered or self.failures)


def deletable(served: Sequence[ServedKind]) -> list[Kind]:
    """The kinds whose objects live in namespaces and can be deleted and listed; each once."""
    kinds: dict[tuple[str, str], Kind] = {}
    for item in served:
        if item.kind.namespaced and {"delete", "list"} <= set(item.verbs):
            kinds.setdefault((item.kind.group, item.kind.plural), item.kind)
    return list(kinds.values())


def status_of(namespace: Owner, content: RemainingContent, now: float) -> Document:
    """The status of a namespace on its end; types, reasons and texts are Kubernetes'."""
    left = ", ".join(
        f"{resource} has {count} resource instances" for resource, count in content.left.items()
    )
    waiting = ", ".join(
        f"{name} in {count} resource instances" for name, count in content.finalizers.items()
    )
    failed = "; ".join(content.failures)
    states = (
        ("NamespaceDeletionDiscoveryFailure", content.undiscovered,
         "DiscoveryFailed", "ResourcesDiscovered", "All resources successfully discovered"),
        ("NamespaceDeletionGroupVersionParsingFailure", "",
         "GroupVersionParsingFailed", "ParsedGroupVersions",
         "All legacy kube types successfully parsed"),
        ("NamespaceDeletionContentFailure", failed,
         "ContentDeletionFailed", "ContentDeleted",
         "All content successfully deleted, may be waiting on finalization"),
        ("NamespaceContentRemaining", left and f"Some resources are remaining: {left}",
         "SomeResourcesRemain", "ContentRemoved", "All content successfully removed"),
        ("NamespaceFinalizersRemaining",
         waiting and f"Some content in the namespace has finalizers remaining: {waiting}",
         "SomeFinalizersRemain", "ContentHasNoFinalizers",
         "All content-preserving finalizers finished"),
    )  # fmt: skip
    known = namespace.status.get("conditions", [])
    for name, wrong, bad, good, fine in states:
        reason = bad if wrong else good
        new = conditions.condition(name, bool(wrong), reason, wrong or fine)
        old = conditions.find(known, name)
        if old and old.get("message") != new["message"]:
            known = [c if c is not old else {**old, **new} for c in known]
        known = conditions.put(known, new, now)
    return {**namespace.status, "conditions": known}


class NamespaceController:
    """Empties namespaces that are to be deleted, then lets them go."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._namespaces: KindView[Owner] = runtime.view(NAMESPACE)
        self.controller: Controller[str] = Controller("namespace", self.reconcile, workers=4)
        self._namespaces.on_change(self._changed)

    async def reconcile(self, name: str) -> float | None:
        """Deletes what one namespace holds; see :class:`koord.kube.controller.Controller`."""
        namespace = self._namespaces.get(name)
        if namespace is None or namespace.metadata.deletion_timestamp is None:
            return None
        finalizers = namespace.spec.get("finalizers", [])
        if FINALIZER not in finalizers:
            return None
        content = await self._empty(name)
        if not content.empty:
            status = status_of(namespace, content, self._runtime.now)
            if self._namespaces.get(name) is namespace:
                await self._runtime.write_status(NAMESPACE, namespace, status)
            return _AGAIN_SECONDS
        await self._finalize(name, namespace.metadata.uid)
        return None

    async def _empty(self, name: str) -> RemainingContent:
        content = RemainingContent()
        try:
            kinds = deletable(await self._runtime.client.discover())
        except ApiError as error:
            content.undiscovered = error.status.message
            return content
        # Pods first: what they still need while they end must not go before them.
        kinds.sort(key=lambda kind: (kind.group, kind.plural) != ("", "pods"))
        for kind in kinds:
            try:
                await self._delete(kind, name, content)
            except ApiError as error:
                if error.http_status not in (404, 405):
                    content.failures.append(error.status.message)
            if "pods." in content.left:
                break
        return content

    async def _delete(self, kind: Kind, name: str, content: RemainingContent) -> None:
        client = self._runtime.client
        found = await client.list(Object, kind=kind, namespace=name)
        if not found.items:
            return
        await client.delete_collection(kind, namespace=name, propagation="Background")
        found = await client.list(Object, kind=kind, namespace=name)
        if found.items:
            content.left[f"{kind.plural}.{kind.group}"] = len(found.items)
        for item in found.items:
            for finalizer in item.metadata.finalizers:
                content.finalizers[finalizer] = content.finalizers.get(finalizer, 0) + 1

    async def _finalize(self, name: str, uid: str) -> None:
        client = self._runtime.client
        document = await client.get(NAMESPACE, name)
        if document["metadata"]["uid"] != uid:
            return
        left = [f for f in document["spec"].get("finalizers", []) if f != FINALIZER]
        document["spec"]["finalizers"] = left
        await client.update(document, subresource="finalize", kind=NAMESPACE)

    def _changed(self, before: Owner | None, after: Owner | None) -> None:
        if after and after.metadata.deletion_timestamp:
            self.controller.queue.add(after.metadata.name)


class ServiceAccountController:
    """Makes what pods expect in every namespace: the ``default`` account, and given ConfigMaps.

    Args:
        runtime: views and writes.
        config_maps: by name, the data of ConfigMaps that every namespace gets, such as
            ``kube-root-ca.crt``.
    """

    def __init__(
        self, runtime: Runtime, config_maps: Mapping[str, Mapping[str, str]] | None = None
    ) -> None:
        self._runtime = runtime
        self._config_maps = dict(config_maps or {})
        self._namespaces: KindView[Owner] = runtime.view(NAMESPACE)
        self._accounts: KindView[Owner] = runtime.view(SERVICE_ACCOUNT, Object)
        self.controller: Controller[str] = Controller("serviceaccount", self.reconcile)
        self._namespaces.on_change(self._changed)
        self._accounts.on_change(self._account_changed)

    async def reconcile(self, name: str) -> float | None:
        """Completes one namespace; see :class:`koord.kube.controller.Controller`."""
        namespace = self._namespaces.get(name)
        if namespace is None or namespace.metadata.deletion_timestamp is not None:
            return None
        actions = []
        if self._accounts.get(f"{name}/default") is None:
            actions.append(_account(name))
        for config_map, data in self._config_maps.items():
            actions.append(_config_map(name, config_map, data))
        await self._runtime.carry_out(actions, NAMESPACE, namespace)
        return None

    def _changed(self, before: Owner | None, after: Owner | None) -> None:
        if after is not None and before is None:
            self.controller.queue.add(after.metadata.name)

    def _account_changed(self, before: Object | None, after: Object | None) -> None:
        if before is not None and after is None and before.metadata.name == "default":
            self.controller.queue.add(before.metadata.namespace)


def _account(namespace: str) -> Create:
    metadata = {"name": "default", "namespace": namespace}
    document = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    return Create(SERVICE_ACCOUNT, document, exists_ok=True)


def _config_map(namespace: str, name: str, data: Mapping[str, str]) -> Create:
    metadata = {"name": name, "namespace": namespace}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}
    return Create(CONFIG_MAP, document, exists_ok=True)
