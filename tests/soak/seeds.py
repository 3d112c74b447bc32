# SPDX-License-Identifier: Apache-2.0
"""``--seeds FIRST-END [PART]``: histories of seeds, each in a fork of a cluster that has started.

With ``--processes N`` so many play beside each other, each every N-th seed in clusters of its own.
A line a minute says how far it is; one at the end how often each fault point was passed. What fails
is told with its seed, and the run goes on; a point that no history passed fails the run too.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
import signal
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing import connection
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from koord.base.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

# Of a history that takes tenths of a second.
_PATIENCE_SECONDS = 900.0
_LINE_SECONDS = 60.0


class StartedCluster(Protocol):
    """A cluster in which a history is about to begin."""

    def play(self, seed: int, steps: int) -> Any:
        """The history of a seed; a fault plan that has seen it.

        Raises:
            AssertionError: what does not hold.
        """
        ...


class SeededSubject(Protocol):
    """What has a history for each seed.

    Attributes:
        name: where the test of it stands.
        steps: of each history.
        points: the fault points that its histories pass.
    """

    name: str
    steps: int
    points: tuple[str, ...]

    def shape_of(self, seed: int) -> Hashable:
        """The kind of cluster that a seed's history begins in."""
        ...

    def started(self, shape: Any) -> StartedCluster:
        """Such a cluster."""
        ...


class ForkedOutcome(NamedTuple):
    """What came of a history in a fork.

    Attributes:
        passed: how often it passed each fault point.
        failed: how often it failed at each.
        said: what did not hold, one line; empty for nothing.
    """

    passed: Counter[str]
    failed: Counter[str]
    said: str = ""


@dataclass
class SeedTotals:
    """What came of all histories so far."""

    passed: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    count: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)


def seeds_of(text: str) -> range:
    """``FIRST-END``: from the first up to the one before the end.

    Raises:
        ValueError: it is something else.
    """
    found = re.fullmatch(r"(\d+)-(\d+)", text)
    if found is None or int(found[1]) >= int(found[2]):
        raise ValueError(f"--seeds: got {text!r}, expected FIRST-END, as 3000-10000")
    return range(int(found[1]), int(found[2]))


def in_fork(play: Callable[[], ForkedOutcome]) -> ForkedOutcome:
    """The outcome of a call in a child of this process, in which nothing of it is left."""
    receiving, sending = multiprocessing.Pipe(duplex=False)
    with warnings.catch_warnings():
        # Of threads that may be about: a child calls nothing that waits for one.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:  # What is open is the parent's as well: it ends here, and closes nothing.
        gc.disable()
        try:
            sending.send(play())
        finally:
            os._exit(0)
    sending.close()
    try:
        if receiving.poll(_PATIENCE_SECONDS):
            outcome: ForkedOutcome = receiving.recv()
            return outcome
        os.kill(child, signal.SIGKILL)
        return ForkedOutcome(Counter(), Counter(), f"no end after {_PATIENCE_SECONDS} s")
    except EOFError:
        return ForkedOutcome(Counter(), Counter(), "its process ended without a word")
    finally:
        receiving.close()
        os.waitpid(child, 0)


def run_seeds(subjects: Iterable[SeededSubject], seeds: range, processes: int = 1) -> int:
    """Plays a history a seed of each subject; exit status 1 if anything failed.

    Args:
        subjects: each of whose histories are played.
        seeds: from where to where; every process has each so-many-th.
        processes: that play beside each other.
    """
    chosen = list(subjects)
    totals = {each.name: SeedTotals() for each in chosen}
    began = told = time.monotonic()
    if processes > 1:
        played = _played_beside(chosen, seeds, processes)
    else:
        played = ((0, *each) for each in _played(chosen, seeds))
    # The next run may begin with the first that any process has yet to end.
    following = {number: seeds.start + number for number in range(processes)}
    for process, name, seed, outcome in played:
        _count(totals[name], name, seed, outcome)
        following[process] = seed
        if time.monotonic() - told >= _LINE_SECONDS:
            told = time.monotonic()
            done = min(following.values())
            print(_progress(totals, done, seeds, told - began), flush=True)
    print(_progress(totals, seeds.stop, seeds, time.monotonic() - began), flush=True)
    return _summary(chosen, totals)


def _played(chosen: list[SeededSubject], seeds: range) -> Iterator[tuple[str, int, ForkedOutcome]]:
    """Each subject's name with a seed and what came of it."""
    clusters: dict[tuple[str, Hashable], StartedCluster] = {}
    for seed in seeds:
        for subject in chosen:
            key = subject.name, subject.shape_of(seed)
            if key not in clusters:
                clusters[key] = subject.started(key[1])
                # A collector that walks them would copy them in each fork.
                gc.collect()
                gc.freeze()
            yield subject.name, seed, _play(subject, clusters[key], seed)


def _played_beside(
    chosen: list[SeededSubject], seeds: range, processes: int
) -> Iterator[tuple[int, str, int, ForkedOutcome]]:
    """What came of all, as it comes, with the number of the process; each has its own clusters."""
    workers: dict[Connection, int] = {}
    children: dict[int, int] = {}
    after = {number: seeds.start + number for number in range(processes)}
    for number in after:
        receiving, sending = multiprocessing.Pipe(duplex=False)
        children[number] = _worker(chosen, seeds[number::processes], sending)
        sending.close()
        workers[receiving] = number
    while workers:
        for ready in connection.wait(list(workers)):
            assert isinstance(ready, Connection)
            number = workers[ready]
            found = _received(ready)
            if isinstance(found, tuple):
                after[number] = found[1]
                yield number, *found
                continue
            if found:
                gone = ForkedOutcome(Counter(), Counter(), f"{found}, each {processes}th from here")
                yield number, chosen[0].name, after[number], gone
            ready.close()
            del workers[ready]
            os.waitpid(children[number], 0)


def _worker(chosen: list[SeededSubject], seeds: range, sending: Connection) -> int:
    """A child that plays seeds and sends what came of each, None at the end; its process id."""
    child = os.fork()
    if child:
        return child
    try:
        for each in _played(chosen, seeds):
            sending.send(each)
        sending.send(None)
    except BaseException:
        traceback.print_exc()
    os._exit(0)


def _received(ready: Connection) -> tuple[str, int, ForkedOutcome] | str | None:
    """What a worker sent; a text if it ended too early."""
    try:
        found: tuple[str, int, ForkedOutcome] | None = ready.recv()
    except EOFError:
        return "the process ended that plays it"
    return found


def _play(subject: SeededSubject, cluster: StartedCluster, seed: int) -> ForkedOutcome:
    def whole() -> ForkedOutcome:

        said = ""
        try:
            plan = cluster.play(seed, subject.steps)
        except Exception as error:
            said = one_line(f"{type(error).__name__}: {error}")[:300]
            return ForkedOutcome(Counter(), Counter(), said)
        return ForkedOutcome(plan.passed, plan.failed, said)

    return in_fork(whole)


def _count(totals: SeedTotals, name: str, seed: int, outcome: ForkedOutcome) -> None:
    totals.count += 1
    totals.passed += outcome.passed
    totals.failed += outcome.failed
    if outcome.said:
        said = f"{name}: seed {seed}: {outcome.said}"
        totals.failures.append((seed, said))
        print(f"FAILED {said}", flush=True)


def _progress(totals: dict[str, SeedTotals], done: int, seeds: range, seconds: float) -> str:
    count = sum(each.count for each in totals.values())
    failures = sum(len(each.failures) for each in totals.values())
    faults = sum(each.failed.total() for each in totals.values())
    return (
        f"{count} histories of seeds {seeds.start}-{done} (to {seeds.stop}), {faults} faults, "
        f"{failures} failures, {seconds:.0f} s"
    )


def _summary(chosen: list[SeededSubject], totals: dict[str, SeedTotals]) -> int:
    failures = 0
    for subject in chosen:
        found = totals[subject.name]
        print(f"\n{subject.name}: {found.count} histories, {len(found.failures)} failures")
        for point in subject.points:
            print(f"  {point:<44} passed {found.passed[point]:>8} failed {found.failed[point]:>7}")
        missed = [point for point in subject.points if not found.passed[point]]
        failed = [said for _, said in sorted(found.failures)]
        print(*(f"  never passed: {point}" for point in missed), *failed, sep="\n  ")
        failures += len(missed) + len(found.failures)
    return 1 if failures else 0
