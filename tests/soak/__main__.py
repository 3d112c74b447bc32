# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.soak MINUTES [PART]``: explores all subjects, or those with a part of a name.

Every subject has an equal share of the time. What fails is kept as a case (tests/data/histories),
which ``pytest tests/soak`` replays from then on. ``python -m tests.soak --seeds FIRST-END [PART]``
plays a history a seed instead, with ``--processes N`` on so many processors, see
:mod:`tests.soak.seeds`. Exit status 1 if anything failed.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from koord.base.errors import one_line
from tests.soak import cases
from tests.soak.seeds import run_seeds, seeds_of

if TYPE_CHECKING:
    from tests.soak.subjects import Subject

# So many failures of one subject are enough to look into.
_ENOUGH = 3
_USAGE = "python -m tests.soak MINUTES|--seeds FIRST-END [--processes N] [PART]"
_HEAD = f"{'subject':<64} histories  seconds failures"


class Turn(NamedTuple):
    """What came of one subject's share of the time."""

    line: str
    failures: int
    kept: list[Path]


def turn(subject: Subject, seconds: float) -> Turn:
    """Explores a subject for so long, or until it has failed often enough."""
    began = time.monotonic()
    count, failures, kept = 0, 0, list[Path]()
    while failures < _ENOUGH:
        outcome = subject.explore(lambda: time.monotonic() >= began + seconds)
        count += outcome.count
        if outcome.error is None:
            break
        failures += 1
        said = told(outcome.error)
        print(f"FAILED {subject.name}: {said}", flush=True)
        if outcome.history is not None:
            case = {"subject": subject.name, "said": said, "history": outcome.history}
            kept.append(cases.keep(case))
    taken = time.monotonic() - began
    return Turn(f"{subject.name:<64} {count:>9} {taken:>8.0f} {failures:>8}", failures, kept)


def told(error: Exception) -> str:
    """A failure in one line: what it says, and where it comes from."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}: {last.line}"
    return one_line(f"{type(error).__name__}: {error} ({where})")[:300]


def main(arguments: list[str]) -> int:
    """See the head of this file."""
    parser = argparse.ArgumentParser("python -m tests.soak", usage=_USAGE)
    parser.add_argument("--seeds", default="")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("given", nargs="*")
    found = parser.parse_args(arguments)
    seeds, minutes = range(0), 0.0
    try:
        if found.seeds:
            seeds = seeds_of(found.seeds)
        else:
            minutes = float("".join(found.given[:1]))
            del found.given[0]
    except ValueError as error:
        parser.error(str(error))
    if found.processes < 1:
        parser.error(f"--processes: got {found.processes}, expected 1 or more")
    # Some tests look at the profile when they are imported.
    os.environ.setdefault("KOORD_PROFILE", "soak")
    from tests.soak.subjects import ForkableHistories, subjects

    logging.getLogger().addHandler(logging.NullHandler())
    part = "".join(found.given[:1])
    chosen = [each for each in subjects() if part in each.name]
    if seeds:
        forkable = [each for each in chosen if isinstance(each, ForkableHistories)]
        return run_seeds(forkable, seeds, found.processes)
    return explore_all(chosen, time.monotonic() + 60 * minutes)


def explore_all(chosen: list[Subject], end: float) -> int:
    """A turn of each, which share the time up to a monotonic moment; exit status 1 if any fails."""
    turns = list[Turn]()
    for left, subject in zip(range(len(chosen), 0, -1), chosen, strict=True):
        turns.append(turn(subject, (end - time.monotonic()) / left))
        print(turns[-1].line, flush=True)
    print("", _HEAD, *(each.line for each in turns), sep="\n")
    for path in (path for each in turns for path in each.kept):
        print(f"replay: pytest tests/soak -k {path.stem}")
    return 1 if any(each.failures for each in turns) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
