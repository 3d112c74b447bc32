# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import Event, Node, ObjectMeta, ObjectReference, Pod
from koord.api.kinds.cluster import EventSource
from koord.base.clock import VirtualClock
from koord.base.metrics import registry
from koord.kube.client import Client
from koord.kube.dry_run import DryRun
from koord.kube.errors import ApiError, Status, StatusCause, StatusDetails, TransportError
from koord.kube.event_correlation import COMBINED, Correlator
from koord.kube.events import EventRecorder
from koord.kube.requests.options import whole
from koord.kube.requests.retry import RetryPolicy
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from koord.kube.transport.messages import Request, Response
from tests.kube.fake_server import FakeServer
from tests.kube.harness import failure, run_virtual
from tests.kube.servers import BOTH, started

POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="u1", resource_version="7"))
NODE = Node(metadata=ObjectMeta(name="node-1", uid="u2"))

Story = Callable[[FakeServer, EventRecorder], Awaitable[None]]


class PipeliningServer(FakeServer):
    """A server that takes several writes in one go; an ApiError of ``before`` is its answer."""

    pipelines = True

    def __init__(self) -> None:
        super().__init__()
        self.in_one_go: list[int] = []
        self.under_way = self.most_under_way = 0

    async def send_all(self, requests: Sequence[Request]) -> list[Response | TransportError]:
        self.in_one_go.append(len(requests))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        outcomes = [await self._outcome(each) for each in requests]
        self.under_way -= 1
        return outcomes

    async def _outcome(self, request: Request) -> Response | TransportError:
        try:
            return await self.send(request)
        except TransportError as error:
            return error
        except ApiError as error:
            after = str(error.retry_after_seconds or "")
            return failure(error.http_status, error.reason, retry_after=after)


def record(
    story: Story, *, server: FakeServer | None = None, attempts: int = 1, **options: Any
) -> tuple[FakeServer, str]:
    """Runs a story with a recorder; gives the server and the metrics as they are afterwards."""
    clock = VirtualClock(wall_start_seconds=1_900_000_000.5)
    metrics = registry()
    server = server or FakeServer()

    async def whole() -> None:
        policy = RetryPolicy(attempts=attempts)
        client = Client(server, policy=policy, requests_per_second=None, registry=metrics)
        recorder = EventRecorder(client, "koord-scheduler", clock=clock, metrics=metrics, **options)
        task = asyncio.create_task(recorder.run())
        await asyncio.sleep(0)
        await story(server, recorder)
        task.cancel()
        await asyncio.wait({task})
        assert len(asyncio.all_tasks()) == 1

    run_virtual(whole(), clock)
    return server, metrics.expose().decode()


def events(server: FakeServer) -> list[dict[str, Any]]:
    return list(server.objects.values())


def test_an_event_looks_like_client_gos() -> None:
    async def story(server: FakeServer, recorder: EventRecorder) -> None:
        recorder.event(POD, "Normal", "Scheduled", "assigned to node-1")

    server, _ = record(story, host="master-0")
    ((path, event),) = server.objects.items()
    name = f"web-0.{int(1_900_000_000.5 * 1e9):x}"
    assert path == f"/api/v1/namespaces/shop/events/{name}"
    del event["metadata"]
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web-0", "uid": "u1",
            "resourceVersion": "7",
        },
        "type": "Normal",
        "reason": "Scheduled",
        "message": "assigned to node-1",
        "count": 1,
        "source": {"component": "koord-scheduler", "host": "master-0"},
        "firstTimestamp": "2030-03-17T17:46:40Z",
        "lastTimestamp": "2030-03-17T17:46:40Z",
    }  # fmt: skip


def test_events_of_objects_without_namespace_go_to_default() -> None:
    async def story(server: FakeServer, recorder: EventRecorder) -> None:
        recorder.event(NODE, "Warning", "Full", "no room")
        recorder.event(ObjectReference(kind="Quota", name="q"), "Warning", "Full", "no room")

    server, _ = record(story)
    spaces = [event["metadata"]["namespace"] for event in events(server)]
    assert spaces == ["default", "default"]
    assert "namespace" not in events(server)[0]["involvedObject"]


def test_a_repeated_event_is_counted_and_not_written_anew() -> None:
    async def story(server: FakeServer, recorder: EventRecorder) -> None:
        for _ in range(4):
            recorder.event(POD, "Warning", "FailedScheduling", "0/3 nodes fit")
            await asyncio.sleep(60)
        assert server.requests == {"post": 1, "patch": 3}
        (path,) = server.objects
        server.remove(path)
        recorder.event(POD, "Warning", "FailedScheduling", "0/3 nodes fit")

    server, text = record(story)
    (event,) = events(server)
    assert event["count"] == 5
    assert event["firstTimestamp"] == "2030-03-17T17:46:40Z"
    assert event["lastTimestamp"] == "2030-03-17T17:50:40Z"
    assert 'koord_events_total{result="written"} 5.0' in text


def test_many_messages_of_one_reason_are_combined() -> None:
    async def story(server: FakeServer, recorder: EventRecorder) -> None:
        for number in range(15):
            recorder.event(POD, "Warning", "BackOff", f"restart {number}")
        await asyncio.sleep(1)

    server, _ = record(story)
    assert len(events(server)) == 10
    last = events(server)[-1]
    assert (last["message"], last["count"]) == (f"{COMBINED}restart 14", 6)


def test_an_object_that_is_talked_about_too_much_is_rationed() -> None:
    async def story(server: FakeServer, recorder: EventRecorder) -> None:
        for number in range(40):
            recorder.event(POD, "Warning", f"Reason{number}", "m")
            recorder.event(NODE, "Warning", "Other", "m")
        await asyncio.sleep(601)
        for number in range(40, 50):
            recorder.event(POD, "Warning", f"Reason{number}", "m")

    server, text = record(story)
    told = [event for event in events(server) if event["involvedObject"]["kind"] == "Pod"]
    assert len(told) == 25 + 2
    assert 'koord_events_total{result="filtered"} 38.0' in text


def test_saying_never_waits_and_what_is_too_much_is_dropped_and_counted() -> None:
    async def story(server: FakeServer, recorder: EventRecorder) -> None:
        for number in range(12):
            recorder.event(POD, "Normal", f"R{number}", "m")

    server, text = record(story, capacity=5)
    assert len(events(server)) == 5
    assert 'koord_events_total{result="dropped"} 7.0' in text


def test_a_lost_answer_is_tried_again_and_makes_no_second_event() -> None:
    async def story(server: FakeServer, recorder: EventRecorder) -> None:
        lost = iter([True, True, False])

        def lose(_: object) -> None:
            if next(lost, False):
                raise TransportError("lost")

        server.after = lose
        recorder.event(POD, "Normal", "A", "m")
        await asyncio.sleep(60)
        assert len(server.objects) == 1
        server.before = lose
        recorder.event(POD, "Normal", "B", "m")
        await asyncio.sleep(60)

    server, text = record(story)
    assert [event["reason"] for event in events(server)] == ["A", "B"]
    assert 'koord_events_total{result="written"} 2.0' in text


def test_a_refusal_is_final_and_the_next_event_is_written() -> None:
    async def story(server: FakeServer, recorder: EventRecorder) -> None:
        def refuse(_: object) -> None:
            server.before = None
            raise ApiError(Status(code=403, reason="Forbidden", message="namespace terminates"))

        server.before = refuse
        recorder.event(POD, "Normal", "A", "m")
        recorder.event(POD, "Normal", "A", "m")

    server, text = record(story)
    assert [event["count"] for event in events(server)] == [1]
    assert 'koord_events_total{result="refused"} 1.0' in text


@pytest.mark.parametrize(("cause", "level"), [("NamespaceTerminating", "DEBUG"), ("", "WARNING")])
def test_a_namespace_that_ends_is_no_reason_to_warn(
    caplog: pytest.LogCaptureFixture, cause: str, level: str
) -> None:
    details = StatusDetails(causes=[StatusCause(reason=cause)])

    async def story(server: FakeServer, recorder: EventRecorder) -> None:
        def refuse(_: object) -> None:
            raise ApiError(Status(code=403, reason="Forbidden", details=details))

        server.before = refuse
        recorder.event(POD, "Normal", "A", "m")

    with caplog.at_level(logging.DEBUG, "koord.events"):
        record(story)
    assert [r.levelname for r in caplog.records if r.message == "event not written"] == [level]


def test_what_waits_is_flushed_at_the_end_but_not_for_ever() -> None:
    async def slow(server: FakeServer, recorder: EventRecorder) -> None:
        server.before = lambda _: asyncio.sleep(1)
        for number in range(8):
            recorder.event(POD, "Normal", f"R{number}", "m")
        await asyncio.sleep(0.5)

    server, text = record(slow, flush_seconds=5.5)
    # The write that was cut short is done again, and five more.
    assert [event["reason"] for event in events(server)] == ["R0", "R1", "R2", "R3", "R4"]
    assert [event["count"] for event in events(server)] == [1] * 5
    assert 'koord_events_total{result="dropped"} 3.0' in text


def test_events_give_way_while_others_write_but_are_not_starved() -> None:
    seen: dict[str, int] = {}

    async def story(server: FakeServer, recorder: EventRecorder) -> None:
        busy = True
        recorder.yield_to(lambda: busy)
        for number in range(6):
            recorder.event(POD, "Normal", "Scheduled", f"number {number}")
        await asyncio.sleep(0.5)
        seen["at once"] = len(server.objects)
        await asyncio.sleep(1.0)
        seen["after 1.5 s"] = len(server.objects)
        for number in range(6):
            recorder.event(NODE, "Normal", "Scheduled", f"number {number}")
        await asyncio.sleep(0.5)
        seen["crowded"] = len(server.objects)
        await asyncio.sleep(2.5)
        seen["after 4.5 s"] = len(server.objects)
        busy = False
        await asyncio.sleep(0.1)
        seen["idle"] = len(server.objects)

    record(story, capacity=16)
    assert (seen["at once"], seen["after 1.5 s"], seen["idle"]) == (0, 1, 12)
    # Of 11 that wait, all but the 7 that are less than half of the capacity are written at once.
    assert seen["crowded"] == 12 - 8
    # Then a batch a second: that with the first of the node's has one of the pod's as well.
    assert 5 <= seen["after 4.5 s"] <= 8


def test_events_of_many_objects_are_written_side_by_side_and_those_of_one_in_order() -> None:
    under_way, most, begun = 0, 0, list[str]()

    async def story(server: FakeServer, recorder: EventRecorder) -> None:
        async def before(request: Request) -> None:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            begun.append(msgspec.json.decode(request.body)["message"])
            # Those that come later are answered sooner.
            await asyncio.sleep(1.0 / len(begun))

        async def after(_: Request) -> None:
            nonlocal under_way
            under_way -= 1

        server.before, server.after = before, after
        for number in range(40):
            pod = Pod(metadata=ObjectMeta(name=f"web-{number % 20}", namespace="shop", uid="u"))
            recorder.event(pod, "Normal", "Scheduled", f"web-{number % 20}, {number // 20}")
        await asyncio.sleep(60.0)

    server, told = record(story)
    assert most == 16
    assert len(server.objects) == 40
    assert 'koord_events_total{result="written"} 40.0' in told
    for number in range(20):
        of_one = [text for text in begun if text.startswith(f"web-{number}, ")]
        assert of_one == [f"web-{number}, 0", f"web-{number}, 1"]


def test_a_fault_of_ours_costs_one_event_of_those_side_by_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("koord.kube.events.to_document", _breaks)

    async def story(server: FakeServer, recorder: EventRecorder) -> None:
        recorder.event(POD, "Normal", "Scheduled", "first")
        await asyncio.sleep(1.0)
        recorder.event(POD, "Normal", "Scheduled", "first")  # Counted up, which breaks.
        for number in range(3):
            pod = Pod(metadata=ObjectMeta(name=f"web-1{number}", namespace="shop", uid="u"))
            recorder.event(pod, "Normal", "Scheduled", "other")
        await asyncio.sleep(1.0)

    server, told = record(story)
    assert {event["message"] for event in events(server)} == {"first", "other"}
    assert len(server.objects) == 4
    assert 'koord_events_total{result="dropped"} 1.0' in told
    assert 'koord_events_total{result="written"} 4.0' in told


def _breaks(_: object) -> object:
    raise RuntimeError("out of order")


def _of_pods(number: int) -> Story:
    async def story(server: FakeServer, recorder: EventRecorder) -> None:
        server.before = server.before or (lambda _: asyncio.sleep(0.01))
        for at in range(number):
            pod = Pod(metadata=ObjectMeta(name=f"web-{at}", namespace="shop", uid=f"u{at}"))
            recorder.event(pod, "Normal", "Scheduled", f"number {at}")
        await asyncio.sleep(60.0)

    return story


def test_new_events_go_in_one_go_where_a_transport_can() -> None:
    server = PipeliningServer()
    _, told = record(_of_pods(150), server=server)
    assert sorted(event["message"] for event in events(server)) == sorted(
        f"number {at}" for at in range(150)
    )
    assert server.in_one_go == [*[16] * 8, 16, 6]
    assert server.most_under_way == 4
    assert 'koord_events_total{result="written"} 150.0' in told
    # Each counts as a request of its own.
    assert 'rest_client_requests_total{code="201",method="POST"} 150.0' in told
    assert 'rest_client_request_duration_seconds_count{verb="POST"} 150.0' in told


def test_events_that_are_counted_up_go_alone() -> None:
    async def story(server: FakeServer, recorder: EventRecorder) -> None:
        await _of_pods(3)(server, recorder)
        await _of_pods(4)(server, recorder)

    server = PipeliningServer()
    _, told = record(story, server=server)
    assert server.in_one_go == [3, 1]
    assert sorted(event["count"] for event in events(server)) == [1, 2, 2, 2]
    assert 'rest_client_requests_total{code="200",method="PATCH"} 3.0' in told


@pytest.mark.parametrize("there", [True, False])
def test_those_without_an_answer_are_written_again_and_once(there: bool) -> None:
    """Whether the server had taken them before the connection broke, or not."""
    broken = {f"number {at}" for at in (3, 4, 5)}

    def lose(request: Request) -> None:
        message = msgspec.json.decode(request.body)["message"]
        if message in broken:
            broken.discard(message)
            raise TransportError("cut")

    server = PipeliningServer()
    if there:
        server.after = lose
    else:
        server.before = lose
    _, told = record(_of_pods(20), server=server)
    assert [event["count"] for event in events(server)] == [1] * 20
    assert 'koord_events_total{result="written"} 20.0' in told
    assert server.requests["post"] == 20 + 3
    assert 'rest_client_requests_total{code="<error>",method="POST"} 3.0' in told


@pytest.mark.parametrize(
    ("code", "seconds", "requests", "result"),
    [(403, 0, 20, "refused"), (429, 3, 21, "written"), (429, 0, 20, "refused")],
)
def test_a_refusal_of_one_in_one_go_is_its_own(
    code: int, seconds: int, requests: int, result: str
) -> None:
    refusals = [ApiError(Status(code=code, details=StatusDetails(retry_after_seconds=seconds)))]

    def refuse(request: Request) -> None:
        if msgspec.json.decode(request.body)["message"] == "number 7" and refusals:
            raise refusals.pop()

    server = PipeliningServer()
    server.before = refuse
    _, told = record(_of_pods(20), server=server, attempts=8)
    written = 20 if result == "written" else 19
    assert len(server.objects) == written
    assert f'koord_events_total{{result="written"}} {written}.0' in told
    assert f'koord_events_total{{result="{result}"}}' in told
    assert server.requests["post"] == requests


def test_a_fault_of_ours_costs_one_event_of_those_in_one_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def breaks(value: Any, kind: Any) -> Any:
        if value.message == "number 7":
            raise RuntimeError("out of order")
        return whole(value, kind)

    monkeypatch.setattr("koord.kube.client.whole", breaks)
    server = PipeliningServer()
    _, told = record(_of_pods(20), server=server)
    assert len(server.objects) == 19
    assert 'koord_events_total{result="dropped"} 1.0' in told
    assert 'koord_events_total{result="written"} 19.0' in told


@pytest.mark.parametrize(
    "options", [{"requests_per_second": 50.0}, {"requests_per_second": None, "dry_run": DryRun()}]
)
def test_what_is_paced_or_not_sent_goes_one_by_one(options: dict[str, Any]) -> None:
    assert Client(PipeliningServer(), requests_per_second=None).pipelines(Event)
    assert not Client(PipeliningServer(), **options).pipelines(Event)
    assert not Client(FakeServer(), requests_per_second=None).pipelines(Event)


def test_what_is_held_back_is_flushed_at_the_end() -> None:
    async def story(server: FakeServer, recorder: EventRecorder) -> None:
        recorder.yield_to(lambda: True)
        recorder.event(POD, "Normal", "Scheduled", "assigned to node-1")
        await asyncio.sleep(0.1)
        assert not server.objects

    server, told = record(story)
    assert len(server.objects) == 1
    assert 'koord_events_total{result="written"} 1.0' in told


def test_names_are_unique_even_when_the_wall_clock_goes_back() -> None:
    class Jumping(VirtualClock):
        def wall_seconds(self) -> float:
            return 1_900_000_000.0 - 3600 * self.monotonic_seconds()

    async def whole() -> FakeServer:
        server, clock = FakeServer(), Jumping()
        client = Client(server, policy=RetryPolicy(attempts=1), requests_per_second=None)
        recorder = EventRecorder(client, "c", clock=clock)
        task = asyncio.create_task(recorder.run())
        for number in range(5):
            recorder.event(POD, "Normal", f"R{number}", "m")
            clock.advance(1)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        return server

    assert len(run_virtual(whole()).objects) == 5


def served(
    server: str, folder: Path, tell: Callable[[Client, EventRecorder], Any], **options: Any
) -> list[Event]:
    """Runs a recorder beside a server of its own; the events of it that are there in the end."""

    async def whole(kubeconfig: Path) -> list[Event]:
        transport = HttpTransport(load_cluster_config(kubeconfig))
        try:
            client = Client(transport, **options)
            recorder = EventRecorder(client, "koord-test", host="here")
            task = asyncio.create_task(recorder.run())
            await tell(client, recorder)
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            found = await client.list(Event, namespace="default")
        finally:
            await transport.close()
        return [event for event in found.items if event.source.component == "koord-test"]

    with started(server, folder) as plane:
        return asyncio.run(whole(plane.kubeconfig))


def of_pod(name: str) -> ObjectReference:
    return ObjectReference(kind="Pod", namespace="default", name=name, api_version="v1")


@pytest.mark.parametrize("server", BOTH)
def test_a_server_takes_events_and_counts_them_up(server: str, tmp_path: Path) -> None:
    async def tell(_: Client, recorder: EventRecorder) -> None:
        for _ in range(3):
            recorder.event(of_pod("web-0"), "Warning", "FailedScheduling", "0/3 nodes fit")
        recorder.event(NODE, "Normal", "Registered", "here")

    found = served(server, tmp_path, tell)
    told = sorted((event.involved_object.kind, event.reason, event.count) for event in found)
    assert told == [("Node", "Registered", 1), ("Pod", "FailedScheduling", 3)]


@pytest.mark.parametrize("server", BOTH)
def test_a_server_takes_events_in_one_go(server: str, tmp_path: Path) -> None:
    async def tell(client: Client, recorder: EventRecorder) -> None:
        assert client.pipelines(Event)
        for _ in range(2):
            for at in range(70):
                recorder.event(of_pod(f"web-{at}"), "Normal", "Scheduled", f"assigned web-{at}")
            await asyncio.sleep(0)

    found = served(server, tmp_path, tell, requests_per_second=None)
    told = sorted((event.involved_object.name, event.message, event.count) for event in found)
    assert told == sorted((f"web-{at}", f"assigned web-{at}", 2) for at in range(70))


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 14), st.floats(0, 400)
        ),
        max_size=120,
    )
)
def test_counts_add_up_and_nobody_speaks_beyond_the_ration(
    said: list[tuple[str, str, int, float]],
) -> None:
    correlator = Correlator()
    now = 0.0
    stored: dict[str, Event] = {}
    spoken: dict[str, list[float]] = {"a": [], "b": []}
    for number, (name, reason, message, pause) in enumerate(said):
        now += pause
        event = Event(
            metadata=ObjectMeta(name=f"{number}"),
            involved_object=ObjectReference(name=name),
            reason=reason,
            message=f"{message}",
            source=EventSource("c"),
            count=1,
        )
        found = correlator.correlate(event, now)
        if found is None:
            continue
        spoken[name].append(now)
        before = stored.get(found.event.metadata.name)
        assert found.event.count > (before.count if before else 0)
        assert found.event.message.removeprefix(COMBINED) == f"{message}"
        assert before is None or before.reason == reason
        stored[found.event.metadata.name] = found.event
    assert sum(event.count for event in stored.values()) <= len(said)
    for times in spoken.values():
        for first, moment in enumerate(times):
            later = [t for t in times[first:] if t - moment <= 3000]
            assert len(later) <= 25 + 10 + 1
