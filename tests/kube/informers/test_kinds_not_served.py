# SPDX-License-Identifier: Apache-2.0
"""What an informer does about a kind that the API server lacks, gets, and loses again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from koord.api import definitions
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import ElasticQuota, GroupQuota
from koord.base.clock import VirtualClock
from koord.base.metrics import registry
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.informers.informer import Informer
from koord.kube.informers.reflector import InformerMetrics
from koord.kube.requests.retry import RetryPolicy
from koord.kube.transport.messages import Request, Response
from tests.kube.harness import FakeStream, FakeTransport, answer, event, run_virtual

METRICS_CRD = "nodemetrics.slo.koordinator.sh"
NOWHERE = Response(404, b"404 page not found\n", headers={"content-type": "text/plain"})
GROUPS = answer({"kind": "APIGroupList", "groups": []})
GOING = 3.0  # seconds after which a kind that went is known to be gone


class Told:
    """What an informer told, in order."""

    def __init__(self, informer: Informer[Any]) -> None:
        self.lines: list[str] = []
        say = self.lines.append
        informer.on_change(
            added=lambda new: say(f"added {new.metadata.name}"),
            deleted=lambda last, unknown: say(f"deleted {last.metadata.name}"),
        )
        informer.on_served(lambda served: say("served" if served else "not served"))


@asynccontextmanager
async def running(informer: Informer[Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(informer.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def on_embedded(story: Callable[[Client], Awaitable[None]]) -> None:
    """Runs a story on an embedded server that has no custom resources; no time passes outside."""
    clock = VirtualClock(1_700_000_000.0)

    async def whole() -> None:
        async with EmbeddedControlPlane(Options(port=None, clock=clock, seed=1)) as plane:
            await story(Client(plane.transport(), "test", requests_per_second=None))

    run_virtual(whole(), clock)


async def install(client: Client, name: str) -> None:
    wanted = [each for each in definitions.crds() if each["metadata"]["name"] == name]
    names = [each async for each, _ in installing.install(client, wanted)]
    await installing.wait_established(client, names, 60.0)


def metric(name: str) -> dict[str, Any]:
    api = "slo.koordinator.sh/v1alpha1"
    return {"apiVersion": api, "kind": "NodeMetric", "metadata": {"name": name}, "spec": {}}


def test_a_kind_that_is_not_served_is_empty_and_picked_up_when_it_comes() -> None:
    async def story(client: Client) -> None:
        kept = registry()
        informer = Informer(client, NodeMetric, metrics=InformerMetrics(kept))
        told = Told(informer)
        async with running(informer):
            async with asyncio.timeout(1.0):
                await informer.synced()
            assert (informer.served, len(informer), told.lines) == (False, 0, ["not served"])
            assert b'koord_informer_served{kind="NodeMetric"} 0' in kept.expose()
            await asyncio.sleep(3600.0)
            await install(client, METRICS_CRD)
            await client.create(metric("node-1"))
            # An hour of asking has not made the pause longer than this.
            await asyncio.sleep(31.0)
            assert informer.served
            assert told.lines == ["not served", "added node-1", "served"]
            assert b'koord_informer_served{kind="NodeMetric"} 1' in kept.expose()
            await client.create(metric("node-2"))
            await asyncio.sleep(1.0)
            assert told.lines[3:] == ["added node-2"]

    on_embedded(story)


def test_a_kind_that_goes_takes_its_objects_with_it_and_may_come_back() -> None:
    async def story(client: Client) -> None:
        await install(client, METRICS_CRD)
        await client.create(metric("node-1"))
        informer = Informer(client, NodeMetric)
        told = Told(informer)
        async with running(informer):
            await informer.synced()
            assert (informer.served, told.lines) == (True, ["added node-1"])
            await client.delete(installing.CRD, METRICS_CRD)
            await asyncio.sleep(GOING)
            assert (informer.served, len(informer)) == (False, 0)
            assert told.lines[1:] == ["deleted node-1", "not served"]
            await install(client, METRICS_CRD)
            await client.create(metric("node-3"))
            await asyncio.sleep(31.0)
            assert told.lines[3:] == ["added node-3", "served"]

    on_embedded(story)


def pods(*names: str) -> Response:
    items = [
        {"metadata": {"name": name, "uid": name, "resourceVersion": "7"}, "spec": {}}
        for name in names
    ]
    return answer({"metadata": {"resourceVersion": "7"}, "items": items})


class Scripted(FakeTransport):
    """Discovery of its own beside the script, which answers lists and watches."""

    def __init__(self, *script: Any, discovery: Any = GROUPS) -> None:
        super().__init__(list(script))
        self.discovery = discovery

    async def send(self, request: Request) -> Response:
        if request.path in ("/apis", "/apis/slo.koordinator.sh/v1alpha1"):
            found = self.discovery
            said: Response = found[request.path] if isinstance(found, dict) else found
            return said
        return await super().send(request)


def client_of(transport: FakeTransport) -> Client:
    return Client(transport, policy=RetryPolicy(attempts=1), requests_per_second=None)


def after(seconds: float, transport: FakeTransport, kind: Any = NodeMetric) -> tuple[Any, ...]:
    """Whether an informer is synced and takes its kind for served after some time, and its size."""

    async def whole() -> tuple[Any, ...]:
        informer: Informer[Any] = Informer(client_of(transport), kind)
        async with running(informer):
            await asyncio.sleep(seconds)
            return informer.has_synced, informer.served, len(informer)

    return run_virtual(whole())


def still_served() -> dict[str, Response]:
    names = [{"groupVersion": "slo.koordinator.sh/v1alpha1", "version": "v1alpha1"}]
    group = {"name": "slo.koordinator.sh", "versions": names}
    resources = [{"name": "nodemetrics", "kind": "NodeMetric", "verbs": ["list"]}]
    return {
        "/apis": answer({"kind": "APIGroupList", "groups": [group]}),
        "/apis/slo.koordinator.sh/v1alpha1": answer({"resources": resources}),
    }


@pytest.mark.parametrize(
    ("discovery", "why"),
    [
        (NOWHERE, "a proxy without its server answers everything with 404"),
        (answer({"hello": "world"}), "something that is no API server"),
        (still_served(), "the server is about to serve it"),
        (Response(503, b""), "the server does not say"),
    ],
)
def test_a_404_that_is_not_the_servers_word_on_the_kind_is_a_failure(
    discovery: Any, why: str
) -> None:
    assert after(60.0, Scripted(NOWHERE, discovery=discovery)) == (False, True, 0), why


def test_who_may_not_ask_what_is_served_takes_the_lists_word() -> None:
    assert after(60.0, Scripted(NOWHERE, discovery=Response(403, b""))) == (True, False, 0)


def test_a_404_to_pods_is_a_failure() -> None:
    assert after(60.0, Scripted(NOWHERE), Pod) == (False, True, 0)


def test_a_moments_absence_is_no_loss() -> None:
    """One server of several may not have heard of the kind yet."""

    def script() -> Scripted:
        quiet = FakeStream([event("BOOKMARK", {"metadata": {"resourceVersion": "8"}})])
        return Scripted(pods("node-1"), quiet, NOWHERE, pods("node-1"), Endless())

    assert after(1.0, script()) == (True, True, 1)
    assert after(10.0, script()) == (True, True, 1)


class Endless(FakeStream):
    """A watch that never says anything."""

    async def read(self) -> list[bytes]:
        await asyncio.Event().wait()
        return []


def test_two_kinds_of_one_name_are_told_apart() -> None:
    client = client_of(FakeTransport([NOWHERE]))
    names = [Informer(client, kind).name for kind in (ElasticQuota, GroupQuota, Pod)]
    assert names == [
        "ElasticQuota.scheduling.sigs.k8s.io", "ElasticQuota.quota.koordinator.sh", "Pod",
    ]  # fmt: skip
