# SPDX-License-Identifier: Apache-2.0
"""One call of whoever makes containers, from its bytes to the answer's, within a time.

A runtime makes no container where it is answered with an error, and a proxy may be told so: what
goes wrong here is an empty answer, which changes nothing.
Rule: docs/reference/delivery.md#failures.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from koord.base import log
from koord.base.errors import one_line
from koord.delivery.policy import HookFailureError

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable

    from koord.delivery.nri.call_log import CallLog

    Answer = Callable[[Any], Awaitable[Any]]

LIMIT_SHARE, WAIT_SHARE = 0.75, 0.25
"""Of a caller's limit: what may be used, and what of it a pod is waited for."""

NOTHING = b""
"""Any message without fields."""


async def answered(
    calls: CallLog,
    method: str,
    kind: Any,
    payload: bytes,
    answer: Answer,
    limit_seconds: float,
    logger: logging.Logger,
) -> bytes:
    """The answer to a call; :data:`NOTHING` where none is ready in time or something fails.

    Args:
        calls: remembers it.
        method: its name.
        kind: the request's type.
        payload: the request.
        answer: what makes the answer's message of it.
        limit_seconds: how long the caller waits.
        logger: told of failures.

    Raises:
        HookFailureError: a hook failed, and that is to be the container's failure.
    """
    with calls.call(method) as call:
        try:
            request = kind.FromString(payload)
            async with asyncio.timeout(limit_seconds * LIMIT_SHARE):
                made = await answer(request)
        except DecodeError:
            call.fail(f"got {len(payload)} bytes that are no {kind.DESCRIPTOR.name}")
        except HookFailureError as error:
            call.fail(one_line(str(error)))
            raise
        except Exception as error:
            call.fail(one_line(f"{type(error).__name__}: {error}"))
        else:
            encoded: bytes = made.SerializeToString()
            return encoded
        logger.warning("call failed", extra=log.fields(method=method, error=call.error))
        return NOTHING
