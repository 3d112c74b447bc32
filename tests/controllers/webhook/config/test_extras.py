# SPDX-License-Identifier: Apache-2.0
"""koord's own rules for PodMigrationJobs and Devices."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from koord.api import codec
from koord.api.kinds.migration import PodMigrationJob
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.controllers.webhook.extras import HANDLERS
from koord.controllers.webhook.framework.webhook_table import (
    VALIDATE_DEVICE,
    VALIDATE_MIGRATION_JOB,
    WEBHOOKS,
)
from koord.kube.errors import TransportError
from tests.controllers.webhook.api_server import Replica, Server, asked, request


def job(name: str = "j", phase: str = "", **spec: Any) -> Any:
    reference = {"namespace": "n", "name": "p"}
    return {
        "metadata": {"name": name}, "spec": {"podRef": reference, **spec},
        "status": {"phase": phase},
    }  # fmt: skip


def world(*jobs: Any) -> Replica:
    server = Server()
    meta = {"name": "p", "namespace": "n", "uid": "u"}
    server.put(codec.convert({"metadata": meta}, Pod, "p"))
    server.put(codec.convert({"metadata": {"name": "n1"}}, Node, "n"))
    for each in jobs:
        server.put(codec.convert(each, PodMigrationJob, "j"))
    return server.replica()


def told(path: str, replica: Replica, new: Any, operation: str = "CREATE") -> Any:
    handler = HANDLERS[path](replica.given)
    replica.catch_up()
    old = new if operation == "UPDATE" else None
    kind = "Device" if path == VALIDATE_DEVICE else "PodMigrationJob"
    return asyncio.run(asked(handler, request(operation, new, old, kind=kind)))


@pytest.mark.parametrize(
    ("new", "line"),
    [
        (job(mode="Other"), "spec.mode: got 'Other', expected ReservationFirst or EvictDirectly"),
        (job(ttl="-5s"), "spec.ttl: got '-5s', expected a duration of 0 or more"),
        (job(podRef={"namespace": "n"}), "spec.podRef.name: got None, expected the name of a pod"),
        (
            job(podRef={"namespace": "n", "name": "gone"}),
            "spec.podRef: got 'n/gone', expected a pod that exists",
        ),
        (
            job(podRef={"namespace": "n", "name": "p", "uid": "v"}),
            "spec.podRef.uid: got 'v', expected u, the uid of that pod",
        ),
    ],
)
def test_a_job_that_cannot_be_done(new: Any, line: str) -> None:
    assert told(VALIDATE_MIGRATION_JOB, world(), new).message == f"PodMigrationJob j: {line}"


@pytest.mark.parametrize(
    ("phase", "good"),
    [("", False), ("Pending", False), ("Running", False), ("Succeeded", True), ("Failed", True),
     ("Aborted", True)],
)  # fmt: skip
def test_a_pod_has_one_open_job(phase: str, good: bool) -> None:
    replica = world(job("other", phase))
    assert told(VALIDATE_MIGRATION_JOB, replica, job(mode="EvictDirectly")).allowed is good
    assert told(VALIDATE_MIGRATION_JOB, replica, job(), "UPDATE").allowed


def test_a_pod_that_was_made_a_moment_ago_is_looked_up() -> None:
    replica = world()
    new = job(podRef={"namespace": "n", "name": "new"})
    handler = HANDLERS[VALIDATE_MIGRATION_JOB](replica.given)
    meta = {"name": "new", "namespace": "n"}
    replica.server.put(codec.convert({"metadata": meta}, Pod, "p"))
    assert asyncio.run(asked(handler, request("CREATE", new))).allowed


def device(*cards: Any, name: str = "n1") -> Any:
    return {"metadata": {"name": name}, "spec": {"devices": list(cards)}}


def card(kind: str, minor: int, **resources: Any) -> Any:
    amounts = {f"koordinator.sh/{name.replace('_', '-')}": each for name, each in resources.items()}
    return {"type": kind, "minor": minor, "health": True, "resources": amounts}


@pytest.mark.parametrize(
    ("new", "line"),
    [
        (
            device(card("gpu", 0), card("gpu", 0)),
            "spec.devices[1].minor: got 0, expected a number of its own; gpu 0 of the list has it",
        ),
        (
            device(card("gpu", 0, gpu_core=101)),
            "spec.devices[0].resources[koordinator.sh/gpu-core]: got '101', "
            "expected a percentage from 0 to 100",
        ),
        (
            device(card("gpu", 0, gpu_memory_ratio=-1)),
            "spec.devices[0].resources[koordinator.sh/gpu-memory-ratio]: got '-1', "
            "expected a percentage from 0 to 100",
        ),
        (device(name="gone"), "metadata.name: got 'gone', expected the name of a node that exists"),
    ],
)
def test_a_device_that_nobody_can_give_out(new: Any, line: str) -> None:
    found = told(VALIDATE_DEVICE, world(), new)
    assert found.message == f"Device {new['metadata']['name']}: {line}"


def test_a_good_device() -> None:
    new = device(card("gpu", 0, gpu_core=100, gpu_memory_ratio=0), card("rdma", 0))
    assert told(VALIDATE_DEVICE, world(), new).allowed


def test_a_node_that_is_known_is_not_asked_for() -> None:
    replica = world()
    listed: list[str] = []

    async def noted(kind: Any, **options: Any) -> Any:
        listed.append(f"{kind.__name__} {options['field_selector']}")
        raise TransportError("cut")

    replica.given.client.list = noted  # type: ignore[method-assign]
    assert told(VALIDATE_DEVICE, replica, device()).allowed
    assert not listed
    assert told(VALIDATE_DEVICE, replica, device(name="new")).allowed
    assert listed == ["Node metadata.name=new"]


def test_they_fail_open() -> None:
    replica = world()

    async def cut(*_: Any, **__: Any) -> Any:
        raise TransportError("cut")

    replica.given.client.list = cut  # type: ignore[method-assign]
    new = job(podRef={"namespace": "n", "name": "gone"})
    assert told(VALIDATE_MIGRATION_JOB, replica, new).allowed
    assert told(VALIDATE_DEVICE, replica, device(name="gone")).allowed
    own = [each for each in WEBHOOKS if each.name.endswith(".koord.sh")]
    assert {each.failure_policy for each in own} == {"Ignore"}
    assert not any(replica.given.gates.enabled(each.gate) for each in own)
