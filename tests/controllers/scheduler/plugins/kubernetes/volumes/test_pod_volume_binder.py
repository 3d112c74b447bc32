# SPDX-License-Identifier: Apache-2.0
"""What VolumeBinding writes, how it waits, and when it gives up. On virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from koord.api.kinds.storage import PersistentVolume, PersistentVolumeClaim
from koord.base.clock import VirtualClock, VirtualLoop
from koord.controllers.scheduler.cycles.binder import BindError
from koord.controllers.scheduler.decision.decider import Decision
from koord.controllers.scheduler.framework.cycle import PendingPatch
from tests.controllers.scheduler.plugins.kubernetes.volumes.storage import (
    BOUND,
    Storage,
    affinity,
    user,
)
from tests.controllers.scheduler.pods import node

SELECTED = "volume.kubernetes.io/selected-node"


class Client:
    """Takes patches down."""

    dry_run = None

    def __init__(self) -> None:
        self.writes: list[tuple[str, str, Any]] = []

    async def patch(self, kind: type, name: str, patch: Any, namespace: str = "") -> None:
        await asyncio.sleep(0)
        self.writes.append((kind.__name__, name, json.loads(patch.body)))


def _storage(seconds: int = 600) -> tuple[Storage, Client]:
    client = Client()
    storage = Storage(node("a", labels={"zone": "x"}), client=client, seconds=seconds)
    storage.storage_class("later")
    return storage, client


def _run(storage: Storage, decision: Decision, then: Callable[[], None] | None = None) -> float:
    """Runs PreBind; ``then`` is called after a virtual second. Returns how long it took."""
    loop = VirtualLoop(VirtualClock())

    async def work() -> float:
        if then is not None:
            loop.call_later(1.0, then)
        begun = loop.time()
        await storage.binding.pre_bind(decision.cycle, decision.row, PendingPatch())
        return loop.time() - begun

    try:
        return loop.run_until_complete(work())
    finally:
        loop.close()


def test_a_volume_that_is_there() -> None:
    storage, client = _storage()
    volume = storage.volume("v", cls="later", nodeAffinity=affinity("zone", "x"))
    claim = storage.claim("c", cls="later")
    decision = storage.place(user("p", "c"))

    def bind() -> None:
        reference = {"namespace": "default", "name": "c", "uid": claim.metadata.uid}
        storage.volume("v", cls="later", claimRef=reference, phase="Bound")
        storage.claim("c", cls="later", volumeName="v")

    assert _run(storage, decision, bind) == 1.0
    [(kind, name, body)] = client.writes
    assert (kind, name) == ("PersistentVolume", "v")
    assert body == {
        "metadata": {
            "uid": "uid-v",
            "resourceVersion": volume.metadata.resource_version,
            "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
        },
        "spec": {
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": "default",
                "name": "c",
                "uid": "uid-c",
                "resourceVersion": claim.metadata.resource_version,
            }
        },
    }


def test_a_volume_that_is_made() -> None:
    storage, client = _storage()
    claim = storage.claim("c", cls="later")
    decision = storage.place(user("p", "c"))

    def provide() -> None:
        storage.volume("made", cls="later", nodeAffinity=affinity("zone", "x"))
        storage.claim("c", cls="later", volumeName="made", annotations={SELECTED: "a"})

    assert _run(storage, decision, provide) == 1.0
    [(kind, name, body)] = client.writes
    assert (kind, name) == ("PersistentVolumeClaim", "c")
    assert body["metadata"]["annotations"] == {SELECTED: "a"}
    assert body["metadata"]["resourceVersion"] == claim.metadata.resource_version


@pytest.mark.parametrize("seconds", [0, 5])
def test_time_is_up(seconds: int) -> None:
    storage, _ = _storage(seconds)
    storage.claim("c", cls="later")
    decision = storage.place(user("p", "c"))
    with pytest.raises(BindError, match="binding volumes: context deadline exceeded"):
        _run(storage, decision)


def _failures() -> list[tuple[Callable[[Storage], None], str]]:
    def taken_away(storage: Storage) -> None:
        storage.claim("c", cls="later", annotations={SELECTED: "a"})
        storage.claim("c", cls="later")

    def elsewhere(storage: Storage) -> None:
        storage.volume("made", nodeAffinity=affinity("zone", "y"))
        storage.claim("c", cls="later", volumeName="made", annotations={SELECTED: "a"})

    def deleted(storage: Storage) -> None:
        storage.views.view(PersistentVolumeClaim).remove("default/c")

    def gone(storage: Storage) -> None:
        storage.world.table.remove("a")
        elsewhere(storage)

    return [
        (taken_away, 'binding volumes: provisioning failed for PVC "c"'),
        (elsewhere, 'binding volumes: pv "made" node affinity doesn\'t match node "a"'),
        (deleted, 'failed to check provisioning pvc: persistentvolumeclaim "default/c" not found'),
        (gone, 'binding volumes: failed to get node "a"'),
    ]


@pytest.mark.parametrize(("happens", "said"), _failures())
def test_provisioning_fails(happens: Callable[[Storage], None], said: str) -> None:
    storage, _ = _storage()
    storage.claim("c", cls="later")
    decision = storage.place(user("p", "c"))
    with pytest.raises(BindError) as raised:
        _run(storage, decision, lambda: happens(storage))
    assert said in str(raised.value)


def test_a_binding_is_taken_back() -> None:
    storage, _ = _storage()
    storage.volume("v", cls="later")
    storage.claim("c", cls="later")
    decision = storage.place(user("p", "c"))

    def reset() -> None:
        storage.volume("v", cls="later")

    with pytest.raises(BindError, match='ClaimRef got reset for pv "v"'):
        _run(storage, decision, reset)
    storage.decider.retract(decision)

    def remove() -> None:
        storage.views.view(PersistentVolume).remove("v")

    with pytest.raises(BindError, match='persistentvolume "v" not found'):
        _run(storage, storage.place(user("q", "c")), remove)


def test_nothing_to_do_for_bound_claims() -> None:
    storage, client = _storage()
    storage.volume("v")
    storage.claim("c", volumeName="v", annotations={BOUND: "yes"})
    decision = storage.place(user("p", "c"))
    assert _run(storage, decision) == 0.0
    assert client.writes == []
