# SPDX-License-Identifier: Apache-2.0
"""VolumeRestrictions, NodeVolumeLimits, VolumeZone and VolumeBinding: what they refuse and say."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.kinds.storage import PersistentVolume, PersistentVolumeClaim, VolumeAttachment
from koord.controllers.scheduler.plugins.kubernetes.volumes.restrictions import conflicting
from tests.controllers.scheduler.plugins.kubernetes.volumes.storage import Storage, affinity, user
from tests.controllers.scheduler.pods import info, node, pod

ZONE = "topology.kubernetes.io/zone"


def test_pods_without_volumes_are_not_asked_about() -> None:
    storage = Storage(node("a"))
    plain = info(pod("p", volumes=[{"name": "t", "emptyDir": {}}]))
    decision = storage.decide(plain)
    assert decision.row == 0
    assert not any(plugin.applies(decision.cycle) for plugin in storage.plugins.filter)


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (None, 'persistentvolumeclaim "c" not found'),
        (
            {"phase": "Lost", "volumeName": "v"},
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
        (
            {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
            'persistentvolumeclaim "c" is being deleted',
        ),
        ({"cls": "now"}, "pod has unbound immediate PersistentVolumeClaims"),
        ({"cls": "missing"}, "pod has unbound immediate PersistentVolumeClaims"),
        (
            {"cls": "later", "volumeName": "v", "complete": False},
            "pod has unbound immediate PersistentVolumeClaims",
        ),
    ],
)
def test_claims_that_keep_a_pod_back(claim: dict[str, Any] | None, said: str) -> None:
    storage = Storage(node("a"))
    storage.storage_class("now", volumeBindingMode="Immediate")
    storage.storage_class("later")
    if claim is not None:
        storage.claim("c", **claim)
    assert storage.message(user("p", "c")) == f"0/1 nodes are available: {said}."


def test_a_claim_made_for_the_pod_alone() -> None:
    storage = Storage(node("a"))
    waiting = user("p", ephemeral=("scratch",))
    said = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
    assert said in storage.message(waiting)
    storage.claim("p-scratch")
    said = "PVC default/p-scratch was not created for pod default/p (pod is not owner)"
    assert said in storage.message(waiting)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    storage.storage_class("later")
    storage.claim("p-scratch", cls="later", metadata={"ownerReferences": [owner]})
    assert storage.decide(waiting).row == 0


def test_one_shape_but_claims_of_their_own() -> None:
    storage = Storage(node("a", labels={ZONE: "x"}), node("b", labels={ZONE: "y"}))
    for name, zone in (("p", "x"), ("q", "y")):
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}"}
        owner["controller"] = True  # type: ignore[assignment]
        storage.volume(f"v{name}", nodeAffinity=affinity(ZONE, zone))
        storage.claim(f"{name}-data", volumeName=f"v{name}", metadata={"ownerReferences": [owner]})
    first, second = user("p", ephemeral=("data",)), user("q", ephemeral=("data",))
    assert first.shape is second.shape
    assert storage.decide(first).row == 0
    assert storage.decide(second).row == 1


def test_messages_of_nodes() -> None:
    zones = {"a": "x", "b": "y", "c": "z"}
    storage = Storage(*(node(name, labels={ZONE: zone}) for name, zone in zones.items()))
    storage.volume("bound", nodeAffinity=affinity(ZONE, "x"))
    storage.claim("bound", volumeName="bound")
    storage.claim("both", volumeName="other")
    storage.volume("other", nodeAffinity=affinity(ZONE, "y"))
    assert storage.decide(user("p", "bound")).row == 0
    assert storage.message(user("p", "bound", "both")) == (
        "0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity."
    )
    storage.storage_class("local", provisioner="kubernetes.io/no-provisioner")
    storage.claim("late", cls="local")
    assert storage.message(user("q", "late")) == (
        "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind."
    )
    storage.claim("gone", volumeName="nowhere")
    said = "3 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    # VolumeZone sees that before any node is looked at.
    storage.plugins.pre_filter.remove(storage.zone)
    storage.world.table.advance_generation()
    assert said in storage.message(user("r", "gone"))


def test_kept_answers_follow_claims_volumes_and_nodes() -> None:
    storage = Storage(node("a", labels={ZONE: "x"}), node("b", labels={ZONE: "y"}))
    storage.storage_class("local", provisioner="kubernetes.io/no-provisioner")
    storage.claim("c", cls="local")
    waiting = user("p", "c")
    assert storage.decide(waiting).row == -1
    storage.volume("v", cls="local", nodeAffinity=affinity(ZONE, "y"))
    assert storage.decide(waiting).row == 1
    storage.world.table.put(node("a", labels={ZONE: "y"}))
    storage.world.table.put(node("b", labels={ZONE: "x"}))
    assert storage.decide(waiting).row == 0
    storage.views.view(PersistentVolume).remove("v")
    assert storage.decide(waiting).row == -1


def test_two_pods_do_not_get_one_volume() -> None:
    storage = Storage(node("a"))
    storage.storage_class("local", provisioner="kubernetes.io/no-provisioner")
    storage.volume("v", cls="local")
    for name in ("c", "d"):
        storage.claim(name, cls="local")
    first = storage.place(user("p", "c"))
    assert "didn't find available" in storage.message(user("q", "d"))
    storage.decider.retract(first)
    assert storage.decide(user("q", "d")).row == 0


def test_a_claim_stays_with_its_node_while_its_volume_is_made() -> None:
    storage = Storage(node("a"), node("b"))
    storage.storage_class("later")
    storage.claim("c", cls="later", accessModes=["ReadWriteMany"])
    first = storage.place(user("p", "c"))
    for name in ("q", "r"):
        assert storage.decide(user(name, "c")).row == first.row


def test_a_malformed_selector_is_one_line() -> None:
    storage = Storage(node("a"))
    storage.storage_class("later")
    selector = {"matchExpressions": [{"key": "k", "operator": "Near", "values": ["x"]}]}
    storage.claim("c", cls="later", selector=selector)
    decision = storage.decide(user("p", "c"))
    assert decision.diagnosis is not None
    assert decision.diagnosis.error
    assert "spec.selector.matchExpressions[0].operator" in decision.diagnosis.message()


def test_a_claim_for_one_pod() -> None:
    storage = Storage(node("a"), node("b"))
    storage.volume("v")
    storage.claim("c", volumeName="v", accessModes=["ReadWriteOncePod"])
    storage.place(user("p", "c"))
    assert storage.message(user("q", "c")) == (
        "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with "
        "ReadWriteOncePod access mode already in-use by another pod."
    )
    storage.claim("c", volumeName="v", accessModes=["ReadWriteMany"])
    assert storage.decide(user("q", "c")).row >= 0


DISKS = [
    ("gcePersistentDisk", {"pdName": "d"}, {"pdName": "d"}, True),
    ("gcePersistentDisk", {"pdName": "d", "readOnly": True}, {"pdName": "d"}, True),
    ("gcePersistentDisk", {"pdName": "d", "readOnly": True}, {"pdName": "d", "readOnly": True},
     False),
    ("gcePersistentDisk", {"pdName": "d"}, {"pdName": "e"}, False),
    ("awsElasticBlockStore", {"volumeID": "d", "readOnly": True},
     {"volumeID": "d", "readOnly": True}, True),
    ("iscsi", {"iqn": "i", "lun": 1}, {"iqn": "i", "lun": 2}, True),
    ("iscsi", {"iqn": "i", "readOnly": True}, {"iqn": "i", "readOnly": True}, False),
    ("rbd", {"monitors": ["a", "b"], "image": "i"}, {"monitors": ["b"], "image": "i"}, True),
    ("rbd", {"monitors": ["a"], "image": "i"}, {"monitors": ["b"], "image": "i"}, False),
    ("rbd", {"monitors": ["a"], "image": "i", "pool": "p"}, {"monitors": ["a"], "image": "i"},
     False),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "mine", "theirs", "clash"), DISKS)
def test_disks(kind: str, mine: Any, theirs: Any, clash: bool) -> None:
    assert conflicting({kind: mine}, {kind: theirs}) is clash
    storage = Storage(node("a"))
    first = storage.place(user("p", volumes=[{"name": "d", kind: theirs}]))
    blocked = user("q", volumes=[{"name": "d", kind: mine}])
    if clash:
        said = "0/1 nodes are available: 1 node(s) had no available disk."
        assert storage.message(blocked) == said
        storage.decider.retract(first)
    assert storage.decide(blocked).row == 0


def _csi(storage: Storage, *names: str, driver: str = "csi") -> None:
    for name in names:
        storage.volume(name, csi={"driver": driver, "volumeHandle": f"h-{name}"})
        storage.claim(name, volumeName=name, accessModes=["ReadWriteMany"])


def test_attach_limits() -> None:
    storage = Storage(node("a"))
    storage.limit("a", "csi", 2)
    _csi(storage, "v0", "v1", "v2")
    storage.place(user("p", "v0"))
    storage.place(user("q", "v0", "v1"))
    over = user("r", "v2")
    assert storage.message(over) == "0/1 nodes are available: 1 node(s) exceed max volume count."
    # What is attached already is not attached again.
    assert storage.decide(user("s", "v1")).row == 0
    storage.limit("a", "csi", 3)
    assert storage.decide(over).row == 0
    storage.limit("a", "csi", None)
    assert storage.decide(over).row == 0


def test_volumes_on_their_way_and_attached_for_nobody_count() -> None:
    storage = Storage(node("a"))
    storage.limit("a", "csi", 2)
    storage.storage_class("later")
    storage.claim("late", cls="later")
    _csi(storage, "v0", "v1")
    storage.place(user("p", "late"))
    attachment = {"attacher": "csi", "nodeName": "a", "source": {"persistentVolumeName": "v0"}}
    storage.put(VolumeAttachment, "at", spec=attachment)
    assert "exceed max volume count" in storage.message(user("q", "v1"))
    assert storage.decide(user("q", "v0")).row == 0
    storage.views.view(VolumeAttachment).remove("at")
    assert storage.decide(user("q", "v1")).row == 0


def test_limits_of_another_driver_do_not_count() -> None:
    storage = Storage(node("a"))
    storage.limit("a", "other", 0)
    _csi(storage, "v0")
    assert storage.decide(user("p", "v0")).row == 0


def test_zones() -> None:
    nodes = (
        node("a", labels={ZONE: "x"}),
        node("b", labels={ZONE: "y"}),
        node("c"),
        node("d", labels={"failure-domain.beta.kubernetes.io/zone": "x"}),
    )
    storage = Storage(*nodes)
    storage.plugins = storage.plugins._replace(filter=[storage.zone])
    storage.volume("v", labels={ZONE: "x__z"})
    storage.claim("v", volumeName="v")
    rows = _zone_rows(storage, user("p", "v"))
    # A node with neither zone nor region takes all; a beta label of a node is not a stable one.
    assert rows == {"a": True, "b": False, "c": True, "d": False}
    storage.volume("w", labels={"failure-domain.beta.kubernetes.io/zone": "x"})
    storage.claim("w", volumeName="w")
    assert _zone_rows(storage, user("p", "w")) == {"a": True, "b": False, "c": True, "d": True}
    storage.volume("u", labels={ZONE: "x____z"})
    storage.claim("u", volumeName="u")
    cycle = storage.decide(user("p", "u")).cycle
    assert not storage.zone.applies(cycle)


def _zone_rows(storage: Storage, waiting: Any) -> dict[str, bool]:
    cycle = storage.decide(waiting).cycle
    assert storage.zone.applies(cycle)
    passes = storage.zone.filter(cycle, slice(0, storage.world.table.size))
    return {storage.world.table.name(i): bool(p) for i, p in enumerate(passes)}


def test_zone_messages() -> None:
    storage = Storage(node("a", labels={ZONE: "y"}))
    storage.volume("v", labels={ZONE: "x"})
    storage.claim("v", volumeName="v")
    said = "0/1 nodes are available: 1 node(s) had no available volume zone."
    assert storage.message(user("p", "v")) == said
    storage.views.view(PersistentVolumeClaim).remove("default/v")
    assert 'persistentvolumeclaim "v" not found' in storage.message(user("p", "v"))
