# SPDX-License-Identifier: Apache-2.0
"""Whatever stands in an annotation, a label or an object: a value or one line, in bounded time."""

from __future__ import annotations

import itertools
import json
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.agent.hooks.registry import load as load_hooks
from koord.agent.prediction.checkpoints import VERSION, Checkpoints
from koord.agent.prediction.usage_models import UsageModels
from koord.agent.states.annotation_checks.annotation_checker import AnnotationChecker
from koord.agent.states.effective_specs import effective_slo
from koord.api import codec, transforms
from koord.api.kinds.nodeslo import NodeSLOSpec
from koord.api.kinds.pod import Pod
from koord.api.kinds.registry import KINDS
from koord.api.objects import decode_as
from koord.api.protocol import agent as agent_protocol
from koord.api.protocol import annotation, eviction, keys, quotas, scheduling
from koord.api.requests import counted, requested, wrong_amount
from koord.base.errors import KoordError
from koord.kernels.cgroup_path import Driver
from tests.agent.hooks.build import context, inner, options, snapshot
from tests.agent.hooks.build import pod as build_pod
from tests.agent.machine_tree import MachineTree
from tests.hostile.documents import ANNOTATIONS, DOCUMENTS, KEYS, of_type, readers
from tests.outcomes import refusal
from tests.profiles import examples

# Those that take more than an object.
MORE: list[tuple[str, Callable[[Any], object], type[Any]]] = [
    ("eviction.allows_eviction_by", lambda pod: eviction.allows_eviction_by(pod, "x"), Pod),
    ("agent.oom_score_adj", lambda pod: agent_protocol.oom_score_adj(pod, "main"), Pod),
    ("quotas.amounts", lambda pod: quotas.amounts(pod, keys.QUOTA_RUNTIME), Pod),
    (
        "scheduling.load_estimated_seconds",
        lambda pod: scheduling.load_estimated_seconds(
            pod, keys.LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED
        ),
        Pod,
    ),
    ("transforms.with_replaced_resources", transforms.with_replaced_resources, Pod),
    ("transforms.with_default_priority", transforms.with_default_priority, Pod),
    ("transforms.with_preemption_policy", transforms.with_preemption_policy, Pod),
]
READERS = {name: (function, kind) for name, function, kind in [*readers(), *MORE]}
_FITS = "\0fits"
_READ = st.none() | st.just(_FITS) | ANNOTATIONS


class Everything(dict[str, str]):
    """Has every key that it is asked for, or says that it has not; drawn when asked."""

    def __init__(self, data: st.DataObject) -> None:
        super().__init__()
        self._data = data
        self._known: dict[str, str | None] = {}

    def get(self, key: str, default: Any = None) -> Any:
        """See :class:`dict`."""
        if key not in self._known:
            self._known[key] = self._data.draw(_READ, label=key)
        found = self._known[key]
        return default if found is None else found

    def __contains__(self, key: object) -> bool:
        return self.get(str(key)) is not None

    def __getitem__(self, key: str) -> str:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return str(found)


def fitting(data: st.DataObject) -> Any:
    """Reads what nearly fits the type that is asked for in the place of a mark."""
    parse = annotation.parse

    def parse_drawn(text: str, kind: Any, object_name: str, field: str) -> Any:
        if text == _FITS:
            text = json.dumps(data.draw(of_type(kind), label=field))
        return parse(text, kind, object_name, field)

    return mock.patch.object(annotation, "parse", parse_drawn)


# There are a hundred of them; who trusts a text is found by the first few that are none.
@pytest.mark.parametrize("name", READERS)
@settings(max_examples=examples(0.4))
@given(st.data())
def test_what_is_read_of_an_object_is_a_value_or_one_line(name: str, data: st.DataObject) -> None:
    function, kind = READERS[name]
    found = kind()
    found.metadata.name = "x"
    found.metadata.annotations, found.metadata.labels = Everything(data), Everything(data)

    def call() -> None:
        read = function(found)
        if isinstance(read, Iterator):
            list(itertools.islice(read, 1000))

    with fitting(data):
        refusal(call)


# Its documents take tenths of a second to draw, and there are fifty kinds.
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.group}/{kind.name}")
@settings(max_examples=examples(0.2))
@given(st.data())
def test_an_object_is_decoded_or_refused(kind: Any, data: st.DataObject) -> None:
    if kind.type is None:
        pytest.skip("koord has no type of it")
    document = data.draw(of_type(kind.type))
    refusal(decode_as, json.dumps(document).encode(), kind.type)


@given(of_type(Pod))
def test_what_a_pod_asks_for_is_counted_or_refused(document: Any) -> None:
    try:
        pod = decode_as(json.dumps(document).encode(), Pod)
    except KoordError:
        return
    for count in (wrong_amount, requested, counted):
        refusal(count, pod)


@given(of_type(NodeSLOSpec))
def test_a_nodeslo_is_completed_or_refused(document: Any) -> None:
    refusal(lambda: effective_slo(codec.convert(document, NodeSLOSpec, "NodeSLO x")))


CLASSES = st.sampled_from(["LSE", "LSR", "LS", "BE", "SYSTEM", "", "x"])
ASKED = st.dictionaries(
    st.sampled_from(["cpu", "memory", "koordinator.sh/gpu", "koordinator.sh/rdma"]),
    st.sampled_from(["1", "100", "0", "9223372036854775807", "1n", "50"]),
    max_size=3,
)
NOTES = st.dictionaries(st.sampled_from(KEYS), ANNOTATIONS, max_size=6)
STATES = st.builds(
    lambda uid, qos, asked, notes: build_pod(
        qos, "Burstable", [{"name": "main", "resources": {"requests": asked}}], notes, uid=uid
    ),
    st.sampled_from(["a", "b", "c"]), CLASSES, ASKED, NOTES,
)  # fmt: skip


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> AnnotationChecker:
    tree = MachineTree(tmp_path_factory.mktemp("machine"), driver=Driver.CGROUPFS)
    return AnnotationChecker(tree.machine(), lambda pod, text: None, lambda minor: 80 << 30)


@given(st.lists(STATES, max_size=4, unique_by=lambda state: state.uid), of_type(NodeSLOSpec))
def test_the_agent_judges_and_obeys_whatever_pods_say(
    checker: AnnotationChecker, states: list[Any], slo: Any
) -> None:
    """What hooks cannot read is a line of theirs, and nothing escapes the judgement."""
    try:
        view = snapshot(node={}, nrt={}, slo=slo if isinstance(slo, dict) else {})
    except KoordError:
        view = snapshot(node={}, nrt={})
    hooks = load_hooks(options(gate=lambda name: True, keep_directory=lambda path: None), [])
    for hook in hooks:
        hook.learn(view)
    for state in checker(tuple(states), view):
        for hook in hooks:
            refusal(hook.pod, context(state))
            refusal(hook.container, inner(state))


@given(DOCUMENTS, st.booleans())
def test_a_checkpoint_is_taken_or_deleted(
    tmp_path_factory: pytest.TempPathFactory, body: Any, own: bool
) -> None:
    folder: Path = tmp_path_factory.mktemp("checkpoints")
    if own and isinstance(body, dict):
        body = {"cpu": {}, "memory": {}, "updatedMilliseconds": 1, **body}
    text = json.dumps(body, sort_keys=True)
    document = {"version": VERSION, "crc32": zlib.crc32(text.encode()), "model": body}
    (folder / "a").write_text(json.dumps(document))
    restored = Checkpoints(folder).restore(UsageModels(), {"a"})
    assert [each.name for each in folder.iterdir()] == restored


# Shapes of which a careless reader makes the square of their length.
SHAPES: dict[str, Callable[[int], str]] = {
    "brackets": lambda size: "[" * size,
    "objects": lambda size: '{"a":' * (size // 5),
    "digits": lambda size: "9" * size,
    "digits of a quantity": lambda size: '{"ingressLimit":"' + "1" * size + '"}',
    "fraction": lambda size: '{"ingressLimit":"0.' + "0" * size + '1"}',
    "commas": lambda size: "," * size,
    "pairs": lambda size: "a:b," * (size // 4),
    "escapes": lambda size: '"' + "\\u0000" * (size // 6) + '"',
    "names": lambda size: json.dumps({f"k{n}": n for n in range(size // 12)}),
    "folded names": lambda size: json.dumps({f"cPuSeT{n}": 1 for n in range(size // 16)}),
    "cpus": lambda size: '{"cpuset":"' + "0," * (size // 2) + '"}',
    "ranges": lambda size: json.dumps({"cpuset": ",".join(["0-8191"] * (size // 7))}),
    "rows": lambda size: '{"gpu":[' + ",".join(['{"minor":0}'] * (size // 12)) + "]}",
    "spaces": lambda size: " " * size,
    "minus": lambda size: "-" * size,
}  # fmt: skip
_SMALL, _TIMES = 8_192, 8
# Of what grows with the length: 8 times the time; with its square: 64.
_MOST_TIMES = 28.0


class Always(dict[str, str]):
    """The same text under every key."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def get(self, key: str, default: Any = None) -> Any:
        """See :class:`dict`."""
        return self._text

    def __contains__(self, key: object) -> bool:
        return True

    def __getitem__(self, key: str) -> str:
        return self._text


def _seconds(text: str) -> float:
    """What all readers together need for one text, the best of two."""
    best = float("inf")
    for _ in range(2):
        began = time.thread_time()
        for function, kind in READERS.values():
            found = kind()
            found.metadata.annotations, found.metadata.labels = Always(text), Always(text)
            try:
                read = function(found)
                if isinstance(read, Iterator):
                    list(read)
            except KoordError:
                pass
        best = min(best, time.thread_time() - began)
    return best


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_read_takes_no_longer_than_its_length_says(shape: str) -> None:
    small, large = (_seconds(SHAPES[shape](size)) for size in (_SMALL, _SMALL * _TIMES))
    assert large <= _MOST_TIMES * small
