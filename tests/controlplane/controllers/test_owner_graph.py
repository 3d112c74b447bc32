# SPDX-License-Identifier: Apache-2.0
"""Garbage collection removes exactly what has lost all its owners."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import groupby
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from koord.api import codec
from koord.api.kinds.meta import ObjectMeta
from koord.base.documents import Document
from koord.controlplane.controllers.base.objects import POD
from koord.controlplane.controllers.base.plans import Action, Delete, PatchAction
from koord.controlplane.controllers.gc.owner_graph import FOREGROUND, ORPHAN, GraphNode, OwnerGraph


class Server:
    """Objects, and what an API server does with them.

    The graph hears of each object by a watch of its own: what has changed is told in any order, and
    until then the graph decides from what it knows.

    Args:
        chance: draws that order, and which of the requests that go out together come first.
    """

    def __init__(self, chance: Random | None = None) -> None:
        self.objects: dict[str, Document] = {}
        self.graph = OwnerGraph()
        self.queue: list[str] = []
        self.removed: list[str] = []
        self._chance = chance or Random(0)
        self._untold: list[str] = []
        self._version = 0

    def create(self, uid: str, owners: dict[str, bool], namespace: str = "default") -> None:
        references = [
            {"uid": owner, "name": owner, "kind": "X", "blockOwnerDeletion": block}
            for owner, block in owners.items()
        ]
        self.objects[uid] = {
            "name": uid, "uid": uid, "namespace": namespace, "ownerReferences": references,
            "finalizers": [],
        }  # fmt: skip
        self._changed(uid)

    def touch(self, uid: str) -> None:
        """Somebody writes something that is nobody's business here."""
        if uid in self.objects:
            self._changed(uid)

    def delete(self, uid: str, propagation: str | None, version: str = "") -> None:
        found = self.objects.get(uid)
        if found is None or version not in ("", found["resourceVersion"]):
            return
        finalizer = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(propagation or "")
        if finalizer and finalizer not in found["finalizers"]:
            found["finalizers"].append(finalizer)
        found["deletionTimestamp"] = datetime.fromtimestamp(0, UTC)
        self._changed(uid)

    def patch(self, uid: str, change: dict[str, Any]) -> bool:
        """Whether it was not refused for its version."""
        found = self.objects.get(uid)
        if found is None:
            return True
        if change["resourceVersion"] != found["resourceVersion"]:
            return False
        for key in ("ownerReferences", "finalizers"):
            if key in change:
                found[key] = change[key] or []
        self._changed(uid)
        return True

    def collect(self) -> None:
        """Lets the graph hear and decide until there is nothing more to do."""
        for _ in range(3000):
            if not self.queue and not self._untold:
                return
            if not self.queue or (self._untold and self._chance.random() < 0.5):
                self._tell()
            else:
                self._look(self.queue.pop(0))
        raise AssertionError("the collector does not come to rest")

    def _look(self, uid: str) -> None:
        for missing in self.graph.missing(uid):
            owner = self.objects.get(missing.reference.uid)
            if owner is not None and owner["namespace"] in ("", missing.namespace):
                self.queue.append(uid)  # it is there, but the graph has not heard of it
                return
            self.graph.absent.add((missing.reference.uid, missing.namespace))
        for _, together in groupby(self.graph.decide(uid), type):
            group = list(together)
            self._chance.shuffle(group)
            if [action for action in group if not self._carry_out(action)]:
                self.queue.append(uid)
                return

    def _carry_out(self, action: Action) -> bool:
        match action:
            case Delete():
                self.delete(action.uid, action.propagation, action.resource_version)
            case PatchAction():
                return self.patch(action.name, action.body["metadata"])
        return True

    def _changed(self, uid: str) -> None:
        found = self.objects[uid]
        self._version += 1
        found["resourceVersion"] = str(self._version)
        if found.get("deletionTimestamp") and not found["finalizers"]:
            del self.objects[uid]
            self.removed.append(uid)
        if uid not in self._untold:
            self._untold.append(uid)

    def _tell(self) -> None:
        uid = self._untold.pop(self._chance.randrange(len(self._untold)))
        found = self.objects.get(uid)
        if found is None:
            self.queue += self.graph.remove(uid)
        else:
            metadata = codec.convert(codec.to_document(found), ObjectMeta, uid)
            self.queue += self.graph.put(GraphNode(POD, metadata))


def reachable(owners: dict[str, dict[str, bool]], roots: set[str]) -> set[str]:
    """What stays: objects that never had an owner, and those with an owner that stays."""
    stay = set(roots)
    while True:
        more = {uid for uid, refs in owners.items() if uid not in stay and refs.keys() & stay}
        if not more:
            return stay
        stay |= more


@st.composite
def families(draw: st.DrawFn) -> dict[str, dict[str, bool]]:
    """Objects in a row, each owned by any of those before it; some by one that never was."""
    names = [f"o{n}" for n in range(draw(st.integers(1, 9)))]
    owners: dict[str, dict[str, bool]] = {}
    for at, name in enumerate(names):
        candidates = [*names[:at], "ghost"]
        chosen = draw(st.lists(st.sampled_from(candidates), unique=True, max_size=3))
        owners[name] = {owner: draw(st.booleans()) for owner in chosen}
    return owners


@given(families(), st.randoms(use_true_random=False), st.data())
def test_exactly_the_unreachable_goes(
    owners: dict[str, dict[str, bool]], chance: Random, data: DataObject
) -> None:
    server = Server(chance)
    for name in data.draw(st.permutations(sorted(owners))):
        server.create(name, owners[name])
        if data.draw(st.booleans()) and set(owners) <= server.objects.keys():
            server.collect()
    server.collect()
    roots = {name for name, refs in owners.items() if not refs}
    assert server.objects.keys() == reachable(owners, roots)
    if roots:
        lost = data.draw(st.sampled_from(sorted(roots)))
        server.delete(lost, data.draw(st.sampled_from(["Background", "Foreground"])))
        server.collect()
        assert server.objects.keys() == reachable(owners, roots - {lost})


@given(families(), st.randoms(use_true_random=False))
def test_what_is_orphaned_stays_without_the_owner(
    owners: dict[str, dict[str, bool]], chance: Random
) -> None:
    """Also where others write to it meanwhile, and whatever is heard of first."""
    server = Server(chance)
    for name, refs in owners.items():
        server.create(name, {owner: block for owner, block in refs.items() if owner != "ghost"})
    server.collect()
    for name in owners:
        if chance.random() < 0.5:
            server.touch(name)
    server.delete("o0", "Orphan")
    server.collect()
    assert server.objects.keys() == owners.keys() - {"o0"}
    for found in server.objects.values():
        assert all(reference["uid"] != "o0" for reference in found["ownerReferences"])


def test_in_the_foreground_the_owner_goes_last() -> None:
    server = Server()
    server.create("top", {})
    server.create("middle", {"top": True})
    server.create("leaf", {"middle": True})
    server.collect()
    server.delete("top", "Foreground")
    server.collect()
    assert server.removed == ["leaf", "middle", "top"]


def test_in_the_background_the_owner_goes_first() -> None:
    server = Server()
    server.create("top", {})
    server.create("leaf", {"top": True})
    server.collect()
    server.delete("top", "Background")
    server.collect()
    assert server.removed == ["top", "leaf"]


def test_an_object_that_others_own_too_only_loses_the_reference() -> None:
    server = Server()
    server.create("a", {})
    server.create("b", {})
    server.create("shared", {"a": True, "b": True})
    server.collect()
    server.delete("a", "Foreground")
    server.collect()
    assert server.objects.keys() == {"b", "shared"}
    assert [r["uid"] for r in server.objects["shared"]["ownerReferences"]] == ["b"]


def test_a_circle_in_the_foreground_is_cut() -> None:
    server = Server()
    server.create("a", {"b": True})
    server.create("b", {"a": True})
    server.delete("a", "Foreground")
    server.collect()
    assert server.objects == {}


def test_an_owner_in_another_namespace_is_none() -> None:
    server = Server()
    server.create("owner", {}, namespace="other")
    server.create("cluster-wide", {}, namespace="")
    server.create("stray", {"owner": False})
    server.create("kept", {"cluster-wide": False})
    server.collect()
    assert server.objects.keys() == {"owner", "cluster-wide", "kept"}
