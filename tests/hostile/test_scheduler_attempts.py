# SPDX-License-Identifier: Apache-2.0
"""One attempt ends nothing: neither the lead while it lasts, nor the turn of other pods.

Rules: docs/kube.md#leader-election, docs/reference/scheduling.md#oversized-pods.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from koord.api import ConfigMap, Namespace, ObjectMeta
from koord.api.kinds.cluster import Lease
from koord.base.documents import Document
from koord.controllers.scheduler.app import App
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from koord.kube.client import Client
from koord.kube.election import LeaderElector, LeadLostError, Timing
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from koord.kube.transport.messages import Request, Response
from tests.controllers.scheduler.histories.cluster import History, live
from tests.controllers.scheduler.histories.documents import pod
from tests.controllers.scheduler.queue.test_oversized_pods import affine
from tests.kube.harness import logged, run
from tests.kube.servers import Plane, started
from tests.kube.test_election_processes import NAMESPACE, Contender

PATIENCE_SECONDS = 60.0
# Those of the lease and the voice, which the lead does not fence.
_UNFENCED = ("/leases", "/events")


class Watched:
    """A way to the server that notes writes of one who does not lead."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.elector: LeaderElector | None = None
        self.writes: list[tuple[bool, str]] = []

    async def send(self, request: Request) -> Response:
        if request.method != "GET" and not any(each in request.path for each in _UNFENCED):
            leads = self.elector is not None and self.elector.leading
            self.writes.append((leads, f"{request.method} {request.path}"))
        answer: Response = await self._inner.send(request)
        return answer

    async def open(self, request: Request) -> Any:
        return await self._inner.open(request)

    async def close(self) -> None:
        await self._inner.close()


def contender(history: History, name: str) -> tuple[App, Watched]:
    watched = Watched(history.plane.transport())
    client = Client(watched, name, requests_per_second=None)
    registry = Registry(outside=[])
    wish = shipped(registry, "koord-scheduler", "default-scheduler")
    elector = LeaderElector(
        client, "koord-scheduler", "koordinator-system", name, clock=history.clock
    )
    watched.elector = elector
    return App(client, wish, history.clock, elector=elector, registry=registry), watched


async def bound(history: History) -> list[str]:
    return [p["metadata"]["name"] for p in await history.list("Pod") if p["spec"].get("nodeName")]


@pytest.mark.parametrize("leases", [0.5, 3])
def test_in_virtual_time_who_lost_the_lead_in_an_attempt_writes_nothing_more(
    leases: float,
) -> None:
    """The attempt takes so many times as long as a lease lasts; the pod is bound all the same."""

    async def story(history: History) -> None:
        await history.stop()
        await history.add_node(False)
        apps, ways = zip(*(contender(history, name) for name in ("one", "two")), strict=True)
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(app.run()) for app in apps]
        for app in apps:
            await app.ready()
        await asyncio.sleep(5.0)
        first = [app.leading for app in apps].index(True)
        blocked: list[str] = []

        def block(decision: Any, message: str) -> None:
            if not blocked:
                blocked.append(decision.cycle.pod.key)
                history.clock.advance(leases * Timing().lease_seconds)

        apps[first].scheduler.loop.observe(block)
        await history.client.create(pod("p0", "plain", 1, {}))
        await asyncio.sleep(120.0)
        assert blocked
        assert await bound(history) == ["p0"]
        assert [what for way in ways for leads, what in way.writes if not leads] == []
        if leases > 1:
            assert tasks[first].done()
            assert apps[1 - first].leading
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    live(story)


def test_after_a_restart_the_oversized_pod_comes_last_though_it_is_first() -> None:
    async def story(history: History) -> None:
        await history.stop()
        for _ in range(2):
            await history.add_node(False)
        large: Document = pod("large", "plain", 1, {})
        large["spec"].update(affine(1500))
        await history.client.create(large)
        for number in range(5):
            await history.client.create(pod(f"small-{number}", "plain", 1, {}))
        order: list[str] = []
        decided = App.run

        async def run_observed(app: App) -> None:
            app.scheduler.loop.observe(lambda d, _: order.append(d.cycle.pod.pod.metadata.name))
            await decided(app)

        for _ in range(2):
            order.clear()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(App, "run", run_observed)
                await history.restart()
            await asyncio.sleep(0.5)
            if "large" in order:
                break
        assert order.index("large") == 5
        assert sorted(order[:5]) == [f"small-{number}" for number in range(5)]

    live(story)


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    with started("embedded", tmp_path) as server:
        yield server


@asynccontextmanager
async def connected(plane: Plane) -> AsyncIterator[Client]:
    transport = HttpTransport(load_cluster_config(plane.kubeconfig))
    try:
        yield Client(transport, requests_per_second=None)
    finally:
        await transport.close()


class Leader:
    """A process that leads by a thread's renewals, beside a rival in a process of its own."""

    def __init__(self, plane: Plane, folder: Path, client: Client, timing: Timing) -> None:
        self._plane, self._folder, self.client = plane, folder, client
        self.elector = LeaderElector(
            client, "lease", NAMESPACE, "leader", timing=timing,
            renewal_client=lambda: connected(plane),
        )  # fmt: skip
        client.fence(self.elector.check)

    @asynccontextmanager
    async def rival(self) -> AsyncIterator[Contender]:
        """Another that stands for election, and has begun to."""
        made = Contender("rival", self._plane.kubeconfig, self._folder)
        try:
            yield made
        finally:
            made.end()


def busy(until: float) -> None:
    """Holds the interpreter as far as Python code can."""
    while time.monotonic() < until:
        sum(range(1000))


def test_over_a_socket_an_attempt_longer_than_the_lease_keeps_the_lead(
    plane: Plane, tmp_path: Path
) -> None:
    timing = Timing(lease_seconds=3, renew_deadline_seconds=2.4, retry_seconds=0.3)

    async def story() -> None:
        async with connected(plane) as client:
            await client.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
            leader = Leader(plane, tmp_path, client, timing)

            async def work() -> None:
                async with leader.rival() as rival:
                    before = await client.get(Lease, "lease", NAMESPACE)
                    busy(time.monotonic() + 3 * timing.lease_seconds)
                    assert leader.elector.leading
                    await client.create(
                        ConfigMap(metadata=ObjectMeta(name="x", namespace=NAMESPACE))
                    )
                    after = await client.get(Lease, "lease", NAMESPACE)
                    assert rival.last_act() == 0
                    assert after.spec.holder_identity == "leader"
                    assert after.spec.lease_transitions == before.spec.lease_transitions
                    assert after.spec.renew_time != before.spec.renew_time

            await leader.elector.lead(work)

    run(story())


def test_over_a_socket_a_loop_that_stands_still_gives_the_lead_up_and_names_the_pod(
    plane: Plane, tmp_path: Path
) -> None:
    """The rival leads while this loop still stands; when it turns again it may not write."""
    timing = Timing(2, 1.5, 0.3, stand_still_seconds=2.5)

    async def story() -> None:
        async with connected(plane) as client:
            await client.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
            leader = Leader(plane, tmp_path, client, timing)
            leader.elector.occupied_by = lambda: "deciding pod default/large"
            refused: list[str] = []

            async def work() -> None:
                async with leader.rival() as rival:
                    end = time.monotonic() + PATIENCE_SECONDS / 3
                    while rival.last_act() == 0 and time.monotonic() < end:
                        time.sleep(0.02)
                    assert rival.last_act() > 0, "the rival leads"
                    try:
                        what = ConfigMap(metadata=ObjectMeta(name="x", namespace=NAMESPACE))
                        await client.create(what)
                    except LeadLostError as error:
                        refused.append(str(error))
                    await asyncio.Event().wait()

            with pytest.raises(LeadLostError):
                await leader.elector.lead(work)
            assert refused == ["lease election/lease is not held"]

    with logged("koord.election", logging.ERROR) as records:
        run(story())
    (told,) = records
    fields = vars(told)["koord_fields"]
    assert told.getMessage() == "the lead is given up: the event loop stands still"
    assert fields["doing"] == "deciding pod default/large"
    assert fields["seconds"] >= timing.stand_still_seconds
