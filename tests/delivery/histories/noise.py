# SPDX-License-Identifier: Apache-2.0
"""Texts, messages and bytes that nobody means well with."""

from __future__ import annotations

from random import Random
from typing import Any

TEXTS = (
    "", "main", "../../etc/passwd", "/", "a\0b", "line\nlevel=error forged=1", "\x1b[31m", "é" * 40,
    "x" * 300, "{", '{"cpuset":"0-8191"}', '{"egressLimit":"1e400"}', "[" * 500, "-1", "NaN",
    "containerd://", "9" * 30,
)  # fmt: skip
KEYS = (
    "scheduling.koordinator.sh/resource-status", "scheduling.koordinator.sh/device-allocated",
    "koordinator.sh/networkQOS", "koordinator.sh/cpuQOS", "koordinator.sh/oom-score-adj",
    "node.koordinator.sh/extended-resource-spec", "koordinator.sh/qosClass",
)  # fmt: skip
# Field 1000 with two bytes, which nobody knows.
UNKNOWN = b"\xc2\x3e\x02hi"
_DEPTH, _ENTRIES = 3, 3
_EXTREMES = (0, 1, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**64 - 1, 4096)


def text(draw: Random) -> str:
    """One of those that break things elsewhere, or a short one of any letters."""
    if draw.random() < 0.8:
        return draw.choice(TEXTS)
    return "".join(chr(draw.choice((0x20, 0x41, 0x2F, 0x7F, 0x2028, 0x1F600))) for _ in range(3))


def texts(draw: Random) -> dict[str, str]:
    """Annotations, labels or variables."""
    return {draw.choice((*KEYS, text(draw))): text(draw) for _ in range(draw.randrange(_ENTRIES))}


def map_field(number: int, entries: dict[str, str]) -> bytes:
    """A map of texts as the wire has it."""
    made = b""
    for pair in entries.items():
        body = b""
        for at, each in enumerate(pair, 1):
            encoded = each.encode()
            body += bytes([at << 3 | 2]) + _length(len(encoded)) + encoded
        made += bytes([number << 3 | 2]) + _length(len(body)) + body
    return made


def _length(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _length(number >> 7)


def filled(draw: Random, kind: Any, depth: int = 0) -> Any:
    """A message with values of any sort in some of its fields."""
    made = kind()
    for field in made.DESCRIPTOR.fields:
        if draw.random() < 0.5:
            _fill(draw, made, field, depth)
    return made


def _fill(draw: Random, made: Any, field: Any, depth: int) -> None:
    held = getattr(made, field.name)
    nested = field.message_type
    if nested is not None and nested.GetOptions().map_entry:
        value = nested.fields_by_name["value"]
        if value.type == value.TYPE_STRING:
            held.update(texts(draw))
    elif nested is not None and depth < _DEPTH:
        one = held.add() if hasattr(held, "add") else held
        one.SetInParent()
        for each in one.DESCRIPTOR.fields:
            if draw.random() < 0.4:
                _fill(draw, one, each, depth + 1)
    elif nested is None:
        values = [_scalar(draw, field) for _ in range(1 + draw.randrange(_ENTRIES))]
        try:
            if hasattr(held, "extend") and not isinstance(held, str | bytes):
                held.extend(values)
            else:
                setattr(made, field.name, values[0])
        except ValueError:
            pass  # out of the field's range, which the wire cannot say either


def _scalar(draw: Random, field: Any) -> Any:
    if field.type == field.TYPE_STRING:
        return text(draw)
    if field.type == field.TYPE_BYTES:
        return draw.randbytes(draw.randrange(8))
    return draw.choice(_EXTREMES) if field.type != field.TYPE_BOOL else draw.random() < 0.5


def mangled(draw: Random, raw: bytes) -> bytes:
    """Bytes that were a message: cut, turned, doubled, with noise within, or others."""
    at = draw.randrange(len(raw) + 1)
    way = draw.randrange(6)
    if way == 0:
        return raw[:at]
    if way == 1 and raw:
        at = min(at, len(raw) - 1)
        return raw[:at] + bytes([raw[at] ^ (1 << draw.randrange(8))]) + raw[at + 1 :]
    if way == 2:
        return raw[:at] + draw.randbytes(draw.randrange(1, 20)) + raw[at:]
    if way == 3:
        return raw + raw
    if way == 4:
        return raw[at:] + raw[:at]
    return draw.randbytes(draw.randrange(60))
