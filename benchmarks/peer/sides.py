# SPDX-License-Identifier: Apache-2.0
"""The sides of the comparison: a fresh control plane for each, and how its scheduler is started."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import yaml

from benchmarks.peer.table import BIND_ONLY, KOORD, KUBE, ORIGINAL
from koord.api import crds
from koord.api.kinds.pod import Pod
from koord.kube.client import Client
from koord.kube.crds import install
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


class OriginalScheduler(Scheduler):
    """The original's."""

    name = ORIGINAL


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


def _configuration(made: RealControlPlane, name: str) -> Path:
    """Stock plugins under the stock name, without a limit on requests."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(made.kubeconfig), **_UNLIMITED},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": "default-scheduler"}],
    }
    path = made.folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@contextmanager
def kube_scheduler(made: RealControlPlane) -> Iterator[KubeScheduler]:
    """The stock scheduler on a control plane."""
    path = _configuration(made, KUBE)
    program = made.run("kube-scheduler", f"--config={path}", "--secure-port=0")
    yield KubeScheduler(program.pid)


@contextmanager
def koord_scheduler(made: RealControlPlane) -> Iterator[KoordScheduler]:
    """Ours, with the stock plugins under the stock name."""
    path, port = _configuration(made, KOORD), free_port()
    command = [sys.executable, "-m", "koord.cli.daemons.scheduler", "--config", str(path)]
    with _process(made, "koord", [*command, "--port", str(port)]) as pid:
        yield KoordScheduler(pid, port)


@contextmanager
def original_scheduler(program: Path, made: RealControlPlane) -> Iterator[OriginalScheduler]:
    """The original's, with the stock plugins under the stock name."""
    path = _configuration(made, ORIGINAL)
    flags = (f"--config={path}", f"--port={free_port()}", "--secure-port=0",
             "--authentication-skip-lookup=true")  # fmt: skip
    with _process(made, "original", [str(program), *flags]) as pid:
        yield OriginalScheduler(pid)


@contextmanager
def _process(made: RealControlPlane, name: str, command: list[str]) -> Iterator[int]:
    with (made.folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(20)


STARTERS: dict[str, Callable[[RealControlPlane], AbstractContextManager[Scheduler]]] = {
    KUBE: kube_scheduler,
    KOORD: koord_scheduler,
}


def add_original(program: Path) -> None:
    """Lets the original's koord-scheduler take part."""
    STARTERS[ORIGINAL] = partial(original_scheduler, program)


@asynccontextmanager
async def started(
    which: str, made: RealControlPlane, client: Client, nodes: int
) -> AsyncIterator[Scheduler]:
    """A side's scheduler; that which binds only is in this process."""
    if which == ORIGINAL:
        # Its informers wait for them.
        async for _ in install(client, crds()):
            pass
    if which != BIND_ONLY:
        with STARTERS[which](made) as scheduler:
            yield scheduler
        return
    binder = BindOnly(client, nodes)
    task = asyncio.create_task(binder.run())
    try:
        yield binder
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _plane(folder: Path) -> RealControlPlane:
    """An API server that lets through as much as it can."""
    flags = (
        "--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
        # No controller would take the taint of new nodes away.
        "--disable-admission-plugins=TaintNodesByCondition",
    )  # fmt: skip
    return RealControlPlane(folder, api_flags=flags)


@asynccontextmanager
async def fresh_plane() -> AsyncIterator[tuple[RealControlPlane, Client]]:
    """A control plane of its own, and a client of it; others may be started meanwhile."""
    with tempfile.TemporaryDirectory(prefix="koord-peer-") as folder:
        made = _plane(Path(folder))
        start = asyncio.create_task(asyncio.to_thread(made.__enter__))
        try:
            await asyncio.shield(start)
            transport = HttpTransport(load_cluster_config(made.kubeconfig))
            try:
                yield made, Client(transport, requests_per_second=None)
            finally:
                await transport.close()
        finally:
            # One that is cut off may just be starting programs.
            await asyncio.wait([start])
            await asyncio.to_thread(made.stop)
