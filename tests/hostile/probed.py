# SPDX-License-Identifier: Apache-2.0
"""``python tests/hostile/probed.py FILE ARGUMENTS``: ``koord``, with a look at its event loop.

Of every piece of work that holds the loop for long a line goes to the file, as JSON: the processor
time that it took in the loop's thread, so that what other programs take counts for nothing, when it
began, and whose it was, the request where it was one. How full its bounded tables are is beside
that file; see :mod:`tests.hostile.fills`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio import events
from pathlib import Path
from typing import Any, TextIO

from koord.cli import entry
from koord.controlplane.frontends.http import HttpServer

LONG_SECONDS = 0.005
_REQUEST = "request "


def whose(handle: Any) -> str:
    """The task of a callback by its name, or the callback."""
    owner = getattr(handle._callback, "__self__", None)
    return owner.get_name() if isinstance(owner, asyncio.Task) else repr(handle._callback)[:200]


def look(file: TextIO) -> None:
    """Has every callback of event loops timed from now on, and tasks named by their requests."""
    run, serve = events.Handle._run, HttpServer._handle

    def timed(handle: events.Handle) -> None:
        began, used = time.monotonic(), time.thread_time()
        run(handle)
        seconds = time.thread_time() - used
        if seconds > LONG_SECONDS:
            line = {"began": began, "seconds": seconds, "whose": whose(handle)}
            file.write(json.dumps(line) + "\n")

    async def named(server: HttpServer, request: Any) -> Any:
        task = asyncio.current_task()
        assert task is not None
        task.set_name(f"{_REQUEST}{request.method} {request.raw_path[:100]}")
        return await serve(server, request)

    events.Handle._run = timed  # type: ignore[method-assign]
    HttpServer._handle = named  # type: ignore[method-assign]


def longest(path: Path, since: float, *, requests: bool) -> tuple[float, str]:
    """Seconds for which one piece of work held the loop, and whose it was.

    Args:
        since: what began later than that counts, monotonic seconds.
        requests: those of requests, or all others.
    """
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    known = [
        (each["seconds"], each["whose"])
        for each in lines
        if each["began"] >= since and each["whose"].startswith(_REQUEST) == requests
    ]
    return max(known, default=(0.0, "nobody"))


if __name__ == "__main__":
    # Run as a file, so that nothing of the tests is found but what is asked for here.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.hostile.fills import FILLS_FILE, BoundedTables

    BoundedTables().tell(Path(sys.argv[1]).with_name(FILLS_FILE))
    with Path(sys.argv[1]).open("a", encoding="utf-8", buffering=1) as held:
        look(held)
        sys.argv = ["koord", *sys.argv[2:]]
        entry.main()
