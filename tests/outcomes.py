# SPDX-License-Identifier: Apache-2.0
"""What a call came to, for tests in which anything may be thrown at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from koord.base.errors import KoordError

# What kernels raise for bad input.
KERNEL_ERRORS = (ValueError, KeyError)


def refusal(
    call: Callable[..., object],
    *arguments: Any,
    errors: tuple[type[Exception], ...] = (KoordError,),
) -> str:
    """The message with which a call refuses its input, ``""`` if it takes it.

    A message of several lines, and whatever else the call raises, fails the test.
    """
    try:
        call(*arguments)
    except errors as error:
        message = str(error)
        assert message
        assert message.splitlines() == [message]
        return message
    return ""
