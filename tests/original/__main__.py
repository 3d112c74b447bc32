# SPDX-License-Identifier: Apache-2.0
"""``make test-original``: the original's specs and benchmark against koord (docs/test-original.md).

Exit status: 0 where koord passes all that the original does, 1 where it does not, 3 where there is
no source of the original or no real control plane at hand.
"""

from __future__ import annotations

import argparse
import datetime
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.hostile.places import Place
from tests.original import benchmark, leftovers, specs
from tests.original.clusters import CLUSTERS, ORIGINAL, POOLS, ClusterError, by_pools
from tests.original.source import BENCHMARK, COMPONENTS, SPECS, MissingSourceError, Source
from tests.original.specs import Spec
from tests.original.table import Results, markdown
from tests.real.binaries import MissingProgramError, find
from tests.real.plane import PlaneError

MISSING = 3
_NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok", "kwok-stages.yaml")


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class _Run:
    """One call of the command.

    Attributes:
        results: of all that was run.
        whole: whether no cluster failed.
    """

    def __init__(self, source: Source, options: argparse.Namespace, folder: Path) -> None:
        self._source, self._options, self._folder = source, options, folder
        today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
        found = specs.listed(source)
        self._chosen = [each for each in found if re.search(options.specs, each.text)]
        self.results = Results(source.commit, today, found if options.add else self._chosen)
        if options.add and options.results.is_file():
            former = Results.read(options.results)
            if former.commit == source.commit:
                self.results.outcomes, self.results.benchmark = former.outcomes, former.benchmark
        self.whole = True

    def all(self) -> None:
        """Every cluster, one after the other."""
        names = [name for name in CLUSTERS if name in self._options.clusters.split(",")]
        for name in names:
            self.results.outcomes.setdefault(name, {})
            self._cluster(name)

    def _cluster(self, name: str) -> None:
        for pools, chosen in by_pools(self._chosen):
            measured = self._options.benchmark and pools == POOLS
            if not (chosen or measured):
                continue
            folder = self._folder / re.sub(r"\W+", "-", f"{name} {pools.stem}")
            folder.mkdir()
            _say(f"{name}: starts on {pools.name}")
            try:
                with CLUSTERS[name](folder, self._source, pools) as place:
                    for number, spec in enumerate(chosen, 1):
                        self._spec(name, place, spec, f"{number}/{len(chosen)}")
                    if measured:
                        self._benchmark(name, place)
            except (ClusterError, PlaneError, AssertionError, OSError) as error:
                _say(f"{name}: {error}")
                self.whole = False
        self.results.write(self._options.results)

    def _benchmark(self, name: str, place: Place) -> None:
        _say(f"{name}: benchmark")
        self.results.benchmark[name] = benchmark.run(self._source, place)
        _say(f"{name}: benchmark {self.results.benchmark[name]}")

    def _spec(self, name: str, place: Place, spec: Spec, number: str) -> None:
        place.check()
        log = place.folder / f"spec-{number.replace('/', '-of-')}.log"
        outcome = specs.run(self._source, spec, place.kubeconfig, log, self._options.limit)
        self.results.outcomes[name][spec.text] = outcome
        self.results.write(self._options.results)
        told = f": {outcome.message[:300]}" if outcome.message else ""
        _say(f"{name} {number} {outcome.state} {outcome.seconds:.0f} s {spec.name}{told}")
        left = leftovers.clear(place)
        if left:
            _say(f"{name}: still there: {' '.join(left)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.original")
    parser.add_argument(
        "--clusters", default=",".join(CLUSTERS), help=f"of {', '.join(CLUSTERS)}; all by default"
    )
    parser.add_argument("--specs", default="", help="those whose text this pattern finds")
    parser.add_argument("--limit", type=int, default=420, help="seconds that a spec may take")
    parser.add_argument("--no-benchmark", dest="benchmark", action="store_false")
    parser.add_argument("--results", type=Path, default=Path("reports/original.json"))
    parser.add_argument("--add", action="store_true", help="to what --results has already")
    parser.add_argument("--keep", type=Path, help="a new folder for logs; else they go")
    return parser.parse_args()


def _programs(options: argparse.Namespace) -> list[str]:
    """What has to be built for that."""
    original = COMPONENTS if ORIGINAL in options.clusters.split(",") else ()
    return [SPECS, *original, *([BENCHMARK] if options.benchmark else [])]


def main() -> int:
    """Runs the command; gives the exit status."""
    options = _options()
    unknown = set(options.clusters.split(",")) - set(CLUSTERS)
    if unknown:
        print(f"error: --clusters: no {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    try:
        source = Source.at_hand()
        for program in _NEEDED:
            find(program)
        source.build(_programs(options), _say)
    except (MissingSourceError, MissingProgramError) as error:
        print(f"error: {error}", file=sys.stderr)
        return MISSING
    # So that what was started is ended then, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="koord-original-"))
    try:
        run = _Run(source, options, folder)
        run.all()
    finally:
        if options.keep is not None:
            shutil.copytree(folder, options.keep, ignore=shutil.ignore_patterns("etcd"))
        shutil.rmtree(folder, ignore_errors=True)
    print(markdown(run.results))
    behind = run.results.behind(ORIGINAL)
    for name in behind:
        print(f"koord fails what the original passes: {name}", file=sys.stderr)
    return 1 if behind or not run.whole else 0


if __name__ == "__main__":
    sys.exit(main())
