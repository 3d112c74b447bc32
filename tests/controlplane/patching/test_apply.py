# SPDX-License-Identifier: Apache-2.0
"""Server-side apply: its promises. Random sequences against a real server: ``tests/contract``."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.controlplane.patching import apply, track_update
from koord.controlplane.patching.field_sets import MalformedError, from_wire, text, to_wire
from koord.controlplane.patching.last_applied import ANNOTATION
from koord.controlplane.patching.typed import field_set
from koord.controlplane.resource import Context
from koord.controlplane.schema import core_schema
from koord.kube.errors import ApiError, causes_of
from tests.contract.generated import AppliedDocuments

Document = dict[str, Any]
SCHEMA = core_schema("apps", "v1", "Deployment")
NOW = Context(now="2030-01-01T00:00:00Z")
LATER = Context(now="2030-01-01T00:00:09Z")
SEEDS = st.integers(0, 10**9)


def applied(
    live: Document | None, document: Document, manager: str = "m", force: bool = True,
    context: Context = NOW,
) -> Document:  # fmt: skip
    merged = apply(live, document, manager, force, SCHEMA, context)
    SCHEMA.prune(merged)
    return merged


def deployment(**spec: Any) -> Document:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


def entries(document: Document) -> dict[tuple[str, str], Document]:
    listed = document["metadata"].get("managedFields", [])
    return {(entry["manager"], entry["operation"]): entry for entry in listed}


def owned(document: Document, manager: str, operation: str = "Apply") -> set[str]:
    entry = entries(document).get((manager, operation))
    return {text(path) for path in from_wire(entry["fieldsV1"])} if entry else set()


def bare(document: Document) -> Document:
    copy = deepcopy(document)
    copy["metadata"].pop("managedFields", None)
    return copy


@given(SEEDS)
def test_the_first_apply_creates_what_it_says(seed: int) -> None:
    document = AppliedDocuments(seed).document()
    before = deepcopy(document)
    live = applied(None, document)
    SCHEMA.prune(before)
    assert bare(live) == before
    assert entries(live).keys() <= {("m", "Apply")}


@given(SEEDS)
def test_applying_the_same_again_changes_nothing(seed: int) -> None:
    documents = AppliedDocuments(seed)
    live = applied(applied(None, documents.document(), "other"), documents.document())
    again = documents.document()
    once = applied(live, again)
    before = deepcopy(once)
    assert applied(once, again, force=False, context=LATER) == once
    assert once == before


@given(SEEDS)
def test_force_takes_and_what_nobody_applies_any_more_goes(seed: int) -> None:
    documents = AppliedDocuments(seed)
    first, second = documents.document(), documents.document()
    live = applied(applied(None, first, "m1"), second, "m2")
    wanted = applied(None, second, "m2")
    assert owned(live, "m2") == owned(wanted, "m2")
    nothing = {key: first[key] for key in ("apiVersion", "kind")} | {"metadata": {"name": "d"}}
    assert field_set(bare(applied(live, nothing, "m1")), SCHEMA.shape) >= field_set(
        bare(wanted), SCHEMA.shape
    )
    left = applied(applied(live, nothing, "m1"), nothing, "m2")
    assert entries(left) == {}
    assert not field_set(bare(left), SCHEMA.shape) - field_set(nothing, SCHEMA.shape)


@given(SEEDS)
def test_managers_of_different_fields_never_conflict(seed: int) -> None:
    whole = AppliedDocuments(seed).document()
    one, other = deepcopy(whole), deepcopy(whole)
    one.pop("spec", None)
    other["metadata"] = {"name": "d"}
    live = applied(applied(None, one, "m1", force=False), other, "m2", force=False)
    SCHEMA.prune(whole)
    assert bare(live) == whole
    assert owned(live, "m1").isdisjoint(owned(live, "m2"))


@given(SEEDS)
def test_a_field_set_survives_the_wire(seed: int) -> None:
    paths = field_set(AppliedDocuments(seed).document(), SCHEMA.shape)
    assert from_wire(json.loads(json.dumps(to_wire(paths)))) == paths


def test_a_conflict_names_manager_and_field() -> None:
    live = applied(None, deployment(replicas=1), "first")
    with pytest.raises(ApiError) as caught:
        applied(live, deployment(replicas=2), "second", force=False)
    error = caught.value
    assert (error.http_status, error.reason) == (409, "Conflict")
    told = 'Apply failed with 1 conflict: conflict with "first": .spec.replicas'
    assert error.status.message == told
    (cause,) = causes_of(error)
    assert (cause.reason, cause.field) == ("FieldManagerConflict", ".spec.replicas")
    taken = applied(live, deployment(replicas=2), "second")
    assert owned(taken, "first") == set()
    assert ".spec.replicas" in owned(taken, "second")


def test_equal_values_are_shared_without_a_conflict() -> None:
    live = applied(None, deployment(replicas=1), "first")
    both = applied(live, deployment(replicas=1), "second", force=False)
    assert owned(both, "first") == owned(both, "second") == {".spec.replicas"}
    assert bare(applied(both, deployment(), "first")) == bare(both)


def test_an_object_that_was_never_applied_has_an_owner_before_the_first() -> None:
    live = deployment(replicas=1, paused=True)
    live["metadata"]["uid"] = "1"
    with pytest.raises(ApiError) as caught:
        applied(live, deployment(replicas=2), force=False)
    assert 'conflict with "before-first-apply" using apps/v1' in caught.value.status.message
    forced = applied(live, deployment(replicas=2))
    assert owned(forced, "before-first-apply", "Update") == {".spec", ".spec.paused"}


def test_kubectl_takes_over_what_it_applied_on_its_own_side() -> None:
    told = deployment(replicas=1)
    live = deployment(replicas=1, paused=True)
    live["metadata"]["annotations"] = {ANNOTATION: json.dumps(told)}
    merged = applied(live, deployment(replicas=3), "kubectl", force=False)
    assert merged["spec"] == {"replicas": 3, "paused": True}
    assert json.loads(merged["metadata"]["annotations"][ANNOTATION]) == deployment(replicas=3)
    with pytest.raises(ApiError):
        applied(live, deployment(paused=False), "kubectl", force=False)


def test_updates_are_tracked_once_an_object_was_applied() -> None:
    plain = deployment(replicas=1)
    assert track_update(None, plain, "u", "", SCHEMA, NOW) is plain
    live = applied(None, deployment(replicas=1, paused=True))
    changed = deepcopy(live)
    changed["spec"] |= {"replicas": 2, "minReadySeconds": 5}
    tracked = track_update(live, changed, "u", "", SCHEMA, LATER)
    assert bare(tracked) == bare(changed)
    assert owned(tracked, "m") == {".spec.paused"}
    assert owned(tracked, "u", "Update") == {".spec.replicas", ".spec.minReadySeconds"}
    assert entries(tracked)["u", "Update"]["time"] == LATER.now
    assert entries(tracked)["m", "Apply"]["time"] == NOW.now
    assert track_update(tracked, deepcopy(tracked), "v", "", SCHEMA, LATER) == tracked


def test_a_client_may_leave_managed_fields_out_or_reset_them() -> None:
    live = applied(None, deployment(replicas=1))
    left_out = bare(live)
    assert entries(track_update(live, left_out, "u", "", SCHEMA, LATER)).keys() == {("m", "Apply")}
    reset = bare(live)
    reset["metadata"]["managedFields"] = []
    assert entries(track_update(live, reset, "u", "", SCHEMA, LATER)) == {}


def test_status_has_managers_of_its_own() -> None:
    live = applied(None, deployment(replicas=1))
    changed = deepcopy(live)
    changed["status"] = {"replicas": 1}
    spec = frozenset(["spec"])
    tracked = track_update(live, changed, "c", "status", SCHEMA, LATER, ignored=spec)
    assert entries(tracked)["c", "Update"]["subresource"] == "status"
    assert owned(tracked, "c", "Update") == {".status", ".status.replicas"}
    ignored = apply(
        None, {**deployment(), "status": {"replicas": 3}}, "m", True, SCHEMA, NOW,
        ignored=frozenset(["status"]),
    )  # fmt: skip
    assert owned(ignored, "m") == {".spec"}


def test_the_oldest_updaters_share_an_entry() -> None:
    live = applied(None, deployment(replicas=0))
    for number in range(1, 15):
        changed = deepcopy(live)
        changed["metadata"].setdefault("labels", {})[f"l{number}"] = "x"
        context = Context(now=f"2030-01-01T00:00:{number:02}Z")
        live = track_update(live, changed, f"u{number}", "", SCHEMA, context)
    updaters = [name for name, operation in entries(live) if operation == "Update"]
    assert len(updaters) == 10
    assert "ancient-changes" in updaters
    everything = set().union(*(owned(live, name, "Update") for name in updaters))
    assert {f".metadata.labels.l{number}" for number in range(1, 15)} <= everything


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"foo": 1}, ".spec.foo: field not declared in schema"),
        ({"replicas": "x"}, ".spec.replicas: expected numeric (int or float)"),
        ({"template": {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}},
         '.spec.template.spec.containers: duplicate entries for key [name="a"]'),
        ({"template": {"spec": {"containers": [None]}}}, "may not have a null element"),
        ({"template": {"spec": {"containers": "x"}}}, "expected list"),
        ({"template": []}, "expected map"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_schema_is_refused(spec: Document, told: str) -> None:
    with pytest.raises(ApiError) as caught:
        applied(None, deployment(**spec))
    assert caught.value.http_status == 500
    assert told in caught.value.status.message


def test_managed_fields_cannot_be_applied() -> None:
    document = deployment()
    document["metadata"]["managedFields"] = []
    with pytest.raises(ApiError) as caught:
        applied(None, document)
    assert caught.value.http_status == 400


@pytest.mark.parametrize(
    "fields", [[], {"x": {}}, {"f:a": 1}, {"k:nope": {}}, {"k:[1]": {}}, {"v:": {}}, {"q:a": {}}]
)
def test_malformed_field_sets_are_refused(fields: Any) -> None:
    with pytest.raises(MalformedError):
        from_wire(fields)
    live = deployment()
    entry = {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    live["metadata"]["managedFields"] = [{**entry, "fieldsV1": fields or [1]}]
    with pytest.raises(ApiError):
        applied(live, deployment())
    assert entries(track_update(live, deepcopy(live), "u", "", SCHEMA, NOW)) == {}
