# SPDX-License-Identifier: Apache-2.0
"""Custom resources by their definitions; answers of a real server are in ``tests/contract``."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord import api
from koord.controlplane.schema import CrdSchema, check_crd, crd_schema
from koord.kube.errors import ApiError
from tests.contract.generated import CustomDocuments
from tests.contract.recording import custom_definition

GOLDEN = Path(__file__).parent / "golden" / "crd_definitions.json"
DEFINITIONS: list[dict[str, Any]] = json.loads(GOLDEN.read_text())
THING = custom_definition()
SCHEMA = crd_schema(THING, "v1")
ALL = [
    crd_schema(definition, version["name"])
    for definition in (THING, *api.crds())
    for version in definition["spec"]["versions"]
]


def thing(spec: Any) -> dict[str, Any]:
    api_version = "contract.koord.dev/v1"
    return {"apiVersion": api_version, "kind": "Thing", "metadata": {"name": "t"}, "spec": spec}


def outcome(schema: CrdSchema, body: bytes, validation: str = "Warn") -> Any:
    try:
        return schema.decode(body, validation)
    except ApiError as error:
        return error.http_status, error.reason, error.status.message


# Here a real server prints Go structs or the words of Go's regexp.
OTHER_WORDS = ("noversions", "dupversions", "twostorage", "nostorage", "pattern")


@pytest.mark.parametrize("case", DEFINITIONS, ids=lambda case: case["case"])
def test_a_definition_is_judged_as_by_a_real_server(case: dict[str, Any]) -> None:
    causes = check_crd(case["definition"])
    found = sorted([cause.field, cause.reason, cause.message] for cause in causes)
    wanted = sorted(case["causes"])
    if case["case"] in OTHER_WORDS:
        found, wanted = [cause[:2] for cause in found], [cause[:2] for cause in wanted]
    assert found == wanted


def test_our_own_definitions_are_right() -> None:
    assert len(list(api.crds())) > 10
    for definition in api.crds():
        assert check_crd(definition) == []


@given(st.integers(0, 10**9), st.sampled_from(ALL), st.sampled_from([0.0, 0.05]))
def test_the_fast_and_the_slow_way_agree(seed: int, schema: CrdSchema, junk: float) -> None:
    spec = CustomDocuments(seed, junk).value(schema.openapi["properties"].get("spec", {}), 1)
    document = {"apiVersion": schema.api_version, "kind": schema.kind, "spec": spec}
    fast = outcome(schema, json.dumps(document, separators=(",", ":")).encode())
    assert outcome(schema, json.dumps(document, indent=1).encode()) == fast
    stored, _ = fast
    before = deepcopy(stored)
    assert schema.prune(stored) == []
    assert stored == before
    schema.default(stored)
    filled = deepcopy(stored)
    schema.default(stored)
    assert stored == filled


@given(st.integers(0, 10**9), st.sampled_from(ALL))
def test_the_compiled_check_never_lets_through_what_the_walk_refuses(
    seed: int, schema: CrdSchema
) -> None:
    from koord.controlplane.schema.custom import validation

    spec = CustomDocuments(seed, 0.05).value(schema.openapi["properties"].get("spec", {}), 1)
    document = {"apiVersion": schema.api_version, "kind": schema.kind, "spec": spec}
    stored, _ = outcome(schema, json.dumps(document).encode())
    schema.default(stored)
    walked = validation.causes(stored, schema.openapi)
    assert [cause for cause in walked if cause not in schema.validate(stored)] == []


def test_an_update_may_leave_what_was_wrong_but_not_add_to_it() -> None:
    old = thing({"a": "TOO LONG AND LOUD", "i": 3})
    assert SCHEMA.validate(old) != []
    assert SCHEMA.validate(thing({**old["spec"], "i": 4}), old) == []
    (cause,) = SCHEMA.validate(thing({**old["spec"], "i": 99}), old)
    assert cause.field == "spec.i"
    twice = thing({"a": "abc", "ls": ["x", "x"]})
    assert [cause.field for cause in SCHEMA.validate(twice)] == ["spec.ls[1]"]
    assert SCHEMA.validate(twice, twice) == []


def test_defaults_do_not_make_their_parents() -> None:
    document = thing({"a": "abc", "lm": [{"k": "x"}], "mo": {"y": {}}})
    SCHEMA.default(document)
    assert document["spec"] == {
        "a": "abc",
        "b": True,
        "nnd": "D",
        "nuld": "N",
        "od": {"u": "1", "w": "w"},
        "lm": [{"k": "x", "v": 3}],
        "mo": {"y": {"q": "qq"}},
    }


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{", "unexpected end of JSON input"),
        (b"[]", "must be of type Thing"),
        (b'{"apiVersion":"contract.koord.dev/v1"}', "Object 'Kind' is missing"),
        (b'{"apiVersion":"contract.koord.dev/v2","kind":"Thing"}', "does not match the expected"),
        (b'{"apiVersion":"contract.koord.dev/v1","kind":"Thing","metadata":{"name":1}}',
         "cannot unmarshal number"),
        (b'{"apiVersion":"contract.koord.dev/v1","kind":"Thing","metadata":[]}',
         "cannot unmarshal array"),
        (b'{"a":' * 5000, "json parse error"),
    ],
)  # fmt: skip
def test_a_body_that_cannot_be_read_is_refused(body: bytes, told: str) -> None:
    code, reason, message = outcome(SCHEMA, body)
    assert (code, reason) == (400, "BadRequest")
    assert told in message


def test_an_unknown_version_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        crd_schema(THING, "v9")
