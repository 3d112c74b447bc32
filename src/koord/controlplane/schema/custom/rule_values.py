# SPDX-License-Identifier: Apache-2.0
"""Values of custom resources with the types of their schema, as rules see them.

Only fields that the schema names are there, under names that are CEL identifiers; numbers are
doubles where the schema says ``number``; dates, durations and bytes are such.
Reference: docs/controlplane.md#expressions.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from koord.api.duration import Duration
from koord.controlplane.schema.custom.structural import EMBEDDED, values_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controlplane.schema.custom.structural import Structural

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ESCAPED = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPES = re.compile("|".join(re.escape(text) for text in _ESCAPED))
_RESERVED = frozenset(
    (
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for",
        "function", "if", "import", "let", "loop", "package", "namespace", "return",
    )
)  # fmt: skip
_ROOT_METADATA: Structural = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
}
_ROOT: Mapping[str, Structural] = {
    "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": _ROOT_METADATA,
}  # fmt: skip


def property_name(name: str) -> str | None:
    """A property's name as rules write it; None where they cannot."""
    if name in _RESERVED:
        return f"__{name}__"
    escaped = _ESCAPES.sub(lambda match: _ESCAPED[match[0]], name)
    return escaped if _IDENTIFIER.match(escaped) else None


def value_of(value: Any, schema: Structural, *, root: bool = False) -> Any:
    """A value as rules see it.

    Args:
        value: that fits the schema.
        schema: its own.
        root: whether it is a whole object.
    """
    if isinstance(value, dict):
        return _members(value, schema, root)
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [value_of(item, items) for item in value]
    if isinstance(value, str):
        return _text(value, schema.get("format"))
    if schema.get("type") == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _members(value: Mapping[str, Any], schema: Structural, root: bool) -> dict[str, Any]:
    inner = values_schema(schema)
    if inner is not None and not schema.get("properties"):
        return {key: value_of(item, inner) for key, item in value.items()}
    properties = dict(schema.get("properties") or {})
    if root or schema.get(EMBEDDED):
        properties |= _ROOT
    found = {}
    for key, item in value.items():
        name = property_name(key) if key in properties else None
        if name is not None and (item is not None or properties[key].get("nullable")):
            found[name] = value_of(item, properties[key])
    return found


def _text(text: str, form: str | None) -> Any:
    """Text in its format; as it is where it has another, which is refused elsewhere or never."""
    try:
        if form in ("date-time", "date"):
            return _timestamp(datetime.fromisoformat(text))
        if form == "duration":
            return _duration(Duration.parse(text).nanoseconds)
        if form == "byte":
            return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return text
    return text


def _timestamp(when: datetime) -> Any:
    # The one form in which CEL's runtime takes them inside of other values.
    from google.protobuf.timestamp_pb2 import Timestamp

    found = Timestamp()
    found.FromDatetime(when if when.tzinfo else when.replace(tzinfo=UTC))
    return found


def _duration(nanoseconds: int) -> Any:
    from google.protobuf.duration_pb2 import Duration as Span

    found = Span()
    found.FromNanoseconds(nanoseconds)
    return found
