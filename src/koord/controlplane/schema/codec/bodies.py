# SPDX-License-Identifier: Apache-2.0
"""Request bodies as plain documents."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from koord.controlplane.api_errors import bad_request
from koord.controlplane.schema.codec.depth import is_too_deep
from koord.controlplane.schema.codec.walk import pairs_hook

QUOTED_BYTES = 30
WRITTEN_WITH_EXPONENT = 1e21


def parse(body: bytes, kind: str, whole: bool = False) -> dict[str, Any]:
    """The object of a body; repeated keys are noted as :class:`~.walk.Repeated`.

    Args:
        body: JSON; ``null`` stands for an empty object.
        kind: what was expected, for the refusal.
        whole: numbers without a fraction become integers, however they are written.

    Raises:
        ApiError: 400, no JSON object.
    """
    try:
        parsed = json.loads(
            body,
            object_pairs_hook=pairs_hook,
            parse_constant=_refuse,
            parse_float=_whole if whole else _number,
        )
    except (ValueError, RecursionError) as error:
        raise _unrecognized(body, kind, _reason(error)) from None
    if parsed is None:
        return {}
    if isinstance(parsed, dict | list) and is_too_deep(body, parsed):
        raise _unrecognized(body, kind, "exceeded max depth")
    if not isinstance(parsed, dict):
        raise _unrecognized(body, kind, "json: cannot unmarshal the value into an object")
    for key in ("apiVersion", "kind"):
        if not isinstance(parsed.get(key) or "", str):
            told = f"json: cannot unmarshal the value into Go struct field .{key} of type string"
            raise _unrecognized(body, kind, told)
    return parsed


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"number {text} is out of range")
    return number


def _whole(text: str) -> float:
    number = _number(text)
    return number if abs(number) >= WRITTEN_WITH_EXPONENT or number % 1 else int(number)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"invalid character '{constant[0]}' looking for beginning of value")


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        ended = not error.doc[error.pos :].strip()
        return "unexpected end of JSON input" if ended else f"invalid JSON at byte {error.pos}"
    return "exceeded max depth" if isinstance(error, RecursionError) else str(error)


def _unrecognized(body: bytes, kind: str, why: str) -> Exception:
    shown = body[:QUOTED_BYTES].decode("utf-8", "replace") or "<empty>"
    more = " ..." if len(body) > QUOTED_BYTES else ""
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): "
        f"couldn't get version/kind; json parse error: {why} ({shown}{more})"
    )
