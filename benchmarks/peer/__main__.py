# SPDX-License-Identifier: Apache-2.0
"""koord-scheduler beside kube-scheduler: pods bound a second, waiting times, CPU.

``python -m benchmarks.peer --nodes 1000 --pods 1000 --pairs 5 --out docs/peer-table.md``

Both run on the same machine, one after the other, with no limit on client requests, each against a
fresh etcd and kube-apiserver with the same nodes and pods (a used one is slower with every run). A
pair is one run of each, in changing order. ``bind-only`` is a client that binds every new pod to
the next node without thinking: what the API server and the generator allow at most. What limits a
run is told by which programs were busy, see :func:`benchmarks.peer.table.limit`.

The eleven scenarios of that command are 113 runs. How far it is, and how long it will still take,
goes to stderr. The file is begun anew, and written after each scenario; a run that fails is told of
and ends the command with status 1 once all others are through.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import yaml

from benchmarks.peer import table
from benchmarks.peer.arena import Run, fill, measure
from benchmarks.peer.scenarios import A_NODE_EACH, SCENARIOS, Scenario
from benchmarks.peer.table import BIND_ONLY, GENERATOR, KOORD, KUBE, SERVERS
from koord.api.kinds.pod import Pod
from koord.kube.client import Client
from koord.kube.informers.informer import Informer
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from tests.real.plane import RealControlPlane, free_port

_UNLIMITED = {"qps": -1, "burst": 1_000_000}


class Scheduler:
    """A scheduler in a process of its own."""

    name = ""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    async def decision_seconds(self) -> float:
        """CPU seconds that deciding has taken so far; NaN where it does not say."""
        return math.nan


class KubeScheduler(Scheduler):
    """The stock one."""

    name = KUBE


class KoordScheduler(Scheduler):
    """Ours, over HTTPS like the other."""

    name = KOORD

    def __init__(self, pid: int, port: int) -> None:
        super().__init__(pid)
        self._port = port

    async def decision_seconds(self) -> float:
        """From its metrics."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=10) as page:
            for line in page.read().decode().splitlines():
                if line.startswith("koord_scheduler_decision_seconds_total "):
                    return float(line.split()[1])
        return math.nan


class BindOnly(Scheduler):
    """Binds every new pod to the next node, in this process."""

    name = BIND_ONLY

    def __init__(self, client: Client, nodes: int) -> None:
        super().__init__(os.getpid())
        self._client = client
        self._next = itertools.cycle(range(nodes))
        self._waiting: asyncio.Queue[Pod] = asyncio.Queue()

    async def run(self) -> None:
        """Binds until cancelled."""
        pods = Informer(self._client, Pod)
        pods.on_change(added=self._waiting.put_nowait)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(pods.run())
            for _ in range(32):
                tasks.create_task(self._bind())

    async def _bind(self) -> None:
        while True:
            pod = await self._waiting.get()
            if not pod.spec.node_name:
                await self._client.bind(pod, f"node-{next(self._next):05}")


@contextmanager
def plane() -> Iterator[RealControlPlane]:
    """A fresh API server that lets through as much as it can."""
    flags = (
        "--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
        # No controller would take the taint of new nodes away.
        "--disable-admission-plugins=TaintNodesByCondition",
    )  # fmt: skip
    with (
        tempfile.TemporaryDirectory() as folder,
        RealControlPlane(Path(folder), api_flags=flags) as made,
    ):
        yield made


@contextmanager
def kube_scheduler(made: RealControlPlane) -> Iterator[KubeScheduler]:
    """The stock scheduler on a control plane."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(made.kubeconfig), **_UNLIMITED},
        "leaderElection": {"leaderElect": False},
    }
    path = made.folder / "unlimited.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    program = made.run("kube-scheduler", f"--config={path}", "--secure-port=0")
    yield KubeScheduler(program.pid)


@contextmanager
def koord_scheduler(made: RealControlPlane) -> Iterator[KoordScheduler]:
    """Ours, with the stock plugins under the stock name."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(made.kubeconfig), **_UNLIMITED},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": "default-scheduler"}],
    }
    path = made.folder / "koord.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    port = free_port()
    command = [sys.executable, "-m", "koord.cli.daemons.scheduler", "--config", str(path)]
    with (made.folder / "koord-scheduler.log").open("wb") as log:
        process = subprocess.Popen([*command, "--port", str(port)], stdout=log, stderr=log)
    try:
        yield KoordScheduler(process.pid, port)
    finally:
        process.terminate()
        process.wait(20)


# Until a scheduler has listed the nodes: both are given the same time.
_START_SECONDS = 5.0
# How often the bind-only client runs.
_BIND_ONLY_RUNS = 3


@asynccontextmanager
async def arena(nodes: int) -> AsyncIterator[tuple[RealControlPlane, Client]]:
    """A fresh control plane with nodes."""
    with plane() as made:
        transport = HttpTransport(load_cluster_config(made.kubeconfig))
        client = Client(transport, requests_per_second=None)
        try:
            await fill(client, nodes)
            yield made, client
        finally:
            await transport.close()


def _servers(made: RealControlPlane) -> dict[str, int]:
    return {name: program.pid for name, program in made.programs.items() if name in SERVERS}


async def one(which: str, scenario: Scenario, nodes: int, pods: int) -> Run:
    """One run on a fresh control plane."""
    async with arena(nodes) as (made, client):
        if which == BIND_ONLY:
            binder = BindOnly(client, nodes)
            task = asyncio.create_task(binder.run())
            try:
                return await measure(client, scenario, pods, binder, _servers(made))
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        starter = kube_scheduler if which == KUBE else koord_scheduler
        with starter(made) as scheduler:
            await asyncio.sleep(_START_SECONDS)
            others = _servers(made) | {GENERATOR: os.getpid()}
            return await measure(client, scenario, pods, scheduler, others)


class Progress:
    """Says on stderr what has been done and how long the rest will take.

    Args:
        runs: how many there are to be.
    """

    def __init__(self, runs: int) -> None:
        self._runs, self._done, self._began = runs, 0, time.monotonic()
        self.failed = 0

    def tell(self, what: str, run: Run | Exception) -> None:
        """One more run has ended."""
        self._done += 1
        self.failed += isinstance(run, Exception)
        spent = time.monotonic() - self._began
        left = spent / self._done * (self._runs - self._done) / 60
        if isinstance(run, Exception):
            text = f"FAILED: {type(run).__name__}: {run}"
        else:
            text = f"{run.bound} of {run.wanted} bound, {run.per_second:.0f} pods/s"
        print(
            f"[{self._done}/{self._runs}] {what}: {text}; about {left:.0f} min left",
            file=sys.stderr, flush=True,
        )  # fmt: skip


def pairs(
    name: str, sides: tuple[str, ...], wish: argparse.Namespace, progress: Progress
) -> dict[str, list[Run]]:
    """Runs of a scenario by side, those that failed left out with their pair."""
    found: dict[str, list[Run]] = {side: [] for side in sides}
    for pair in range(wish.pairs):
        runs: dict[str, Run] = {}
        for which in sides if pair % 2 == 0 else tuple(reversed(sides)):
            what = f"{name}, pair {pair + 1} of {wish.pairs}, {which}"
            try:
                run = asyncio.run(one(which, SCENARIOS[name], wish.nodes, wish.pods))
            except Exception as error:
                progress.tell(what, error)
            else:
                runs[which] = run
                progress.tell(what, run)
        if len(runs) == len(sides):
            for which, run in runs.items():
                found[which].append(run)
    return found


def _wish() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=1000, help="measured pods of each run")
    parser.add_argument("--pairs", type=int, default=5, help="runs of both for each scenario")
    parser.add_argument(
        "--scenario", action="append", choices=sorted(SCENARIOS), help="only this; may be repeated"
    )
    parser.add_argument("--only", choices=(BIND_ONLY, KUBE, KOORD), help="one side, no table")
    parser.add_argument("--out", type=Path, help="where the table goes besides stdout")
    wish = parser.parse_args()
    asked = set(wish.scenario or SCENARIOS).intersection(A_NODE_EACH)
    if wish.pods > wish.nodes and asked:
        parser.error(f"--pods: at most as many as --nodes for {', '.join(sorted(asked))}")
    return wish


def main() -> int:
    """See the head of this file."""
    wish = _wish()
    names = wish.scenario or list(SCENARIOS)
    if wish.only:
        progress = Progress(len(names) * wish.pairs)
        for name in names:
            for run in pairs(name, (wish.only,), wish, progress)[wish.only]:
                print(name, run, flush=True)
        return 1 if progress.failed else 0
    bind_only = argparse.Namespace(**vars(wish) | {"pairs": min(_BIND_ONLY_RUNS, wish.pairs)})
    progress = Progress(bind_only.pairs + 2 * len(names) * wish.pairs)
    most = pairs("basic", (BIND_ONLY,), bind_only, progress)[BIND_ONLY]
    lines = [table.head(wish.nodes, wish.pods, wish.pairs, most)]
    _write(wish.out, [*lines, f"Under way: 0 of {len(names)} scenarios."])
    for number, name in enumerate(names, 1):
        found = pairs(name, (KUBE, KOORD), wish, progress)
        lines.append(table.row(name, found[KUBE], found[KOORD], most))
        rest = [] if number == len(names) else ["", f"Under way: {number} of {len(names)}."]
        _write(wish.out, [*lines, *rest])
    print("\n".join(lines), flush=True)
    return 1 if progress.failed else 0


def _write(out: Path | None, lines: list[str]) -> None:
    if out is not None:
        out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
