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
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

import yaml

from benchmarks.peer.nodes import node_name
from benchmarks.peer.rows import Row
from benchmarks.peer.table import BIND_ONLY, KOORD, KUBE, ORIGINAL
from koord.api import crds
from koord.api.kinds.pod import Pod
from koord.base.documents import Document
from koord.controllers.scheduler.config.defaults import shipped_document
from koord.kube.client import Client
from koord.kube.crds import install, wait_established
from koord.kube.informers.informer import Informer
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from tests.real.plane import RealControlPlane, free_port

_UNLIMITED = {"qps": -1, "burst": 1_000_000}
_NAME = "default-scheduler"
_DEFINED_SECONDS = _READY_SECONDS = 180.0


class Scheduler:
    """A scheduler in a process of its own."""

    name = ""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    async def ready(self) -> None:
        """Waits until it schedules, where it says so."""

    async def decision_seconds(self) -> float:
        """CPU seconds that deciding has taken so far; NaN where it does not say."""
        return math.nan

    def ended(self) -> bool:
        """Whether its process has ended; what it used can still be read."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


class KubeScheduler(Scheduler):
    """The stock one."""

    name = KUBE


class KoordScheduler(Scheduler):
    """Ours, over HTTPS like the other."""

    name = KOORD

    def __init__(self, pid: int, port: int, log: Path) -> None:
        super().__init__(pid)
        self._port, self._log = port, log

    async def ready(self) -> None:
        """By its own word: on a busy machine it takes longer than the others are given.

        Raises:
            RuntimeError: it is not ready in time, with what it said last.
        """
        try:
            async with asyncio.timeout(_READY_SECONDS):
                while True:
                    with suppress(OSError):
                        await asyncio.to_thread(self._page, "readyz")
                        return
                    await asyncio.sleep(0.2)
        except TimeoutError:
            said = self._log.read_text(errors="replace").splitlines()[-1:]
            raise RuntimeError(f"{KOORD} is not ready: {' '.join(said)}") from None

    async def decision_seconds(self) -> float:
        """From its metrics."""
        for line in (await asyncio.to_thread(self._page, "metrics")).splitlines():
            if line.startswith("koord_scheduler_decision_seconds_total "):
                return float(line.split()[1])
        return math.nan

    def _page(self, name: str) -> str:
        url = f"http://127.0.0.1:{self._port}/{name}"
        with urllib.request.urlopen(url, timeout=10) as page:
            text: str = page.read().decode()
            return text


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

    def ended(self) -> bool:
        """Never: it is this process."""
        return False

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
                await self._client.bind(pod, node_name(next(self._next)))


def _configuration(made: RealControlPlane, name: str, row: Row) -> Path:
    """The stock scheduler's name, without a limit on requests.

    With the stock plugins; for pods that only Koordinator's schedulers know with theirs.
    """
    document: Document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": _NAME}],
    }
    if row.scenario.objects is not None:
        document = shipped_document(_NAME)
    document["clientConnection"] = {"kubeconfig": str(made.kubeconfig), **_UNLIMITED}
    document["leaderElection"] = {"leaderElect": False}
    path = made.folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@contextmanager
def kube_scheduler(made: RealControlPlane, row: Row) -> Iterator[KubeScheduler]:
    """The stock scheduler on a control plane."""
    path = _configuration(made, KUBE, row)
    program = made.run("kube-scheduler", f"--config={path}", "--secure-port=0")
    yield KubeScheduler(program.pid)


@contextmanager
def koord_scheduler(
    made: RealControlPlane, row: Row, interpreter: str = sys.executable, under: Sequence[str] = ()
) -> Iterator[KoordScheduler]:
    """Ours, of the installation that a Python interpreter belongs to.

    Args:
        made: the control plane.
        row: what is measured.
        interpreter: that runs it.
        under: a module that runs it as a program, and that one's arguments.
    """
    path, port = _configuration(made, KOORD, row), free_port()
    module = (*under, "koord.cli.daemons.scheduler")
    command = [interpreter, "-m", *module, "--config", str(path)]
    with _process(made, "koord", [*command, "--port", str(port)]) as pid:
        yield KoordScheduler(pid, port, made.folder / "koord.log")


@contextmanager
def original_scheduler(
    program: Path, made: RealControlPlane, row: Row
) -> Iterator[OriginalScheduler]:
    """The original's."""
    path = _configuration(made, "original", row)
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


STARTERS: dict[str, Callable[[RealControlPlane, Row], AbstractContextManager[Scheduler]]] = {
    KUBE: kube_scheduler,
    KOORD: koord_scheduler,
}


def add_original(program: Path) -> None:
    """Lets the original's koord-scheduler take part."""
    STARTERS[ORIGINAL] = partial(original_scheduler, program)


async def define(client: Client) -> None:
    """Koordinator's kinds; the original's informers wait for them."""
    names = [name async for name, _ in install(client, crds())]
    await wait_established(client, names, _DEFINED_SECONDS)


def takes_part(side: str, row: Row) -> bool:
    """Whether a side knows what to do with the pods of a row."""
    return side not in (KUBE, BIND_ONLY) or row.scenario.objects is None


@asynccontextmanager
async def started(
    which: str, made: RealControlPlane, client: Client, row: Row
) -> AsyncIterator[Scheduler]:
    """A side's scheduler; that which binds only is in this process."""
    if which != BIND_ONLY:
        with STARTERS[which](made, row) as scheduler:
            yield scheduler
        return
    binder = BindOnly(client, row.nodes)
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
