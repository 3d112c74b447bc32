# SPDX-License-Identifier: Apache-2.0
"""The wire format of protobuf: numbered fields as varints, eight bytes, or a length and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {FIXED64: 8, FIXED32: 4}
_VARINT_BYTES = 10
ZEROS: dict[int, Any] = {VARINT: 0, FIXED64: bytes(8), BYTES: b""}
"""What an absent value of a wire type is."""


class WireError(ValueError):
    """Bytes that are no message, or not of the kind they are read as."""


def varint(number: int) -> bytes:
    """A number that is not negative, seven bits a byte, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def tagged(number: int, wire_type: int, payload: bytes) -> bytes:
    """One field; the length of :data:`BYTES` is put before them."""
    tag = varint(number << 3 | wire_type)
    return tag + varint(len(payload)) + payload if wire_type == BYTES else tag + payload


def varint_at(message: bytes, at: int) -> tuple[int, int]:
    """A varint and the place after it.

    Raises:
        WireError: the bytes end before it does, or it has more than 64 bits.
    """
    number = shift = 0
    for byte in message[at : at + _VARINT_BYTES]:
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80 and not number >> 64:
            return number, at
    raise WireError("unexpected EOF" if shift < 7 * _VARINT_BYTES else "proto: integer overflow")


def packed(payload: bytes) -> Iterator[int]:
    """Varints one behind the other."""
    at = 0
    while at < len(payload):
        number, at = varint_at(payload, at)
        yield number


def checked(name: str, wire_type: int, field: tuple[int, Any]) -> Any:
    """The payload of a field that must have a wire type.

    Raises:
        WireError: it has another.
    """
    if field[0] != wire_type:
        raise WireError(f"proto: wrong wireType = {field[0]} for field {name}")
    return field[1]


def last(message: bytes, wanted: dict[str, tuple[int, int]]) -> list[Any]:
    """The last value of some fields; the zero of its wire type where there is none.

    Args:
        wanted: number and wire type by name.
    """
    found = {number: (wire_type, ZEROS[wire_type]) for number, wire_type in wanted.values()}
    for number, wire_type, payload in fields(message):
        if number in found:
            found[number] = wire_type, payload
    return [checked(name, kind, found[number]) for name, (number, kind) in wanted.items()]


def fields(message: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """The fields of a message in order: number, wire type, and the varint or the bytes.

    Raises:
        WireError: the bytes end too early, or hold what no message of Kubernetes does (groups).
    """
    at, end = 0, len(message)
    while at < end:
        tag, at = varint_at(message, at)
        number, wire_type = tag >> 3, tag & 7
        if not number:
            raise WireError(f"proto: illegal tag {tag} (wire type {tag})")
        if wire_type == VARINT:
            value, at = varint_at(message, at)
            yield number, wire_type, value
            continue
        if wire_type == BYTES:
            size, at = varint_at(message, at)
        elif wire_type in _FIXED_SIZES:
            size = _FIXED_SIZES[wire_type]
        else:
            raise WireError(f"proto: illegal wireType {wire_type}")
        if size > end - at:
            raise WireError("unexpected EOF")
        yield number, wire_type, message[at : at + size]
        at += size
