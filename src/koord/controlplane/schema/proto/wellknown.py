# SPDX-License-Identifier: Apache-2.0
"""How values that are no plain messages stand in protobuf: scalars, times, quantities, raw JSON."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from koord.controlplane.schema.proto.wire import BYTES, FIXED64, VARINT, WireError, last

_EPOCH = datetime(1970, 1, 1)
# Go's encoder writes greater ones with an exponent.
_WHOLE_BELOW = 1e21


class Scalar(NamedTuple):
    """How values of one type are written.

    Attributes:
        wire_type: of one value.
        read: from the payload to JSON; raises WireError.
    """

    wire_type: int
    read: Callable[[Any], Any]


def text(payload: bytes) -> str:
    """A string.

    Raises:
        WireError: it is no UTF-8.
    """
    try:
        return payload.decode()
    except UnicodeDecodeError:
        raise WireError("string field contains invalid UTF-8") from None


def _int32(payload: int) -> int:
    return (payload + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000


def _int64(payload: int) -> int:
    return payload - (1 << 64) if payload >> 63 else payload


def _double(payload: bytes) -> float:
    number: float = struct.unpack("<d", payload)[0]
    return int(number) if number.is_integer() and abs(number) < _WHOLE_BELOW else number


def _base64(payload: bytes) -> str:
    return base64.b64encode(payload).decode()


def _time(payload: bytes) -> str | None:
    """A time to the second."""
    return _moment(payload, "seconds")


def _micro_time(payload: bytes) -> str | None:
    return _moment(payload, "microseconds")


def _moment(payload: bytes, precision: str) -> str | None:
    """Seconds since 1970 and nanoseconds; the zero time is null."""
    parts = last(payload, {"seconds": (1, VARINT), "nanos": (2, VARINT)})
    seconds, nanoseconds = _int64(parts[0]), _int32(parts[1])
    if not seconds and not nanoseconds:
        return None
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
    except OverflowError:
        raise WireError(f"time {seconds} is out of range") from None
    return moment.isoformat(timespec=precision) + "Z"


def _quantity(payload: bytes) -> str:
    (written,) = last(payload, {"string": (1, BYTES)})
    return text(written) or "0"


def _int_or_string(payload: bytes) -> int | str:
    kind, number, written = last(
        payload, {"type": (1, VARINT), "intVal": (2, VARINT), "strVal": (3, BYTES)}
    )
    if kind > 1:
        raise WireError(f"impossible IntOrString.Type {kind}")
    return text(written) if kind else _int32(number)


def _raw(payload: bytes) -> Any:
    """A message that holds JSON text."""
    (written,) = last(payload, {"raw": (1, BYTES)})
    try:
        return msgspec.json.decode(written) if written else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise WireError("a raw value is no JSON") from None


SCALARS = {
    "string": Scalar(BYTES, text),
    "boolean": Scalar(VARINT, bool),
    "int32": Scalar(VARINT, _int32),
    "int64": Scalar(VARINT, _int64),
    "double": Scalar(FIXED64, _double),
    "byte": Scalar(BYTES, _base64),
    "apimachinery.pkg.api.resource.Quantity": Scalar(BYTES, _quantity),
    "apimachinery.pkg.apis.meta.v1.FieldsV1": Scalar(BYTES, _raw),
    "apimachinery.pkg.apis.meta.v1.MicroTime": Scalar(BYTES, _micro_time),
    "apimachinery.pkg.apis.meta.v1.Time": Scalar(BYTES, _time),
    "apimachinery.pkg.runtime.RawExtension": Scalar(BYTES, _raw),
    "apimachinery.pkg.util.intstr.IntOrString": Scalar(BYTES, _int_or_string),
    "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": Scalar(BYTES, _raw),
}
"""By the expression of the type in the table of types."""
