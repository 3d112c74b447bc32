# SPDX-License-Identifier: Apache-2.0
"""The quick start of migrations on a real kube-apiserver, with its controllers and simulated
kubelets: the pod of a Deployment comes back in its reservation, and kubectl shows how."""

from __future__ import annotations

import asyncio
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from koord.api import definitions
from koord.api.kinds.cluster import Event
from koord.api.kinds.migration import PodMigrationJob
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.base.clock import SystemClock
from koord.controllers.scheduler.app import App
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.kube.events import EventRecorder
from koord.kube.patches import Patch
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from tests.controllers.descheduler.migration.world import Descheduler, args_of
from tests.real.binaries import find
from tests.real.fixtures import need
from tests.real.plane import RealControlPlane

PATIENCE_SECONDS = 120.0
CONTROLLERS = "deployment,replicaset,serviceaccount-controller,garbage-collector-controller"
IN_ORDER = ["ReservationCreated", "ReservationScheduled", "Evicting", "EvictComplete", "Complete"]
COLUMNS = [
    "NAME",
    "PHASE",
    "STATUS",
    "AGE",
    "NODE",
    "RESERVATION",
    "PODNAMESPACE",
    "POD",
    "NEWPOD",
    "TTL",
]
Document = dict[str, Any]


async def _fill(admin: Client) -> None:
    names = [name async for name, _ in installing.install(admin, definitions.crds())]
    await installing.wait_established(admin, names, PATIENCE_SECONDS)
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    for number in range(3):
        name = f"n{number}"
        made: Document = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        status = {"allocatable": amounts, "capacity": amounts}
        await admin.create({"apiVersion": "v1", "kind": "Node", "metadata": made, "status": status})
        await admin.patch(Node, name, Patch.merge({"spec": {"taints": None}}))
    labels = {"app": "pod-demo"}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod = {"containers": [container], "schedulerName": "koord-scheduler"}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template}
    meta = {"name": "pod-demo", "namespace": "default"}
    await admin.create(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
    )


async def _running(admin: Client) -> list[Pod]:
    """The four pods once all are ready."""
    while True:
        pods = (await admin.list(Pod, namespace="default")).items
        if len(pods) == 4 and all(
            any((c.type, c.status) == ("Ready", "True") for c in pod.status.conditions)
            for pod in pods
        ):
            return sorted(pods, key=lambda pod: pod.metadata.name)
        await asyncio.sleep(0.1)


async def _migrate(admin: Client, document: Document) -> tuple[PodMigrationJob, list[Event]]:
    """The job once it has ended well, and its events."""
    before = await _running(admin)
    document["spec"]["podRef"]["name"] = before[0].metadata.name
    await admin.create(document)
    name = document["metadata"]["name"]
    while True:
        job = await admin.get(PodMigrationJob, name)
        if job.status.phase in ("Succeeded", "Failed"):
            break
        await asyncio.sleep(0.1)
    assert (job.status.phase, job.status.status) == ("Succeeded", "Complete"), job.status
    after = await _running(admin)
    old = {pod.metadata.uid for pod in before}
    (fresh,) = [pod for pod in after if pod.metadata.uid not in old]
    assert fresh.spec.node_name == job.status.node_name != before[0].spec.node_name
    assert job.status.pod_ref is not None
    assert job.status.pod_ref.name == fresh.metadata.name
    while True:
        events = [
            each
            for each in (await admin.list(Event)).items
            if each.involved_object.kind == "PodMigrationJob"
        ]
        if any(each.reason == "Complete" for each in events):
            return job, events
        await asyncio.sleep(0.1)


async def _play(plane: RealControlPlane, document: Document) -> tuple[PodMigrationJob, list[Event]]:
    transport, clock = HttpTransport(load_cluster_config(plane.kubeconfig)), SystemClock()
    admin = Client(transport, "admin", requests_per_second=None)
    await _fill(admin)
    recorder = EventRecorder(admin, "koord-scheduler", clock=clock)
    registry = Registry(outside=[])
    app = App(admin, shipped(registry), clock, recorder, registry=registry)
    descheduler = Descheduler(transport, clock, args_of())
    tasks = [asyncio.create_task(run()) for run in (app.run, recorder.run)]
    try:
        await app.ready()
        await descheduler.start()
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await _migrate(admin, document)
    finally:
        await descheduler.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(ApiError):
            await transport.close()


def _kubectl(plane: RealControlPlane, *arguments: str) -> list[list[str]]:
    """What it prints, by lines and words."""
    command = [str(find("kubectl")), f"--kubeconfig={plane.kubeconfig}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.real
def test_a_pod_comes_back_in_its_reservation(
    own_plane: RealControlPlane, reference_data: Path
) -> None:
    need("kubectl", "kube-controller-manager", "kwok")
    own_plane.start_controller_manager(f"--controllers={CONTROLLERS}")
    own_plane.start_kwok()
    text = (reference_data / "examples/releases/podmigrationjob-demo.yaml").read_text()
    job, events = asyncio.run(_play(own_plane, yaml.safe_load(text)))
    order = sorted(events, key=lambda each: each.metadata.name)
    assert [each.reason for each in order if each.reason in IN_ORDER] == IN_ORDER
    head, row = _kubectl(own_plane, "get", "podmigrationjob")
    assert head == COLUMNS
    assert job.status.pod_ref is not None
    assert job.spec.pod_ref is not None
    told = dict(zip(head, row, strict=True))
    assert told.pop("AGE")
    assert told == {
        "NAME": "migrationjob-demo", "PHASE": "Succeeded", "STATUS": "Complete",
        "NODE": job.status.node_name, "RESERVATION": job.metadata.uid, "PODNAMESPACE": "default",
        "POD": job.spec.pod_ref.name, "NEWPOD": job.status.pod_ref.name, "TTL": "5m",
    }  # fmt: skip
