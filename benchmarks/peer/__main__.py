# SPDX-License-Identifier: Apache-2.0
"""koord-scheduler beside kube-scheduler: pods bound a second, waiting times, CPU.

``python -m benchmarks.peer --nodes 1000 --pods 1000 --pairs 5 --out docs/peer.md``

Both run on the same machine, one after the other, each against a fresh etcd and kube-apiserver
with the same nodes and pods, and with no limit on client requests. A pair is one run of each, in
changing order; the table has medians. ``bind-only`` is a client that binds every new pod to the
next node without thinking: what the API server and the generator allow at most. A scenario where
kube-scheduler stays below 60 % of that is limited by the scheduler.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from benchmarks.peer.arena import Run, fill, measure
from benchmarks.peer.scenarios import SCENARIOS, Scenario
from koord.api.kinds.pod import Pod
from koord.kube.client import Client
from koord.kube.config import ClusterConfig
from koord.kube.http import HttpTransport
from koord.kube.informer import Informer
from tests.controlplane.plane import RealControlPlane, free_port

LIMITED = 0.6
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

    name = "kube-scheduler"


class KoordScheduler(Scheduler):
    """Ours, over HTTPS like the other."""

    name = "koord-scheduler"

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

    name = "bind-only"

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
    flags = ("--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000")
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
    command = [sys.executable, "-m", "koord.cli.scheduler", "--config", str(path)]
    with (made.folder / "koord-scheduler.log").open("wb") as log:
        process = subprocess.Popen([*command, "--port", str(port)], stdout=log, stderr=log)
    try:
        yield KoordScheduler(process.pid, port)
    finally:
        process.terminate()
        process.wait(20)


async def one(which: str, scenario: Scenario, nodes: int, pods: int) -> Run:
    """One run on a fresh control plane."""
    with plane() as made:
        transport = HttpTransport(ClusterConfig.load(made.kubeconfig))
        client = Client(transport, requests_per_second=None)
        try:
            await fill(client, nodes)
            if which == "bind-only":
                binder = BindOnly(client, nodes)
                task = asyncio.create_task(binder.run())
                run = await measure(client, scenario, pods, binder)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                return run
            starter = kube_scheduler if which == "kube-scheduler" else koord_scheduler
            with starter(made) as scheduler:
                # Until it has listed the nodes: both are given the same time.
                await asyncio.sleep(5.0)
                return await measure(client, scenario, pods, scheduler)
        finally:
            await transport.close()


def median(runs: list[Run]) -> Run:
    """Figure by figure."""
    return Run(*(statistics.median(values) for values in zip(*runs, strict=True)))


def row(name: str, kube: Run, ours: Run, most: float) -> str:
    """One line of the table."""
    kind = "scheduler" if kube.per_second < LIMITED * most else "API server"
    pods = max(1, ours.bound)
    return (
        f"| {name} | {kind} | {kube.per_second:,.0f} | {ours.per_second:,.0f} "
        f"| {ours.per_second / kube.per_second:.2f}x "
        f"| {kube.p50_seconds * 1e3:,.0f} / {kube.p99_seconds * 1e3:,.0f} "
        f"| {ours.p50_seconds * 1e3:,.0f} / {ours.p99_seconds * 1e3:,.0f} "
        f"| {kube.cpu_seconds / max(1, kube.bound) * 1e6:,.0f} "
        f"| {ours.cpu_seconds / pods * 1e6:,.0f} "
        f"| {ours.decision_seconds / pods * 1e6:,.0f} |"
    )


HEAD = """| scenario | limited by | kube-scheduler pods/s | koord pods/s | ratio \
| kube-scheduler p50 / p99 ms | koord p50 / p99 ms | kube-scheduler CPU us/pod \
| koord CPU us/pod | of it deciding |
|---|---|---|---|---|---|---|---|---|---|"""


def main() -> None:
    """See the head of this file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--scenario", action="append", choices=sorted(SCENARIOS))
    parser.add_argument("--only", choices=("bind-only", "kube-scheduler", "koord-scheduler"))
    parser.add_argument("--out", type=Path)
    wish = parser.parse_args()
    names = wish.scenario or list(SCENARIOS)
    if wish.only:
        for name in names:
            print(name, asyncio.run(one(wish.only, SCENARIOS[name], wish.nodes, wish.pods)))
        return
    most = asyncio.run(one("bind-only", SCENARIOS["basic"], wish.nodes, wish.pods)).per_second
    lines = [
        f"{wish.nodes:,} nodes, {wish.pods:,} pods, medians of {wish.pairs} pairs; a bind-only "
        f"client reaches {most:,.0f} pods/s.\n",
        HEAD,
    ]
    print("\n".join(lines), flush=True)
    for name in names:
        found: dict[str, list[Run]] = {"kube-scheduler": [], "koord-scheduler": []}
        for pair in range(wish.pairs):
            order = list(found) if pair % 2 == 0 else list(reversed(found))
            for which in order:
                began = time.perf_counter()
                run = asyncio.run(one(which, SCENARIOS[name], wish.nodes, wish.pods))
                found[which].append(run)
                took = time.perf_counter() - began
                print(f"  {name} {which}: {run} ({took:.0f} s)", file=sys.stderr, flush=True)
        lines.append(row(name, *(median(runs) for runs in found.values()), most))
        print(lines[-1], flush=True)
    if wish.out:
        wish.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
