# SPDX-License-Identifier: Apache-2.0
"""Typed verbs over a transport with a script: paths, bodies, pages, watches, refusals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import (
    KINDS,
    ConfigMap,
    Kind,
    Lease,
    Node,
    NodeMetric,
    NodeResourceTopology,
    ObjectMeta,
    Pod,
)
from koord.base.errors import KoordError
from koord.base.faults import FaultPlan, FaultRule, inject
from koord.kube.client import Client
from koord.kube.errors import ApiError, TransportError
from koord.kube.patches import Patch
from koord.kube.transport.messages import Request, Response
from tests.kube.harness import FakeStream, FakeTransport, Step, answer, event, failure, run_virtual

PODS = next(kind for kind in KINDS if kind.name == "Pod")
GADGETS = Kind("example.com", "v1", "Gadget", "gadgets", True, "")


def does(
    work: Callable[[Client], Awaitable[Any]], *script: Step, **options: Any
) -> tuple[Any, FakeTransport]:
    """What a piece of work gives, or raises as an ApiError or KoordError, and what it asked."""
    transport = FakeTransport(list(script) or [answer({})])

    async def main() -> Any:
        return await work(Client(transport, **options))

    return run_virtual(main()), transport


def refused(work: Callable[[Client], Awaitable[Any]], *script: Step) -> tuple[ApiError, int]:
    transport = FakeTransport(list(script))

    async def main() -> ApiError:
        with pytest.raises(ApiError) as caught:
            await work(Client(transport))
        return caught.value

    return run_virtual(main()), len(transport.requests)


def pod(name: str, version: str = "1") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "resourceVersion": version}
    return {"metadata": metadata, "spec": {"nodeName": "n1", "unknown": 1}}


def page(*items: dict[str, Any], token: str = "", remaining: int | None = None) -> Response:
    metadata = {"resourceVersion": "77", "continue": token, "remainingItemCount": remaining}
    return answer({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items})


LINES: list[tuple[Callable[[Client], Awaitable[Any]], str, str, dict[str, str]]] = [
    (lambda c: c.get(Pod, "a", "b"), "GET", "/api/v1/namespaces/b/pods/a", {}),
    (lambda c: c.get(Node, "a", resource_version="0"), "GET", "/api/v1/nodes/a",
     {"resourceVersion": "0"}),
    (lambda c: c.get(GADGETS, "a:b c", "d"), "GET",
     "/apis/example.com/v1/namespaces/d/gadgets/a%3Ab%20c", {}),
    (lambda c: c.list(Pod, namespace="b", label_selector="x in (1,2)"), "GET",
     "/api/v1/namespaces/b/pods", {"labelSelector": "x in (1,2)", "limit": "500"}),
    (lambda c: c.list(Pod, field_selector="spec.nodeName=n", limit=0, resource_version="0"), "GET",
     "/api/v1/pods", {"fieldSelector": "spec.nodeName=n", "resourceVersion": "0"}),
    (lambda c: c.delete(Pod, "a", "b", uid="u"), "DELETE", "/api/v1/namespaces/b/pods/a", {}),
    (lambda c: c.delete_collection(Pod, namespace="b", label_selector="x"), "DELETE",
     "/api/v1/namespaces/b/pods", {"labelSelector": "x"}),
    (lambda c: c.patch(Pod, "a", Patch.merge({}), "b", "status", dry_run=True), "PATCH",
     "/api/v1/namespaces/b/pods/a/status", {"fieldManager": "koord", "dryRun": "All"}),
    (lambda c: c.create(pod("a"), kind=PODS, field_validation="Strict"), "POST",
     "/api/v1/namespaces/default/pods", {"fieldManager": "koord", "fieldValidation": "Strict"}),
    (lambda c: c.post(pod("a"), kind=PODS, dry_run=True), "POST",
     "/api/v1/namespaces/default/pods", {"fieldManager": "koord", "dryRun": "All"}),
    (lambda c: c.update_status(pod("a"), kind=PODS, field_manager="me"), "PUT",
     "/api/v1/namespaces/default/pods/a/status", {"fieldManager": "me"}),
    (lambda c: c.apply(pod("a"), kind=PODS, force=True), "PATCH",
     "/api/v1/namespaces/default/pods/a", {"fieldManager": "koord", "force": "true"}),
    (lambda c: c.evict("a", "b"), "POST", "/api/v1/namespaces/b/pods/a/eviction", {}),
    (lambda c: c.get_scale(PODS, "a", "b"), "GET", "/api/v1/namespaces/b/pods/a/scale", {}),
]  # fmt: skip


@pytest.mark.parametrize(("work", "method", "path", "query"), LINES)
def test_a_verb_asks_for_the_right_thing(
    work: Callable[[Client], Awaitable[Any]], method: str, path: str, query: dict[str, str]
) -> None:
    _, transport = does(work)
    (request,) = transport.requests
    assert (request.method, request.path, dict(request.query)) == (method, path, query)


def body_of(work: Callable[[Client], Awaitable[Any]]) -> Any:
    _, transport = does(work)
    return json.loads(transport.requests[0].body)


def test_deletion_carries_its_preconditions() -> None:
    options = body_of(
        lambda c: c.delete(
            Pod, "a", "b", uid="u", resource_version="7", grace_period_seconds=0,
            propagation="Foreground",
        )
    )  # fmt: skip
    assert options == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
    }
    assert body_of(lambda c: c.delete(Pod, "a", "b")) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
    }


def test_binding_names_the_very_pod() -> None:
    bound = Pod(metadata=ObjectMeta(name="a", namespace="b", uid="u"))
    assert body_of(lambda c: c.bind(bound, "n1")) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a", "namespace": "b", "uid": "u"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


def test_eviction_carries_options() -> None:
    body = body_of(lambda c: c.evict("a", "b", uid="u", grace_period_seconds=5))
    assert (body["apiVersion"], body["kind"]) == ("policy/v1", "Eviction")
    assert body["deleteOptions"]["preconditions"] == {"uid": "u"}
    assert body["deleteOptions"]["gracePeriodSeconds"] == 5


def test_what_is_written_says_what_it_is() -> None:
    value = ConfigMap(metadata=ObjectMeta(name="a", namespace="b"), data={"k": "v"})
    assert body_of(lambda c: c.create(value)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "b"},
        "data": {"k": "v"},
    }


def test_of_what_is_posted_the_answer_is_not_read() -> None:
    value = ConfigMap(metadata=ObjectMeta(name="a", namespace="b"))
    result, transport = does(lambda c: c.post(value), Response(201, b"no JSON"))
    assert result is None
    sent = json.loads(transport.requests[0].body)
    assert (sent["kind"], sent["metadata"]) == ("ConfigMap", {"name": "a", "namespace": "b"})
    error, tries = refused(lambda c: c.post(value), failure(403))
    assert (error.http_status, tries) == (403, 1)


def test_a_given_kind_fills_in_what_a_value_does_not_say() -> None:
    newer = next(k for k in KINDS if (k.name, k.version) == ("NodeResourceTopology", "v1alpha2"))
    value = NodeResourceTopology(metadata=ObjectMeta(name="n1"))
    _, transport = does(lambda c: c.create(value, kind=newer))
    (request,) = transport.requests
    assert request.path == "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
    assert json.loads(request.body)["apiVersion"] == "topology.node.k8s.io/v1alpha2"
    document = {"metadata": {"name": "g", "namespace": "b"}}
    sent = body_of(lambda c: c.create(document, kind=GADGETS))
    assert sent == {"apiVersion": "example.com/v1", "kind": "Gadget", **document}
    assert "kind" not in document


@pytest.mark.parametrize(
    ("work", "line"),
    [
        (lambda c: c.get(Pod, "a"), "Pod a: namespace: got '', expected the object's namespace"),
        (lambda c: c.get(Node, "a", "b"), "none: the kind has no namespaces"),
        (lambda c: c.get(Node, "../x"), "a name without / and %"),
        (lambda c: c.get(Node, ""), "Node: name: got ''"),
        (lambda c: c.list(Pod, namespace=".."), "a namespace without / and %"),
        (lambda c: c.create({"kind": "Gadget"}), "or kind= to say how it is served"),
        (lambda c: c.create(pod("a"), "other", kind=PODS), "the namespace asked for, other"),
        (lambda c: c.create(Pod()), "Pod: metadata.namespace: got ''"),
        (lambda c: c.list(msgspec.Struct), "a type of koord.api, or kind="),
    ],
)
def test_what_cannot_be_is_one_line(work: Callable[[Client], Awaitable[Any]], line: str) -> None:
    with pytest.raises(KoordError) as caught:
        does(work)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_list_follows_its_pages() -> None:
    listed, transport = does(
        lambda c: c.list(Pod, resource_version="0", label_selector="x"),
        page(pod("a"), pod("b"), token="t1", remaining=3),
        page(pod("c"), token="t2"),
        page(pod("d")),
    )
    assert [item.metadata.name for item in listed.items] == ["a", "b", "c", "d"]
    assert {(item.kind, item.api_version) for item in listed.items} == {("Pod", "v1")}
    assert (listed.resource_version, listed.continue_token, listed.remaining) == ("77", "", None)
    first, second, third = (dict(request.query) for request in transport.requests)
    common = {"labelSelector": "x", "limit": "500"}
    assert first == common | {"resourceVersion": "0"}
    # The token stands for the version: naming both is refused by API servers.
    assert second == common | {"continue": "t1"}
    assert third == common | {"continue": "t2"}


def test_pages_tell_what_remains() -> None:
    async def work(client: Client) -> list[int | None]:
        return [found.remaining async for found in client.pages(Pod, limit=2)]

    remaining, transport = does(work, page(pod("a"), token="t", remaining=9), page(pod("b")))
    assert remaining == [9, None]
    assert dict(transport.requests[0].query)["limit"] == "2"


def test_nothing_but_metadata_may_be_asked_for() -> None:
    async def work(client: Client) -> list[str]:
        pages = client.pages(Pod, metadata_only=True)
        return [each.metadata.name async for found in pages for each in found.items]

    names, transport = does(work, page(pod("a"), token="t"), page(pod("b")))
    assert names == ["a", "b"]
    wanted = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    assert [request.accept for request in transport.requests] == [wanted, wanted]


def test_a_list_that_expires_on_the_way_begins_again_whole() -> None:
    listed, transport = does(
        lambda c: c.list(Pod, label_selector="x"),
        page(pod("a"), token="t"),
        failure(410, "Expired"),
        page(pod("a"), pod("b")),
    )
    assert [item.metadata.name for item in listed.items] == ["a", "b"]
    assert dict(transport.requests[2].query) == {"labelSelector": "x"}


def test_a_list_that_expires_at_once_is_refused() -> None:
    error, asked = refused(lambda c: c.list(Pod), failure(410, "Expired"))
    assert (error.http_status, asked) == (410, 1)


def test_a_kind_gives_whole_documents() -> None:
    listed, _ = does(lambda c: c.list(PODS), page(pod("a")))
    assert listed.items == [{**pod("a"), "apiVersion": "v1", "kind": "Pod"}]
    got, _ = does(lambda c: c.get(PODS, "a", "b"), answer(pod("a")))
    assert got == pod("a")


class PodView(msgspec.Struct, rename="camel"):
    metadata: ObjectMeta


def test_another_type_takes_only_its_fields() -> None:
    listed, _ = does(lambda c: c.list(PodView, kind=PODS), page(pod("a")))
    (item,) = listed.items
    assert isinstance(item, PodView)
    assert item.metadata.name == "a"


def test_nulls_and_other_shapes_are_read_item_by_item() -> None:
    empty = answer({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": None})
    assert does(lambda c: c.list(Pod), empty)[0].items == []
    null = {**pod("a"), "spec": {"containers": None, "nodeName": "n1"}}
    (item,) = does(lambda c: c.list(Pod), page(null, pod("b")))[0].items[:1]
    assert (item.spec.node_name, item.spec.containers, item.kind) == ("n1", [], "Pod")
    metric = {"metadata": {}, "spec": {"nodeName": "n1", "collectionIntervalSeconds": 9}}
    (read,) = does(lambda c: c.list(NodeMetric), page(metric))[0].items
    assert read.metadata.name == "n1"
    assert read.kind == "NodeMetric"


def test_a_field_of_the_wrong_type_is_named() -> None:
    wrong = {**pod("a"), "spec": {"nodeName": 5}}
    with pytest.raises(KoordError, match=r"spec\.nodeName: got 5, expected text"):
        does(lambda c: c.list(Pod), page(pod("b"), wrong))
    with pytest.raises(KoordError, match="expected JSON"):
        does(lambda c: c.list(Pod), Response(200, b"<html>"))


def watched(*steps: list[bytes] | Exception, target: Any = Pod) -> tuple[list[Any], Any]:
    """The events of a watch in order, and what it ended with."""
    stream = FakeStream(*steps)
    events: list[Any] = []

    async def work(client: Client) -> Any:
        try:
            async with client.watch(target, resource_version="5") as batches:
                async for batch in batches:
                    events.extend(batch)
        except (ApiError, TransportError) as error:
            return error
        return None

    ended, transport = does(work, stream)
    assert stream.closed
    asked = dict(transport.requests[0].query)
    assert asked == {"watch": "true", "resourceVersion": "5", "allowWatchBookmarks": "true"}
    return events, ended


def test_a_watch_gives_typed_events_in_order() -> None:
    bookmark = event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "9"}})
    events, ended = watched(
        [event("ADDED", pod("a", "6")), event("MODIFIED", pod("a", "7"))],
        [event("DELETED", pod("a", "8")), bookmark],
    )
    assert ended is None
    seen = [(e.type, e.resource_version) for e in events]
    assert seen == [("ADDED", "6"), ("MODIFIED", "7"), ("DELETED", "8"), ("BOOKMARK", "9")]
    assert [isinstance(e.object, Pod) for e in events] == [True, True, True, False]
    assert events[0].object.kind == "Pod"


def test_the_end_of_initial_events_is_told() -> None:
    metadata = {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}
    (marked,), _ = watched([event("BOOKMARK", {"metadata": metadata})])
    assert marked.initial_events_end


def test_events_before_an_error_count() -> None:
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    events, ended = watched([event("ADDED", pod("a")), event("ERROR", gone)])
    assert [e.type for e in events] == ["ADDED"]
    assert isinstance(ended, ApiError)
    assert ended.http_status == 410
    events, ended = watched([event("ERROR", gone)])
    assert (events, ended.http_status) == ([], 410)


def test_keys_in_another_order_are_read_too() -> None:
    line = json.dumps({"object": pod("a"), "type": "ADDED"}).encode()
    gone = {"kind": "Status", "code": 410, "message": "too old", "status": "Failure"}
    error = json.dumps({"object": gone, "type": "ERROR"}).encode()
    events, ended = watched([line, error])
    assert events[0].object.metadata.name == "a"
    assert ended.http_status == 410


def test_a_watch_of_documents() -> None:
    (added,), _ = watched([event("ADDED", pod("a", "6"))], target=PODS)
    assert added.object["spec"]["unknown"] == 1
    assert added.resource_version == "6"


def test_a_broken_watch_says_so() -> None:
    events, ended = watched([event("ADDED", pod("a"))], TransportError("cut"))
    assert len(events) == 1
    assert str(ended) == "cut"


def test_opening_a_watch_is_tried_again() -> None:
    async def work(client: Client) -> int:
        async with client.watch(Pod) as batches:
            return len([batch async for batch in batches])

    stream = FakeStream([event("ADDED", pod("a"))])
    batches, transport = does(work, failure(503), TransportError("cut"), stream)
    assert (batches, len(transport.requests)) == (1, 3)


@pytest.mark.parametrize(
    ("work", "again"),
    [
        (lambda c: c.get(Pod, "a", "b"), True),
        (lambda c: c.create(pod("a"), kind=PODS), False),
        (lambda c: c.update(pod("a", "7"), kind=PODS), True),
        (lambda c: c.update(pod("a", ""), kind=PODS), False),
        (lambda c: c.delete(Pod, "a", "b"), False),
        (lambda c: c.delete(Pod, "a", "b", uid="u"), True),
        (lambda c: c.patch(Pod, "a", Patch.merge({"spec": {}}), "b"), False),
        (lambda c: c.patch(Pod, "a", Patch.merge({"metadata": {"uid": "u"}}), "b"), True),
        (lambda c: c.patch(Pod, "a", Patch.json([{"op": "test", "path": "/a"}]), "b"), True),
        (lambda c: c.patch(Pod, "a", Patch.json([{"op": "remove", "path": "/a"}]), "b"), False),
        (lambda c: c.apply(pod("a"), kind=PODS), True),
        (lambda c: c.evict("a", "b"), False),
    ],
)
def test_only_what_does_no_harm_twice_is_sent_twice(
    work: Callable[[Client], Awaitable[Any]], again: bool
) -> None:
    for trouble in (failure(500), TransportError("cut", sent=True)):
        transport = FakeTransport([trouble, answer(pod("a"))])

        async def main(transport: FakeTransport = transport) -> None:
            await work(Client(transport))

        if again:
            run_virtual(main())
        else:
            with pytest.raises((ApiError, TransportError)):
                run_virtual(main())
        assert len(transport.requests) == (2 if again else 1)


@dataclass
class Ledger:
    """A server that counts what it did; requests and answers may be lost on the way.

    Attributes:
        fates: of each request: lost before it arrives, answer lost, refused with a code.
        effects: how often something was done.
    """

    fates: list[tuple[bool, bool, int]]
    effects: int = 0

    async def send(self, request: Request) -> Response:
        lost_before, lost_after, code = self.fates.pop(0) if self.fates else (False, False, 0)
        if lost_before:
            raise TransportError("refused", sent=False)
        if code:
            return failure(code)
        self.effects += 1
        if lost_after:
            raise TransportError("cut", sent=True)
        return answer(pod("a"))

    async def open(self, request: Request) -> FakeStream:
        raise NotImplementedError

    async def close(self) -> None:
        self.fates.clear()


FATES = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.sampled_from([0, 0, 0, 500, 429, 504])), max_size=6
)
WRITES: list[tuple[Callable[[Client], Awaitable[Any]], bool]] = [
    (lambda c: c.create(pod("a"), kind=PODS), False),
    (lambda c: c.update(pod("a", ""), kind=PODS), False),
    (lambda c: c.delete(Pod, "a", "b"), False),
    (lambda c: c.update(pod("a", "7"), kind=PODS), True),
    (lambda c: c.delete(Pod, "a", "b", uid="u"), True),
]


@given(FATES, st.sampled_from(WRITES))
def test_what_may_have_had_an_effect_has_none_twice(
    fates: list[tuple[bool, bool, int]], write: tuple[Callable[[Client], Awaitable[Any]], bool]
) -> None:
    work, conditional = write
    ledger = Ledger(list(fates))

    async def main() -> bool:
        try:
            await work(Client(ledger))
        except (ApiError, TransportError):
            return False
        return True

    done = run_virtual(main())
    assert not done or ledger.effects >= 1
    assert conditional or ledger.effects <= 1


def test_faults_can_be_injected() -> None:
    plan = FaultPlan(1, {"kube.call": FaultRule(0.5, TransportError("injected"))})
    with inject(plan):
        listed, _ = does(lambda c: c.list(Pod), page(pod("a")))
    assert len(listed.items) == 1
    plan = FaultPlan(1, {"kube.watch": FaultRule(1.0, TransportError("injected"), after=1)})
    with inject(plan):
        events, ended = watched([event("ADDED", pod("a"))], [event("ADDED", pod("b"))])
    assert (len(events), str(ended)) == (1, "injected")


def test_the_server_says_when_to_come_back() -> None:
    busy = failure(429, "TooManyRequests", retry_after="3")
    _, transport = does(lambda c: c.create(pod("a"), kind=PODS), busy, answer(pod("a")))
    assert transport.times[1] - transport.times[0] == 3.0


@pytest.mark.parametrize("after", ["²", "9" * 5000, "-1", "soon", "1.5", ""])
def test_a_time_that_is_none_is_not_waited_for(after: str) -> None:
    busy = failure(429, "TooManyRequests", retry_after=after)
    error, asked = refused(lambda c: c.get(Pod, "a", "b"), busy)
    assert (error.http_status, asked) == (429, 1)


def test_a_spent_budget_is_told_at_once() -> None:
    spent = failure(429, "TooManyRequests", "would violate the budget")
    error, asked = refused(lambda c: c.evict("a", "b"), spent)
    assert (error.http_status, asked) == (429, 1)


@pytest.mark.parametrize(
    ("response", "line"),
    [
        (failure(404, "NotFound", 'pods "a" not found'), 'refused: pods "a" not found'),
        (Response(502, b"<html>\nBad gateway"), r"refused: status 502: <html>\nBad gateway"),
        (Response(403, b""), "refused: status 403"),
        (Response(500, b"\xff\xfe"), r"status 500: \xff\xfe"),
        (answer({"kind": "Pod"}, 409), "refused: status 409"),
        (answer([1], 409), "refused: status 409: [1]"),
    ],
)
def test_refusals_of_any_shape_are_one_line(response: Response, line: str) -> None:
    error, _ = refused(lambda c: c.create(pod("a"), kind=PODS), response)
    assert line in str(error)
    assert error.http_status == response.status
    assert "\n" not in str(error)


def test_a_reason_is_found_for_answers_that_give_none() -> None:
    error, _ = refused(lambda c: c.get(Pod, "a", "b"), Response(404, b"404 page not found"))
    assert error.reason == "NotFound"


def test_leases_do_not_queue_behind_other_work() -> None:
    async def work(client: Client) -> float:
        others = [asyncio.create_task(client.get(Node, f"n{i}")) for i in range(50)]
        await asyncio.sleep(0)
        start = asyncio.get_running_loop().time()
        await client.get(Lease, "leader", "kube-system")
        waited = asyncio.get_running_loop().time() - start
        await asyncio.gather(*others)
        return waited

    waited, transport = does(work, answer({}), requests_per_second=5.0, burst=10)
    assert waited == 0.0
    assert transport.times[-1] == pytest.approx(8.0)


def test_a_scale_is_read_and_set() -> None:
    scale = {"kind": "Scale", "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "a=b"}}
    got, _ = does(lambda c: c.get_scale(GADGETS, "a", "b"), answer(scale))
    assert (got.spec.replicas, got.status.replicas, got.status.selector) == (3, 2, "a=b")
    got, transport = does(lambda c: c.set_scale(GADGETS, "a", 0, "b"), answer(scale))
    assert json.loads(transport.requests[0].body) == {"spec": {"replicas": 0}}


AGGREGATED = {
    "kind": "APIGroupDiscoveryList",
    "items": [{
        "metadata": {"name": "apps"},
        "versions": [{"version": "v1", "resources": [
            {"resource": "deployments", "responseKind": {"group": "", "version": "",
             "kind": "Deployment"}, "scope": "Namespaced", "verbs": ["get"],
             "shortNames": ["deploy"], "subresources": [{"subresource": "scale"}]},
        ]}],
    }],
}  # fmt: skip
GROUPS = {
    "kind": "APIGroupList",
    "groups": [{"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}]}],
}
DEPLOYMENTS = {
    "kind": "APIResourceList",
    "resources": [
        {"name": "deployments", "namespaced": True, "kind": "Deployment", "verbs": ["get"],
         "shortNames": ["deploy"]},
        {"name": "deployments/scale", "namespaced": True, "kind": "Scale", "verbs": ["get"]},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    "script",
    [
        [answer({"kind": "APIGroupDiscoveryList", "items": []}), answer(AGGREGATED)],
        [
            answer({"kind": "APIVersions", "versions": ["v1"]}),
            answer({"kind": "APIResourceList", "resources": []}),
            answer(GROUPS),
            answer(DEPLOYMENTS),
        ],
    ],
    ids=["aggregated", "group by group"],
)
def test_discovery(script: list[Step]) -> None:
    (served,), _ = does(lambda c: c.discover(), *script)
    expected = next(kind for kind in KINDS if kind.name == "Deployment")
    assert served.kind == expected
    assert (served.verbs, served.subresources) == (("get",), ("scale",))
