# SPDX-License-Identifier: Apache-2.0
"""Events go after an hour, those of a namespace by their number, and of all by their memory.

The hour is a kube-apiserver's default (``--event-ttl``); the rest is docs/limits-server.md.
"""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from koord.base.clock import VirtualClock, VirtualLoop
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.controlplane.storage.collection import HistoryLimits
from koord.controlplane.storage.event_retention import EventLimits, EventRetention
from koord.controlplane.storage.store import Store
from koord.kube.transport.messages import Request

EVENTS = "/api/v1/namespaces/default/events"
MIB = 1 << 20


def on_virtual_time(test: Callable[[VirtualClock], Coroutine[Any, Any, None]]) -> None:
    clock = VirtualClock()
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        runner.run(test(clock))


def put(store: Store, namespace: str, name: str, size: int = 10) -> None:
    metadata = {"namespace": namespace, "name": name, "uid": name}
    message = "x" * size
    head = {"apiVersion": "v1", "kind": "Event"}
    store.put("events", {**head, "metadata": metadata, "message": message}, ())


def names(store: Store, namespace: str) -> list[str]:
    return [key.partition("/")[2] for key in store.collection("events").keys(f"{namespace}/", "")]


def test_events_go_an_hour_after_their_last_change() -> None:
    async def test(clock: VirtualClock) -> None:
        async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as plane:
            transport = plane.transport()

            async def ask(method: str, path: str, body: object = None) -> int:
                data = json.dumps(body).encode() if body is not None else b""
                kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
                return (await transport.send(Request(method, path, (), data, kind))).status

            about = {"involvedObject": {"namespace": "default"}, "reason": "Tested"}
            for name in ("a", "b"):
                assert await ask("POST", EVENTS, {"metadata": {"name": name}, **about}) == 201
            assert await ask("POST", EVENTS.replace("events", "configmaps"),
                             {"metadata": {"name": "a"}}) == 201  # fmt: skip
            await asyncio.sleep(1800.0)
            assert await ask("PATCH", f"{EVENTS}/b", {"count": 2}) == 200
            await asyncio.sleep(1790.0)
            assert await ask("GET", f"{EVENTS}/a") == 200
            await asyncio.sleep(30.0)
            assert await ask("GET", f"{EVENTS}/a") == 404
            assert await ask("GET", f"{EVENTS}/b") == 200
            await asyncio.sleep(1800.0)
            assert await ask("GET", f"{EVENTS}/b") == 404
            assert await ask("GET", f"{EVENTS.replace('events', 'configmaps')}/a") == 200

    on_virtual_time(test)


def test_the_namespace_that_has_too_many_gives_its_oldest() -> None:
    async def test(clock: VirtualClock) -> None:
        store = Store()
        put(store, "a", "there-before")
        retention = EventRetention(store, clock, EventLimits(a_namespace=3))
        retention.start()
        put(store, "b", "other")
        for number in range(3):
            put(store, "a", f"e{number}")
        await asyncio.sleep(0)
        assert names(store, "a") == ["e0", "e1", "e2"]
        put(store, "a", "e0")  # It changed, and is the newest now.
        put(store, "a", "e3")
        await asyncio.sleep(0)
        assert names(store, "a") == ["e0", "e2", "e3"]
        assert names(store, "b") == ["other"]
        assert store.collection("events").log[-1].deleted
        retention.stop()

    on_virtual_time(test)


def test_large_events_push_out_their_own_namespace_s() -> None:
    async def test(clock: VirtualClock) -> None:
        store = Store()
        retention = EventRetention(store, clock, EventLimits(all_bytes=MIB))
        retention.start()
        for number in range(20):
            put(store, "good", f"e{number}")
        for number in range(30):
            put(store, "bad", f"e{number}", 100_000)
            await asyncio.sleep(0)
        assert len(names(store, "good")) == 20
        assert 8 <= len(names(store, "bad")) <= 10
        retention.stop()

    on_virtual_time(test)


@pytest.mark.parametrize("size", [10, 2_000])
def test_events_without_end_take_no_more_memory(size: int) -> None:
    """Many namespaces, each with fewer than one may have."""

    async def test(clock: VirtualClock) -> None:
        used = []
        store = Store(limits=HistoryLimits(changes=64))
        retention = EventRetention(store, clock, EventLimits(all_bytes=MIB))
        retention.start()
        tracemalloc.start()
        for part in range(4):
            for number in range(1_500):
                put(store, f"n{number % 50}", f"e{part}-{number}", size)
                await asyncio.sleep(0)
            gc.collect()
            used.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        retention.stop()
        assert max(used) <= 2 * MIB, used
        assert used[-1] <= 1.1 * used[0], used

    on_virtual_time(test)


def test_what_is_deleted_by_hand_is_counted_no_more() -> None:
    async def test(clock: VirtualClock) -> None:
        store = Store()
        retention = EventRetention(store, clock, EventLimits(a_namespace=2))
        retention.start()
        for number in range(10):
            put(store, "a", f"e{number}")
            if number != 3:
                entry = store.collection("events").entries[f"a/e{number}"]
                store.remove("events", json.loads(entry.body), ())
            await asyncio.sleep(0)
        assert names(store, "a") == ["e3"]
        retention.stop()

    on_virtual_time(test)
