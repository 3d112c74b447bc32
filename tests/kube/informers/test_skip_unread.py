# SPDX-License-Identifier: Apache-2.0
"""Changes in what a type does not read: told apart before they are decoded, and told to nobody."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.controllers.cluster.trimmed_nodes import TrimmedNode
from koord.controllers.cluster.trimmed_pods import TrimmedPod
from koord.kube.client import Client
from koord.kube.codec.decoder import Decoder
from koord.kube.codec.interner import Interner
from koord.kube.codec.page_reader import PageReader
from koord.kube.informers.informer import Informer
from koord.kube.requests.options import resolve
from koord.kube.requests.retry import RetryPolicy
from tests.kube.fake_server import FakeServer
from tests.kube.harness import event, run_virtual

NAMES = "xyz"
# What is read of a pod, and something of it that is not.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(NAMES), st.integers(0, 2), st.integers(0, 2)),
        st.tuples(st.just("put"), st.sampled_from(NAMES), st.just(0), st.integers(0, 2)),
        st.tuples(st.just("remove"), st.sampled_from(NAMES), st.just(0), st.just(0)),
        st.tuples(st.sampled_from(["cut", "turn", "forget"]), st.just("x"), st.just(0), st.just(0)),
    ),
    max_size=30,
)


def path(name: str) -> str:
    return f"/api/v1/namespaces/a/pods/{name}"


def put(server: FakeServer, name: str, read: int, unread: int) -> None:
    container = {"name": "c", "env": [{"name": "unread", "value": str(unread)}]}
    server.put(path(name), spec={"nodeName": f"n{read}", "containers": [container]})


async def played(steps: list[tuple[str, str, int, int]]) -> None:
    server = FakeServer()
    client = Client(server, policy=RetryPolicy(attempts=1), requests_per_second=None)
    informer = Informer(client, Pod, project=TrimmedPod, page_size=2, skip_unread=True)
    told: dict[str, str] = {}

    def updated(old: Pod, new: Pod) -> None:
        assert (old.metadata.uid, old.spec) != (new.metadata.uid, new.spec)
        told[new.metadata.name] = new.spec.node_name

    informer.on_change(
        lambda pod: told.update({pod.metadata.name: pod.spec.node_name}),
        updated,
        lambda pod, unknown: told.pop(pod.metadata.name),
    )
    task = asyncio.create_task(informer.run())
    await informer.synced()
    for what, name, read, unread in steps:
        if what == "put":
            put(server, name, read, unread)
        elif what == "remove" and path(name) in server.objects:
            server.remove(path(name))
        elif what == "cut":
            server.cut()
        elif what == "forget":
            server.compact()
        else:
            await asyncio.sleep(5)
    await asyncio.sleep(60)
    there = {d["metadata"]["name"]: d for d in server.objects.values()}
    assert told == {name: each["spec"]["nodeName"] for name, each in there.items()}
    versions = {pod.metadata.name: pod.metadata.resource_version for _, pod in informer.items()}
    assert versions == {name: each["metadata"]["resourceVersion"] for name, each in there.items()}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@given(steps=STEPS)
def test_the_cache_is_what_the_server_has_and_handlers_hear_of_what_is_read(
    steps: list[tuple[str, str, int, int]],
) -> None:
    run_virtual(played(steps))


def _line(version: int, kind: str = "MODIFIED", **more: Any) -> bytes:
    heartbeat = f"2030-01-14T09:00:{version:02}Z"
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}
    status = {"allocatable": {"cpu": "4"}, "conditions": [ready], "images": []} | more
    meta = {"name": "n", "uid": "u", "resourceVersion": str(version)}
    return event(kind, {"metadata": meta, "spec": {}, "status": status})


def test_of_a_heartbeat_nothing_is_decoded() -> None:
    served, _ = resolve(Node)
    decoder: Decoder[Node] = Decoder(served, TrimmedNode)
    reader = PageReader(TrimmedNode, Interner(), by_text=True)
    lines = [_line(1), _line(2), _line(3, allocatable={"cpu": "5"}), _line(4), _line(5)]
    events, _ = decoder.events([*lines, _line(6, "DELETED"), _line(7, "ADDED")], reader)
    nodes = [each.object for each in events]
    assert [node.metadata.resource_version for node in nodes if node] == list("1234567")
    assert None not in nodes
    one, beat, bigger, smaller, again, gone, new = (each for each in nodes if each is not None)
    assert beat is not one
    # All but the version is the same object, not an equal one.
    assert beat.status is one.status
    assert bigger.status.allocatable != one.status.allocatable
    assert again.status is smaller.status is gone.status
    assert smaller.status == one.status
    # Of what is gone nothing is remembered.
    assert new.status is not gone.status
    for line, node in zip(lines, nodes, strict=False):
        plain = msgspec.json.decode(line)["object"]
        assert decoder.one(msgspec.json.encode(plain)) == node


def test_a_list_comes_between() -> None:
    reader = PageReader(TrimmedNode, Interner(), by_text=True)
    read = reader.event(_line(1))
    assert read is not None
    item = msgspec.json.decode(_line(2, allocatable={"cpu": "9"}))["object"]
    assert reader.page(msgspec.json.encode({"metadata": {}, "items": [item]})) is not None
    again = reader.event(_line(3))
    assert again is not None
    # What was known before the list is not taken for the state after it.
    assert again[1].status is not read[1].status
    assert again[1].status == read[1].status


def test_odd_versions_and_names_are_read_in_full() -> None:
    for meta in (
        {"name": "n", "uid": "u", "resourceVersion": "a\\b"},
        {"name": "n", "uid": "u"},
        {"uid": "u", "resourceVersion": "3"},
    ):
        reader = PageReader(TrimmedNode, Interner(), by_text=True)
        line = event("MODIFIED", {"metadata": meta, "spec": {}, "status": {}})
        for _ in range(2):
            read = reader.event(line)
            assert read is not None
            assert read[1].metadata.resource_version == meta.get("resourceVersion", "")
