# SPDX-License-Identifier: Apache-2.0
"""Pod templates: their hash, whether two are the same, the revisions that record them."""

from __future__ import annotations

import copy
import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from koord.base.documents import Document
from koord.controlplane.controllers.base.objects import (
    CONTROLLER_REVISION,
    DAEMON_SET,
    STATEFUL_SET,
    Revision,
    controller_reference,
    oldest_first,
)
from koord.controlplane.controllers.base.plans import Action, Create, Delete, delete, patch

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from koord.api.kinds.registry import Kind
    from koord.controlplane.controllers.base.objects import Owner

TEMPLATE_HASH = "pod-template-hash"
REVISION_HASH = "controller-revision-hash"

# How the two kinds with revisions label them.
_HASH_LABELS = {DAEMON_SET: REVISION_HASH, STATEFUL_SET: "controller.kubernetes.io/hash"}

# Letters of generated names: no vowels, and no digits that look like letters.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def hash_of(template: Any, collisions: int = 0) -> str:
    """Ten letters that depend on the content alone; another ten after each collision.

    The API server of Kubernetes hashes Go memory; ours differ, and only equality counts.
    """
    text = msgspec.json.encode([template, collisions], order="sorted")
    number = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    letters = []
    for _ in range(10):
        number, digit = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[digit])
    return "".join(letters)


def same(left: Document, right: Document) -> bool:
    """Whether two templates make the same pods, apart from the hash label."""
    return _unhashed(left) == _unhashed(right)


def _unhashed(template: Document) -> Document:
    metadata = dict(template.get("metadata") or {})
    metadata.pop("creationTimestamp", None)
    labels = {k: v for k, v in (metadata.get("labels") or {}).items() if k != TEMPLATE_HASH}
    return {**template, "metadata": {**metadata, "labels": labels}}


def revisions(
    owner: Owner, kind: Kind, known: Sequence[Revision]
) -> tuple[list[Revision], Revision, list[Action]]:
    """The revisions of an owner, the one of its present template, and what must be written.

    A template that was there before gets its old revision back, with a new number.

    Args:
        owner: a StatefulSet or DaemonSet.
        kind: its kind.
        known: the revisions it controls.

    Returns:
        All revisions in order, the present one among them (made up if it is still to be created),
        the present one, and the actions.
    """
    template = copy.deepcopy(owner.spec["template"])
    data = {"spec": {"template": {**template, "$patch": "replace"}}}
    ordered = sorted(oldest_first(known), key=lambda r: r.revision)
    number = 1 + max((r.revision for r in ordered), default=0)
    equal = next((r for r in reversed(ordered) if r.data == data), None)
    if equal is None:
        collisions = owner.status.get("collisionCount") or 0
        document = _document(owner, kind, data, number, hash_of(data, collisions))
        created = msgspec.convert(document, Revision)
        return [*ordered, created], created, [Create(CONTROLLER_REVISION, document, exists_ok=True)]
    if equal is ordered[-1]:
        return ordered, equal, []
    renumber = patch(CONTROLLER_REVISION, equal, {"revision": number})
    return [*(r for r in ordered if r is not equal), equal], equal, [renumber]


def outdated(ordered: Sequence[Revision], live: Collection[str], limit: int | None) -> list[Delete]:
    """Deletes the oldest revisions beyond the limit that no pod and no status refers to.

    Args:
        ordered: all revisions, oldest first.
        live: names of those in use.
        limit: how many unused ones are kept; None for ten, as Kubernetes.
    """
    unused = [r for r in ordered if r.metadata.name not in live]
    surplus = len(unused) - (10 if limit is None else limit)
    return [delete(CONTROLLER_REVISION, r) for r in unused[: max(0, surplus)]]


def _document(owner: Owner, kind: Kind, data: Document, number: int, suffix: str) -> Document:
    labels = (owner.spec["template"].get("metadata") or {}).get("labels") or {}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{owner.metadata.name}-{suffix}",
            "namespace": owner.metadata.namespace,
            "labels": {**labels, _HASH_LABELS[kind]: suffix},
            "annotations": {**owner.metadata.annotations},
            "ownerReferences": [controller_reference(owner, kind)],
        },
        "data": data,
        "revision": number,
    }
