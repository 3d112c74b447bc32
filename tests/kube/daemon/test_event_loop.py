# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import pytest

from koord.kube.daemon import event_loop


def test_time_goes_on_within_a_turn() -> None:
    async def work() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        time.sleep(0.02)
        return loop.time() - began

    assert event_loop.run(work()) >= 0.02


def test_a_timer_is_not_early() -> None:
    async def work() -> list[float]:
        loop = asyncio.get_running_loop()
        early = []
        for seconds in (0.0004, 0.0016, 0.0104):
            time.sleep(0.003)  # what a turn has taken already is no part of it
            fired, due = loop.create_future(), loop.time() + seconds
            loop.call_at(due, lambda fired=fired: fired.set_result(loop.time()))
            early.append(due - await fired)
        return early

    # uvloop's timers have milliseconds, to the nearest.
    assert max(event_loop.run(work())) < 0.0011


def test_what_a_program_ends_with_is_passed_on() -> None:
    async def fails() -> int:
        raise LookupError("nothing there")

    async def ends() -> int:
        return 3

    assert event_loop.run(ends()) == 3
    with pytest.raises(LookupError, match="nothing there"):
        event_loop.run(fails())


@pytest.mark.parametrize(("missing", "module"), [(False, "uvloop"), (True, "asyncio")])
def test_asyncio_serves_where_there_is_no_uvloop(missing: bool, module: str) -> None:
    if not missing:
        pytest.importorskip("uvloop")
    hide = "import sys; sys.modules['uvloop'] = None\n" if missing else ""
    code = f"""{hide}
from koord.kube.daemon.event_loop import new_event_loop
loop = new_event_loop()
print(*(kind.__module__.partition(".")[0] for kind in type(loop).__mro__))
loop.close()
"""
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    bases = told.stdout.split()
    assert module in bases
    assert ("uvloop" in bases) != missing
