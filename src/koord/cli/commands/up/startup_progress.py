# SPDX-License-Identifier: Apache-2.0
"""What ``koord up`` tells while it starts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """Tells on standard error what is being started: a spinner, or plain lines when piped.

    Yields:
        A function that names the next step; empty for none any more.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: print(f"starting: {text}", file=sys.stderr) if text else None
        return
    status: Any = console.status("")
    status.start()

    def step(text: str) -> None:
        if text:
            status.update(f"starting {text}")
        else:
            status.stop()

    try:
        yield step
    finally:
        status.stop()
