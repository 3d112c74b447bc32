# SPDX-License-Identifier: Apache-2.0
"""Parts of pods that passed before are not checked again, and nobody can tell."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from koord.base.documents import Document
from koord.controlplane.kinds.pod.defaults import default_pod
from koord.controlplane.kinds.pod.spec_validation import check_spec
from koord.controlplane.kinds.validation import part_cache
from koord.controlplane.kinds.validation.causes import Causes
from koord.kube.errors import ApiError, StatusCause
from tests.controlplane.goldens import case_files, cases
from tests.controlplane.recording import RESOURCES
from tests.profiles import examples

# Good and bad pods, of which a kube-apiserver's answers are recorded (test_goldens).
PODS = [
    case["object"] for name in case_files() for case in cases(name)
    if RESOURCES[case["in"]].storage == "pods"
]  # fmt: skip


def _specs() -> list[Document]:
    found = []
    for pod in PODS:
        try:
            document, _ = RESOURCES["pods"].schema.decode(part_cache._encode(pod), "Ignore")
            default_pod(document.setdefault("spec", {}))
        except ApiError:
            continue
        found.append(document["spec"])
    return found


SPECS = _specs()
MEMBERS = sorted({key for spec in SPECS for key in spec})


@contextmanager
def nothing_known() -> Iterator[None]:
    """Every check looks at every part."""
    known, part_cache._valid_parts = part_cache._valid_parts, set()
    longest, part_cache.LONGEST_PART_BYTES = part_cache.LONGEST_PART_BYTES, 0
    try:
        yield
    finally:
        part_cache._valid_parts, part_cache.LONGEST_PART_BYTES = known, longest


def causes_of(spec: Document) -> list[StatusCause]:
    causes = Causes()
    check_spec(spec, "spec", causes)
    return list(causes)


def test_there_are_good_and_bad_pods() -> None:
    with nothing_known():
        bad = [bool(causes_of(spec)) for spec in SPECS]
    assert 20 < sum(bad) < len(bad) - 20


@given(st.data())
@settings(max_examples=examples(0.5))
def test_what_is_wrong_is_the_same_whatever_came_before(data: st.DataObject) -> None:
    """Pods with parts of others: a mount without its volume, the same container twice."""
    for _ in range(4):
        spec = copy.deepcopy(data.draw(st.sampled_from(SPECS)))
        other = data.draw(st.sampled_from(SPECS))
        for member in data.draw(st.lists(st.sampled_from(MEMBERS), max_size=3)):
            spec.pop(member, None)
            if member in other:
                spec[member] = copy.deepcopy(other[member])
        if data.draw(st.booleans()):
            spec.setdefault("containers", []).extend(copy.deepcopy(other.get("containers") or []))
        with nothing_known():
            wanted = causes_of(spec)
        assert causes_of(spec) == wanted
        assert causes_of(spec) == wanted


def _container(name: str, **more: Any) -> Document:
    spec: Document = {"containers": [{"name": name, "image": "i", **more}]}
    default_pod(spec)
    container: Document = spec["containers"][0]
    return container


def test_a_container_that_passed_needs_its_volumes_and_its_name() -> None:
    mounted = _container("web", volumeMounts=[{"name": "data", "mountPath": "/data"}])
    spec: Document = {"containers": [mounted], "volumes": [{"name": "data", "emptyDir": {}}]}
    default_pod(spec)
    assert not causes_of(spec)
    assert [cause.field for cause in causes_of({**spec, "volumes": []})] == [
        "spec.containers[0].volumeMounts[0].name"
    ]
    twice = causes_of({**spec, "containers": [mounted, mounted]})
    assert [cause.field for cause in twice] == ["spec.containers[1].name"]


def test_what_passed_is_checked_once_and_what_fails_each_time() -> None:
    looked: list[Any] = []

    def check(part: Any, path: str, causes: Causes) -> None:
        looked.append(part)
        if part == "bad":
            causes.required(path)

    checked, causes = part_cache.checked_once(check), Causes()
    for path in ("a", "b"):
        for part in ({"x": 1}, {"x": 1.0}, {"x": True}, {"x": "1"}, "bad"):
            checked(part, path, causes)
    assert looked == [{"x": 1}, {"x": 1.0}, {"x": True}, {"x": "1"}, "bad", "bad"]
    assert [cause.field for cause in causes] == ["a", "b"]
    part_cache.checked_once(check)({"x": 1}, "a", causes)
    assert len(looked) == 7  # what passed one check has not passed another


def test_parts_are_bounded_by_number_and_length() -> None:
    """Rule: docs/limits-server.md."""
    checked = part_cache.checked_once(lambda part, path, causes: None)
    sizes = []
    for number in range(part_cache.MOST_PARTS + 100):
        checked(number, "", Causes())
        sizes.append(len(part_cache._valid_parts))
    assert max(sizes) == part_cache.MOST_PARTS
    before = len(part_cache._valid_parts)
    checked("x" * part_cache.LONGEST_PART_BYTES, "", Causes())
    assert len(part_cache._valid_parts) == before
