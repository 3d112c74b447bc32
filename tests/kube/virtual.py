# SPDX-License-Identifier: Apache-2.0
"""Runs a coroutine on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from koord.base.clock import VirtualClock, VirtualLoop

T = TypeVar("T")


def run_virtual(main: Coroutine[Any, Any, T], clock: VirtualClock | None = None) -> T:
    """The result of ``main``; whatever it left running is cancelled, as ``asyncio.run`` does."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock or VirtualClock())) as runner:
        return runner.run(main)
