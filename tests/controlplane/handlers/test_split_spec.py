# SPDX-License-Identifier: Apache-2.0
"""Specs put together of parts that came before, against a server that reads each as a whole.

The pods are those of which a kube-apiserver's answers are recorded, good and bad, with members of
others in their place.
"""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.controlplane import frames
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.controlplane.kinds.pod import split_spec
from koord.kernels.splitter import Splitter
from koord.kube.transport.messages import Request
from tests.contract.api import Document
from tests.controlplane.goldens import case_files, cases
from tests.controlplane.handlers.test_create_cache import (
    _HOOKS,
    _LIMITS,
    _SETTINGS,
    _WEBHOOK,
    CLASSES,
    _answers,
)
from tests.controlplane.recording import RESOURCES
from tests.profiles import examples

_PATH = "/api/v1/namespaces/default/pods"
_encode = msgspec.json.encode


def _recorded() -> list[Document]:
    pods = [
        case["object"] for name in case_files() for case in cases(name)
        if RESOURCES[case["in"]].storage == "pods"
    ]  # fmt: skip
    return [spec for pod in pods if isinstance(spec := pod.get("spec"), dict)]


SPECS = _recorded()
PARTS = tuple(split_spec._KINDS)
PARTS_OF_CONTAINERS = tuple(split_spec._OF_CONTAINERS)


def _first(spec: Document) -> Document | None:
    containers = spec.get("containers")
    found = isinstance(containers, list) and containers and containers[0]
    return found if isinstance(found, dict) else None


def _create(spec: Document, labels: Document | None = None) -> Request:
    meta = {"generateName": "p-", "labels": labels or {"app": "a"}}
    body = _encode({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    return Request("POST", _PATH, body=body)


@st.composite
def _histories(draw: st.DrawFn) -> list[Request]:
    """Pods of one spec, of which two make its frame known; then parts of others come in."""
    spec = draw(st.sampled_from(SPECS))
    requests = [_create(spec), _create(spec)]
    known = [spec]
    for _ in range(draw(st.integers(1, 5))):
        other = draw(st.sampled_from(SPECS))
        made = copy.deepcopy(draw(st.sampled_from(known)))
        for member in draw(st.lists(st.sampled_from(PARTS), max_size=2, unique=True)):
            if member in other and (member in made or draw(st.booleans())):
                made[member] = copy.deepcopy(other[member])
        mine, others = _first(made), _first(other)
        if mine is not None and others is not None:
            for member in draw(st.lists(st.sampled_from(PARTS_OF_CONTAINERS), max_size=2)):
                if member in others:
                    mine[member] = copy.deepcopy(others[member])
            if draw(st.integers(0, 9)) == 0:
                made["containers"].append(copy.deepcopy(mine))
        known.append(made)
        requests += [_create(made)] * draw(st.integers(1, 2))
        if draw(st.integers(0, 9)) == 0:
            limits = _encode(_LIMITS)
            requests.append(Request("POST", f"{_PATH[:-4]}limitranges", body=limits))
    return requests


@given(_histories())
@settings(max_examples=examples(0.5))
def test_parts_give_what_the_whole_gives(requests: list[Request]) -> None:
    short = asyncio.run(_answers(requests, (_SETTINGS, {"metadata": {"name": "none"}})))
    assert short == asyncio.run(_answers(requests, (_HOOKS, _WEBHOOK)))


def _spec(**more: Any) -> Document:
    container = {
        "name": "main", "image": "app:1", "args": ["--index=0"],
        "env": [{"name": "INDEX", "value": "0"},
                {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"limits": {"cpu": "1", "memory": "1024Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "livenessProbe": {"httpGet": {"port": 80}},
    }  # fmt: skip
    return {
        "containers": [container, {"name": "proxy", "image": "proxy"}],
        "initContainers": [{"name": "first", "image": "first:1"}],
        "volumes": [{"name": "data", "configMap": {"name": "data-0"}}],
        "nodeSelector": {"zone": "a"}, "hostname": "web-0", "priorityClassName": "high",
        **more,
    }  # fmt: skip


_TOKEN = {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
_PORT = {"containerPort": 80, "hostPort": 80}
# What is new in a spec, and whether it is put together of parts nonetheless.
_NEW: list[tuple[str, Any, bool]] = [
    ("containers.0.args", ["--index=1"], True),
    ("containers.0.env.0.value", "1", True),
    ("containers.0.env.0.name", "", False),
    ("containers.0.env.0.name", "=", False),
    ("containers.0.resources.limits.cpu", "500m", True),
    ("containers.0.resources.limits.cpu", "0.5", True),
    ("containers.0.resources.limits", {}, True),
    ("containers.0.resources.limits.cpu", "-1", False),
    ("containers.0.resources.requests", {"cpu": "2"}, False),
    ("containers.0.image", "app:latest", True),
    ("containers.0.image", " app", False),
    ("containers.0.name", "proxy", False),
    ("containers.0.name", "first", False),
    ("containers.0.unknown", 1, False),
    ("containers.0.ports", [_PORT], False),
    ("containers.0.livenessProbe.successThreshold", 2, False),
    ("containers.0.volumeMounts.0.mountPath", "/other", True),
    ("containers.0.volumeMounts.0.name", "other", False),
    ("containers.0.volumeMounts.0.mountPropagation", "HostToContainer", False),
    ("containers.0.volumeMounts.0.mountPropagation", "Bidirectional", False),
    ("containers.1", {"name": "proxy", "image": "proxy", "resources": {}}, True),
    ("containers", [], False),
    ("containers.0.args", None, False),
    ("initContainers", [], True),
    ("initContainers.0.livenessProbe", {"tcpSocket": {"port": 1}}, False),
    ("initContainers.0.restartPolicy", "Always", True),
    ("volumes.0.configMap.name", "data-1", True),
    ("volumes.0.configMap.name", "", False),
    ("volumes.0.name", "other", False),
    ("volumes", [{"name": "data", "emptyDir": {}}, {"name": "data", "emptyDir": {}}], False),
    ("volumes", [{"name": "data", **_TOKEN}], False),
    ("nodeSelector", {"zone": "b"}, True),
    ("nodeSelector", {"zone": "b c"}, False),
    ("hostname", "web-1", True),
    ("hostname", "Web 1", False),
    # Members that are no parts make another frame.
    ("hostNetwork", True, False),
    ("priorityClassName", "low", False),
    ("schedulerName", "other", False),
]


def _changed(path: str, value: Any) -> Document:
    spec = _spec()
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    inside: Any = spec
    for step in steps:
        inside = inside[step]
    inside[last] = value
    return spec


def test_what_is_new_in_a_spec() -> None:
    """Whether it is put together, and that a server which reads it whole says the same."""
    classes = [
        Request("POST", CLASSES, body=_encode({"metadata": {"name": name}, "value": 7}))
        for name in ("high", "low")
    ]
    first = [*classes, _create(_spec()), _create(_spec())]
    pods = [_create(_changed(path, value)) for path, value, _ in _NEW]
    short = asyncio.run(_answers([*first, *pods], (_SETTINGS, {"metadata": {"name": "none"}})))
    assert short == asyncio.run(_answers([*first, *pods], (_HOOKS, _WEBHOOK)))
    put_together = asyncio.run(_are_put_together(first, pods))
    for (path, value, by_parts), found in zip(_NEW, put_together, strict=True):
        assert found == by_parts, (path, value)


async def _are_put_together(before: list[Request], requests: list[Request]) -> list[bool]:
    async with EmbeddedControlPlane(Options(seed=1)) as plane:
        for each in before:
            assert (await plane.transport().send(each)).status == 201
        cache, pods = plane.server._create_cache, RESOURCES["pods"]
        found = [cache.lookup(pods, "default", request.body) for request in requests]
        return [repeat is not None and repeat.template is not None for repeat in found]


@given(
    st.dictionaries(st.sampled_from("abcd"), st.lists(st.integers()) | st.text()),
    st.sets(st.sampled_from("abcd")),
)
def test_an_object_is_put_together_again(value: Document, parts: set[str]) -> None:
    """With other parts in place of its own it is the object that has those."""
    text = _encode(value)
    found = Splitter(parts).split(text)
    if not value:
        assert found is None
        return
    assert found is not None
    texts = [part for _, part in found.parts]
    pieces = frames.frame_texts(text, found, texts)
    assert frames.fill(pieces, texts) == text
    others = {name: [name] if name in parts else inner for name, inner in value.items()}
    assert frames.fill(pieces, [_encode([name]) for name, _ in found.parts]) == _encode(others)


def test_parts_that_are_kept_are_bounded_by_bytes() -> None:
    """Rule: docs/limits-server.md."""
    kind = split_spec._PartKind("containers[].args", lambda value: split_spec.Part(_encode(value)))
    sizes = []
    for number in range(4 * split_spec.KEPT_BYTES // 1024):
        (part,) = kind.parts(_encode([f"{number} {'x' * 400}"])) or ()
        assert part.stored
        kept = [*kind._known.items(), *kind._known.before.items()]
        if number % 100 == 0:
            sizes.append(sum(len(text) + len(part.stored) for text, part in kept))
    assert max(sizes) <= 2 * split_spec.KEPT_BYTES
    assert kind.parts(_encode(["x" * split_spec.LONGEST_PART_BYTES])) is None
