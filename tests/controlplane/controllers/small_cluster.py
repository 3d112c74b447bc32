# SPDX-License-Identifier: Apache-2.0
"""A cluster small enough for a property test: documents, and plans carried out on them one by one.

Nothing of the server is in it. Controllers' plans are pure, so a test can stop half way through
one, lose a status write, or let pods become ready in any order.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from koord.api import codec
from koord.api.kinds.pod import Pod
from koord.api.kinds.registry import Kind
from koord.base.documents import Document
from koord.controlplane.controllers.base.objects import (
    CONTROLLER_REVISION,
    POD,
    Owner,
    Revision,
    controller_of,
    timestamp,
)
from koord.controlplane.controllers.base.plans import Action, Create, Delete, PatchAction, Plan
from koord.controlplane.controllers.workload.daemonsets import node_of

START = 1_900_000_000.0


class SmallCluster:
    """Objects of any kind by kind and key; time stands still unless a test moves it."""

    def __init__(self) -> None:
        self.now = START
        self.documents: dict[tuple[str, str], Document] = {}
        self.created: list[str] = []
        self._count = 0

    def add(self, kind: Kind, document: Document) -> Document:
        """Creates an object as a server would: name, uid, time, generation."""
        self._count += 1
        stored = copy.deepcopy(document)
        metadata = stored["metadata"]
        if "name" not in metadata:
            metadata["name"] = f"{metadata['generateName']}{self._count:05d}"
        metadata.setdefault("namespace", "default")
        metadata.update(uid=f"uid-{self._count}", resourceVersion=str(self._count), generation=1)
        metadata["creationTimestamp"] = timestamp(self.now)
        if kind == POD:
            stored.setdefault("status", {"phase": "Pending"})
        key = (kind.name, f"{metadata['namespace']}/{metadata['name']}")
        assert key not in self.documents, f"{key} exists"
        self.documents[key] = stored
        self.created.append(metadata["name"])
        return stored

    def owner(self, kind: Kind, name: str) -> Owner:
        """An owner as controllers see it."""
        return codec.convert(self.documents[kind.name, f"default/{name}"], Owner, name)

    def all(self, kind: Kind) -> list[Any]:
        """All objects of a kind as controllers see them."""
        types: dict[str, Any] = {"Pod": Pod, "ControllerRevision": Revision}
        chosen = types.get(kind.name, Owner)
        return [codec.convert(d, chosen, kind.name) for d in self._of(kind)]

    def owned(self, kind: Kind, uid: str) -> list[Any]:
        """What a controller of that uid controls."""
        return [
            value
            for value in self.all(kind)
            if (reference := controller_of(value.metadata)) and reference.uid == uid
        ]

    def pods(self) -> list[Document]:
        """The pods' documents, to be changed in place by a test."""
        return list(self._of(POD))

    def revisions(self, uid: str) -> list[Revision]:
        """The revisions of an owner."""
        return self.owned(CONTROLLER_REVISION, uid)

    def carry_out(self, actions: list[Action], upto: int | None = None) -> None:
        """Does the first ``upto`` actions; None for all."""
        for action in actions[:upto]:
            match action:
                case Create():
                    self._create(action)
                case PatchAction():
                    self._patch(action)
                case Delete():
                    self._delete(action)

    def apply(self, kind: Kind, name: str, plan: Plan) -> bool:
        """Carries a plan out, status too; whether anything changed."""
        self.carry_out(plan.actions)
        document = self.documents.get((kind.name, f"default/{name}"))
        told = document is not None and plan.status not in (None, document.get("status"))
        if document is not None and told:
            document["status"] = copy.deepcopy(plan.status)
        return told or bool(plan.actions)

    def ready(self, pod: Document, value: bool = True) -> None:
        """The pod runs and serves, or runs and does not."""
        condition = {
            "type": "Ready",
            "status": str(value),
            "lastTransitionTime": timestamp(self.now),
        }
        pod["status"] = {"phase": "Running", "conditions": [condition]}
        wanted = node_of(codec.convert(pod, Pod, "pod"))
        pod["spec"].setdefault("nodeName", wanted or "node-1")

    def end(self, pod: Document, phase: str) -> None:
        """All containers of the pod have ended."""
        pod["status"] = {"phase": phase}

    def vanish(self, pod: Document) -> None:
        """The kubelet is done with a pod that is being deleted: it goes, unless held back."""
        if not pod["metadata"].get("finalizers"):
            self.documents.pop(("Pod", f"default/{pod['metadata']['name']}"), None)

    def _of(self, kind: Kind) -> Iterator[Document]:
        return (d for (name, _), d in list(self.documents.items()) if name == kind.name)

    def _create(self, action: Create) -> None:
        metadata = action.document["metadata"]
        key = (action.kind.name, f"{metadata['namespace']}/{metadata.get('name')}")
        if action.exists_ok and key in self.documents:
            return
        self.add(action.kind, action.document)

    def _patch(self, action: PatchAction) -> None:
        document = self.documents.get((action.kind.name, f"{action.namespace}/{action.name}"))
        if document is None:
            return
        assert action.body["metadata"].get("uid") == document["metadata"]["uid"]
        before = copy.deepcopy(document.get("spec"))
        _merge(document, action.body, action.strategic)
        if document.get("spec") != before:
            document["metadata"]["generation"] += 1
        if document["metadata"].get("deletionTimestamp") and action.kind == POD:
            self.vanish(document)

    def _delete(self, action: Delete) -> None:
        key = (action.kind.name, f"{action.namespace}/{action.name}")
        document = self.documents.get(key)
        if document is None or document["metadata"]["uid"] != action.uid:
            return
        if action.kind == POD and not document["spec"].get("nodeName"):
            if document["metadata"].get("finalizers"):
                document["metadata"]["deletionTimestamp"] = timestamp(self.now)
            else:
                del self.documents[key]
        elif action.kind == POD:
            document["metadata"]["deletionTimestamp"] = timestamp(self.now)
        else:
            del self.documents[key]


def _merge(target: Document, change: Document, strategic: bool) -> None:
    for key, value in change.items():
        if strategic and key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            target[name] = [item for item in target.get(name, []) if item not in value]
        elif strategic and key == "ownerReferences":
            _merge_references(target, value)
        elif value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            _merge(target.setdefault(key, {}), value, strategic)
        else:
            target[key] = copy.deepcopy(value)


def _merge_references(metadata: Document, changes: list[Document]) -> None:
    references = {r["uid"]: r for r in metadata.get("ownerReferences", [])}
    for change in changes:
        if change.get("$patch") == "delete":
            references.pop(change["uid"], None)
        else:
            references[change["uid"]] = change
    metadata["ownerReferences"] = list(references.values())
