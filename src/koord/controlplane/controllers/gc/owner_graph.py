# SPDX-License-Identifier: Apache-2.0
"""Who owns whom, and what must go because its owners did.

The graph holds the metadata of all objects. Its decisions are those of Kubernetes' garbage
collector: an object goes when all its owners are gone, or wait for their dependents to go.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.controlplane.controllers.base.plans import Delete, PatchAction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.api.kinds.meta import ObjectMeta, OwnerReference
    from koord.api.kinds.registry import Kind
    from koord.controlplane.controllers.base.plans import Action

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


@dataclass(frozen=True)
class GraphNode:
    """An object in the graph of owners: its kind, and its metadata with the references."""

    kind: Kind
    metadata: ObjectMeta

    @property
    def deleting(self) -> bool:
        """Whether the object is marked for deletion."""
        return self.metadata.deletion_timestamp is not None

    @property
    def waits_for_dependents(self) -> bool:
        """Whether it stays until what it owns is gone."""
        return self.deleting and FOREGROUND in self.metadata.finalizers

    @property
    def orphans_dependents(self) -> bool:
        """Whether it lets go of what it owns before it goes."""
        return self.deleting and ORPHAN in self.metadata.finalizers


@dataclass(frozen=True)
class AbsentOwner:
    """An owner that the graph does not know: whether it is gone must be asked of the server."""

    reference: OwnerReference
    namespace: str


class OwnerGraph:
    """All objects by uid, and who depends on whom.

    ``absent`` holds owners that the server has said do not exist; a uid never comes back.
    """

    def __init__(self) -> None:
        self.items: dict[str, GraphNode] = {}
        self.absent: set[tuple[str, str]] = set()
        self._dependents: dict[str, set[str]] = defaultdict(set)

    def put(self, item: GraphNode) -> list[str]:
        """Puts in an object as it is now; gives the uids of objects that must be looked at."""
        uid = item.metadata.uid
        old = self.items.get(uid)
        self.items[uid] = item
        before = _owners(old)
        after = _owners(item)
        for owner in before - after:
            self._forget(owner, uid)
        for owner in after - before:
            self._dependents[owner].add(uid)
        affected = {uid, *(before | after)} if item.deleting or before != after else {uid}
        return [uid for uid in sorted(affected) if uid in self.items]

    def remove(self, uid: str) -> list[str]:
        """An object is gone; gives the uids that must be looked at."""
        item = self.items.pop(uid, None)
        if item is None:
            return []
        for owner in _owners(item):
            self._forget(owner, uid)
        dependents = sorted(self._dependents.get(uid, ()))
        return dependents + [owner for owner in sorted(_owners(item)) if owner in self.items]

    def dependents(self, uid: str) -> list[GraphNode]:
        """What names the uid as an owner."""
        known = (self.items.get(dependent) for dependent in self._dependents.get(uid, ()))
        return sorted(
            (item for item in known if item),
            key=lambda item: (item.metadata.namespace, item.kind.name, item.metadata.name),
        )

    def missing(self, uid: str) -> list[AbsentOwner]:
        """Owners of an object of which it is not known whether they exist."""
        item = self.items.get(uid)
        if item is None:
            return []
        namespace = item.metadata.namespace
        return [
            AbsentOwner(reference, namespace)
            for reference in item.metadata.owner_references
            if not self._exists(reference, namespace)
            and (reference.uid, namespace) not in self.absent
        ]

    def decide(self, uid: str) -> list[Action]:
        """What must be done about one object, once nothing is :meth:`missing`."""
        item = self.items.get(uid)
        if item is None:
            return []
        if item.orphans_dependents:
            return self._orphan(item)
        if item.waits_for_dependents:
            return self._foreground(item)
        if item.deleting or not item.metadata.owner_references:
            return []
        return self._attempt(item)

    def _attempt(self, item: GraphNode) -> list[Action]:
        namespace = item.metadata.namespace
        solid: list[OwnerReference] = []
        waiting: list[OwnerReference] = []
        dangling: list[OwnerReference] = []
        for reference in item.metadata.owner_references:
            if not self._exists(reference, namespace):
                dangling.append(reference)
            elif self.items[reference.uid].waits_for_dependents and reference.block_owner_deletion:
                waiting.append(reference)
            else:
                solid.append(reference)
        if solid:
            gone = [reference.uid for reference in (*dangling, *waiting)]
            return [_released(item, gone)] if gone else []
        if waiting and self._dependents.get(item.metadata.uid):
            return [*self._unblock_circle(item), _deleted(item, "Foreground")]
        if ORPHAN in item.metadata.finalizers:
            return [_deleted(item, "Orphan")]
        wanted = FOREGROUND in item.metadata.finalizers
        return [_deleted(item, "Foreground" if wanted else "Background")]

    def _unblock_circle(self, item: GraphNode) -> list[Action]:
        """In a circle of objects that wait for each other, one must stop to block."""
        if not any(dep.waits_for_dependents for dep in self.dependents(item.metadata.uid)):
            return []
        changed = [
            {"uid": reference.uid, "blockOwnerDeletion": False}
            for reference in item.metadata.owner_references
            if reference.block_owner_deletion
        ]
        return [_patched(item, changed)] if changed else []

    def _foreground(self, item: GraphNode) -> list[Action]:
        uid = item.metadata.uid
        blocking = [
            dependent
            for dependent in self.dependents(uid)
            if any(
                reference.uid == uid and reference.block_owner_deletion
                for reference in dependent.metadata.owner_references
            )
        ]
        if not blocking:
            return [_unfinalized(item, FOREGROUND)]
        actions: list[Action] = []
        for dependent in blocking:
            if not dependent.deleting:
                actions += self._attempt(dependent)
        return actions

    def _orphan(self, item: GraphNode) -> list[Action]:
        uid = item.metadata.uid
        # The finalizer goes when nobody names the owner any more, and not beside the releases: one
        # that is refused would leave a dependent whose owner is gone, which is collected.
        released: list[Action] = [_released(dep, [uid]) for dep in self.dependents(uid)]
        return released or [_unfinalized(item, ORPHAN)]

    def _exists(self, reference: OwnerReference, namespace: str) -> bool:
        """Whether the owner exists where the reference looks for it."""
        owner = self.items.get(reference.uid)
        return owner is not None and owner.metadata.namespace in ("", namespace)

    def _forget(self, owner: str, dependent: str) -> None:
        left = self._dependents[owner]
        left.discard(dependent)
        if not left:
            del self._dependents[owner]


def _owners(item: GraphNode | None) -> set[str]:
    return {reference.uid for reference in item.metadata.owner_references} if item else set()


def _deleted(item: GraphNode, propagation: str) -> Delete:
    # The version too: owners and what they own come by different watches, and what has been let go
    # of may be seen as without an owner for a moment.
    known = item.metadata
    return Delete(
        item.kind, known.namespace, known.name, known.uid, propagation,
        resource_version=known.resource_version,
    )  # fmt: skip


def _released(item: GraphNode, owners: Iterable[str]) -> PatchAction:
    gone = set(owners)
    left = [ref for ref in item.metadata.owner_references if ref.uid not in gone]
    return _merged(item, {"ownerReferences": [_reference(ref) for ref in left] or None})


def _patched(item: GraphNode, changed: list[dict[str, object]]) -> PatchAction:
    blocks = {str(change["uid"]): bool(change["blockOwnerDeletion"]) for change in changed}
    references = []
    for ref in item.metadata.owner_references:
        document = _reference(ref)
        if ref.uid in blocks:
            document["blockOwnerDeletion"] = blocks[ref.uid]
        references.append(document)
    return _merged(item, {"ownerReferences": references})


def _unfinalized(item: GraphNode, finalizer: str) -> PatchAction:
    left = [name for name in item.metadata.finalizers if name != finalizer]
    return _merged(item, {"finalizers": left or None})


def _reference(reference: OwnerReference) -> dict[str, object]:
    document: dict[str, object] = {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "name": reference.name,
        "uid": reference.uid,
    }
    if reference.controller:
        document["controller"] = True
    if reference.block_owner_deletion:
        document["blockOwnerDeletion"] = True
    return document


def _merged(item: GraphNode, metadata: dict[str, object]) -> PatchAction:
    # Lists are replaced whole, so the version that was read must still be there: custom resources
    # have no strategic merge.
    known = item.metadata
    bound = {"uid": known.uid, "resourceVersion": known.resource_version, **metadata}
    return PatchAction(item.kind, known.namespace, known.name, {"metadata": bound})
