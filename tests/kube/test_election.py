# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.base import rng
from koord.base.clock import VirtualClock
from koord.base.errors import KoordError
from koord.base.metrics import registry
from koord.kube.client import Client
from koord.kube.election import LeaderElector, LeadLostError, Timing, Token
from koord.kube.errors import TransportError
from koord.kube.requests.retry import RetryPolicy
from koord.kube.transport.messages import Request, Response
from tests.kube.fake_server import FakeServer
from tests.kube.harness import logged, run_virtual

LEASE = "/apis/coordination.k8s.io/v1/namespaces/koordinator-system/leases/koord"


class Skewed:
    """A machine's clocks: they run as fast as all others and show what they like."""

    def __init__(self, true: VirtualClock, wall_skew: float, boot_skew: float) -> None:
        self._true, self._boot = true, boot_skew
        self.wall_skew = wall_skew

    def wall_seconds(self) -> float:
        return self._true.wall_seconds() + self.wall_skew

    def monotonic_seconds(self) -> float:
        return self._true.monotonic_seconds() + self._boot


class Line:
    """One contender's way to the server, with what may happen on it."""

    def __init__(self, server: FakeServer, trouble: Callable[[], float | None]) -> None:
        self._server = server
        self._trouble = trouble

    async def send(self, request: Request) -> Response:
        await self._delay()
        answer = await self._server.send(request)
        await self._delay()
        return answer

    async def open(self, request: Request) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        pass

    async def _delay(self) -> None:
        seconds = self._trouble()
        if seconds is None:
            await asyncio.sleep(1)
            raise TransportError("lost")
        await asyncio.sleep(seconds)


def test_a_server_that_is_away_for_a_while_is_told_of_once_and_counted() -> None:
    """A contender tries 8 times in vain, 2 to 4.4 s apart, then gets the lease."""
    clock, server = VirtualClock(), FakeServer()
    away = [None] * 8

    async def story() -> None:
        line = Line(server, lambda: away.pop() if away else 0.0)
        await elector_of(line, "one", clock).lead(lambda: asyncio.sleep(0))

    with logged("koord.election", logging.INFO) as records:
        run_virtual(story(), clock)
    told = [(r.getMessage(), vars(r)["koord_fields"]) for r in records]
    assert told[:2] == [
        ("lease cannot be taken", {"lease": "koord", "error": "lost"}),
        ("lease written again", {"lease": "koord", "repeated": 7}),
    ]


def test_one_that_waits_tells_of_each_time_that_the_server_is_away() -> None:
    """Another holds the lease; the server goes away twice, and says the same each time."""
    clock, server = VirtualClock(), FakeServer()
    away = asyncio.Event()

    async def story() -> None:
        holder = elector_of(Line(server, lambda: 0.0), "one", clock)
        line = Line(server, lambda: None if away.is_set() else 0.0)
        waiting = elector_of(line, "two", clock, Timing())
        tasks = [
            asyncio.create_task(each.lead(lambda: asyncio.sleep(3600.0)))
            for each in (holder, waiting)
        ]
        for change in (away.set, away.clear, away.set, away.clear):
            await asyncio.sleep(20.0)
            change()
        await asyncio.sleep(20.0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    with logged("koord.election", logging.INFO) as records:
        run_virtual(story(), clock)
    said = [r.getMessage() for r in records]
    away_and_back = ["lease cannot be taken", "lease read again"]
    assert [each for each in said if each in away_and_back] == 2 * away_and_back


def elector_of(
    transport: Any, identity: str, clock: Any, timing: Timing | None = None, **options: Any
) -> LeaderElector:
    client = Client(transport, policy=RetryPolicy(attempts=1), requests_per_second=None)
    return LeaderElector(
        client, "koord", "koordinator-system", identity, timing=timing, clock=clock, **options
    )


async def forever() -> None:
    await asyncio.Event().wait()


async def end(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def with_server(story: Callable[[FakeServer, VirtualClock], Awaitable[None]]) -> None:
    clock = VirtualClock(wall_start_seconds=1_900_000_000.25)
    run_virtual(story(FakeServer(), clock), clock)  # type: ignore[arg-type]


def test_the_record_is_client_gos() -> None:
    async def story(server: FakeServer, clock: VirtualClock) -> None:
        elector = elector_of(server, "a", clock, annotations={"explain": "http://a"})
        task = asyncio.create_task(elector.lead(forever))
        await asyncio.sleep(5)
        assert server.objects[LEASE]["spec"] == {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": "2030-03-17T17:46:40.250000Z",
            "renewTime": "2030-03-17T17:46:44.250000Z",
            "leaseTransitions": 0,
        }
        assert server.objects[LEASE]["metadata"]["annotations"] == {"explain": "http://a"}
        await end(task)
        released = server.objects[LEASE]["spec"]
        assert "holderIdentity" not in released
        assert released["leaseDurationSeconds"] == 1
        assert released["leaseTransitions"] == 0

    with_server(story)


def test_a_released_lease_is_taken_at_the_next_try_and_a_dead_holders_after_its_time() -> None:
    async def story(server: FakeServer, clock: VirtualClock) -> None:
        seen: list[str] = []
        first = elector_of(server, "a", clock)
        second = elector_of(server, "b", clock, on_new_leader=seen.append)
        leading = asyncio.create_task(first.lead(forever))
        await asyncio.sleep(1)
        waiting = asyncio.create_task(second.lead(forever))
        await asyncio.sleep(60)
        assert (first.leading, second.leading) == (True, False)
        await end(leading)
        released = clock.monotonic_seconds()
        while not second.leading:
            await asyncio.sleep(0.1)
        assert clock.monotonic_seconds() - released <= 2.0 * 2.2 + 0.2
        assert second.token == Token(int(server.objects[LEASE]["metadata"]["resourceVersion"]), 1)
        # Now the holder dies without a word.
        server.objects[LEASE]["spec"]["holderIdentity"] = "dead"
        server.put(LEASE, **server.objects[LEASE])
        died = clock.monotonic_seconds()
        with pytest.raises(LeadLostError):
            await waiting
        waiting = asyncio.create_task(second.lead(forever))
        while not second.leading:
            await asyncio.sleep(0.1)
        assert 15 <= clock.monotonic_seconds() - died <= 15 + 2 * 2.0 * 2.2 + 2
        assert seen == ["a", "", "b", "dead", "b"]
        await end(waiting)

    with_server(story)


def test_the_lead_ends_before_the_lease_and_counts_from_before_the_renewal_was_sent() -> None:
    async def story(server: FakeServer, clock: VirtualClock) -> None:
        elector = elector_of(server, "a", clock)
        ended: list[float] = []

        async def work() -> None:
            try:
                await forever()
            finally:
                ended.append(clock.monotonic_seconds())

        task = asyncio.create_task(elector.lead(work))
        await asyncio.sleep(4.5)
        # The renewal at 6 s takes effect, its answer comes 3 s later; then nothing goes through.
        server.after = lambda _: asyncio.sleep(3)
        await asyncio.sleep(3)
        server.before = lambda _: asyncio.sleep(1000)
        await asyncio.sleep(8)
        assert elector.leading
        with pytest.raises(LeadLostError):
            await task
        assert ended == [pytest.approx(16.0)]
        with pytest.raises(LeadLostError):
            elector.check()
        with pytest.raises(LeadLostError):
            _ = elector.token

    with_server(story)


def test_a_process_that_slept_through_its_lead_finds_it_over_before_any_timer_has_run() -> None:
    async def story(server: FakeServer, clock: VirtualClock) -> None:
        elector = elector_of(server, "a", clock)
        task = asyncio.create_task(elector.lead(forever))
        await asyncio.sleep(1)
        elector.check()
        clock.advance(10.5)
        with pytest.raises(LeadLostError):
            elector.check()
        with pytest.raises(LeadLostError):
            await task

    with_server(story)


def test_a_lease_that_was_deleted_ends_the_lead() -> None:
    async def story(server: FakeServer, clock: VirtualClock) -> None:
        elector = elector_of(server, "a", clock)
        task = asyncio.create_task(elector.lead(forever))
        await asyncio.sleep(1)
        before = elector.token
        server.remove(LEASE)
        with pytest.raises(LeadLostError):
            await task
        task = asyncio.create_task(elector.lead(forever))
        await asyncio.sleep(5)
        assert elector.token > before
        await end(task)

    with_server(story)


def test_what_the_work_returns_or_raises_comes_back_and_the_lease_is_free() -> None:
    async def story(server: FakeServer, clock: VirtualClock) -> None:
        metrics = registry()
        elector = elector_of(server, "a", clock, metrics=metrics)

        async def answer() -> int:
            elector.check()
            assert b'leader_election_master_status{name="koord"} 1.0' in metrics.expose()
            return 42

        async def fail() -> None:
            raise LookupError("no")

        assert await elector.lead(answer) == 42
        assert "holderIdentity" not in server.objects[LEASE]["spec"]
        assert b'leader_election_master_status{name="koord"} 0.0' in metrics.expose()
        with pytest.raises(LookupError):
            await elector.lead(fail)
        assert "holderIdentity" not in server.objects[LEASE]["spec"]

    with_server(story)


def test_a_stuck_leader_is_unhealthy() -> None:
    async def story(server: FakeServer, clock: VirtualClock) -> None:
        elector = elector_of(server, "a", clock)
        assert elector.healthy()

        async def stubborn() -> None:
            for _ in range(5):
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    continue

        task = asyncio.create_task(elector.lead(stubborn))
        await asyncio.sleep(1)
        server.before = lambda _: asyncio.sleep(1000)
        await asyncio.sleep(15 + 15)
        assert elector.healthy()
        await asyncio.sleep(10)
        assert not elector.healthy()
        with pytest.raises(LeadLostError):
            await task
        assert elector.healthy()

    with_server(story)


@pytest.mark.parametrize("timing", [Timing(10, 10.0), Timing(0, -1.0), Timing(15, 2.0, 2.0)])
def test_times_under_which_two_could_act_are_refused(timing: Timing) -> None:
    with pytest.raises(KoordError, match="leader election"):
        elector_of(FakeServer(), "a", VirtualClock(), timing)


@given(
    seed=st.integers(0, 2**32),
    contenders=st.integers(2, 3),
    loss=st.sampled_from([0.0, 0.1, 0.4, 0.8]),
    slow=st.sampled_from([0.0, 0.05, 0.3]),
    skews=st.lists(st.floats(-1e5, 1e5), min_size=8, max_size=8),
    timing=st.sampled_from([Timing(), Timing(2, 1.5, 0.3), Timing(15, 14.9, 2.0)]),
)
def test_never_two_lead_whatever_the_line_and_the_clocks_do(
    seed: int, contenders: int, loss: float, slow: float, skews: list[float], timing: Timing
) -> None:
    clock = VirtualClock(wall_start_seconds=1_900_000_000.0)
    acting: list[str] = []
    tokens: list[Token] = []
    draw = rng.stream(seed, "line")
    calm = False

    def trouble() -> float | None:
        if calm:
            return 0.001
        if draw.random() < loss:
            return None
        return draw.uniform(1, 3 * timing.lease_seconds) if draw.random() < slow else 0.01

    async def contend(elector: LeaderElector) -> None:
        async def work() -> None:
            assert acting == []
            acting.append(elector.identity)
            tokens.append(elector.token)
            try:
                await asyncio.sleep(draw.uniform(0, 8 * timing.lease_seconds))
            finally:
                acting.remove(elector.identity)

        while True:
            try:
                await elector.lead(work)
            except LeadLostError:
                continue

    async def story() -> None:
        nonlocal calm
        server = FakeServer()
        electors, clocks = [], []
        for number in range(contenders):
            skewed = Skewed(clock, skews[2 * number], skews[2 * number + 1])
            clocks.append(skewed)
            line = Line(server, trouble)
            electors.append(elector_of(line, f"c{number}", skewed, timing, seed=seed))
        tasks = [asyncio.create_task(contend(elector)) for elector in electors]
        for _ in range(30):
            await asyncio.sleep(draw.uniform(0, timing.lease_seconds / 3))
            draw.choice(clocks).wall_skew = draw.choice([0.0, 3600.0, -1e6, 0.5])
            leaders = [elector.identity for elector in electors if elector.leading]
            assert len(leaders) <= 1
            assert set(acting) <= set(leaders)
        calm = True
        led = len(tokens)
        await asyncio.sleep(10 * timing.lease_seconds)
        assert len(tokens) > led
        assert all(not task.done() for task in tasks)
        for task in tasks:
            await end(task)

    run_virtual(story(), clock)
    assert tokens == sorted(set(tokens))


def test_who_does_not_wait_for_the_work_keeps_the_lease() -> None:
    """Cancelled twice, ``lead`` is over while the work still ends: nobody may lead meanwhile."""

    async def story(server: FakeServer, clock: VirtualClock) -> None:
        ended = asyncio.Event()

        async def slow_to_end() -> None:
            try:
                await asyncio.sleep(1e6)
            finally:
                await asyncio.sleep(5)
                ended.set()

        task = asyncio.create_task(elector_of(server, "a", clock).lead(slow_to_end))
        await asyncio.sleep(5)
        task.cancel()
        await asyncio.sleep(1)
        await end(task)
        assert not ended.is_set()
        assert server.objects[LEASE]["spec"]["holderIdentity"] == "a"
        await ended.wait()

    with_server(story)


def test_a_callback_that_fails_costs_no_lead() -> None:
    async def story(server: FakeServer, clock: VirtualClock) -> None:
        def broken(leader: str) -> None:
            raise RuntimeError(leader)

        elector = elector_of(server, "a", clock, on_new_leader=broken)
        task = asyncio.create_task(elector.lead(forever))
        await asyncio.sleep(5)
        assert elector.leading
        await end(task)

    with_server(story)
