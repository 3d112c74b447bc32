# SPDX-License-Identifier: Apache-2.0
"""``koord migrate``: which job it makes, how it follows one, and how it ends."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from koord.api.definitions import crds
from koord.api.kinds.migration import PodMigrationJob
from koord.api.kinds.registry import kind_of_type
from koord.api.protocol import keys
from koord.kube import crds as definitions
from koord.kube.client import Client
from koord.kube.events import EventRecorder
from koord.kube.patches import Patch
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from tests.cli.conftest import Run
from tests.contract.embedded import start_embedded

JOB = kind_of_type(PodMigrationJob)
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                {"matchExpressions": [{"key": "b", "operator": "Exists"}]},
            ]
        }
    }
}
Do = Callable[[Callable[[Client], Awaitable[Any]]], Any]


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a server with koord's kinds, three nodes and some pods."""
    with start_embedded(tmp_path_factory.mktemp("migrate"), controllers=False) as plane:
        done(plane.kubeconfig, _filled)
        yield plane.kubeconfig


def done(kubeconfig: Path, work: Callable[[Client], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        transport = HttpTransport(load_cluster_config(kubeconfig))
        try:
            return await work(Client(transport, "admin", requests_per_second=None))
        finally:
            await transport.close()

    return asyncio.run(run())


async def _filled(client: Client) -> None:
    names = [name async for name, _ in definitions.install(client, crds())]
    await definitions.wait_established(client, names, 60.0)
    for name in ("n1", "n2", "cordoned"):
        spec = {"unschedulable": name == "cordoned"}
        await client.create(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}
        )
    for name, spec in (("web", {"nodeName": "n1", "affinity": AFFINITY}), ("waits", {}),
                       ("done", {"nodeName": "n1"})):  # fmt: skip
        await client.create(
            {"apiVersion": "v1", "kind": "Pod",
             "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
             "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "A"}]}], **spec}}
        )  # fmt: skip
    from koord.api.kinds.pod import Pod

    await client.patch(
        Pod, "done", Patch.merge({"status": {"phase": "Succeeded"}}), "default", "status"
    )


def _jobs(kubeconfig: Path) -> list[dict[str, Any]]:
    found = done(kubeconfig, lambda client: client.list(JOB))
    items: list[dict[str, Any]] = found.items
    return items


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nobody"], "POD: got 'nobody', expected the name of a pod in namespace default"),
        (["web", "--to", "x"], "--to: got 'x', expected the name of a node"),
        (["web", "--to", "n1"], "--to: got 'n1', expected another node: the pod is there already"),
        (["web", "--to", "cordoned"], "expected a node that takes pods: this one is cordoned"),
        (
            ["web", "--to", "n2", "--mode", "EvictDirectly"],
            "--to: got 'n2', expected --mode Reserv",
        ),
        (["web", "--mode", "x"], "--mode: got 'x', expected ReservationFirst or EvictDirectly"),
        (["web", "--ttl", "x"], "--ttl: got 'x', expected a duration"),
        (["web", "--timeout", "3s"], "--timeout: got '3.0', expected --wait beside it"),
        (["waits"], "pod default/waits: spec.nodeName: got '', expected a pod that has a node"),
        (["done"], "pod default/done: status.phase: got 'Succeeded', expected a pod that still"),
    ],
)
def test_what_cannot_be_is_refused_and_makes_no_job(
    words: list[str], message: str, kubeconfig: Path, koord: Run
) -> None:
    before = len(_jobs(kubeconfig))
    status, out, err = koord("migrate", *words, "--kubeconfig", kubeconfig)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert len(_jobs(kubeconfig)) == before


def test_a_dry_run_is_checked_by_the_server_and_stores_nothing(
    kubeconfig: Path, koord: Run
) -> None:
    before = len(_jobs(kubeconfig))
    status, out, err = koord("migrate", "web", "--dry-run", "--kubeconfig", kubeconfig)
    assert err == ""
    assert (status, out) == (
        0, "pod default/web would be migrated: the server takes the job (server dry run)\n",
    )  # fmt: skip
    _, out, _ = koord("migrate", "web", "--dry-run", "-o", "json", "--kubeconfig", kubeconfig)
    assert json.loads(out)["spec"]["podRef"]["name"] == "web"
    assert len(_jobs(kubeconfig)) == before


def test_a_job_names_the_pod_who_asked_and_the_node(kubeconfig: Path, koord: Run) -> None:
    words = ("migrate", "web", "--to", "n2", "--ttl", "90s", "-o", "json")
    status, out, err = koord(*words, "--kubeconfig", kubeconfig)
    assert status == 0
    assert "no koord-descheduler leads here" in err
    job = json.loads(out)
    assert job["metadata"]["name"].startswith("web-")
    assert job["metadata"]["annotations"][keys.EVICT_TRIGGER] == "koord migrate"
    spec = job["spec"]
    assert (spec["ttl"], spec["mode"]) == ("1m30s", "ReservationFirst")
    assert spec["podRef"]["uid"]
    template = spec["reservationOptions"]["template"]["spec"]["template"]
    assert template["metadata"] == {"labels": {"app": "web"}}
    assert "nodeName" not in template["spec"]
    # The pod's own fields are there, those that koord does not know among them.
    assert template["spec"]["containers"][0]["env"] == [{"name": "A"}]
    affinity = template["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchExpressions"][0]["key"] for term in terms] == ["a", "b"]
    only = [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]
    assert [term["matchFields"] for term in terms] == [only, only]


@pytest.mark.parametrize(("phase", "status"), [("Succeeded", 0), ("Failed", 1), ("Aborted", 1)])
def test_it_follows_a_job_to_its_end(phase: str, status: int, kubeconfig: Path, koord: Run) -> None:
    known = {job["metadata"]["name"] for job in _jobs(kubeconfig)}
    played = threading.Thread(target=lambda: done(kubeconfig, _player(known, phase)))
    played.start()
    try:
        words = ("migrate", "web", "--wait", "--timeout", "60s", "--kubeconfig", kubeconfig)
        found, out, err = koord(*words)
    finally:
        played.join()
    assert found == status
    steps = [line.strip() for line in err.splitlines()]
    order = ["ReservationCreated: made it", "! Evicting: not yet"]
    assert [line for line in steps if line in order] == order
    told = {
        "Succeeded": "pod default/web has moved to n2, as web-2\n",
        "Failed": "pod default/web has not moved: Failed, Timeout: too late\n",
        "Aborted": "pod default/web has not moved: Aborted, Timeout: too late\n",
    }
    assert out == told[phase]


def _player(known: set[str], phase: str) -> Callable[[Client], Awaitable[None]]:
    """Carries out the next new job, as a descheduler might."""

    async def play(client: Client) -> None:
        while True:
            jobs = (await client.list(PodMigrationJob)).items
            fresh = [job for job in jobs if job.metadata.name not in known]
            if fresh:
                break
            await asyncio.sleep(0.05)
        (job,) = fresh
        recorder = EventRecorder(client, "koord-descheduler")
        writing = asyncio.create_task(recorder.run())

        async def put(**status: Any) -> None:
            patch = Patch.merge({"status": status})
            await client.patch(PodMigrationJob, job.metadata.name, patch, subresource="status")

        await put(phase="Running")
        recorder.event(job, "Normal", "ReservationCreated", "made it")
        recorder.event(job, "Warning", "Evicting", "not yet")
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)  # both are written
        if phase == "Succeeded":
            await put(phase=phase, nodeName="n2", podRef={"name": "web-2"})
        else:
            await put(phase=phase, reason="Timeout", message="too late")

    return play


def test_who_stops_to_follow_is_told_that_it_goes_on(kubeconfig: Path, koord: Run) -> None:
    words = ("migrate", "web", "--wait", "--timeout", "100ms", "--kubeconfig", kubeconfig)
    status, out, err = koord(*words)
    assert (status, out) == (1, "")
    assert "has not ended in 0.1 s; it goes on: nobody has begun with it" in err.splitlines()[-1]
