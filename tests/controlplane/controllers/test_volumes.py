# SPDX-License-Identifier: Apache-2.0
"""Claims and volumes on the embedded control plane, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

from koord.api.codec import convert
from koord.api.kinds.storage import PersistentVolumeClaim, StorageClass
from koord.base.documents import Document
from koord.controlplane.controllers.base.objects import CLAIM, NODE, POD, VOLUME
from koord.controlplane.controllers.base.plans import ObjectEvent
from koord.controlplane.controllers.volume.claim_binding import claim_plan
from koord.kube.patches import Patch
from tests.controlplane.scene import Scene, play

SELECTED = "volume.kubernetes.io/selected-node"
ZONE = "topology.kubernetes.io/zone"


def volume(name: str, size: str = "1Gi", cls: str = "", **spec: Any) -> Document:
    whole = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/x"},
        "storageClassName": cls,
        **spec,
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": whole,
    }


def claim(name: str, size: str = "1Gi", cls: str = "", **spec: Any) -> Document:
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**whole, "storageClassName": cls, **spec},
    }


def storage_class(name: str, mode: str, provisioner: str = "koord.sh/simulated") -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


async def bound(scene: Scene, name: str) -> str:
    """The volume of a claim once both sides are bound."""

    async def both() -> bool:
        found = await scene.get(CLAIM, name)
        if found is None or found["status"].get("phase") != "Bound":
            return False
        other = await scene.get(VOLUME, found["spec"]["volumeName"])
        assert other is not None
        assert other["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]
        assert "pv.kubernetes.io/bind-completed" in found["metadata"]["annotations"]
        return bool(other["status"]["phase"] == "Bound")

    await scene.until(both)
    found = await scene.get(CLAIM, name)
    assert found is not None
    return str(found["spec"]["volumeName"])


def phase(scene: Scene, name: str, wanted: str) -> Any:
    async def has() -> bool:
        found = await scene.get(VOLUME, name)
        return bool(found and found["status"].get("phase") == wanted)

    return scene.until(has)


def test_the_smallest_volume_that_will_do() -> None:
    async def story(scene: Scene) -> None:
        for name, size in (("small", "1Gi"), ("large", "9Gi"), ("fit", "3Gi")):
            await scene.client.create(volume(name, size))
        await scene.client.create(claim("c", "2Gi"))
        assert await bound(scene, "c") == "fit"
        await scene.client.create(claim("d", "2Gi"))
        assert await bound(scene, "d") == "large"
        await phase(scene, "small", "Available")
        await scene.client.create(claim("e", "2Gi"))
        await scene.client.create(volume("later", "2Gi"))
        assert await bound(scene, "e") == "later"

    play(story, ["volumes"])


def test_volumes_are_made_and_go_with_their_claims() -> None:
    async def story(scene: Scene) -> None:
        await scene.client.create(storage_class("now", "Immediate"))
        await scene.client.create(claim("c", cls="now"))
        name = await bound(scene, "c")
        made = await scene.get(VOLUME, name)
        assert made is not None
        uid = made["spec"]["claimRef"]["uid"]
        assert name == f"pvc-{uid}"
        assert made["spec"]["csi"] == {"driver": "koord.sh/simulated", "volumeHandle": name}
        await scene.client.delete(CLAIM, "c", "default")
        await scene.until(lambda: _gone(scene, name))

    play(story, ["volumes"])


async def _gone(scene: Scene, name: str) -> bool:
    return await scene.get(VOLUME, name) is None


def test_claims_that_wait_for_their_first_pod() -> None:
    async def story(scene: Scene) -> None:
        await scene.add_nodes(1)
        await scene.client.patch(NODE, "n0", Patch.merge({"metadata": {"labels": {ZONE: "x"}}}))
        await scene.client.create(storage_class("later", "WaitForFirstConsumer"))
        await scene.client.create(volume("free", cls="later"))
        await scene.client.create(claim("c", cls="later"))
        await phase(scene, "free", "Available")
        found = await scene.get(CLAIM, "c")
        assert found is not None
        assert found["status"]["phase"] == "Pending"
        chosen = Patch.merge({"metadata": {"annotations": {SELECTED: "n0"}}})
        await scene.client.patch(CLAIM, "c", chosen, "default")
        name = await bound(scene, "c")
        made = await scene.get(VOLUME, name)
        assert made is not None
        terms = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert terms == [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["x"]}]}]
        # What the scheduler names in a volume is bound to its end.
        await scene.client.create(claim("d", cls="later"))
        other = await scene.get(CLAIM, "d")
        assert other is not None
        reference = {"namespace": "default", "name": "d", "uid": other["metadata"]["uid"]}
        body = {"spec": {"claimRef": {"kind": "PersistentVolumeClaim", **reference}}}
        await scene.client.patch(VOLUME, "free", Patch.merge(body))
        assert await bound(scene, "d") == "free"

    play(story, ["volumes"])


def test_no_provisioner_makes_nothing() -> None:
    async def story(scene: Scene) -> None:
        none = storage_class("local", "Immediate", "kubernetes.io/no-provisioner")
        await scene.client.create(none)
        await scene.client.create(claim("c", cls="local"))
        await scene.client.create(volume("v", cls="local"))
        assert await bound(scene, "c") == "v"
        await scene.client.create(claim("d", cls="local"))
        await scene.client.delete(CLAIM, "c", "default")
        await phase(scene, "v", "Released")
        volumes = (await scene.client.list(VOLUME)).items
        assert [v["metadata"]["name"] for v in volumes] == ["v"]

    play(story, ["volumes"])


def test_a_claim_that_gets_nothing_says_why() -> None:
    async def story(scene: Scene) -> None:
        none = storage_class("local", "Immediate", "kubernetes.io/no-provisioner")
        await scene.client.create(none)
        await scene.client.create(volume("v"))
        await phase(scene, "v", "Available")
        await scene.client.create(claim("first"))
        assert await bound(scene, "first") == "v"
        for name in ("none", "nosuch", "local"):
            await scene.client.create(claim(f"of.{name}", cls=name.removeprefix("none")))
        await scene.client.create(claim("second", volumeName="v"))
        await scene.client.create(volume("w", cls="other"))
        wishes: dict[str, Any] = {
            "size": {"size": "2Gi"}, "class": {}, "block": {"volumeMode": "Block"},
            "modes": {"accessModes": ["ReadWriteMany"]},
        }  # fmt: skip
        for name, wish in wishes.items():
            cls = "" if name == "class" else "other"
            await scene.client.create(claim(name, cls=cls, volumeName="w", **wish))
        await asyncio.sleep(5)
        left = await scene.get(VOLUME, "w")
        assert left is not None
        assert "claimRef" not in left["spec"]

    scene = play(story, ["volumes"])
    said = {name: f"{reason}: {text}" for name, reason, text in scene.events}
    wanted = {
        "of.none": "FailedBinding: no persistent volumes available for this claim and no storage "
        "class is set",
        "of.nosuch": 'ProvisioningFailed: storageclass.storage.k8s.io "nosuch" not found',
        "of.local": "ProvisioningFailed: no volume plugin matched name: "
        "kubernetes.io/no-provisioner",
        "second": 'FailedBinding: volume "v" already bound to a different claim.',
        "size": "requested PV is too small",
        "class": "storageClassName does not match",
        "block": "incompatible volumeMode",
        "modes": "incompatible accessMode",
    }
    for name in ("size", "class", "block", "modes"):
        wanted[name] = f'VolumeMismatch: Cannot bind to requested volume "w": {wanted[name]}'
    assert said == wanted


def test_a_class_of_another_provisioner_is_waited_for_aloud() -> None:
    wanted = convert(claim("c", cls="disk"), PersistentVolumeClaim, "c")
    disk = convert(storage_class("disk", "Immediate", "example.com/disk"), StorageClass, "disk")
    plan = claim_plan(wanted, [], {"disk": disk}, lambda _: None, ["koord.sh/simulated"])
    (event,) = plan.actions
    assert isinstance(event, ObjectEvent)
    assert event.reason == "ExternalProvisioning"
    assert "the external provisioner 'example.com/disk'" in event.message


def test_a_lost_volume() -> None:
    async def story(scene: Scene) -> None:
        await scene.client.create(volume("v"))
        await scene.client.create(claim("c"))
        await bound(scene, "c")
        await scene.client.delete(VOLUME, "v")

        async def lost() -> bool:
            found = await scene.get(CLAIM, "c")
            return bool(found and found["status"]["phase"] == "Lost")

        await scene.until(lost)

    scene = play(story, ["volumes"])
    assert ("c", "ClaimLost", "Bound claim has lost its PersistentVolume. "
            "Data on the volume is lost!") in scene.events  # fmt: skip


def test_claims_of_ephemeral_volumes() -> None:
    async def story(scene: Scene) -> None:
        await scene.client.create(storage_class("now", "Immediate"))
        template = {"metadata": {"labels": {"a": "b"}}, "spec": claim("x", cls="now")["spec"]}
        volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
        container = {"name": "c", "image": "i"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [container], "volumes": volumes},
        }
        await scene.client.create(pod)
        await bound_when_there(scene, "p-scratch")
        found = await scene.get(CLAIM, "p-scratch")
        assert found is not None
        assert found["metadata"]["labels"] == {"a": "b"}
        owner = found["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("Pod", "p", True)
        await scene.client.delete(POD, "p", "default", grace_period_seconds=0)

        async def gone() -> bool:
            return await scene.get(CLAIM, "p-scratch") is None

        await scene.until(gone)

    play(story, ["volumes", "garbage"])


async def bound_when_there(scene: Scene, name: str) -> None:
    async def there() -> bool:
        return await scene.get(CLAIM, name) is not None

    await scene.until(there)
    await bound(scene, name)
