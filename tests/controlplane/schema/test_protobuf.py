# SPDX-License-Identifier: Apache-2.0
"""Bodies in protobuf: what is read of them, and that anything else is refused in one line."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.controlplane.requests.bodies import PROTOBUF, plain
from koord.controlplane.schema.proto import protobuf
from koord.controlplane.schema.proto.wire import WireError
from koord.kube.errors import ApiError
from tests.controlplane.schema.client_bodies import FILE, Golden
from tests.models import messages
from tests.models.messages import NUMBERS, PROPS, TYPES
from tests.real.dump_messages import dump

KINDS = sorted(kind for kind, name in messages.KINDS.items() if name in NUMBERS)
CLIENT_BODIES: Golden = json.loads(FILE.read_bytes())
VALUES: dict[str, list[Any]] = {
    "string": ["", "a", "\u00e9\n"],
    "byte": ["", "AP8="],
    "boolean": [True, False],
    "int32": [0, 1, -1, 2**31 - 1, -(2**31)],
    "int64": [0, 300, -1, 2**63 - 1, -(2**63)],
    "double": [0, 1.5, -3],
    "Quantity": ["0", "1Gi"],
    "Time": ["2026-01-02T03:04:05Z", "1969-12-31T23:59:59Z"],
    "MicroTime": ["2026-01-02T03:04:05.000006Z"],
    "IntOrString": [0, 5, -1, "", "50%"],
    "RawExtension": [{"a": [1, None]}],
    "FieldsV1": [{"f:a": {}}],
    "JSON": [0, "x", [{}], False],
    "CustomResourceSubresourceStatus": [{}],
}


class Documents:
    """Random documents of the table's types."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def of(self, kind: str) -> dict[str, Any]:
        group_version, _, name = kind.rpartition("/")
        return {
            **self._message(messages.KINDS[kind], 0),
            "apiVersion": group_version,
            "kind": name,
        }

    def _message(self, name: str, depth: int) -> dict[str, Any]:
        chance = 0.8 if depth < 2 else 0.3 if depth < 6 else 0.02
        return {
            field: self._value(messages.expression_of(name, field), depth + 1)
            for field in NUMBERS[name]
            if self._random.random() < chance
        }

    def _value(self, expression: str, depth: int) -> Any:
        if expression.startswith("[]"):
            count = self._random.randint(1, 2)
            return [self._value(expression[2:], depth) for _ in range(count)]
        if expression.startswith("{}"):
            return {key: self._value(expression[2:], depth) for key in ("", "a")}
        word = expression.rpartition(".")[2]
        if word in VALUES:
            return self._random.choice(VALUES[word])
        if expression.startswith(f"{PROPS}Or"):
            return self._choice(expression.removeprefix(PROPS), depth)
        return self._message(expression, depth)

    def _choice(self, name: str, depth: int) -> Any:
        if self._random.random() < 0.5:
            return self._message(PROPS, depth)
        if name == "OrBool":
            return self._random.choice([True, False])
        return ["x"] if name == "OrStringArray" else [self._message(PROPS, depth)]


def without_zeros(value: Any, expression: str) -> Any:
    """A value without the fields that are absent when they are zero."""
    if isinstance(value, list) and expression.startswith("[]"):
        return [without_zeros(item, expression[2:]) for item in value]
    if expression.startswith("{}"):
        return {key: without_zeros(item, expression[2:]) for key, item in value.items()}
    if expression.startswith(f"{PROPS}Or"):
        if isinstance(value, list):
            return value if value == ["x"] else without_zeros(value, f"[]{PROPS}")
        return without_zeros(value, PROPS) if isinstance(value, dict) else value
    if "fields" not in TYPES.get(expression, {}):
        return value
    found = {}
    for field, path in NUMBERS[expression].items():
        inner = messages.expression_of(expression, field)
        if field in value:
            kept = without_zeros(value[field], inner)
            if not path.endswith("?") or kept not in ("", 0, False, {}):
                found[field] = kept
    if expression.endswith("ResourceFieldSelector"):  # A quantity that is no pointer is written.
        found.setdefault("divisor", "0")
    return found


@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 2**32))
def test_what_is_written_is_read(kind: str, seed: int) -> None:
    document = Documents(seed).of(kind)
    read = protobuf.document(messages.body(document))
    expected = without_zeros(document, messages.KINDS[kind])
    expected |= {"apiVersion": document["apiVersion"], "kind": document["kind"]}
    assert read == expected


@pytest.mark.parametrize("command", CLIENT_BODIES)
def test_bodies_of_kubectl(command: str) -> None:
    golden = CLIENT_BODIES[command]
    read = protobuf.document(base64.b64decode(golden["body"]))
    assert _said(read) == _said(golden["document"])


def _said(value: Any) -> Any:
    """A document without nulls and empty structs, which kubectl prints where nothing was said."""
    if isinstance(value, list):
        return [_said(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: _said(inner) for key, inner in value.items()}
    return {key: inner for key, inner in found.items() if inner is not None and inner != {}}


def test_every_field_of_the_table_of_types_has_a_number() -> None:
    for name, entry in TYPES.items():
        if "kind" in entry or name in NUMBERS:
            unnumbered = entry["fields"].keys() - NUMBERS.get(name, {}).keys()
            assert unnumbered <= {"apiVersion", "kind"}, name


BODIES = [base64.b64decode(golden["body"]) for golden in CLIENT_BODIES.values()]


@given(
    st.binary(max_size=60)
    | st.binary(max_size=60).map(messages.MAGIC.__add__)
    | st.builds(
        messages.envelope,
        st.sampled_from(("v1", "apps/v1", "")),
        st.sampled_from(("Pod", "Deployment", "DeleteOptions", "Nope", "")),
        st.binary(max_size=60),
    )
)
def test_any_bytes_are_read_or_refused_in_one_line(body: bytes) -> None:
    _read_or_refused(body)


@given(st.sampled_from(BODIES), st.data())
def test_broken_bodies_are_read_or_refused_in_one_line(body: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(body) - 1))
    kept = data.draw(st.integers(0, len(body) - at))
    _read_or_refused(body[:at] + data.draw(st.binary(max_size=3)) + body[len(body) - kept :])


def _read_or_refused(body: bytes) -> None:
    refused = None
    try:
        document = plain(body, PROTOBUF)
    except ApiError as error:
        refused = error
    if refused is None:
        json.dumps(document)
        assert document["kind"]
        return
    assert refused.http_status == 400
    assert "\n" not in refused.status.message


def _schema(depth: int) -> bytes:
    """A definition whose schema has schemas of items in each other."""
    inner = b""
    for _ in range(depth):
        inner = messages.part(24, messages.part(1, inner))
    crd = "CustomResourceDefinition"
    version = messages.part(4, messages.part(1, inner))
    return messages.envelope(
        "apiextensions.k8s.io/v1", crd, messages.part(2, messages.part(7, version))
    )


def test_messages_lie_only_so_deep() -> None:
    protobuf.document(_schema(50))
    with pytest.raises(WireError, match="levels deep"):
        protobuf.document(_schema(300))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"\x0b", "illegal wireType 3"),
        (b"\x02\x00", "illegal tag 2"),
        (b"\x0a\x7f", "unexpected EOF"),
        (b"\x0a", "unexpected EOF"),
        (b"\x0a" + b"\xff" * 10, "integer overflow"),
        (b"\x0a\x03\x0a\x01\xff", "invalid UTF-8"),
        (b"\x08\x01", "wrong wireType = 0 for field metadata"),
        (messages.part(1, messages.part(8, b"\x08" + b"\xff" * 8 + b"\x7f")), "out of range"),
    ],
)
def test_what_is_wrong_is_said(raw: bytes, said: str) -> None:
    with pytest.raises(WireError, match=said):
        protobuf.document(messages.envelope("v1", "Pod", raw))


def test_parts_of_one_message_belong_together() -> None:
    raw = messages.part(1, messages.part(1, b"a")) + messages.part(1, messages.part(3, b"b"))
    read = protobuf.document(messages.envelope("v1", "ConfigMap", raw))
    assert read["metadata"] == {"name": "a", "namespace": "b"}


def test_numbers_may_come_packed() -> None:
    groups = messages.part(4, messages.varint(7) + messages.varint(300))
    raw = messages.part(2, messages.part(14, groups))
    read = protobuf.document(messages.envelope("v1", "Pod", raw))
    assert read["spec"]["securityContext"]["supplementalGroups"] == [7, 300]


def test_the_dump_reads_tags() -> None:
    source = """
type Thing struct {
\tmetav1.TypeMeta `json:",inline"`
\t// words
\tName string `json:"name" protobuf:"bytes,3,opt,name=name"`
\tCount int32 `json:"count,omitempty" protobuf:"varint,4,opt,name=count"`
\tSize *int32 `json:"size,omitempty" protobuf:"varint,5,opt,name=size"`
\tHidden string `json:"hidden" protobuf:"bytes,6,opt,name=hidden"`
\tSource `json:",inline" protobuf:"bytes,7,opt,name=source"`
}

type Source struct {
\tFile *File `json:"file,omitempty" protobuf:"bytes,1,opt,name=file"`
}
"""
    fields = dict.fromkeys(("apiVersion", "name", "count", "size", "file"), "string")
    types = {"api.x.v1.Thing": {"fields": fields}, "api.x.v1.Time": {"is": "time"}}
    assert json.loads(dump(types, {"api.x.v1": source})) == {
        "api.x.v1.Thing": {"name": "3", "count": "4?", "size": "5", "file": "7.1"}
    }
