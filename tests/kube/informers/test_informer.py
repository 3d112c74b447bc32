# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api import KINDS, Object, Pod
from koord.base import faults
from koord.base.metrics import registry
from koord.kube.client import Client
from koord.kube.errors import TransportError
from koord.kube.informers.informer import Informer, InformerMetrics
from koord.kube.requests.retry import RetryPolicy
from tests.kube.fake_server import FakeServer
from tests.kube.harness import run_virtual
from tests.kube.informers.history import History

PODS = next(kind for kind in KINDS if kind.name == "Pod")


def path(name: str, namespace: str = "a") -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def client_of(server: FakeServer) -> Client:
    return Client(server, policy=RetryPolicy(attempts=1), requests_per_second=None)


@asynccontextmanager
async def running(informer: Informer[Any]):
    task = asyncio.create_task(informer.run())
    try:
        await informer.synced()
        yield informer
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def truth(server: FakeServer) -> dict[str, tuple[str, int]]:
    metas = [document["metadata"] for document in server.objects.values()]
    return {
        f"{meta['namespace']}/{meta['name']}": (meta["uid"], int(meta["resourceVersion"]))
        for meta in metas
    }


def check(story: Callable[[FakeServer, Informer[Pod], History], Awaitable[None]], **options: Any):
    """Runs a story against an informer over three pods, and checks what it was told in the end."""

    async def whole() -> None:
        server = FakeServer()
        for name in "xyz":
            server.put(path(name), spec={"nodeName": f"node-{name}"})
        informer = Informer(client_of(server), Pod, page_size=2, **options)
        history = History()
        history.follow(informer)
        async with running(informer):
            await story(server, informer, history)
            await asyncio.sleep(60)
            history.check(informer, truth(server))

    run_virtual(whole())


def test_a_list_and_a_watch_fill_the_cache() -> None:
    async def story(server: FakeServer, informer: Informer[Pod], history: History) -> None:
        assert len(informer) == 3
        assert server.requests["list"] == 2
        server.put(path("x"), spec={"nodeName": "node-1"})
        server.put(path("w"))
        server.remove(path("y"))
        await asyncio.sleep(1)
        pod = informer.get("a/x")
        assert pod is not None
        assert pod.spec.node_name == "node-1"
        assert informer.get("a/y") is None
        assert [what for what, _, _ in history.told[3:]] == ["updated", "added", "deleted"]
        assert history.unknown == 0
        assert informer.resource_version == str(server.version)

    check(story)


def test_a_cut_watch_resumes_and_nothing_is_told_twice() -> None:
    async def story(server: FakeServer, informer: Informer[Pod], history: History) -> None:
        for round_ in range(20):
            server.put(path("x"), spec={"nodeName": f"n{round_}"})
            server.cut()
            server.put(path("y"), spec={"nodeName": f"n{round_}"})
            await asyncio.sleep(5)
        assert server.requests["list"] == 2
        assert len(history.told) == 3 + 40

    check(story)


@pytest.mark.parametrize("in_stream", [True, False])
def test_a_410_lists_anew_and_tells_only_what_differs(in_stream: bool) -> None:
    async def story(server: FakeServer, informer: Informer[Pod], history: History) -> None:
        await asyncio.sleep(1)
        before = len(history.told)
        if in_stream:
            server.expire()
        else:
            server.cut()
        server.put(path("x"), spec={"nodeName": "moved"})
        server.remove(path("y"))
        server.remove(path("z"))
        server.put(path("z"))
        server.compact()
        await asyncio.sleep(60)
        told = sorted(f"{what} {key}" for what, key, _ in history.told[before:])
        assert told == [
            "added a/z",
            "deleted a/y",
            "deleted a/z",
            "updated a/x",
        ]
        assert history.unknown == 2

    check(story)


def test_bookmarks_move_the_version_that_a_watch_resumes_from() -> None:
    async def story(server: FakeServer, informer: Informer[Pod], history: History) -> None:
        await asyncio.sleep(1)
        server.put("/api/v1/namespaces/a/configmaps/other")
        server.bookmark()
        await asyncio.sleep(1)
        server.compact()
        server.cut()
        await asyncio.sleep(60)
        assert server.requests["list"] == 2
        del server.objects["/api/v1/namespaces/a/configmaps/other"]

    check(story)


def test_an_object_made_anew_in_one_stroke_is_a_deletion_and_an_addition() -> None:
    async def story(server: FakeServer, informer: Informer[Pod], history: History) -> None:
        document = server.objects[path("x")]
        server.version += 1
        # The DELETED event is lost, as where a watch cache is rebuilt.
        del server.objects[path("x")]
        server.put(path("x"))
        await asyncio.sleep(1)
        assert [what for what, _, _ in history.told[3:]] == ["deleted", "added"]
        assert history.unknown == 1
        assert history.state["a/x"][0] != document["metadata"]["uid"]

    check(story)


def test_events_that_were_told_before_are_not_told_again() -> None:
    async def story(server: FakeServer, informer: Informer[Pod], history: History) -> None:
        server.put(path("x"), spec={"nodeName": "1"})
        first = server.history[-1][3]
        server.put(path("x"), spec={"nodeName": "2"})
        await asyncio.sleep(1)
        told = len(history.told)
        for stream in server.streams:
            stream.push(first)
        await asyncio.sleep(1)
        assert len(history.told) == told

    check(story)


def test_an_answer_to_a_write_is_taken_in_at_once_and_told_once() -> None:
    async def story(server: FakeServer, informer: Informer[Pod], history: History) -> None:
        before = informer.get("a/x")
        assert before is not None
        server.put(path("x"), spec={"nodeName": "written"})
        answer = await client_of(server).get(Pod, "x", "a")
        informer.observe_write(answer)
        found = informer.get("a/x")
        assert found is not None
        assert found.spec.node_name == "written"
        informer.observe_write(before)
        await asyncio.sleep(1)
        assert [what for what, _, _ in history.told[3:]] == ["updated"]
        server.remove(path("x"))
        await asyncio.sleep(1)
        informer.observe_write(answer)
        assert informer.get("a/x") is None

    check(story)


def test_an_answer_about_an_earlier_life_is_passed_over() -> None:
    async def story(server: FakeServer, informer: Informer[Pod], history: History) -> None:
        server.put(path("x"), spec={"nodeName": "earlier"})
        answer = await client_of(server).get(Pod, "x", "a")
        server.remove(path("x"))
        server.put(path("x"), spec={"nodeName": "now"})
        await asyncio.sleep(1)
        later = replace(answer.metadata, resource_version="999999")
        informer.observe_write(replace(answer, metadata=later))
        found = informer.get("a/x")
        assert found is not None
        assert found.spec.node_name == "now"

    check(story)


def test_a_list_that_was_on_its_way_does_not_take_a_write_back() -> None:
    async def story(server: FakeServer, informer: Informer[Pod], history: History) -> None:
        async def slowly(request: Any) -> None:
            if request.path.endswith("/pods"):
                await asyncio.sleep(5)

        await asyncio.sleep(1)
        server.after = slowly
        server.expire()
        await asyncio.sleep(4)
        assert server.requests["list"] == 3
        server.put(path("x"), spec={"nodeName": "written"})
        informer.observe_write(await client_of(server).get(Pod, "x", "a"))
        await asyncio.sleep(60)
        assert [what for what, _, _ in history.told[3:]] == ["updated"]

    check(story)


def test_a_storm_of_410_is_met_with_back_off() -> None:
    async def story(server: FakeServer, informer: Informer[Pod], history: History) -> None:
        def refuse(request: Any) -> None:
            if ("watch", "true") in request.query:
                server.version += 1
                server.compact()

        server.before = refuse
        server.cut()
        await asyncio.sleep(600)
        lists = server.requests["list"]
        assert 15 < lists < 120
        server.before = None
        await asyncio.sleep(60)

    check(story)


def test_handlers_are_called_in_order_and_one_that_raises_stops_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = registry()
    calls: list[str] = []

    def broken(*_: object) -> None:
        calls.append("broken")
        raise LookupError("no\nluck")

    async def story(server: FakeServer, informer: Informer[Pod], history: History) -> None:
        informer.on_change(updated=broken)
        informer.on_change(updated=lambda old, new: calls.append("after"))
        server.put(path("x"), spec={"nodeName": "1"})
        await asyncio.sleep(1)
        assert calls == ["broken", "after"]

    with caplog.at_level(logging.ERROR, "koord"):
        check(story, metrics=InformerMetrics(metrics))
    assert len(caplog.records) == 1
    assert "\n" not in str(caplog.records[0].__dict__["koord_fields"]["error"])
    text = metrics.expose().decode()
    assert 'koord_informer_handler_errors_total{kind="Pod"} 1.0' in text
    assert 'koord_informer_events_total{kind="Pod",type="added"} 3.0' in text
    assert 'koord_informer_objects{kind="Pod"} 3.0' in text


def test_a_late_handler_is_told_of_what_is_there_and_a_removed_one_of_nothing() -> None:
    async def story(server: FakeServer, informer: Informer[Pod], history: History) -> None:
        late = History()
        handlers = informer.on_change(late.added, late.updated, late.deleted)
        assert late.state == history.state
        server.remove(path("x"))
        await asyncio.sleep(1)
        assert late.state == history.state
        informer.remove_handlers(handlers)
        server.remove(path("y"))
        await asyncio.sleep(1)
        assert late.state != history.state

    check(story)


def test_a_resync_tells_of_every_object_as_it_is() -> None:
    seen: list[tuple[str, bool]] = []

    async def whole() -> None:
        server = FakeServer()
        server.put(path("x"))
        informer = Informer(client_of(server), Pod, resync_seconds=10.0)
        informer.on_change(updated=lambda old, new: seen.append((new.metadata.name, old is new)))
        async with running(informer):
            await asyncio.sleep(25)

    run_virtual(whole())
    assert seen == [("x", True), ("x", True)]


def test_indexes_follow_every_change() -> None:
    async def story(server: FakeServer, informer: Informer[Pod], history: History) -> None:
        server.put(path("x"), spec={"nodeName": "node-y"})
        server.put(path("z"), spec={})
        await asyncio.sleep(1)
        names = [pod.metadata.name for pod in informer.by_index("node", "node-y")]
        assert names == ["y", "x"]
        assert informer.by_index("node", "node-x") == []
        server.remove(path("y"))
        await asyncio.sleep(1)
        assert [pod.metadata.name for pod in informer.by_index("node", "node-y")] == ["x"]
        with pytest.raises(KeyError):
            informer.by_index("zone", "a")

    check(story, indexers={"node": lambda pod: [pod.spec.node_name]})


@pytest.mark.parametrize("able", [True, False])
def test_a_list_is_streamed_where_the_server_can(able: bool) -> None:
    async def whole() -> None:
        server = FakeServer()
        server.streams_lists = able
        for name in "xyz":
            server.put(path(name))
        informer = Informer(client_of(server), Pod, stream_list=True)
        history = History()
        history.follow(informer)
        async with running(informer):
            assert len(informer) == 3
            assert server.requests["list"] == (0 if able else 1)
            server.remove(path("x"))
            server.expire()
            await asyncio.sleep(60)
            history.check(informer, truth(server))

    run_virtual(whole())


class PodView(Object):
    """A pod of which only the metadata counts."""


@pytest.mark.parametrize("options", [{"project": PodView}, {}])
def test_a_smaller_type_and_plain_documents_serve_too(options: dict[str, Any]) -> None:
    async def whole() -> None:
        server = FakeServer()
        server.put(path("x"), spec={"nodeName": "n"})
        kind: Any = Pod if options else PODS
        informer: Informer[Any] = Informer(client_of(server), kind, namespace="a", **options)
        async with running(informer):
            server.put(path("y"), spec={"nodeName": "n"})
            server.put(path("z", "b"))
            await asyncio.sleep(1)
            found = informer.get("a/y")
            assert len(informer) == 2
            assert type(found) is (PodView if options else dict)

    run_virtual(whole())


def _doubled(pod: Pod) -> Pod:
    """Every container twice."""
    if not pod.spec.containers:
        return pod
    twice = [replace(each) for each in (*pod.spec.containers, *pod.spec.containers)]
    return replace(pod, spec=replace(pod.spec, containers=twice))


@pytest.mark.parametrize("share", [True, False])
def test_objects_pass_through_a_function_once(share: bool) -> None:
    seen: list[tuple[str, str, int]] = []

    def see(what: str, pod: Pod) -> None:
        seen.append((what, pod.metadata.name, len(pod.spec.containers)))

    async def story(server: FakeServer, informer: Informer[Pod], history: History) -> None:
        def updated(old: Pod, new: Pod) -> None:
            see("from", old)
            see("to", new)

        informer.on_change(None, updated, lambda last, unknown: see("deleted", last))
        one = {"containers": [{"name": "a", "image": "i"}]}
        server.put(path("v"), spec=one)
        server.put(path("w"), spec={**one, "nodeName": "n"})
        await asyncio.sleep(1)
        v, w = informer.get("a/v"), informer.get("a/w")
        assert v is not None
        assert w is not None
        assert [each.name for each in v.spec.containers] == ["a", "a"]
        # What was made of equal parts is kept once too.
        assert (v.spec.containers is w.spec.containers) is share
        server.put(path("v"), spec={**one, "nodeName": "n"})
        await asyncio.sleep(1)
        # Listed anew, from nothing changed to all that changed.
        server.expire()
        server.put(path("w"), spec=one)
        server.remove(path("v"))
        await asyncio.sleep(60)
        assert seen == [
            ("from", "v", 2),
            ("to", "v", 2),
            ("from", "w", 2),
            ("to", "w", 2),
            ("deleted", "v", 2),
        ]
        server.remove(path("w"))
        await asyncio.sleep(1)
        assert seen[5:] == [("deleted", "w", 2)]

    check(story, transform=_doubled, share=share)


def test_failures_that_are_injected_are_survived() -> None:
    async def story(server: FakeServer, informer: Informer[Pod], history: History) -> None:
        for number in range(20):
            server.put(path("x"), spec={"nodeName": f"n{number}"})
            (server.expire if number % 3 else server.cut)()
            await asyncio.sleep(1)

    lost = faults.FaultRule(0.5, TransportError("injected"))
    rules = {"kube.informer.list": lost, "kube.informer.watch": lost}
    with faults.inject(faults.FaultPlan(seed=3, rules=rules)) as plan:
        check(story)
    assert plan.failed["kube.informer.list"] > 0
    assert plan.failed["kube.informer.watch"] > 0


def test_cancelling_leaves_no_task_and_no_watch_behind() -> None:
    async def whole() -> None:
        server = FakeServer()
        informer = Informer(client_of(server), Pod, resync_seconds=5.0)
        async with running(informer):
            await asyncio.sleep(1)
            assert len(server.streams) == 1
        assert server.streams == []
        assert len(asyncio.all_tasks()) == 1

    run_virtual(whole())


CHANGES = st.tuples(st.sampled_from(["put", "remove"]), st.sampled_from("xyzuvw"))
WEATHER = st.sampled_from(
    ["cut", "end", "compact", "expire", "bookmark", "wait", "wait", "fail", "lose", "heal"]
)


@given(st.lists(st.one_of(CHANGES, CHANGES, CHANGES, WEATHER), max_size=60), st.booleans())
def test_whatever_happens_the_handlers_learn_the_truth_in_order(
    steps: list[Any], stream_list: bool
) -> None:
    def lose(_: Any) -> None:
        raise TransportError("lost")

    async def story(server: FakeServer, informer: Informer[Pod], history: History) -> None:
        for number, step in enumerate(steps):
            if step == "wait":
                await asyncio.sleep(0.3)
            elif step == "fail":
                server.before = lose
            elif step == "lose":
                server.after = lose
            elif step == "heal":
                server.before = server.after = None
            elif isinstance(step, str):
                getattr(server, step)()
            elif step[0] == "put":
                server.put(path(step[1]), spec={"nodeName": f"node-{number}"})
            elif path(step[1]) in server.objects:
                server.remove(path(step[1]))
        server.before = server.after = None
        await asyncio.sleep(60)

    check(story, stream_list=stream_list)
