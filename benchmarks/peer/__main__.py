# SPDX-License-Identifier: Apache-2.0
"""koord-scheduler beside kube-scheduler: pods bound a second, waiting times, CPU.

``python -m benchmarks.peer --nodes 1000 --pods 1000 --pairs 5 --out docs/peer-table.md``
``python -m benchmarks.peer --nodes 1000 --pods 1000 --together --seconds 700``, twelve minutes
``python -m benchmarks.peer --sizes --together --seconds 600`` on a machine with many cores

All run on the same machine, one after the other, with no limit on client requests, each against a
fresh etcd and kube-apiserver with the same nodes and pods (a used one is slower with every run). A
pair is one run of each, in changing order. ``bind-only`` is a client that binds every new pod to
the next node without thinking: what the API server and the generator allow at most. What limits a
run is told by which programs were busy, see :func:`benchmarks.peer.table.limit`.

Gangs, quotas and CPU binding, which kube-scheduler has not, are measured where ``--original`` or
``--scenario`` asks for them.

The twelve other scenarios of the first command are 123 runs; ``--seconds`` gives each a pair and
goes round again while time is left. How far it is goes to stderr, lines of the
table to stdout as soon as they are known and again at the end, when further pairs have changed
them. The file is written anew after each pair; a run that fails is told of and ends the command
with status 1 once all others are through.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import signal
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peer import table
from benchmarks.peer.arena import Run
from benchmarks.peer.rows import SIZES, Row, Timetable
from benchmarks.peer.scenarios import A_NODE_EACH, SCENARIOS
from benchmarks.peer.sides import add_original, takes_part
from benchmarks.peer.table import BIND_ONLY, KOORD, KUBE, ORIGINAL
from benchmarks.peer.turns import pair

# How often the bind-only client runs.
_BIND_ONLY_RUNS = 3
# What builds the original's scheduler.
_SOURCES = Path(__file__).resolve().parents[2] / "tests" / "original"


class Comparison:
    """All runs so far, and the table of them.

    Args:
        sides: that make a pair.
        out: where the table goes besides stdout.
    """

    def __init__(self, sides: Sequence[str], out: Path | None) -> None:
        self._sides, self._out = tuple(sides), out
        self._began = time.monotonic()
        self._runs: dict[Row, dict[str, list[Run]]] = {}
        self._bind_only: list[Run] = []
        self.failed = 0

    def pair(self, number: int, row: Row, together: bool, seconds: float | None) -> None:
        """One more pair of a row, and its lines; cut off after so many seconds."""
        sides = tuple(side for side in self._sides if takes_part(side, row))
        kept = self._runs.setdefault(row, {side: [] for side in sides})
        sides = sides if number % 2 == 0 else sides[::-1]
        runs = self._run(f"{row}, pair {number + 1}", sides, row, together, seconds)
        if len(runs) == len(sides):
            for which, run in runs.items():
                kept[which].append(run)
        print(self._terminal(row), flush=True)
        self.write()

    def bind_only(self, row: Row, seconds: float | None) -> None:
        """One more run of the client that does not think; cut off after so many seconds."""
        runs = self._run(f"{row}, bind-only", (BIND_ONLY,), row, False, seconds)
        self._bind_only.extend(runs.values())

    def terminal(self) -> str:
        """The whole table for a terminal."""
        unit = "CPU ms a pod, until all is written; of it after the last binding.\n"
        rows = map(self._terminal, self._runs)
        return "\n".join((table.made_with(self._bind_only), unit, *rows))

    def text(self) -> str:
        """The whole table as Markdown."""
        lines = [each for row in self._runs for each in self._lines(row)]
        return "\n".join((table.head(self._bind_only), *lines))

    def write(self) -> None:
        """The file, if there is one."""
        if self._out is not None:
            self._out.write_text(self.text() + "\n", encoding="utf-8")

    def runs(self, side: str) -> list[tuple[Row, Run]]:
        """All of a side."""
        return [(row, run) for row, sides in self._runs.items() for run in sides.get(side, ())]

    def _run(
        self, what: str, sides: Sequence[str], row: Row, together: bool, seconds: float | None
    ) -> dict[str, Run]:
        found: dict[str, Run] = {}

        def tell(which: str, run: Run | Exception) -> None:
            self._tell(f"{what}, {which}", run)

        async def within() -> None:
            async with asyncio.timeout(seconds):
                found.update(await pair(sides, row, together, tell))

        try:
            asyncio.run(within())
        except TimeoutError:
            print(f"{what}: cut off, time is over", file=sys.stderr, flush=True)
        return found

    def _lines(self, row: Row) -> list[str]:
        return table.lines(row, self._runs[row], self._most())

    def _terminal(self, row: Row) -> str:
        return table.text(row, self._runs[row], self._most())

    def _most(self) -> float:
        """Pods a second of the client that does not think."""
        rates = [run.per_second for run in self._bind_only]
        return statistics.median(rates) if rates else math.nan

    def _tell(self, what: str, run: Run | Exception) -> None:
        if isinstance(run, Exception):
            self.failed += 1
            text = f"FAILED: {type(run).__name__}: {run}"
        else:
            text = f"{run.bound} of {run.wanted} bound, {run.per_second:.0f} pods/s"
            if run.events < run.bound:
                text += f", {run.events} events"
            if run.ended:
                text += ", its program ended"
        spent = time.monotonic() - self._began
        print(f"[{spent:.0f} s] {what}: {text}", file=sys.stderr, flush=True)


def _wish() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--nodes", type=int, default=1000)
    add("--pods", type=int, default=1000, help="measured pods of each run")
    add("--pairs", type=int, default=5, help="runs of all sides for each scenario, at most")
    add("--scenario", action="append", choices=sorted(SCENARIOS), help="only this; may be repeated")
    add("--sizes", action="store_true", help="small and large clusters, instead of the above")
    add("--seconds", type=float, help="one pair of each, then more, until so much time is over")
    add("--together", action="store_true", help="sides of a pair start at the same time")
    add(
        "--original", nargs="?", type=Path, const=Path(), metavar="PROGRAM",
        help="the original's koord-scheduler as a third side; without a name built from its source",
    )  # fmt: skip
    add("--only", choices=(BIND_ONLY, KUBE, KOORD), help="one side, no table")
    add(
        "--no-bind-only", action="store_true", help="without runs of the client that does not think"
    )
    add("--out", type=Path, help="where the table goes besides stdout")
    wish = parser.parse_args()
    asked = {row.name for row in _rows(wish)}.intersection(A_NODE_EACH)
    if wish.original == Path() and not _SOURCES.is_dir():
        parser.error("--original: name its koord-scheduler; this archive has nothing to build it")
    if wish.original not in (None, Path()) and not wish.original.is_file():
        parser.error(f"--original: {wish.original}: no such program")
    if wish.pods > wish.nodes and asked:
        parser.error(f"--pods: at most as many as --nodes for {', '.join(sorted(asked))}")
    strange = [row.name for row in _rows(wish) if wish.only and not takes_part(wish.only, row)]
    if strange:
        parser.error(f"--only: {wish.only} does not know the pods of {', '.join(strange)}")
    return wish


def _rows(wish: argparse.Namespace) -> list[Row]:
    if wish.sizes:
        rows = [row for row in SIZES if not wish.scenario or row.name in wish.scenario]
    else:
        rows = [Row(name, wish.nodes, wish.pods) for name in wish.scenario or SCENARIOS]
    if wish.scenario or wish.original is not None:
        return rows
    return [row for row in rows if row.scenario.objects is None]


def _built() -> Path:
    """The original's koord-scheduler, built where its source is at hand (docs/test-original.md)."""
    # An archive of this has none of it.
    from tests.original.source import COMPONENTS, MissingSourceError, Source

    try:
        source = Source.at_hand()
        source.build(COMPONENTS[:1], lambda line: print(line, file=sys.stderr, flush=True))
    except MissingSourceError as error:
        sys.exit(f"error: --original: {error}")
    return source.program(COMPONENTS[0])


def main() -> int:
    """See the head of this file."""
    # As Ctrl-C ends it: with all that runs beside it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    wish = _wish()
    rows = _rows(wish)
    sides = (wish.only,) if wish.only else (KUBE, KOORD)
    if wish.original is not None:
        add_original(_built() if wish.original == Path() else wish.original.absolute())
        sides = (*sides, ORIGINAL)
    made = Comparison(sides, None if wish.only else wish.out)
    times = Timetable(rows, wish.pairs, wish.seconds)
    if not (wish.only or wish.no_bind_only):
        runs = min(_BIND_ONLY_RUNS, wish.pairs) if wish.seconds is None else 1
        for _ in range(runs):
            made.bind_only(Row("basic", rows[0].nodes, rows[0].pods), times.left)
    for number, row in times:
        made.pair(number, row, wish.together, times.left)
    if wish.only:
        for row, run in made.runs(wish.only):
            print(row.name, run, flush=True)
    else:
        print(f"\n{made.terminal()}", flush=True)
    return 1 if made.failed else 0


if __name__ == "__main__":
    sys.exit(main())
