# SPDX-License-Identifier: Apache-2.0
"""A scene in which koord-scheduler, as its own service account, does all that it ever does."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from koord.base.clock import SystemClock
from koord.controllers.scheduler.app import App
from koord.controllers.scheduler.config import load
from koord.controllers.scheduler.config.defaults import shipped_document
from koord.controllers.scheduler.registry import Registry
from koord.kube.client import Client
from koord.kube.election import LeaderElector
from koord.kube.events import EventRecorder
from koord.kube.transport.messages import MERGE_PATCH, Request
from tests.controllers.scheduler.e2e.cluster import Cluster, Document, _install
from tests.controllers.scheduler.histories import documents
from tests.real.rbac.account import Account
from tests.real.rbac.grants import Grant
from tests.real.rbac.recording import Recorder

NAME = "koord-scheduler"
PATIENCE_SECONDS = 90.0
RESERVATIONS = {
    "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "ReservationArgs",
    "gcDurationSeconds": 1, "gcIntervalSeconds": 1,
}  # fmt: skip


async def play(account: Account) -> Recorder:
    """Plays the scene until every grant was used, or for a time; what was used and refused."""
    admin = Client(account.admin, "admin", requests_per_second=None)
    await _install(admin)
    await account.apply()
    recorder = Recorder(account.transport())
    try:
        await _play(admin, Client(recorder, NAME, requests_per_second=None), recorder, account)
    finally:
        await recorder.close()
    return recorder


async def _play(admin: Client, client: Client, recorder: Recorder, account: Account) -> None:
    document = shipped_document(NAME)
    document["profiles"][0]["pluginConfig"].append({"name": "Reservation", "args": RESERVATIONS})
    registry = Registry(())
    wish = load.decode(document, "scene", registry)
    events = EventRecorder(client, NAME)
    elector = LeaderElector(client, NAME, "koordinator-system", "scene")
    app = App(client, wish, SystemClock(), events, elector=elector, registry=registry)
    tasks = [asyncio.create_task(app.run()), asyncio.create_task(events.run())]
    try:
        await app.ready()
        await _compare(app)
        await _happen(Cluster(admin, app), recorder)
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while unused(account.grants, recorder):
                    await _again(app)
                    await asyncio.sleep(0.2)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _compare(app: App) -> None:
    """The caches are compared with the API: all of them, and nothing is refused or differs."""
    followed = app.views.followed()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not all(each.informer.connected for each in followed):
            await asyncio.sleep(0.1)
    for each in followed:
        await app.spot_check.check(each)
    assert len(app.spot_check.differences) == len(followed)
    assert not app.spot_check.differing()


def unused(grants: list[Grant], recorder: Recorder) -> list[Grant]:
    """What is granted and was not needed."""
    return [each for each in grants if not any(each.covers(used) for used in recorder.used)]


async def _again(app: App) -> None:
    """Pods that fit nowhere fail once more, and their events count on."""
    app.world.activate([each.info.uid for each in app.scheduler.queue.waiting()])


async def _happen(cluster: Cluster, recorder: Recorder) -> None:
    for each in (documents.topology("a"), documents.quota("team", 4)):
        await cluster.apply(each)
    await cluster.add_node("a", 8, rack="r1")
    # The answer to the first Binding is lost: the pod is looked up.
    recorder.lose = {("create", "pods/binding"), ("patch", "reservations/status")}
    await cluster.apply(documents.pod("bound", "bound", 2, {documents.QUOTA + "name": "team"}))
    await cluster.until("Pod", "bound", lambda found: found["spec"].get("nodeName"))
    await cluster.apply(documents.pod("giant", "plain", 99, {}))
    await _preemption(cluster)
    await _reservations(cluster)
    await _groups(cluster)
    await _volumes(cluster)


async def _reservations(cluster: Cluster) -> None:
    held = documents.reservation("held", 2, "Aligned", False)
    held["spec"]["template"] = {
        key: documents.pod("", "bound", 2, {})[key] for key in ("metadata", "spec")
    }
    await cluster.apply(held)
    brief = documents.reservation("brief", 1, "Aligned", False)
    brief["spec"]["ttl"] = "1s"
    await cluster.apply(brief)


async def _groups(cluster: Cluster) -> None:
    await cluster.apply(documents.pod_group("gang", 1))
    labels = {"pod-group.scheduling.sigs.k8s.io": "gang"}
    await cluster.apply(documents.pod("member", "plain", 1, labels))
    guide = documents.quota("guide", 4) | {"apiVersion": "quota.koordinator.sh/v1alpha1"}
    # Where it is, it is the quota of all pods.
    await cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "guided"}})
    inside = documents.pod("inside", "plain", 1, {})
    # What is wrong with a quota is noted on it.
    odd = documents.quota("odd", 4) | {"apiVersion": "quota.koordinator.sh/v1alpha1"}
    odd["spec"]["min"] = {"cpu": "9"}
    for each in (guide, inside, odd):
        each["metadata"]["namespace"] = "guided"
        await cluster.apply(each)
    layers = [
        {"topologyLayer": "RackLayer", "labelKey": ["rack"],
         "parentTopologyLayer": "ClusterTopologyLayer"},
        {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "RackLayer"},
    ]  # fmt: skip
    await cluster.apply(
        {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "ClusterNetworkTopology",
            "metadata": {"name": "default"},
            "spec": {"networkTopologySpec": layers},
        }
    )


async def _volumes(cluster: Cluster) -> None:
    """One claim gets a volume that is there, another a node to make one on."""
    for name, provisioner in (("there", "kubernetes.io/no-provisioner"), ("made", "example.com/x")):
        await _post(cluster, "/apis/storage.k8s.io/v1/storageclasses", {
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
        })  # fmt: skip
        claim = {
            "accessModes": ["ReadWriteOnce"], "storageClassName": name,
            "resources": {"requests": {"storage": "1Gi"}},
        }  # fmt: skip
        await _post(cluster, "/api/v1/namespaces/default/persistentvolumeclaims", {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
            "spec": claim,
        })  # fmt: skip
    await _post(cluster, "/api/v1/persistentvolumes", {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "storageClassName": "there", "hostPath": {"path": "/nowhere"},
        },
    })  # fmt: skip
    # No volume controller is here to say so.
    await cluster.client.request(
        Request(
            "PATCH", "/api/v1/persistentvolumes/disk/status",
            body=b'{"status":{"phase":"Available"}}', content_type=MERGE_PATCH,
        )
    )  # fmt: skip
    for name in ("there", "made"):
        pod = documents.pod(f"uses-{name}", "plain", 1, {})
        pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
        await cluster.apply(pod)


async def _preemption(cluster: Cluster) -> None:
    await cluster.add_node("b", 4, only="preemption")
    chosen = {"only": "preemption"}
    low = documents.pod("low", "plain", 4, {})
    low["spec"]["nodeSelector"] = chosen
    await cluster.apply(low)
    await cluster.until("Pod", "low", lambda found: found["spec"].get("nodeName"))
    high = documents.pod("high", "high", 4, {})
    high["spec"]["nodeSelector"] = chosen
    await cluster.apply(high)


async def _post(cluster: Cluster, path: str, body: Document) -> None:
    import msgspec

    await cluster.client.request(Request("POST", path, body=msgspec.json.encode(body)))
