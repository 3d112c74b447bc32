# SPDX-License-Identifier: Apache-2.0
"""Nodes that are promised to pods."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.scheduler.queue.nominator import Nominator
from tests.controllers.scheduler.queue.pods import Bench, Info


def uids(pods: list[Info]) -> list[str]:
    return [pod.uid for pod in pods]


def test_by_node_highest_priority_first() -> None:
    nominator = Nominator()
    for uid, priority in (("a", 1), ("b", 3), ("c", 1), ("d", 2)):
        nominator.nominate(Info(uid, priority), "node-1")
    assert uids(nominator.on_node("node-1")) == ["b", "d", "a", "c"]
    assert uids(nominator.on_node("node-1", at_least=2)) == ["b", "d"]
    assert uids(nominator.forget_lower("node-1", 2)) == ["a", "c"]
    assert uids(nominator.on_node("node-1")) == ["b", "d"]
    assert nominator.on_node("node-2") == []


def test_a_promise_that_the_api_has_not_heard_of_outlives_an_update() -> None:
    nominator = Nominator()
    nominator.nominate(Info("a"), "node-1")
    nominator.update(Info("a", priority=5), "", "")
    assert nominator.on_node("node-1") == [Info("a", priority=5)]
    nominator.update(Info("a"), "", "node-2")
    assert nominator.node_of("a") == "node-2"
    nominator.update(Info("a"), "node-2", "")
    assert nominator.node_of("a") == ""
    assert nominator.nodes() == []


def test_a_deleted_pod_keeps_no_promise() -> None:
    bench = Bench()
    bench.add("a")
    bench.queue.nominator.nominate(Info("a"), "node-1")
    bench.queue.delete("a")
    assert bench.queue.nominator.on_node("node-1") == []


def test_a_pod_that_has_its_node_keeps_no_promise() -> None:
    bench = Bench()
    bench.add("a")
    bench.queue.pop()
    bench.queue.nominator.nominate(Info("a"), "node-1")
    bench.queue.done("a")
    assert bench.queue.nominator.nodes() == []
    assert bench.queue.empty


steps = st.tuples(st.sampled_from("abc"), st.sampled_from(["", "n1", "n2"]), st.integers(0, 2))


@given(st.lists(steps))
def test_it_is_a_map_from_pod_to_node(done: list[tuple[str, str, int]]) -> None:
    told: set[str] = set()
    nominator, model = Nominator(told.add), dict[str, tuple[str, int]]()
    for uid, name, priority in done:
        before = model.pop(uid, ("", 0))[0]
        told.clear()
        nominator.nominate(Info(uid, priority), name)
        if name:
            model[uid] = (name, priority)
        assert told == {before, name} - {""}
        for at in ("n1", "n2"):
            on_it = [Info(u, p) for u, (n, p) in model.items() if n == at]
            assert sorted(nominator.on_node(at), key=lambda i: i.uid) == sorted(
                on_it, key=lambda i: i.uid
            )
    assert nominator.nodes() == sorted({name for name, _ in model.values()})
    assert len(nominator) == len(model)
