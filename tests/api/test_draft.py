# SPDX-License-Identifier: Apache-2.0
"""Fields koord has no name for survive a change, at every level and inside lists."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import Draft, Reservation, decode, to_document
from koord.api.draft import merge, merge_patch
from koord.api.duration import Duration
from koord.api.kinds.reservation import ReservationOwner
from koord.base.errors import KoordError

SEEDS = st.integers(0, 2**32 - 1)


def strange(rng: Random) -> dict[str, Any]:
    """Some fields no type knows."""
    values: list[Any] = [rng.randrange(9), "text", [1, 2], {"x-inner": 1}]
    return {key: rng.choice(values) for key in rng.sample(["x-a", "x-b", "x-c"], rng.randrange(3))}


def some(rng: Random, names: str) -> list[str]:
    """Some of the names, in any order."""
    words = names.split()
    return rng.sample(words, rng.randrange(len(words) + 1))


def reservation(rng: Random) -> dict[str, Any]:
    """A Reservation with strange fields at every level.

    Drawn from one seed instead of field by field, so that an example costs microseconds.
    """
    containers = [
        {
            "name": name,
            "resources": {"requests": {"cpu": rng.choice(["1000m", "1", "2"])}, **strange(rng)},
            **strange(rng),
        }
        for name in some(rng, "a b c d")
    ]
    conditions = [
        {"type": kind, "status": "True", **strange(rng)} for kind in some(rng, "Ready Scheduled")
    ]
    owners = [
        {"object": {"name": name, **strange(rng)}, **strange(rng)} for name in some(rng, "x y z")
    ]
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "r", **strange(rng)},
        "spec": {
            "template": {"spec": {"containers": containers, **strange(rng)}, **strange(rng)},
            "owners": owners,
            **strange(rng),
        },
        "status": {"conditions": conditions, **strange(rng)},
        **strange(rng),
    }


def unknown_fields(document: Any, path: str = "") -> dict[str, Any]:
    """Path to value of every strange field; items of lists go by their names."""
    found: dict[str, Any] = {}
    if isinstance(document, dict):
        for key, value in document.items():
            if key.startswith("x-"):
                found[f"{path}.{key}"] = value
            else:
                found |= unknown_fields(value, f"{path}.{key}")
    elif isinstance(document, list):
        for index, item in enumerate(document):
            inner = item.get("object", item) if isinstance(item, dict) else {}
            name = inner.get("name") or inner.get("type") or index
            found |= unknown_fields(item, f"{path}[{name}]")
    return found


@given(SEEDS)
def test_unknown_fields_survive_changes_of_known_ones(seed: int) -> None:
    rng = Random(seed)
    document = reservation(rng)
    submitted = copy.deepcopy(document)
    draft = Draft(document, Reservation)
    changed = draft.object
    changed.spec.ttl = Duration.parse("1h")
    changed.status.node_name = "n1"
    assert changed.spec.template is not None
    for container in changed.spec.template.spec.containers:
        if rng.random() < 0.5:
            container.image = "changed"
    for condition in changed.status.conditions:
        condition.status = rng.choice(["True", "False"])
    written = json.loads(draft.encode())
    assert document == submitted
    assert unknown_fields(written) == unknown_fields(submitted)
    assert to_document(decode(written)) == to_document(changed)


@given(SEEDS)
def test_items_keep_their_own_fields_when_others_come_and_go(seed: int) -> None:
    rng = Random(seed)
    document = reservation(rng)
    draft = Draft(document, Reservation)
    assert draft.object.spec.template is not None
    containers = draft.object.spec.template.spec.containers
    kept = rng.sample(containers, rng.randrange(len(containers) + 1))
    draft.object.spec.template.spec.containers = kept
    names = {container.name for container in kept}
    before = document["spec"]["template"]["spec"]["containers"]
    expected = {c["name"]: unknown_fields(c) for c in before if c["name"] in names}
    written = draft.document()["spec"]["template"]["spec"].get("containers", [])
    assert {c["name"]: unknown_fields(c) for c in written} == expected


@given(SEEDS)
def test_nothing_changes_without_a_change(seed: int) -> None:
    document = reservation(Random(seed))
    draft = Draft(document, Reservation)
    assert draft.document() == document
    assert draft.merge_patch() == {}


@given(SEEDS)
def test_a_patch_brings_the_old_document_to_the_new(seed: int) -> None:
    document = reservation(Random(seed))
    draft = Draft(document, Reservation)
    draft.object.metadata.annotations["a"] = "b"
    draft.object.spec.owners = draft.object.spec.owners[:1]
    draft.object.status.phase = "Available"
    assert apply_merge_patch(document, draft.merge_patch()) == draft.document()


def apply_merge_patch(document: Any, patch: Any) -> Any:
    """RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply_merge_patch(result.get(key), value)
    return result


def _reservation(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
            "metadata": {"name": "r"}, "spec": spec}  # fmt: skip


def test_a_patch_names_what_changed_and_nothing_else() -> None:
    draft = Draft(_reservation(ttl="1h", other={"a": 1}), Reservation)
    draft.object.status.phase = "Available"
    draft.object.spec.ttl = None
    assert draft.merge_patch() == {"spec": {"ttl": None}, "status": {"phase": "Available"}}


def test_an_unchanged_amount_keeps_its_spelling() -> None:
    limits = {"requests": {"cpu": "1000m", "memory": "1024Mi"}}
    template = {"spec": {"containers": [{"name": "a", "resources": limits}]}}
    draft = Draft(_reservation(template=template), Reservation)
    assert draft.object.spec.template is not None
    draft.object.spec.template.spec.containers[0].image = "x"
    assert draft.document()["spec"]["template"]["spec"]["containers"] == [
        {"name": "a", "resources": limits, "image": "x"}
    ]


def test_an_item_that_is_new_starts_without_fields_of_others() -> None:
    owners = [{"labelSelector": {"matchLabels": {"a": "b"}}, "x": 1}]
    draft = Draft(_reservation(owners=owners), Reservation)
    draft.object.spec.owners.insert(0, ReservationOwner())
    assert draft.document()["spec"]["owners"] == [{}, *owners]


MERGES = [
    # original, before, after, expected
    ({"a": 1, "x": 2}, {"a": 1}, {"a": 3}, {"a": 3, "x": 2}),
    ({"a": 1, "x": 2}, {"a": 1}, {}, {"x": 2}),
    ({"a": False, "x": 2}, {}, {"a": True}, {"a": True, "x": 2}),
    ({"l": [{"x": 1}]}, {"l": [{}]}, {"l": [{"v": 2}]}, {"l": [{"x": 1, "v": 2}]}),
    ({"l": [1, 2]}, {"l": [1, 2]}, {"l": [2]}, {"l": [2]}),
    (
        {"l": [{"name": "a", "x": 1}, {"name": "b", "x": 2}]},
        {"l": [{"name": "a"}, {"name": "b"}]},
        {"l": [{"name": "b", "v": 3}, {"name": "c"}]},
        {"l": [{"name": "b", "x": 2, "v": 3}, {"name": "c"}]},
    ),
    (
        {"l": [{"name": "a", "x": 1}, {"name": "a", "x": 2}]},
        {"l": [{"name": "a"}, {"name": "a"}]},
        {"l": [{"name": "a"}, {"name": "a", "v": 1}]},
        {"l": [{"name": "a", "x": 1}, {"name": "a", "x": 2, "v": 1}]},
    ),
]


@pytest.mark.parametrize(("original", "before", "after", "expected"), MERGES)
def test_merge(original: Any, before: Any, after: Any, expected: Any) -> None:
    assert merge(original, before, after) == expected


def test_merge_patch_replaces_lists() -> None:
    assert merge_patch({"l": [1], "a": {"b": 1, "c": 2}}, {"l": [2], "a": {"b": 1}}) == {
        "l": [2],
        "a": {"c": None},
    }


def test_an_object_of_a_foreign_group_keeps_all_but_its_metadata_untyped() -> None:
    document = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "n": 1}
    draft: Draft[Any] = Draft(document)
    draft.object.metadata.labels["a"] = "b"
    assert draft.document() == {**document, "metadata": {"name": "t", "labels": {"a": "b"}}}


def test_a_wrong_object_is_refused() -> None:
    with pytest.raises(KoordError, match=r"spec\.ttl: got 'soon', expected a duration"):
        Draft(_reservation(ttl="soon"), Reservation)
