# SPDX-License-Identifier: Apache-2.0
"""Request bodies in protobuf, as client-go sends core kinds, turned into JSON documents.

A body is ``k8s\\0`` and a ``runtime.Unknown``: apiVersion, kind, and the bytes of the kind's
message. Types come from the table of types (``core.json``), field numbers from ``proto.json``
beside it. There a field has the path of numbers that leads to it, for the fields of some messages
stand among those of their holder in JSON. A ``?`` after it says that its zero value is an absent
one: Go puts every value that is no pointer on the wire, and leaves these out of JSON.

Field numbers with types are all that the ``protobuf`` runtime needs too, but of its work only
:mod:`~koord.controlplane.schema.proto.wire` could be used: its JSON has no inlined messages,
quantities, absent zeros or times to the second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Protocol

import msgspec

from koord.api.patching.core_types import kinds, table
from koord.controlplane.api_errors import literal
from koord.controlplane.schema.proto.wellknown import SCALARS, text
from koord.controlplane.schema.proto.wire import (
    BYTES,
    VARINT,
    WireError,
    checked,
    fields,
    last,
    packed,
)

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\0"
DEPTH = 128
"""How deep messages may lie in each other; of a schema in a schema, each is two levels deep."""

_META = "apimachinery.pkg.apis.meta.v1."
_APIEXTENSIONS = "apiextensions-apiserver.pkg.apis.apiextensions.v1."

_Payload = tuple[int, Any]


def document(body: bytes) -> dict[str, Any]:
    """The JSON document of a body.

    Raises:
        WireError: it is no protobuf of a known kind, or nested deeper than :data:`DEPTH`.
    """
    if not body.startswith(MAGIC):
        raise WireError("data does not appear to be a protobuf message" if body else "empty data")
    if len(body) == len(MAGIC):
        raise WireError("empty body")
    type_meta, raw = last(body[len(MAGIC) :], {"typeMeta": (1, BYTES), "raw": (2, BYTES)})
    parts = last(type_meta, {"apiVersion": (1, BYTES), "kind": (2, BYTES)})
    api_version, kind = text(parts[0]), text(parts[1])
    content = _message(_type_of(api_version, kind)).read(raw, 0)
    return {"apiVersion": api_version, "kind": kind, **content}


def _type_of(api_version: str, kind: str) -> str:
    if not kind:
        raise WireError("Object 'Kind' is missing")
    group, _, version = api_version.rpartition("/")
    name = kinds().get((group, version, kind))
    if name is not None:
        return name
    # Options are sent with the group and version of what they are for.
    name = kinds().get(("", "v1", kind), "")
    if not name.startswith(_META):
        told = f"no kind {literal(kind)} is registered for version {literal(api_version)}"
        raise WireError(told)
    return name


class _Value(Protocol):
    """How values of one type are written.

    Attributes:
        wire_type: of one value.
    """

    wire_type: int

    def read(self, payload: Any, depth: int) -> Any:
        """One value as JSON."""
        ...


class _ScalarValue:
    """A value that holds no messages of the table."""

    def __init__(self, expression: str) -> None:
        self.wire_type, self._read = SCALARS[expression]

    def read(self, payload: Any, depth: int) -> Any:
        """One value as JSON."""
        del depth
        return self._read(payload)


class _Message:
    """A message.

    Args:
        paths: of the fields' numbers, by name.
        types: of the fields, as in the table of types.
    """

    wire_type = BYTES

    def __init__(self, paths: Mapping[str, str], types: Mapping[str, Any]) -> None:
        self._paths, self._types = paths, types

    @cached_property
    def _fields(self) -> dict[int, _MessageField]:
        """By number; made when first needed, for messages may hold themselves."""
        found: dict[int, _MessageField] = {}
        inlined: dict[int, dict[str, str]] = {}
        for name, path in self._paths.items():
            first, _, rest = path.partition(".")
            if rest:
                inlined.setdefault(int(first), {})[name] = rest
            else:
                found[int(first.rstrip("?"))] = _field(name, self._types[name], "?" in first)
        for number, paths in inlined.items():
            found[number] = _One("", _Message(paths, self._types))
        return found

    def read(self, payload: bytes, depth: int) -> dict[str, Any]:
        """The message as JSON; fields of unknown numbers are passed over."""
        if depth > DEPTH:
            raise WireError(f"messages lie more than {DEPTH} levels deep")
        given: dict[int, list[_Payload]] = {}
        for number, wire_type, value in fields(payload):
            if number in self._fields:
                given.setdefault(number, []).append((wire_type, value))
        found: dict[str, Any] = {}
        for number, payloads in given.items():
            field = self._fields[number]
            value = field.read(payloads, depth + 1)
            if not field.name:
                found.update(value)
            elif value or not field.omitted:
                found[field.name] = value
        return found


class _Items(_Message):
    """A list where protobuf has none, as the value of a map: a message with the items."""

    def __init__(self, expression: str) -> None:
        super().__init__({"items": "1"}, {"items": expression})

    def read(self, payload: bytes, depth: int) -> Any:
        """One value as JSON."""
        return super().read(payload, depth).get("items", [])


class _OneOf(_Message):
    """A schema, or instead of it a list, or yes or no."""

    def read(self, payload: bytes, depth: int) -> Any:
        """One value as JSON."""
        found = super().read(payload, depth)
        return next((found[key] for key in ("list", "schema", "allows") if key in found), None)


@dataclass(frozen=True)
class _MessageField:
    """A field with one value.

    Attributes:
        name: in JSON; empty for a message whose fields stand among those of its holder.
        omitted: whether the zero value is absent in JSON.
    """

    name: str
    value: _Value
    omitted: bool = False

    def read(self, payloads: list[_Payload], depth: int) -> Any:
        """All that the message has under the field's number, as one JSON value."""
        raise NotImplementedError


class _One(_MessageField):
    """A single value."""

    def read(self, payloads: list[_Payload], depth: int) -> Any:
        """The last value; a message that comes in parts is all of them."""
        values = [checked(self.name, self.value.wire_type, payload) for payload in payloads]
        whole = b"".join(values) if isinstance(self.value, _Message) else values[-1]
        return self.value.read(whole, depth)


class _Many(_MessageField):
    """A list. Numbers may also come packed."""

    def read(self, payloads: list[_Payload], depth: int) -> list[Any]:
        """The values in order."""
        wire_type, found = self.value.wire_type, []
        for payload in payloads:
            if wire_type == VARINT and payload[0] == BYTES:
                found += [self.value.read(number, depth) for number in packed(payload[1])]
            else:
                found.append(self.value.read(checked(self.name, wire_type, payload), depth))
        return found


class _Map(_MessageField):
    """A map from strings: pairs, each a message."""

    def read(self, payloads: list[_Payload], depth: int) -> dict[str, Any]:
        """The values by key; of equal keys the last counts."""
        wanted = {"key": (1, BYTES), "value": (2, self.value.wire_type)}
        found = {}
        for payload in payloads:
            key, value = last(checked(self.name, BYTES, payload), wanted)
            found[text(key)] = self.value.read(value, depth)
        return found


def _field(name: str, entry: str | dict[str, Any], omitted: bool) -> _MessageField:
    expression = entry if isinstance(entry, str) else entry["type"]
    if expression.startswith("[]"):
        return _Many(name, _value(expression[2:]), omitted)
    if expression.startswith("{}"):
        return _Map(name, _value(expression[2:]), omitted)
    return _One(name, _value(expression), omitted)


def _value(expression: str) -> _Value:
    if expression.startswith("[]"):
        return _Items(expression)
    return _ScalarValue(expression) if expression in SCALARS else _message(expression)


@cache
def _message(name: str) -> _Message:
    return _CHOICES.get(name) or _Message(_numbers().get(name, {}), table()[name].get("fields", {}))


@cache
def _numbers() -> dict[str, dict[str, str]]:
    """The file as it is: the numbers of the fields of each message."""
    content = files("koord.controlplane.schema.builtin").joinpath("proto.json").read_bytes()
    return msgspec.json.decode(content, type=dict[str, dict[str, str]])


_PROPS = _APIEXTENSIONS + "JSONSchemaProps"
_CHOICES: dict[str, _Message] = {
    _PROPS + "OrArray": _OneOf(
        {"schema": "1", "list": "2?"}, {"schema": _PROPS, "list": "[]" + _PROPS}
    ),
    _PROPS + "OrBool": _OneOf(
        {"allows": "1", "schema": "2"}, {"allows": "boolean", "schema": _PROPS}
    ),
    _PROPS + "OrStringArray": _OneOf(
        {"schema": "1", "list": "2?"}, {"schema": _PROPS, "list": "[]string"}
    ),
}
