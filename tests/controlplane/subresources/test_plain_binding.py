# SPDX-License-Identifier: Apache-2.0
"""Plain bindings, against a server that takes each binding the long way.

The other server has a webhook for bindings whose selector no object has: what admission says there
nobody can tell beforehand, so no binding is plain.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from koord.base import faults
from koord.base.clock import VirtualClock
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.controlplane.subresources.plain_binding import PlainBindings
from koord.kube.transport.messages import Request
from tests.controlplane.handlers.test_create_cache import (
    _FAILING,
    _HOOKS,
    _SETTINGS,
    _WEBHOOK,
    _unversioned,
)

Document = dict[str, Any]
PODS = "/api/v1/namespaces/a/pods"
NODES = "/api/v1/nodes"


def _post(path: str, document: Document) -> Request:
    return Request("POST", path, body=json.dumps(document).encode())


def _pod(name: str, metadata: Document | None = None, **spec: Any) -> Request:
    spec = {"containers": [{"name": "app", "image": "app:1"}], **spec}
    return _post(PODS, {"metadata": {"name": name, **(metadata or {})}, "spec": spec})


def _node(name: str, **labels: str) -> Request:
    return _post(NODES, {"metadata": {"name": name, "labels": labels}})


ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_PODS = [
    _pod("web"),
    _pod("web", {"labels": {"app": "web", ZONE: "mine"}}),
    _pod("web", {"annotations": {"x": "y"}, "finalizers": ["test.io/kept"]}),
    _pod("web", nodeName="n1"),
    _pod("web", nodeName=""),
    _pod("web", schedulingGates=[{"name": "test.io/gate"}]),
    _pod("web", containers=[{"name": "a", "image": "i", "args": ['"nodeName"', "\u00e9}"]}]),
    _pod("web", {"annotations": {"x": ',"spec":{', "y": ',"spec":{},"status":{}}'},
                 "labels": {"spec": "", "resourceVersion": "1"}}),
    _pod("web", containers=[{"name": "a", "image": "i", "args": ["x" * (17 << 10)]}]),
]  # fmt: skip
_STATUSES = [
    {"nominatedNodeName": "n2"},
    {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                     "lastTransitionTime": "2001-01-01T00:00:00Z"},
                    {"type": "Ready", "status": "False"}]},
    {"conditions": [{"type": "PodScheduled", "status": "True",
                     "lastTransitionTime": "2001-01-01T00:00:00Z"}]},
]  # fmt: skip
_BODIES = [
    '{"apiVersion":"v1","kind":"Binding","metadata":%s,"target":{"kind":"Node","name":"n1"}}',
    '{"apiVersion":"v1","kind":"Binding","metadata":%s,'
    '"target":{"apiVersion":"v1","kind":"Node","name":"n2"}}',
    '{"apiVersion":"v1","kind":"Binding","metadata":%s,"target":{"kind":"Node","name":"none"}}',
    '{"apiVersion":"v1","kind":"Binding","metadata":%s,'
    '"target":{"kind":"Node","name":"\\u00e9\\""}}',
    '{"apiVersion":"v1","kind":"Binding","metadata":%s,"target":{"kind":"Node","name":""}}',
    '{"apiVersion":"v1","kind":"Binding","metadata":%s,"target":{"kind":"Pod","name":"n1"}}',
    '{"apiVersion":"v1","kind":"Pod","metadata":%s,"target":{"kind":"Node","name":"n1"}}',
    '{"kind":"Binding","metadata":%s,"target":{"name":"n1"},"unknown":1}',
    '{"apiVersion":"v1","kind":"Binding","metadata":%s,"target":[]}',
    '{"apiVersion":"v1","kind":"Binding","metadata":%s',
]
_METADATA = [
    '{"name":"web"}', '{"name":"web","namespace":"a"}', '{"name":"web","namespace":"b"}',
    '{"name":"web","uid":"other"}', '{"name":"web","labels":{"l":"m"},"annotations":{"n":"o"}}',
    '{"name":"web","resourceVersion":"1"}', '{"name":"other"}', "{}", "null",
]  # fmt: skip
_PATHS = [f"{PODS}/web/binding", f"{PODS}/none/binding", f"{PODS}/we%62/binding",
          f"{PODS}/web/binding/", "/api/v1/namespaces/b/pods/web/binding",
          "/api/v1/namespaces/a/bindings", "/apis/v1/namespaces/a/pods/web/binding"]  # fmt: skip
_NAMESPACE = _post("/api/v1/namespaces", {"metadata": {"name": "a"}})
_TAUGHT = [_NAMESPACE, _pod("first"), _node("n1", **{ZONE: "z", "x": "y"}),
           _node("n2", **{ZONE: "z", REGION: "r"})]  # fmt: skip


def _binding(path: str, body: str, metadata: str, query: Any = ()) -> Request:
    text = body % metadata if "%s" in body else body
    return Request("POST", path, query, text.encode())


_FIRST = _binding(f"{PODS}/first/binding", _BODIES[0], '{"name":"first"}')
_PLAIN = _binding(_PATHS[0], _BODIES[1], _METADATA[0])
_BETWEEN = [
    Request("DELETE", f"{PODS}/web"), Request("DELETE", "/api/v1/namespaces/a"),
    Request("DELETE", f"{NODES}/n1"), _NAMESPACE,
    *(Request("PATCH", f"{PODS}/web/status", body=json.dumps({"status": status}).encode(),
              content_type="application/merge-patch+json") for status in _STATUSES),
]  # fmt: skip


@st.composite
def _scenes(draw: st.DrawFn) -> list[Request]:
    """A pod, changes, and bindings that are plain or not."""
    bindings = st.builds(
        _binding, st.sampled_from(_PATHS), st.sampled_from(_BODIES), st.sampled_from(_METADATA),
        st.sampled_from(((), (("dryRun", "All"),))),
    )  # fmt: skip
    between = draw(st.lists(st.sampled_from(_BETWEEN), max_size=2))
    steps = draw(st.lists(st.one_of(bindings, st.just(_PLAIN)), min_size=1, max_size=3))
    return [draw(st.sampled_from(_PODS)), *between, *steps]


async def _answers(requests: list[Request], first: tuple[str, Document]) -> list[Any]:
    """What a fresh server makes of the requests, holds and tells; without versions."""
    async with EmbeddedControlPlane(Options(seed=1, clock=VirtualClock(1.9e9))) as plane:
        transport = plane.transport()
        assert (await transport.send(_post(*first))).status == 201
        watch = await transport.open(Request("GET", "/api/v1/pods", (("watch", "true"),)))
        found: list[Any] = []
        for request in [*_TAUGHT, _FIRST, *requests]:
            answer = await transport.send(request)
            found.append((answer.status, _read(answer.body), answer.warnings))
        for selector in ("spec.nodeName=n2", "status.nominatedNodeName=n2", "spec.nodeName="):
            listed = Request("GET", "/api/v1/pods", (("fieldSelector", selector),))
            found.append(_read((await transport.send(listed)).body))
        by_label = Request("GET", "/api/v1/pods", (("labelSelector", f"{ZONE}=z"),))
        found.append(_read((await transport.send(by_label)).body))
        return [*found, *map(_read, await watch.read())]


def _read(body: bytes) -> Any:
    return _unversioned(json.loads(body))


@given(_scenes())
@example([_PODS[0], _PLAIN, _PLAIN])
@example([_PODS[1], _PLAIN])
@example([_PODS[4], _PLAIN])
@example([_PODS[6], _PLAIN])
@example([_PODS[7], _PLAIN])
@example([_PODS[8], _PLAIN])
@example([_PODS[0], _BETWEEN[4], _PLAIN])
@example([_PODS[0], _BETWEEN[5], _PLAIN])
@example([_PODS[0], _BETWEEN[6], _PLAIN])
@example([_PODS[0], _BETWEEN[1], _PLAIN])
@example([_PODS[2], _BETWEEN[0], _PLAIN])
@example([_PODS[0], _binding(_PATHS[0], _BODIES[3], _METADATA[0])])
def test_a_plain_binding_gives_what_the_long_way_gives(requests: list[Request]) -> None:
    short = asyncio.run(_answers(requests, (_SETTINGS, {"metadata": {"name": "none"}})))
    assert short == asyncio.run(_answers(requests, (_HOOKS, _WEBHOOK)))


def test_plain_bindings_go_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bool] = []
    bind = PlainBindings.bind

    def noted(self: PlainBindings, request: Request) -> Any:
        answer = bind(self, request)
        taken.append(answer is not None)
        return answer

    monkeypatch.setattr(PlainBindings, "bind", noted)
    requests = [_PODS[1], _PLAIN, _PLAIN]
    asyncio.run(_answers(requests, (_SETTINGS, {"metadata": {"name": "none"}})))
    assert taken.count(True) == 1
    # A webhook that can be for no pod of the namespace is none, one that may be asked is.
    taken.clear()
    asyncio.run(_answers(requests, (_HOOKS, _FAILING)))
    assert taken.count(True) == 1
    taken.clear()
    asyncio.run(_answers(requests, (_HOOKS, _WEBHOOK)))
    assert True not in taken


def test_a_plain_binding_that_fails_binds_nothing() -> None:
    async def run() -> None:
        async with EmbeddedControlPlane(Options(seed=1)) as plane:
            transport = plane.transport()
            for request in [*_TAUGHT, _FIRST, _PODS[0]]:
                assert (await transport.send(request)).status == 201
            rules = {"controlplane.bind": faults.FaultRule(1.0, OSError(5, "test"))}
            with faults.inject(faults.FaultPlan(1, rules)):
                assert (await transport.send(_PLAIN)).status == 500
            pod = json.loads((await transport.send(Request("GET", f"{PODS}/web"))).body)
            assert "nodeName" not in pod["spec"]
            assert (await transport.send(_PLAIN)).status == 201

    asyncio.run(run())
