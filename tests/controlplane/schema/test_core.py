# SPDX-License-Identifier: Apache-2.0
"""Core kinds by their table: what is read, what is refused, and that both ways of reading agree."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.patching.core_types import kinds, shape_of, table
from koord.api.patching.shapes import ANY, LIST, MAP, STRUCT, Shape
from koord.controlplane.schema import CoreSchema, core_schema
from koord.kube.errors import ApiError

POD = core_schema("", "v1", "Pod")
# Those that say what they are; WatchEvent does not.
KINDS = [kind for kind in sorted(kinds()) if "kind" in core_schema(*kind).shape.fields]
JUNK: list[Any] = [None, 1, -1, 1.5, 2**40, True, "", "x", [], {}, ["a"], {"a": 1}, "zz", "1000m"]
GOOD: dict[str, list[Any]] = {
    "string": ["a", ""],
    "boolean": [True, False],
    "int32": [0, 5],
    "int64": [0, 2**40],
    "double": [1.5, 2],
    "byte": ["YWI=", "YW\nI="],
    "time": ["2030-01-02T03:04:05Z", "2030-01-02T03:04:05+02:00"],
    "micro-time": ["2030-01-02T03:04:05.000001Z"],
    "quantity": ["1", "500m", "1Gi", "1000m", 0.5],
    "int-or-string": [1, "50%"],
    ANY: [{"a": [1]}, "x"],
}


class Documents:
    """Random documents of a shape, with some junk in them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def value(self, shape: Shape, depth: int = 0) -> Any:
        if depth and self._random.random() < 0.02:
            return deepcopy(self._random.choice(JUNK))
        if shape.type == STRUCT:
            return self._struct(shape, depth)
        if shape.type == LIST:
            assert shape.element is not None
            return [self.value(shape.element, depth + 1) for _ in range(self._random.randint(0, 2))]
        if shape.type == MAP:
            assert shape.element is not None
            keys = ("a", "b")[: self._random.randint(0, 2)]
            return {key: self.value(shape.element, depth + 1) for key in keys}
        return deepcopy(self._random.choice(GOOD[shape.type]))

    def _struct(self, shape: Shape, depth: int) -> dict[str, Any]:
        chance = 0.6 if depth < 2 else 0.15 if depth < 6 else 0
        made = {
            key: self.value(field.shape, depth + 1) if self._random.random() < 0.95 else None
            for key, field in shape.fields.items()
            if self._random.random() < chance
        }
        if self._random.random() < 0.02:
            made["unknown"] = deepcopy(self._random.choice(JUNK))
        return made


class _WalkedSchema(CoreSchema):
    """Every body goes the slow way."""

    _typed = None


def outcome(schema: Any, body: bytes, validation: str) -> Any:
    """What decoding gives, or how it refuses."""
    try:
        return schema.decode(body, validation)
    except ApiError as error:
        return error.http_status, error.reason, error.status.message


def compact(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


@given(st.integers(0, 10**9), st.sampled_from(KINDS), st.sampled_from(["Strict", "Warn", "Ignore"]))
def test_the_fast_and_the_slow_way_agree(
    seed: int, kind: tuple[str, str, str], validation: str
) -> None:
    schema = core_schema(*kind)
    document = Documents(seed).value(schema.shape)
    document["kind"], document["apiVersion"] = schema.kind, schema.api_version
    fast = outcome(schema, compact(document), validation)
    assert outcome(_WalkedSchema(*kind), compact(document), validation) == fast
    # Blanks keep a body from being proved by encoding it again.
    assert outcome(schema, json.dumps(document, indent=1).encode(), validation) == fast
    unknown = compact({**document, "metadata2": None})
    assert outcome(schema, unknown, "Ignore") == outcome(schema, compact(document), "Ignore")


@given(st.integers(0, 10**9), st.sampled_from(KINDS))
def test_what_is_stored_stays_as_it_is(seed: int, kind: tuple[str, str, str]) -> None:
    schema = core_schema(*kind)
    document = Documents(seed).value(schema.shape)
    document["kind"], document["apiVersion"] = schema.kind, schema.api_version
    decoded = outcome(schema, compact(document), "Warn")
    if len(decoded) == 3:
        with pytest.raises(ApiError) as caught:
            schema.prune(document)
        assert caught.value.http_status == 422
        return
    stored, warnings = decoded
    assert outcome(schema, compact(stored), "Strict") == (stored, [])
    assert schema.prune(deepcopy(stored)) == []
    unknown = schema.prune(document)
    assert document == stored
    assert [f'unknown field "{path}"' for path in unknown] == warnings


def pod(spec: Any, metadata: Any = None) -> bytes:
    metadata = {"name": "a"} if metadata is None else metadata
    return compact({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def container(**fields: Any) -> bytes:
    return pod({"containers": [{"name": "a", "image": "x", **fields}]})


# What a kube-apiserver 1.35 answers, after `Pod in version "v1" cannot be handled as a Pod: `.
REFUSED = [
    (container(name=1), "json: cannot unmarshal number into Go struct field "
     "Container.spec.containers.name of type string"),
    (pod({"containers": {}}), "json: cannot unmarshal object into Go struct field "
     "PodSpec.spec.containers of type []v1.Container"),
    (pod({"priority": 1.5}), "json: cannot unmarshal number 1.5 into Go struct field "
     "PodSpec.spec.priority of type int32"),
    (pod({"priority": 3000000000}), "json: cannot unmarshal number 3000000000 into Go struct field "
     "PodSpec.spec.priority of type int32"),
    (pod({"hostNetwork": "x"}), "json: cannot unmarshal string into Go struct field "
     "PodSpec.spec.hostNetwork of type bool"),
    (container(resources={"requests": {"cpu": "zz"}}), "quantities must match the regular "
     "expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
    (pod({}, {"labels": {"a": 1}}), "json: cannot unmarshal number into Go struct field "
     "ObjectMeta.metadata.labels of type string"),
    (pod({}, []), "json: cannot unmarshal array into Go struct field Pod.metadata of type "
     "v1.ObjectMeta"),
    (pod({}, {"creationTimestamp": "yesterday"}), 'parsing time "yesterday" as '
     '"2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"'),
    (pod({}, {"creationTimestamp": 1}), "json: cannot unmarshal number into Go struct field "
     "ObjectMeta.metadata.creationTimestamp of type string"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message"), REFUSED)
def test_a_wrong_type_is_refused_as_by_a_real_server(body: bytes, message: str) -> None:
    told = f'Pod in version "v1" cannot be handled as a Pod: {message}'
    assert outcome(POD, body, "Ignore") == (400, "BadRequest", told)


TWICE = (
    b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"foo":1,"Bar":2,'
    b'"containers":[{"name":"a","name":"b","image":"x","Image":"q"}]},'
    b'"metadata":{"name":"b","x":1}}'
)


def test_unknown_and_repeated_fields() -> None:
    document, warnings = POD.decode(TWICE, "Warn")
    assert document["metadata"] == {"name": "b"}
    assert document["spec"] == {"containers": [{"name": "b", "image": "x"}]}
    assert sorted(warnings) == [
        'duplicate field "metadata"',
        'duplicate field "spec.containers[0].name"',
        'unknown field "metadata.x"',
        'unknown field "spec.Bar"',
        'unknown field "spec.containers[0].Image"',
        'unknown field "spec.foo"',
    ]
    assert POD.decode(TWICE, "Ignore") == (document, [])
    told = f"cannot be handled as a Pod: strict decoding error: {', '.join(warnings)}"
    assert outcome(POD, TWICE, "Strict")[2].endswith(told)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"1", b'"x"', b"nope", b"\xff", b'{"kind":1}', b"[" * 5000,
             b'{"a":' * 5000, b'{"spec":NaN}', b'{"spec":1e999}', b"{} {}"]
)  # fmt: skip
def test_what_is_no_object_is_refused(body: bytes) -> None:
    assert outcome(POD, body, "Warn")[:2] == (400, "BadRequest")


def test_documents_are_not_nested_without_end() -> None:
    schema = core_schema("apps", "v1", "ControllerRevision")
    for depth, blank, code in (
        (150, b"", 200),
        (150, b" ", 200),
        (300, b"", 400),
        (900, b" ", 400),
    ):
        body = b'{"data":' + blank + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
        found = outcome(schema, body, "Warn")
        assert (found[0] if len(found) == 3 else 200) == code


def test_other_kinds_are_refused_and_missing_ones_filled_in() -> None:
    assert POD.decode(b"{}", "Warn")[0] == {"apiVersion": "v1", "kind": "Pod"}
    assert POD.decode(b"null", "Warn")[0] == {"apiVersion": "v1", "kind": "Pod"}
    for body in (b'{"apiVersion":"v2"}', b'{"kind":"Service"}'):
        assert outcome(POD, body, "Warn")[:2] == (400, "BadRequest")
    options = b'{"apiVersion":"policy/v1","kind":"DeleteOptions","gracePeriodSeconds":3}'
    found, _ = core_schema("", "v1", "DeleteOptions").decode(options, "Strict")
    assert found["gracePeriodSeconds"] == 3


def test_nulls_are_absent_and_quantities_canonical() -> None:
    body = container(
        args=[None], resources={"requests": {"cpu": "1000m", "memory": 1.5}}, lifecycle=None
    )
    found, warnings = POD.decode(body, "Strict")
    assert warnings == []
    assert found["spec"]["containers"] == [
        {
            "name": "a",
            "image": "x",
            "args": [""],
            "resources": {"requests": {"cpu": "1", "memory": "1500m"}},
        }
    ]


def test_every_type_of_the_table_has_a_shape() -> None:
    assert len(table()) > 400
    for name in table():
        shape = shape_of(name)
        assert shape is shape_of(name)
        for field in shape.fields.values():
            inner = field.shape
            assert inner.list_type in ("atomic", "set", "map")
            if inner.list_type == "map":
                assert inner.element is not None
                assert set(inner.keys) <= inner.element.fields.keys()
            if field.merge_key and "merge" in field.strategy:
                assert inner.element is not None
                assert field.merge_key in inner.element.fields


def test_quantities_in_other_words_take_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def walked(*_: object) -> None:
        raise AssertionError("walked")

    monkeypatch.setattr(type(POD), "_walk_body", walked)
    requests = {"cpu": "1000m", "memory": 1.5, "kubernetes.io/batch-cpu": "1000", "x/y": "1k"}
    canonical = {"cpu": "1", "memory": "1500m", "kubernetes.io/batch-cpu": "1k", "x/y": "1k"}
    for _ in range(2):
        found, _ = POD.decode(container(resources={"requests": requests}), "Strict")
        assert found["spec"]["containers"][0]["resources"]["requests"] == canonical
