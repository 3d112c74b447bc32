# SPDX-License-Identifier: Apache-2.0
"""API servers, embedded and real, call admission over TLS; certificates change under load."""

from __future__ import annotations

import asyncio
import base64
import itertools
import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from koord.api import Node, Pod, codec, definitions
from koord.api.kinds.meta import LabelSelector, ObjectMeta
from koord.api.kinds.profile import ClusterColocationProfile, ClusterColocationProfileSpec
from koord.controllers.cluster.colocation_profiles import selection
from koord.controllers.webhook.certificates import certificate_keeper, renewal
from koord.controllers.webhook.certificates.certificate_keeper import MUTATING
from koord.controllers.webhook.certificates.certificate_store import (
    SECRET,
    SecretStore,
    StoredMaterial,
)
from koord.controllers.webhook.certificates.key_material import (
    KeyMaterial,
    new_authority,
    new_certificate,
    trusted,
)
from koord.controllers.webhook.certificates.webhook_configuration import bundles
from koord.controllers.webhook.framework.default_configurations import NAMESPACE
from koord.controllers.webhook.options import WebhookOptions
from koord.kube import crds
from koord.kube.errors import ApiError
from koord.kube.patches import Patch
from tests.controllers.webhook.e2e.scene import AdmissionScene, Play

_NUMBERS = itertools.count()
QOS = "koordinator.sh/qosClass"
_ALL_OF_THE_START = (
    "NodeMutatingWebhook", "NodeValidatingWebhook", "ConfigMapValidatingWebhook",
    "BindingAdmissionWebhook",
)  # fmt: skip


def test_pods_are_changed_and_refused_but_not_those_of_the_system(play: Play) -> None:
    async def script(scene: AdmissionScene) -> None:
        await scene.install()
        async with scene.replica() as app:
            await scene.until_called("first")
            with pytest.raises(ApiError) as caught:
                await scene.create_pod("a", bad="yes")
            told = 'admission webhook "vpod.koordinator.sh" denied the request: Pod default/a: '
            assert told in str(caught.value)
            assert caught.value.http_status == 403
            for namespace in ("kube-system", NAMESPACE):
                made = await scene.create_pod("b", namespace, bad="yes")
                assert QOS not in made["metadata"]["labels"]
            assert app.readiness() is None

    play(script)


def test_entries_without_a_handler_are_set_aside_and_come_back(play: Play) -> None:
    async def script(scene: AdmissionScene) -> None:
        await scene.install()
        before = await scene.configuration()
        async with scene.replica(gates="PodMutatingWebhook=false"):
            found = await scene.configuration()
            assert found.get("webhooks", []) == []
            kept = await scene.configuration(mutating=False)
            assert [each["name"] for each in kept["webhooks"]] == ["vpod.koordinator.sh"]
        async with scene.replica():
            found = await scene.configuration()
        assert [each["name"] for each in found["webhooks"]] == [
            "mpod-create.koordinator.sh", "mpod-update.koordinator.sh",
        ]  # fmt: skip
        first = before["webhooks"][0]
        for name, value in found["webhooks"][0].items():
            assert name == "clientConfig" or value == first[name]

    play(script)


@pytest.mark.parametrize("failure_policy", ["Ignore", "Fail"])
def test_with_no_webhook_answering_a_cluster_starts_with_koord_last(
    play: Play, failure_policy: str
) -> None:
    gates = ",".join(f"{name}=true" for name in _ALL_OF_THE_START)
    judging = WebhookOptions(binding_admission_user_name="koord")

    async def script(scene: AdmissionScene) -> None:
        await scene.install(failure_policy)
        async with scene.replica(gates=gates, options=judging):
            await scene.until_called("first")
        names = [each["name"] for each in (await scene.configuration(mutating=False))["webhooks"]]
        assert {"vpodbinding.koordinator.sh", "vnode.koordinator.sh"} <= set(names)
        # Nobody listens there any more, as after a power cut. Machines come back first, then what
        # the cluster itself runs on, then koord.
        await _machine(scene, "m0")
        for namespace in ("kube-system", NAMESPACE):
            assert (await scene.create_pod("needed", namespace))["metadata"]["name"] == "needed"
            await scene.client.bind(await scene.client.get(Pod, "needed", namespace), "m0")
            running = Patch.merge({"status": {"phase": "Running"}})
            await scene.client.patch(Pod, "needed", running, namespace, subresource="status")
            made = await scene.client.get(Pod, "needed", namespace)
            assert (made.spec.node_name, made.status.phase) == ("m0", "Running")
        if failure_policy == "Ignore":
            assert QOS not in (await scene.create_pod("a"))["metadata"].get("labels", {})
        else:
            with pytest.raises(ApiError, match="failed calling webhook"):
                await scene.create_pod("a")
        async with scene.replica(gates=gates, options=judging):
            await scene.until_called("again")

    play(script)


async def _machine(scene: AdmissionScene, name: str) -> None:
    """A kubelet registers, and reports."""
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    await scene.client.create({"apiVersion": "v1", "kind": "Node", "metadata": meta})
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    report = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    change = Patch.merge({"status": report})
    await scene.client.patch(Node, name, change, subresource="status")
    change = Patch.merge({"metadata": {"labels": {"zone": "a"}}, "spec": {"taints": None}})
    found = await scene.client.patch(Node, name, change)
    assert str(found.status.allocatable["cpu"]) == "4"


def test_what_somebody_changes_is_mended_when_the_watch_tells(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate_keeper, "ROUND_SECONDS", 3600.0)

    async def script(scene: AdmissionScene) -> None:
        await scene.install()
        async with scene.replica(), scene.replica(leading=False) as other:
            bundle = bundles(await scene.configuration())[0]
            emptied = await scene.configuration()
            for each in emptied["webhooks"]:
                each["clientConfig"].pop("caBundle")
            await scene.client.update(emptied, kind=MUTATING)
            async with asyncio.timeout(30):
                while bundles(await scene.configuration())[0] != bundle:
                    await asyncio.sleep(0.02)
            # Without a Secret all is made anew, and every replica shows it.
            await scene.client.delete(SECRET, scene.environment.secret, NAMESPACE)
            async with asyncio.timeout(30):
                while (anew := bundles(await scene.configuration())[0]) == bundle or not (
                    await _shows(other.server.port, anew)
                ):
                    await asyncio.sleep(0.02)

    play(script)


async def _shows(port: int, bundle: bytes) -> bool:
    try:
        await _connect(port, bundle)
    except ssl.SSLError:
        return False
    return True


def test_a_rotation_refuses_no_request(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_keeper, "ROUND_SECONDS", 0.2)
    monkeypatch.setattr(certificate_keeper, "TRUSTED_FOR_SECONDS", 1.5)
    monkeypatch.setattr(renewal, "FORMER_TRUSTED", timedelta(seconds=1))
    ahead = pytest.MonkeyPatch()
    for name in ("CERTIFICATE_AHEAD", "AUTHORITY_AHEAD"):
        ahead.setattr(renewal, name, timedelta(days=1))

    async def script(scene: AdmissionScene) -> None:
        await scene.install("Fail")
        former = _soon_over(scene.environment.host)
        store = SecretStore(scene.client, NAMESPACE, scene.environment.secret)
        assert await store.write(former, StoredMaterial(None))
        async with scene.replica() as app, scene.replica(leading=False):
            await scene.until_called("first")
            behind = bundles(await scene.configuration())[0]
            assert await _kept(store) == former
            # From here on what ends in a month is renewed.
            ahead.undo()
            made = 0
            async with asyncio.timeout(60):
                while (now := await _kept(store)) == former or len(trusted(now.authorities)) > 1:
                    made += 1
                    pod = await scene.create_pod(f"p{made}")
                    assert pod["metadata"]["labels"][QOS] == "BE"
                    # An API server whose connections are new and whose watch lags a little.
                    await _connect(app.server.port, behind)
                    behind = bundles(await scene.configuration())[0]
            assert made > 20
            assert now.certificate != former.certificate
            assert now.signed_by_first()
            await scene.create_pod("last")

    play(script)


async def _connect(port: int, bundle: bytes) -> None:
    tls = ssl.create_default_context(cadata=bundle.decode())
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    writer.transport.abort()  # No farewell that the end of the loop would cut off.


async def _kept(store: SecretStore) -> KeyMaterial:
    found = (await store.read()).material
    assert found is not None
    return found


def _soon_over(name: str) -> KeyMaterial:
    """An authority and a certificate that end in a month."""
    now, month = datetime.now(UTC), timedelta(days=30)
    authority_key, authority = new_authority(now, month)
    key, certificate = new_certificate(authority_key, authority, name, now, month)
    return KeyMaterial(authority_key, authority, key, certificate)


def test_what_an_operator_keeps_is_served_and_left_alone(play: Play) -> None:
    async def script(scene: AdmissionScene) -> None:
        await scene.install()
        theirs = _soon_over(scene.environment.host)
        named = _tls_secret(theirs, scene.environment.secret)
        secret = await scene.client.create(named, kind=SECRET)
        mutating = await scene.configuration()
        mutating["metadata"]["annotations"] = {"cert-manager.io/inject-ca-from": "a/b"}
        for entry in mutating["webhooks"]:
            entry["clientConfig"]["caBundle"] = _base64(theirs.authorities)
        await scene.client.update(mutating, kind=MUTATING)
        async with scene.replica():
            await scene.until_called("first")
            found = await scene.configuration()
            bundles = {each["clientConfig"]["caBundle"] for each in found["webhooks"]}
            assert bundles == {_base64(theirs.authorities)}
        again = await scene.client.get(SECRET, scene.environment.secret, NAMESPACE)
        assert again == secret

    play(script)


def _tls_secret(material: KeyMaterial, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "data": {
            "tls.crt": _base64(material.certificate),
            "tls.key": _base64(material.key),
            "ca.crt": _base64(material.authorities),
        },
    }


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_pods_draw_by_their_name_or_each_for_itself(play: Play) -> None:
    """On the real server, too, a new pod has no uid, and one of a ReplicaSet no name."""
    half = ClusterColocationProfile(
        metadata=ObjectMeta(name="half"),
        spec=ClusterColocationProfileSpec(selector=LabelSelector(), probability=50,
                                          labels={"drawn": "yes"}),
    )  # fmt: skip

    async def script(scene: AdmissionScene) -> None:
        names = [name async for name, _ in crds.install(scene.client, definitions.crds())]
        await crds.wait_established(scene.client, names, 60.0)
        await scene.client.create(half)
        await scene.install("Fail")
        async with scene.replica(koords=True):
            drawn: dict[str, bool] = {}
            async with asyncio.timeout(60):
                # An API server follows configurations by a watch.
                while not any(drawn.values()):
                    drawn = {}
                    for _ in range(20):
                        name = f"named-{next(_NUMBERS)}"
                        made = await scene.create_pod(name)
                        drawn[name] = "drawn" in made["metadata"].get("labels", {})
            await asyncio.sleep(0)
            for number in range(20):
                name = f"more-{number}"
                found = "drawn" in (await scene.create_pod(name))["metadata"].get("labels", {})
                assert found is (selection.draw("half", f"default/{name}") < 50)
            made = [await _create_of_owner(scene) for _ in range(40)]
            generated = ["drawn" in meta.labels for meta in made]
            assert 8 <= sum(generated) <= 32, generated
            # Who looks at them later finds the same.
            assert generated == [selection.is_in_share(half, meta, 50) for meta in made]

    play(script)


async def _create_of_owner(scene: AdmissionScene) -> ObjectMeta:
    """A pod as a ReplicaSet makes it."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1"}
    meta = {"generateName": "web-", "namespace": "default", "ownerReferences": [owner]}
    containers = [{"name": "main", "image": "web:1"}]
    made = await scene.client.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers}}
    )
    return codec.convert(made["metadata"], ObjectMeta, "Pod")
