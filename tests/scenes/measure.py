# SPDX-License-Identifier: Apache-2.0
"""What processes wanted and got, from the scheduler's own statistics."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_NANO = 1_000_000_000


@dataclass(frozen=True)
class Share:
    """Over a span of time, of some processes together.

    Attributes:
        got: CPUs they ran on, on average.
        wanted: the same with the time that they waited on a run queue. A process that is throttled
            waits off the queue: compare what it got with what it was made to want.
    """

    got: float
    wanted: float

    @property
    def part(self) -> float:
        """How much of what they wanted they got, at most 1."""
        return self.got / self.wanted if self.wanted else 1.0


@dataclass(frozen=True)
class Reading:
    """Counters of some processes at one time."""

    at_seconds: float
    run_ns: int
    delay_ns: int

    def since(self, earlier: Reading) -> Share:
        """What happened between an earlier reading and this one."""
        seconds = self.at_seconds - earlier.at_seconds
        run = (self.run_ns - earlier.run_ns) / _NANO / seconds
        delay = (self.delay_ns - earlier.delay_ns) / _NANO / seconds
        return Share(run, run + delay)


def read(pids: Iterable[int]) -> Reading:
    """Run time and run delay of all processes that are still there, summed up."""
    run = delay = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        run += int(fields[0])
        delay += int(fields[1])
    return Reading(time.monotonic(), run, delay)


def over(pids: Iterable[int], seconds: float) -> Share:
    """Watches processes for a while."""
    return together([pids], seconds)[0]


def together(groups: Sequence[Iterable[int]], seconds: float) -> list[Share]:
    """Watches several groups of processes over the same while."""
    watched = [list(pids) for pids in groups]
    before = [read(pids) for pids in watched]
    time.sleep(seconds)
    return [read(pids).since(earlier) for pids, earlier in zip(watched, before, strict=True)]


def pressure(path: Path) -> float:
    """``some avg10`` of a pressure file, in percent."""
    for line in path.read_text(encoding="ascii").splitlines():
        words = line.split()
        if words[0] == "some":
            return float(words[1].removeprefix("avg10="))
    raise ValueError(f"{path}: no line 'some'")
