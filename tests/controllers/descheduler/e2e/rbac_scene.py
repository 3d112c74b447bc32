# SPDX-License-Identifier: Apache-2.0
"""A scene in which koord-descheduler, as its own service account, does what it ever does: a
strategy makes a job, people make others, by each way of evicting; the administrator schedules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from koord.api import definitions
from koord.api.kinds.migration import PodMigrationJob
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation
from koord.api.protocol import keys
from koord.base.clock import SystemClock
from koord.controllers.descheduler.app import NAME, DeschedulerApp
from koord.controllers.descheduler.config.load import DeschedulerConfiguration, decode
from koord.controllers.descheduler.framework.registry import PluginRegistry
from koord.controllers.descheduler.planning.program_rounds import SchedulerLibrary
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.election import LeaderElector
from koord.kube.errors import ApiError
from koord.kube.events import EventRecorder
from koord.kube.patches import Patch
from tests.real.rbac.account import Account
from tests.real.rbac.recording import Recorder

PATIENCE_SECONDS = 60.0
KRUISE = (
    ("apps.kruise.io", "CloneSet", "clonesets"),
    ("apps.kruise.io", "StatefulSet", "statefulsets"),
    ("policy.kruise.io", "PodUnavailableBudget", "podunavailablebudgets"),
)
POLICY = "koordinator.sh/evict-policy"
JOBS = {"by-hand": "", "evicted": "Eviction", "deleted": "Delete", "softly": "SoftEviction"}
"""Pods that jobs of the same name move, with the policy of each; none reserves first."""
Document = dict[str, Any]


async def play(account: Account, enough: Callable[[Recorder], bool]) -> Recorder:
    """Plays until enough was used, or for a time; what was used and refused."""
    admin = Client(account.admin, "admin", requests_per_second=None)
    documents = [*definitions.crds(), *(_definition(*each) for each in KRUISE)]
    names = [name async for name, _ in installing.install(admin, documents)]
    await installing.wait_established(admin, names, PATIENCE_SECONDS)
    await account.apply()
    recorder = Recorder(account.transport())
    try:
        await _play(admin, Client(recorder, NAME, requests_per_second=None), recorder, enough)
    finally:
        await recorder.close()
    return recorder


async def _play(
    admin: Client, client: Client, recorder: Recorder, enough: Callable[[Recorder], bool]
) -> None:
    await _fill(admin)
    events = EventRecorder(client, NAME)
    elector = LeaderElector(client, NAME, "koordinator-system", "scene")
    app = DeschedulerApp(
        client, _configuration(), SystemClock(), events, elector,
        library=SchedulerLibrary.read(None),
    )  # fmt: skip
    tasks = [asyncio.create_task(app.run()), asyncio.create_task(events.run())]
    try:
        await app.ready()
        for name, policy in JOBS.items():
            await admin.create(_job(name, policy))
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not enough(recorder):
                    await _schedule(admin)
                    await asyncio.sleep(0.2)
        await _check_the_plan(admin)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _check_the_plan(admin: Client) -> None:
    """The strategy's pod has the one other node to go to, and its job says so."""
    jobs = [
        job for job in (await admin.list(PodMigrationJob)).items
        if job.spec.pod_ref is not None and job.spec.pod_ref.name == "old"
    ]  # fmt: skip
    assert jobs
    assert {job.metadata.annotations[keys.PLANNED_NODE] for job in jobs} == {"n2"}


async def _schedule(admin: Client) -> None:
    """Places reservations; one job goes as soon as its place is there, and takes that with it."""
    for held in (await admin.list(Reservation)).items:
        if held.status.phase:
            continue
        scheduled = {"type": "Scheduled", "status": "True", "reason": "Scheduled"}
        status = {"phase": "Available", "nodeName": "n2", "conditions": [scheduled]}
        with suppress(ApiError):
            await admin.patch(
                Reservation, held.metadata.name, Patch.merge({"status": status}),
                subresource="status",
            )  # fmt: skip
    for job in (await admin.list(PodMigrationJob)).items:
        options = job.spec.reservation_options
        if job.metadata.name == "by-hand" and options and options.reservation_ref:
            with suppress(ApiError):
                await admin.delete(PodMigrationJob, "by-hand")


def _configuration() -> DeschedulerConfiguration:
    """Pods with the label ``old`` go at once, however many of their workload do."""
    old = {"matchLabels": {"old": ""}}
    migration = {
        "maxMigratingPerNode": 9, "maxMigratingPerWorkload": 9, "maxUnavailablePerWorkload": 9,
        "objectLimiters": {"workload": {"duration": "0s"}}, "skipCheckExpectedReplicas": True,
        "evictQPS": 100, "evictBurst": 100,
    }  # fmt: skip
    document = {
        "apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerConfiguration",
        "deschedulingInterval": "1s",
        "profiles": [{
            "plugins": {"deschedule": {"enabled": [{"name": "PodLifeTime"}]}},
            "pluginConfig": [
                {"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 0, "labelSelector": old}},
                {"name": "MigrationController", "args": migration},
            ],
        }],
    }  # fmt: skip
    return decode(document, "the scene's", PluginRegistry([]))


async def _fill(admin: Client) -> None:
    amounts = {"cpu": "32", "memory": "64Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True", "reason": "Kubelet"}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
    for name in ("n1", "n2"):
        await admin.create(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
        )
        # No kubelet here says that its node is well; plans go by the taint.
        await admin.patch(Node, name, Patch.merge({"spec": {"taints": None}}))
    # A workload each: jobs of one workload go one after another, and one here does not end.
    for name in ("old", *JOBS):
        made = await admin.create(_replica_set(name))
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "controller": True,
                 "uid": made["metadata"]["uid"]}  # fmt: skip
        labels = {"app": name, **({"old": ""} if name == "old" else {})}
        await admin.create(_pod(name, labels, owner))
        running = {"phase": "Running", "conditions": ready}
        await admin.patch(Pod, name, Patch.merge({"status": running}), "default", "status")


def _replica_set(name: str) -> Document:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": _pod_spec()}
    return {
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 20, "selector": {"matchLabels": labels}, "template": template},
    }  # fmt: skip


def _pod(name: str, labels: dict[str, str], owner: Document) -> Document:
    meta = {"name": name, "namespace": "default", "labels": labels, "ownerReferences": [owner]}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": meta,
        "spec": {**_pod_spec(), "nodeName": "n1", "terminationGracePeriodSeconds": 0},
    }  # fmt: skip


def _pod_spec() -> Document:
    return {"schedulerName": "koord-scheduler", "containers": [{"name": "c", "image": "i"}]}


def _job(name: str, policy: str) -> Document:
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "PodMigrationJob",
        "metadata": {"name": name, "labels": {POLICY: policy} if policy else {}},
        "spec": {"ttl": "5m", "mode": "EvictDirectly" if policy else "ReservationFirst",
                 "podRef": {"namespace": "default", "name": name}},
    }  # fmt: skip


def _definition(group: str, kind: str, plural: str) -> Document:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha1" if kind != "StatefulSet" else "v1beta1", "served": True,
               "storage": True, "schema": {"openAPIV3Schema": schema}}  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": {
            "api-approved.kubernetes.io": "unapproved, for a test"}},
        "spec": {"group": group, "scope": "Namespaced", "versions": [version],
                 "names": {"kind": kind, "plural": plural, "singular": kind.lower(),
                           "listKind": f"{kind}List"}},
    }  # fmt: skip
