# SPDX-License-Identifier: Apache-2.0
"""Where the CPU time of koord-scheduler goes: its stack is looked at every 4 ms of CPU.

``python -m benchmarks.cpu_stages FILE MODULE ARGUMENTS...`` runs a module as a program. From the
first SIGUSR2 to the second its samples are counted by stage; then FILE has them as JSON. By CPU
time, and not by the clock: on a busy machine a profiler that goes by the clock finds most samples
where the process waits for a core. What is seen is where the interpreter is next, so that a call
into C counts as its caller.
"""

from __future__ import annotations

import json
import runpy
import signal
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

_EVERY_SECONDS = 0.004
OTHER = "event loop, and what else runs"
# The first of these that any frame of a stack is of: a part of a file's path, and a function in it;
# all of the file's where that is empty.
_SENDING, _RECEIVING = "sending, TLS included", "receiving, TLS and reading of answers included"
_WATCH, _REQUESTS = "watch: decoding, cache", "requests: client, retries, pool"
_EVENTS = "events: making and pacing"
PLACES = (
    (_SENDING, "/asyncio/sslproto.py", "write"),
    (_RECEIVING, "/asyncio/selector_events.py", "_read_ready"),
    # uvloop's own code is in C: what it calls, and what calls it.
    (_RECEIVING, "/koord/kube/transport/connection.py", "data_received"),
    (_RECEIVING, "/aiohttp/client_proto.py", "data_received"),
    (_SENDING, "/koord/kube/transport/connection.py", "request"),
    ("event handlers: shape, accounts, queue", "/scheduler/cache/event_handlers.py", ""),
    (_WATCH, "/koord/kube/informers/", ""),
    (_REQUESTS, "/koord/kube/requests/", ""),
    (_REQUESTS, "/koord/kube/client.py", ""),
    (_REQUESTS, "/koord/kube/transport/", ""),
    (_EVENTS, "/koord/kube/events.py", ""),
    ("deciding, Reserve included", "/scheduler/cycles/scheduling_loop.py", "schedule_one"),
    ("scheduling loop", "/scheduler/cycles/scheduling_loop.py", "schedule"),
    ("binding: workers, what follows", "/scheduler/cycles/binder.py", ""),
    ("memory upkeep", "/koord/base/memory/", ""),
)
STAGES = (*dict.fromkeys(name for name, _, _ in PLACES), OTHER)


def stage(frame: FrameType | None) -> str:
    """Of :data:`STAGES`, what a stack belongs to."""
    stack: list[CodeType] = []
    while frame is not None:
        stack.append(frame.f_code)
        frame = frame.f_back
    for name, path, function in PLACES:
        if any(path in code.co_filename and function in ("", code.co_name) for code in stack):
            return name
    return OTHER


class _Sampler:
    """Counts samples between two signals, then writes them."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._counts: Counter[str] = Counter()
        self._running = False

    def toggle(self, _: int, __: FrameType | None) -> None:
        """Begins; the second time ends."""
        self._running = not self._running
        seconds = _EVERY_SECONDS if self._running else 0.0
        signal.setitimer(signal.ITIMER_PROF, seconds, seconds)
        if not self._running:
            unfinished = self._out.with_suffix(".part")
            unfinished.write_text(json.dumps(self._counts), encoding="utf-8")
            unfinished.rename(self._out)

    def sample(self, _: int, frame: FrameType | None) -> None:
        """Counts one."""
        self._counts[stage(frame)] += 1


def main() -> None:
    """See the head of this file."""
    sampler = _Sampler(Path(sys.argv[1]))
    signal.signal(signal.SIGPROF, sampler.sample)
    signal.signal(signal.SIGUSR2, sampler.toggle)
    module, sys.argv = sys.argv[2], sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
