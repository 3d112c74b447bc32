# SPDX-License-Identifier: Apache-2.0
"""Creates of objects from one template, against a server that takes each the long way.

The other server has a webhook for pods and bindings whose selector no object has: what it makes of
a document is told by its labels alone, so that server keeps no templates.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from koord.base.clock import VirtualClock
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.controlplane.extension import AdmitAll
from koord.controlplane.handlers.create_cache import CreateCache
from koord.controlplane.kinds import registry
from koord.kube.transport.messages import Request

Document = dict[str, Any]

PODS = next(resource for resource in registry.resources() if resource.plural == "pods")
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_WEBHOOK = {
    "metadata": {"name": "none"},
    "webhooks": [
        {
            "name": "none.test.io", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "objectSelector": {"matchLabels": {"nobody": "has-this"}},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                       "resources": ["pods", "pods/binding"]}],
        }
    ],
}  # fmt: skip
# It fails, so that what it is asked about is refused: pods of namespaces with a label.
_FAILING = {
    "metadata": {"name": "some"},
    "webhooks": [
        {
            "name": "some.test.io", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"service": {"namespace": "a", "name": "nothing"}},
            "namespaceSelector": {"matchLabels": {"asked": "yes"}},
            "rules": [{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"],
                       "resources": ["pods", "pods/*"]}],
        }
    ],
}  # fmt: skip
_HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def _spec(**more: Any) -> Document:
    return {"containers": [{"name": "app", "image": "app:1"}], **more}


def _limited(amount: str) -> Document:
    resources = {"limits": {"cpu": amount, "memory": "1024Mi"}}
    return {"containers": [{"name": "app", "image": "app:1", "resources": resources}]}


_SELECTOR = {"matchLabels": {"x": "y"}}
_TERM = {"topologyKey": "zone", "matchLabelKeys": ["app"], "labelSelector": _SELECTOR}
_SPECS = [
    json.dumps(spec, separators=(",", ":"))
    for spec in (
        _spec(), _spec(priorityClassName="high"), _spec(nodeName="n", tolerations=[]),
        _limited("1"), _limited("0.5"), _spec(schedulingGates=[{"name": "test.io/gate"}]),
        _spec(unknown=1), _spec(hostname="Not a name"), _spec(terminationGracePeriodSeconds=None),
        _spec(affinity={"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [_TERM]}}),
    )
] + [
    '{"containers": [{"name": "app", "image": "app:1"}]}',
    '{"containers":[{"name":"app","image":"app:1"}],"containers":[]}',
    '{"containers":[{"name":"app","image":"app:1","image":"app:2"}]}',
    '{"conta\\u0069ners":[{"name":"app","image":"app:1"}]}',
]  # fmt: skip
_METADATA = [
    '{"generateName":"web-"}',
    '{"generateName":"web-","labels":{"app":"web"},"annotations":{"note":"x"}}',
    '{"generateName":"web-","annotations":{"note":"null"}}',
    '{"name":"one"}',
    '{"name":"one","uid":"u","generation":7,"creationTimestamp":"2001-01-01T00:00:00Z"}',
    '{"name":"Not a name","labels":{"a b":"c"}}',
    '{"creationTimestamp":null,"generateName":"web-","labels":{}}',
    '{"name":"two","name":"three"}',
    '{"generateName":"web-","finalizers":["short"]}',
    '{"generateName":"web-","finalizers":["test.io/kept"]}',
    '{"generateName":"web-","namespace":"elsewhere"}',
    '{"generateName":"web-","resourceVersion":"3"}',
    '{"generateName":"web-","creationTimestamp":"2001-01-01T02:00:00+02:00"}',
    '{"generateName":"web-","labels":{"app":null}}',
    '{"generateName":"web-","unknown":1}',
    '{"generateName":5}',
    "null",
]
_FRAMES = [
    '{"apiVersion":"v1","kind":"Pod","metadata":%s,"spec":%s}',
    '{"kind":"Pod","apiVersion":"v1","metadata":%s,"spec":%s,"status":{}}',
    '{"metadata":%s,"spec":%s}',
    '{"apiVersion":"v1","kind":"Pod","metadata":%s,"spec":%s,"status":{"phase":"Running"}}',
    '{"apiVersion":"v1","kind":"Pod","metadata":%s,"spec":%s,"status":[]}',
    '{"apiVersion":"v1","kind":"Pod","metadata":%s,"spec":{},"spec":%s}',
    '{"apiVersion":"v1","kind":"Node","metadata":%s,"spec":%s}',
    ' {"apiVersion":"v1", "kind":"Pod","metadata":%s,"spec":%s}',
]

# What changes how pods fare: classes of priority, limits, namespaces.
_LIMITS = {
    "metadata": {"name": "limits"},
    "spec": {"limits": [{"type": "Container", "default": {"cpu": "2"}}]},
}
_CHANGES = [
    ("POST", CLASSES, {"metadata": {"name": "high"}, "value": 7}),
    ("DELETE", f"{CLASSES}/high", None),
    ("POST", "/api/v1/namespaces/a/limitranges", _LIMITS),
    ("DELETE", "/api/v1/namespaces/a/limitranges/limits", None),
    ("POST", "/api/v1/namespaces", {"metadata": {"name": "a"}}),
    ("DELETE", "/api/v1/namespaces/a", None),
    ("POST", _HOOKS, _FAILING),
    ("DELETE", f"{_HOOKS}/some", None),
    ("PATCH", "/api/v1/namespaces/a", {"metadata": {"labels": {"asked": "yes"}}}),
    ("PATCH", "/api/v1/namespaces/a", {"metadata": {"labels": {"asked": None}}}),
]


def _pod(frame: str, metadata: str, spec: str, namespace: str, query: Any) -> Request:
    path = f"/api/v1/namespaces/{namespace}/pods"
    return Request("POST", path, query, (frame % (metadata, spec)).encode())


def _change(change: tuple[str, str, Document | None]) -> Request:
    method, path, body = change
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    text = json.dumps(body).encode() if body else b""
    return Request(method, path, body=text, content_type=kind)


@st.composite
def _scenes(draw: st.DrawFn) -> list[Request]:
    """Pods of one spec: some alike, so that there is a template, then others and changes."""
    spec = draw(st.sampled_from(_SPECS))
    namespace = draw(st.sampled_from(("a", "default")))
    taught = _pod(
        draw(st.sampled_from(_FRAMES)), draw(st.sampled_from(_METADATA[:2])), spec, namespace, ()
    )
    queries = st.sampled_from(((), (("fieldValidation", "Strict"),), (("dryRun", "All"),)))
    pods = st.builds(
        _pod, st.sampled_from(_FRAMES), st.sampled_from(_METADATA), st.just(spec),
        st.just(namespace), queries,
    )  # fmt: skip
    changes = st.sampled_from(_CHANGES).map(_change)
    begin = draw(st.lists(changes, max_size=2))
    steps = draw(st.lists(st.one_of(pods, changes, st.just(taught)), max_size=6))
    return [_change(_CHANGES[4]), *begin, taught, taught, *steps]


async def _answers(requests: list[Request], first: tuple[str, Document]) -> list[Any]:
    """What a fresh server makes of the requests, and then holds; without its versions."""
    async with EmbeddedControlPlane(Options(seed=1, clock=VirtualClock(1.9e9))) as plane:
        transport = plane.transport()
        path, document = first
        made = await transport.send(Request("POST", path, body=json.dumps(document).encode()))
        assert made.status == 201
        found = []
        for request in [*requests, Request("GET", "/api/v1/pods")]:
            answer = await transport.send(request)
            found.append((answer.status, _unversioned(json.loads(answer.body)), answer.warnings))
        return found


def _unversioned(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _unversioned(inner) for k, inner in value.items() if k != "resourceVersion"}
    return [_unversioned(inner) for inner in value] if isinstance(value, list) else value


_SETTINGS = "/api/v1/namespaces/default/configmaps"


def _of(spec: int, *then: Request | tuple[str, str], query: Any = ()) -> list[Request]:
    """Three pods of a spec in the namespace a, changes, and others by frame and metadata."""
    frame, metadata = _FRAMES[0], _METADATA[0]
    taught = _pod(frame, metadata, _SPECS[spec], "a", query)
    later = [
        step if isinstance(step, Request) else _pod(*step, _SPECS[spec], "a", ()) for step in then
    ]
    return [_change(_CHANGES[4]), _change(_CHANGES[0]), taught, taught, taught, *later]


_STRICT, _IGNORE = (("fieldValidation", "Strict"),), (("fieldValidation", "Ignore"),)
_AGAIN = (_FRAMES[0], _METADATA[0])


@given(_scenes())
@example(_of(1, _change(_CHANGES[1]), _AGAIN))
@example(_of(0, _change(_CHANGES[2]), _AGAIN, _change(_CHANGES[3]), _AGAIN))
@example(_of(0, _change(_CHANGES[5]), _AGAIN))
@example(_of(0, _change(_CHANGES[6]), _AGAIN, _change(_CHANGES[8]), _AGAIN, _change(_CHANGES[7])))
@example(_of(0, _change(_CHANGES[8]), _change(_CHANGES[6]), _AGAIN, _change(_CHANGES[9]), _AGAIN))
@example(_of(9, (_FRAMES[0], _METADATA[1])))
@example(_of(0, (_FRAMES[4], _METADATA[0])))
@example(_of(12, _pod(_FRAMES[0], _METADATA[0], _SPECS[12], "a", _STRICT), query=_IGNORE))
def test_a_template_gives_what_the_long_way_gives(requests: list[Request]) -> None:
    short = asyncio.run(_answers(requests, (_SETTINGS, {"metadata": {"name": "none"}})))
    assert short == asyncio.run(_answers(requests, (_HOOKS, _WEBHOOK)))


@given(st.lists(st.integers(0, 5), max_size=30))
def test_so_many_are_kept_and_no_more(specs: list[int]) -> None:
    templates = CreateCache(AdmitAll(), kept=3)
    stored = b'{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{"number":%d},"status":{}}'
    seen: set[int] = set()
    kept: list[int] = []
    for number in specs:
        sent = b'{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{"hostUsers":%d}}' % number
        repeat = templates.lookup(PODS, "a", sent)
        assert repeat is not None
        assert (repeat.template is not None) == (number in kept)
        if repeat.template is not None:
            assert bytes(repeat.template.spec) == b'{"number":%d}' % number
            continue
        templates.store(PODS, repeat, stored % number, ())
        if number in seen:
            kept = [*kept, number][-3:]
        seen.add(number)
