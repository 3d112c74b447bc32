# SPDX-License-Identifier: Apache-2.0
"""The store against a plain model: every state kept whole, every change in one list."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from koord.base.faults import FaultPlan, FaultRule, inject
from koord.controlplane.storage.collection import HistoryLimits
from koord.controlplane.storage.conversion import StoreReader
from koord.controlplane.storage.store import Store, StoreWrite
from koord.controlplane.storage.watch import WatchCursor, WatchScope
from koord.kube.errors import ApiError
from tests.profiles import examples

PODS = "pods"
SPACES, NAMES = ("a", "a-b", "b"), ("x", "y", "z")
State = dict[str, dict[str, Any]]


def document(space: str, name: str, label: str) -> dict[str, Any]:
    meta = {"namespace": space, "name": name, "uid": f"{space}{name}", "labels": {"l": label}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}


def named(version: int, end: bool) -> bytes:
    return msgspec.json.encode({"bookmark": version, "end": end})


class StoreMachine(RuleBasedStateMachine):
    """Puts, removals, lists at versions, watches with and without a selector."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.store = Store(limits=HistoryLimits(changes=12))
        self.states: dict[int, State] = {1: {}}
        self.changes: list[
            tuple[int, str, str, str, str]
        ] = []  # version, key, type, old, new label
        self.watches: list[tuple[WatchCursor, str, str, list[tuple[str, str, int]], int]] = []

    def teardown(self) -> None:
        for watch, *_ in self.watches:
            self.loop.run_until_complete(watch.close())
        self.loop.close()

    @property
    def now(self) -> State:
        return self.states[self.store.version]

    @rule(space=st.sampled_from(SPACES), name=st.sampled_from(NAMES), label=st.sampled_from("pq"))
    def put(self, space: str, name: str, label: str) -> None:
        before, key = dict(self.now), f"{space}/{name}"
        entry = self.store.put(PODS, document(space, name, label), ())
        old = before[key]["metadata"]["labels"]["l"] if key in before else ""
        self.states[entry.version] = {**before, key: msgspec.json.decode(entry.body)}
        self.changes.append((entry.version, key, "MODIFIED" if old else "ADDED", old, label))

    @precondition(lambda self: self.now)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        before = dict(self.now)
        key = data.draw(st.sampled_from(sorted(before)))
        gone = before.pop(key)
        entry = self.store.remove(PODS, msgspec.json.decode(msgspec.json.encode(gone)), ())
        self.states[entry.version] = before
        self.changes.append((entry.version, key, "DELETED", gone["metadata"]["labels"]["l"], ""))

    @rule(data=st.data(), space=st.sampled_from(("", *SPACES)))
    def list_at(self, data: st.DataObject, space: str) -> None:
        version = data.draw(st.sampled_from(sorted(self.states)))
        collection = self.store.collection(PODS)
        prefix = f"{space}/" if space else ""
        if version < collection.floor:
            with pytest.raises(ApiError) as refused:
                collection.at(version, prefix, prefix)
            assert refused.value.http_status == 410
            return
        found = [
            msgspec.json.decode(entry.body) for entry in collection.at(version, prefix, prefix)
        ]
        state = self.states[version]
        assert found == [state[key] for key in sorted(state) if key.startswith(prefix)]

    @rule(data=st.data(), space=st.sampled_from(("", *SPACES)), label=st.sampled_from(("", "p")))
    def watch_from(self, data: st.DataObject, space: str, label: str) -> None:
        version = data.draw(st.sampled_from(sorted(self.states)))
        collection = self.store.collection(PODS)
        if version < collection.floor:
            with pytest.raises(ApiError):
                collection.position(version)
            return
        match = (lambda entry: entry.labels["l"] == label) if label else None
        scope = WatchScope(f"{space}/" if space else "", match, None, named)
        position = collection.position(version)

        async def begin() -> WatchCursor:
            return WatchCursor(collection, scope, position, [], lambda: self.store.version, None)

        watch = self.loop.run_until_complete(begin())
        self.watches.append((watch, scope.prefix, label, [], version))

    @precondition(lambda self: self.watches)
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, len(self.watches) - 1))
        watch, prefix, label, seen, start = self.watches[number]
        wanted = self.expected(prefix, label, start)
        if len(seen) == len(wanted) and not watch.ended:
            return  # A read would wait.
        while len(seen) < len(wanted):
            events = self.loop.run_until_complete(asyncio.wait_for(watch.read(), 5))
            if not events:  # The log has overtaken it: what came is a true beginning.
                assert self.store.collection(PODS).first > 0
                break
            for text in events:
                told = msgspec.json.decode(text)
                meta = told["object"]["metadata"]
                key = f"{meta['namespace']}/{meta['name']}"
                seen.append((told["type"], key, int(meta["resourceVersion"])))
        assert seen == wanted[: len(seen)]
        assert watch.ended or seen == wanted

    def expected(self, prefix: str, label: str, start: int) -> list[tuple[str, str, int]]:
        """What a watch tells, straight from the list of all changes."""
        told = []
        for version, key, kind, old, new in self.changes:
            if version <= start or not key.startswith(prefix):
                continue
            if label:
                before, after = old == label, kind != "DELETED" and new == label
                if not before and not after:
                    continue
                kind = "DELETED" if not after else "MODIFIED" if before else "ADDED"
            told.append((kind, key, version))
        return told

    @invariant()
    def bounded(self) -> None:
        collection = self.store.collection(PODS)
        assert len(collection.log) <= 12
        assert collection.floor <= self.store.version
        assert len(collection.sleepers) <= len(self.watches)


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=examples(0.3), stateful_step_count=40, deadline=None)


class Memory:
    """A log that keeps what is committed."""

    def __init__(self) -> None:
        self.batches: list[list[StoreWrite]] = []

    def commit(self, writes: list[StoreWrite]) -> None:
        self.batches.append(list(writes))


def test_one_turn_is_one_commit_and_nobody_sees_it_earlier() -> None:
    async def run() -> None:
        log = Memory()
        store = Store(log)
        seen: list[str] = []
        store.listen(PODS, lambda storage, change: seen.append(change.entry.key))
        for name in NAMES:
            store.put(PODS, document("a", name, "p"), ())
        assert (log.batches, seen) == ([], [])
        await store.settled()
        assert [[write.key for write in batch] for batch in log.batches] == [["a/x", "a/y", "a/z"]]
        assert seen == ["a/x", "a/y", "a/z"]

    asyncio.run(run())


def test_what_cannot_be_committed_is_undone() -> None:
    async def run() -> None:
        store = Store(Memory())
        store.put(PODS, document("a", "x", "p"), ())
        await store.settled()
        full = FaultPlan(1, {"controlplane.commit": FaultRule(1.0, OSError(28, "no space left"))})
        with inject(full):
            store.put(PODS, document("a", "x", "q"), ())
            store.put(PODS, document("a", "y", "q"), ())
            with pytest.raises(ApiError) as refused:
                await store.settled()
        assert refused.value.http_status == 500
        (entry,) = store.collection(PODS).entries.values()
        assert (entry.key, entry.labels) == ("a/x", {"l": "p"})
        later = store.put(PODS, document("a", "z", "q"), ())
        await store.settled()
        assert later.version > entry.version
        assert [e.key for e in store.collection(PODS).at(later.version, "", "")] == ["a/x", "a/z"]

    asyncio.run(run())


def refusing() -> FaultPlan:
    return FaultPlan(1, {"controlplane.commit": FaultRule(1.0, OSError(28, "no space left"))})


def watch(store: Store, bookmark_seconds: float | None = None) -> WatchCursor:
    collection = store.collection(PODS)
    scope = WatchScope("", None, None, named, bookmark_seconds)
    position = collection.position(store.version)
    return WatchCursor(collection, scope, position, [], lambda: store.committed_version, None)


def test_a_failed_commit_uses_up_no_version() -> None:
    """A version that somebody was told, but that is not in the journal, would be given twice."""

    async def run() -> None:
        store = Store(Memory())
        store.put(PODS, document("a", "x", "p"), ())
        await store.settled()
        before = (store.version, store.collection(PODS).version)
        with inject(refusing()):
            store.put(PODS, document("a", "y", "q"), ())
            assert store.committed_version == before[0] < store.version
            seen = StoreReader(store).generation(PODS)
            with pytest.raises(ApiError):
                await store.settled()
        assert (store.version, store.collection(PODS).version) == before
        # What was looked up in between must not pass for what comes under the same version.
        store.put(PODS, document("a", "z", "q"), ())
        assert StoreReader(store).generation(PODS) != seen

    asyncio.run(run())


def test_a_failed_commit_larger_than_the_log_is_undone() -> None:
    async def run() -> None:
        store = Store(Memory(), HistoryLimits(changes=4))
        store.put(PODS, document("a", "x", "p"), ())
        await store.settled()
        with inject(refusing()):
            for number in range(12):
                store.put(PODS, document("b", f"n{number}", "q"), ())
            with pytest.raises(ApiError):
                async with asyncio.timeout(5):
                    await store.settled()
        assert list(store.collection(PODS).entries) == ["a/x"]
        store.put(PODS, document("a", "z", "q"), ())
        await store.settled()
        assert list(store.collection(PODS).keys("", "")) == ["a/x", "a/z"]

    asyncio.run(run())


def test_a_bookmark_is_never_ahead_of_the_events() -> None:
    async def run() -> None:
        store = Store(Memory())
        store.put(PODS, document("a", "x", "p"), ())
        await store.settled()
        follower = watch(store, bookmark_seconds=0.0)
        await asyncio.sleep(0.01)
        store.put(PODS, document("a", "y", "q"), ())
        (first,) = await follower.read()
        assert msgspec.json.decode(first)["object"] == {"bookmark": 2, "end": False}
        second, *_ = await follower.read()
        assert msgspec.json.decode(second)["object"]["metadata"]["resourceVersion"] == "3"
        await follower.close()

    asyncio.run(run())


@pytest.mark.parametrize("log", [None, Memory()])
def test_a_watch_of_a_dropped_collection_tells_its_end_first(log: Memory | None) -> None:
    async def run() -> None:
        store = Store(log)
        made = document("a", "x", "p")
        store.put(PODS, made, ())
        await store.settled()
        follower = watch(store)
        reading = asyncio.create_task(follower.read())
        await asyncio.sleep(0)
        store.remove(PODS, made, ())
        store.drop(PODS)
        (told,) = await asyncio.wait_for(reading, 5)
        assert msgspec.json.decode(told)["type"] == "DELETED"
        assert await follower.read() == []

    asyncio.run(run())


def test_steps_of_several_collections_are_counted_together() -> None:
    store = Store()
    reader = StoreReader(store)
    seen = [reader.generation(PODS, "nodes")]

    def step() -> bool:
        seen.append(reader.generation(PODS, "nodes"))
        return seen[-1] not in seen[:-1]

    made = document("a", "x", "p")
    store.put("leases", document("a", "x", "p"), ())
    assert not step()
    store.put(PODS, made, ())
    assert step()
    store.remove(PODS, made, ())
    assert step()
    store.drop(PODS)
    assert step()
    store.put(PODS, document("a", "x", "p"), ())
    assert step()
    store.put("nodes", document("a", "y", "p"), ())
    assert step()
    assert reader.generation("leases") == reader.generation("leases")


def test_events_are_kept_while_several_watch() -> None:
    async def run() -> None:
        store = Store()
        collection = store.collection(PODS)
        alone, label = watch(store), 0

        async def told(*watches: WatchCursor) -> list[bytes]:
            nonlocal label
            label += 1
            store.put(PODS, document("a", "x", str(label)), ())
            return [event for each in watches for event in await each.read()]

        await told(alone)
        assert collection.log[-1].event == b""
        other = watch(store)
        first, second = await told(alone, other)
        assert first is second is collection.log[-1].event
        await other.close()
        await other.close()
        (last,) = await told(alone)
        assert msgspec.json.decode(last)["object"]["metadata"]["labels"] == {"l": str(label)}
        assert collection.log[-1].event == b""

    asyncio.run(run())


def test_a_listener_that_fails_keeps_nobody_waiting() -> None:
    async def run() -> None:
        store, failures = Store(Memory()), []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))

        def broken(storage: str, change: object) -> None:
            raise RuntimeError(storage)

        store.listen(PODS, broken)
        follower = watch(store)
        store.put(PODS, document("a", "x", "p"), ())
        async with asyncio.timeout(5):
            await store.settled()
            (told,) = await follower.read()
        assert msgspec.json.decode(told)["type"] == "ADDED"
        assert [str(failure) for failure in failures] == [PODS]
        await follower.close()

    asyncio.run(run())
