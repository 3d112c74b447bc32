# SPDX-License-Identifier: Apache-2.0
"""A client in a dry run: only reads are sent, and callers get what they would have got."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from koord.api import ConfigMap, Deployment, Kind, Node, NodeMetric, ObjectMeta, Pod
from koord.base.clock import VirtualClock
from koord.base.metrics import registry
from koord.kube.client import Client
from koord.kube.dry_run import DryRun, merged, request_info
from koord.kube.errors import ApiError, TransportError
from koord.kube.events import EventRecorder
from koord.kube.patches import Patch
from koord.kube.transport.messages import Request
from tests.kube.harness import FakeTransport, Step, answer, failure, logged, run_virtual

ABSENT = failure(404, "NotFound")
FORBIDDEN = failure(403, "Forbidden")
WAITING = {"metadata": {"name": "web-0", "namespace": "shop", "uid": "u1", "resourceVersion": "7"}}
BOUND = {**WAITING, "spec": {"nodeName": "node-9"}}
WEB = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="u1"))
GADGETS = Kind("example.com", "v1", "Gadget", "gadgets", True, "")

Work = Callable[[Client], Awaitable[Any]]


def tried(work: Work, *script: Step) -> tuple[Any, list[str], list[dict[str, Any]]]:
    """What some work gives, or how it is refused; what was sent; what was said."""
    transport = FakeTransport(list(script) or [ABSENT])

    async def main() -> Any:
        try:
            return await work(Client(transport, dry_run=DryRun()))
        except ApiError as error:
            return error.http_status, error.reason

    with logged("koord.dryrun", logging.INFO) as records:
        result = run_virtual(main())
    assert [record.getMessage() for record in records] == ["would write"] * len(records)
    said = [vars(record)["koord_fields"] for record in records]
    sent = [f"{request.method} {request.path}" for request in transport.requests]
    assert all(line.startswith("GET ") for line in sent)
    return result, sent, said


def test_a_binding_is_told_and_not_made() -> None:
    result, sent, said = tried(lambda c: c.bind(WEB, "node-1"), answer(WAITING))
    assert result is None
    assert sent == ["GET /api/v1/namespaces/shop/pods/web-0"]
    assert said == [{"verb": "bind", "object": "Pod shop/web-0", "node": "node-1"}]


@pytest.mark.parametrize(
    ("there", "refused"),
    [
        (answer(BOUND), (409, "Conflict")),
        (answer({"metadata": {"name": "web-0", "uid": "another"}}), (409, "Conflict")),
        (ABSENT, (404, "NotFound")),
    ],
    ids=["has a node", "made anew", "gone"],
)
def test_a_binding_that_the_server_would_refuse_is_refused(there: Step, refused: Any) -> None:
    result, _, said = tried(lambda c: c.bind(WEB, "node-1"), there)
    assert (result, said) == (refused, [])


def test_a_patch_gives_the_object_as_it_would_be() -> None:
    node = {"metadata": {"name": "n1", "uid": "u", "labels": {"a": "1", "b": "2"}},
            "status": {"allocatable": {"cpu": "4"}}}  # fmt: skip
    change = {"metadata": {"labels": {"a": None}}, "status": {"allocatable": {"memory": "1Gi"}}}
    result, _, said = tried(
        lambda c: c.patch(Node, "n1", Patch.merge(change), subresource="status"), answer(node)
    )
    assert result.metadata.labels == {"b": "2"}
    assert {key: str(value) for key, value in result.status.allocatable.items()} == {
        "cpu": "4", "memory": "1Gi",
    }  # fmt: skip
    assert said == [
        {
            "verb": "patch", "object": "Node n1", "subresource": "status",
            "body": '{"metadata":{"labels":{"a":null}},"status":{"allocatable":{"memory":"1Gi"}}}',
        }
    ]  # fmt: skip


def test_a_strategic_patch_merges_conditions_by_type() -> None:
    there = {"status": {"conditions": [{"type": "A", "status": "True", "reason": "Yes"},
                                       {"type": "B", "status": "True"}]}}  # fmt: skip
    change = {"status": {"conditions": [{"type": "A", "status": "False"}, {"type": "C"}]}}
    assert merged(there, change, keyed=True)["status"]["conditions"] == [
        {"type": "A", "status": "False", "reason": "Yes"}, {"type": "B", "status": "True"},
        {"type": "C"},
    ]  # fmt: skip
    assert merged(there, change) == change


def test_a_patch_for_another_version_is_a_conflict() -> None:
    def work(client: Client) -> Awaitable[Pod]:
        meta = {"uid": "u1", "resourceVersion": "6"}
        return client.patch(Pod, "web-0", Patch.merge({"metadata": meta}), "shop")

    assert tried(work, answer(WAITING))[0] == (409, "Conflict")


def test_what_is_created_comes_back_and_what_is_there_is_refused() -> None:
    metric = NodeMetric(metadata=ObjectMeta(name="n1"))
    result, sent, said = tried(lambda c: c.create(metric), ABSENT)
    assert result.metadata.name == "n1"
    assert sent == ["GET /apis/slo.koordinator.sh/v1alpha1/nodemetrics/n1"]
    assert [each["object"] for each in said] == ["NodeMetric n1"]
    result, _, said = tried(lambda c: c.create(metric), answer({"metadata": {"name": "n1"}}))
    assert (result, said) == ((409, "AlreadyExists"), [])


def test_every_verb_but_reads_stays_here() -> None:
    """One call of each; what is there is a pod of that name, or a scale."""
    there = answer({**WAITING, "data": {"a": "1"}, "spec": {"replicas": 2}})
    verbs: list[tuple[Work, str]] = [
        (lambda c: c.update(ConfigMap(metadata=WEB.metadata)), "update"),
        (lambda c: c.update_status(WEB), "update"),
        (lambda c: c.patch(Pod, "web-0", Patch.json([]), "shop"), "patch"),
        (lambda c: c.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
                           "shop"), "apply"),
        (lambda c: c.delete(Pod, "web-0", "shop", uid="u1"), "delete"),
        (lambda c: c.delete_collection(Pod, namespace="shop"), "delete"),
        (lambda c: c.evict("web-0", "shop", uid="u1"), "evict"),
        (lambda c: c.set_scale(Deployment, "web-0", 3, "shop"), "patch"),
        (lambda c: c.create({"metadata": {"name": "g", "namespace": "x"}}, kind=GADGETS), "create"),
        (lambda c: c.request(Request("POST", "/apis/example.com/v1/gadgets", body=b"{}")),
         "create"),
    ]  # fmt: skip
    for work, verb in verbs:
        _, _, said = tried(work, ABSENT if verb == "create" else there)
        assert [each["verb"] for each in said] == [verb]


def test_a_scale_that_would_be_set_is_given_back() -> None:
    there = answer({"kind": "Scale", "spec": {"replicas": 2}, "status": {"replicas": 2}})
    result, sent, _ = tried(lambda c: c.set_scale(Deployment, "web", 3, "shop"), there)
    assert (result.spec.replicas, result.status.replicas) == (3, 2)
    assert sent == ["GET /apis/apps/v1/namespaces/shop/deployments/web/scale"]


def test_who_may_write_and_not_read_is_answered_from_what_it_sends() -> None:
    change = Patch.merge({"status": {"phase": "Running"}})
    result, _, said = tried(lambda c: c.patch(Pod, "web-0", change, "shop"), FORBIDDEN)
    assert (result.status.phase, len(said)) == ("Running", 1)
    assert tried(lambda c: c.create(WEB), FORBIDDEN)[0] == WEB


def test_a_server_that_is_away_is_away_for_writes_too() -> None:
    with pytest.raises(TransportError):
        tried(lambda c: c.bind(WEB, "node-1"), TransportError("connection refused"))


def test_what_comes_again_is_told_once_and_counted() -> None:
    """The same report every minute but for its time, then one that says something else."""
    metrics = registry()
    transport = FakeTransport([answer({"metadata": {"name": "n1"}})])

    async def main() -> None:
        client = Client(transport, dry_run=DryRun(metrics))
        for minute, cpu in ((0, "1"), (1, "1"), (2, "1"), (3, "2"), (4, "2")):
            change = {"status": {"updateTime": f"2026-01-01T00:0{minute}:00Z", "cpu": cpu}}
            await client.patch(NodeMetric, "n1", Patch.merge(change), subresource="status")

    with logged("koord.dryrun", logging.INFO) as records:
        run_virtual(main())
    said = [vars(record)["koord_fields"] for record in records]
    assert [json.loads(each["body"])["status"]["cpu"] for each in said] == ["1", "2"]
    assert [each.get("repeated") for each in said] == [None, 2]
    counted = [line for line in metrics.expose().decode().splitlines() if "dry_run" in line]
    assert counted[-1].startswith("koord_dry_run_writes_total{")
    assert counted[-1].endswith("} 5.0")
    assert 'resource="nodemetrics"' in counted[-1]


def test_an_event_is_told_by_what_it_says() -> None:
    clock = VirtualClock(wall_start_seconds=1_900_000_000.0)
    transport = FakeTransport([ABSENT])

    async def main() -> None:
        client = Client(transport, dry_run=DryRun())
        recorder = EventRecorder(client, "koordlet", clock=clock, metrics=registry())
        for reason in ("Held", "Held", "Freed"):
            recorder.event(WEB, "Normal", reason, "for a while")
        await recorder._write_waiting()

    with logged("koord.dryrun", logging.INFO) as records:
        run_virtual(main(), clock)
    about = {"verb": "create", "object": "Event about Pod shop/web-0", "text": "for a while"}
    said = [vars(record)["koord_fields"] for record in records]
    assert said == [{**about, "reason": "Held"}, {**about, "reason": "Freed"}]
    assert transport.requests == []


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/api/v1/nodes", ("nodes", "", "", "")),
        ("/api/v1/nodes/n1/status", ("nodes", "", "n1", "status")),
        ("/api/v1/namespaces/a", ("namespaces", "", "a", "")),
        ("/api/v1/namespaces/a/status", ("namespaces", "", "a", "status")),
        ("/api/v1/namespaces/a/pods", ("pods", "a", "", "")),
        ("/api/v1/namespaces/a/pods/b/binding", ("pods", "a", "b", "binding")),
        ("/apis/x.io/v1/namespaces/a/things/b%20c", ("things", "a", "b c", "")),
        ("/version", ("/version", "", "", "")),
    ],
)
def test_a_path_is_taken_apart(path: str, parts: tuple[str, str, str, str]) -> None:
    assert request_info(path)[1:] == parts
