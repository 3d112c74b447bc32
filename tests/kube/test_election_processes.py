# SPDX-License-Identifier: Apache-2.0
"""Contenders in processes of their own are killed and stopped; never do two act."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from koord.api import ConfigMap, Namespace, ObjectMeta
from koord.kube.client import Client
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from tests.kube.contender import RECORD, TIMING
from tests.kube.servers import BOTH, SOURCES, Plane, started

NAMESPACE = "election"
PATIENCE_SECONDS = 60.0


class Contender:
    """A child process, and what it printed."""

    def __init__(self, identity: str, kubeconfig: Path, folder: Path) -> None:
        self.identity = identity
        self._path = folder / f"{identity}.txt"
        arguments = [str(kubeconfig), NAMESPACE, "lease", identity]
        with self._path.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.kube.contender", *arguments],
                stdout=output,
                cwd=SOURCES,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def words(self) -> list[list[str]]:
        lines = self._path.read_text().split("\n")[:-1]
        return [line.split() for line in lines]

    def last_act(self) -> float:
        """When it last saw itself allowed to act; 0 for never."""
        return max((float(words[2]) for words in self.words() if words[0] == "act"), default=0.0)

    def acts(self) -> dict[int, list[float]]:
        """When it acted, by lead."""
        found: dict[int, list[float]] = {}
        for words in self.words():
            if words[0] == "act":
                found.setdefault(int(words[1]), []).append(float(words[2]))
        return found


@pytest.fixture(params=BOTH)
def plane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Plane]:
    with started(request.param, tmp_path) as server:
        yield server


def next_leader(contenders: list[Contender], after: float) -> Contender:
    """Waits for one to act after a moment."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        for contender in contenders:
            if contender.last_act() > after:
                return contender
        time.sleep(0.05)
    raise AssertionError("nobody leads")


def boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def trouble(plane: Plane, folder: Path, count: int, rounds: int) -> list[Contender]:
    """Stops the leader for longer than the lease, and kills one, in turn."""
    contenders = [Contender(f"c{number}", plane.kubeconfig, folder) for number in range(count)]
    alive = list(contenders)
    try:
        leader = next_leader(alive, 0.0)
        for number in range(rounds):
            # In the middle of its work, wherever that is.
            time.sleep(0.3 + 0.07 * number)
            leader = next_leader(alive, boot() - 0.2)
            others = [contender for contender in alive if contender is not leader]
            if number == rounds - 1:
                leader.end()
                alive = others
                next_leader(alive, boot())
                continue
            leader.send(signal.SIGSTOP)
            next_leader(others, boot() + TIMING.renew_deadline_seconds)
            leader.send(signal.SIGCONT)
        time.sleep(2 * TIMING.lease_seconds)
        next_leader(alive, boot() - 0.2)
    finally:
        for contender in contenders:
            contender.end()
    return contenders


async def history(plane: Plane, stop: asyncio.Event) -> list[dict[str, str]]:
    """Every version of the fencing record, in the server's order."""
    transport = HttpTransport(load_cluster_config(plane.kubeconfig))
    client = Client(transport, requests_per_second=None)
    record = ConfigMap(metadata=ObjectMeta(name=RECORD, namespace=NAMESPACE))
    written: list[dict[str, str]] = []

    async def follow(version: str) -> None:
        options = {"namespace": NAMESPACE, "resource_version": version}
        async with client.watch(ConfigMap, **options) as batches:  # type: ignore[arg-type]
            async for batch in batches:
                written.extend(
                    event.object.data for event in batch
                    if event.object is not None and event.object.metadata.name == RECORD
                )  # fmt: skip

    try:
        await client.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
        created = await client.create(record)
        following = asyncio.create_task(follow(created.metadata.resource_version))
        await stop.wait()
        last = await client.get(ConfigMap, RECORD, NAMESPACE)
        while not written or written[-1] != last.data:
            await asyncio.sleep(0.05)
        following.cancel()
        await asyncio.wait({following})
    finally:
        await transport.close()
    return written


@pytest.mark.parametrize(
    ("count", "rounds"), [(2, 2), pytest.param(3, 5, marks=pytest.mark.real, id="long")]
)
def test_never_two_act_through_kill_and_stop(
    plane: Plane, tmp_path: Path, count: int, rounds: int
) -> None:
    async def whole() -> tuple[list[Contender], list[dict[str, str]]]:
        stop = asyncio.Event()
        watching = asyncio.create_task(history(plane, stop))
        contenders = await asyncio.to_thread(trouble, plane, tmp_path, count, rounds)
        stop.set()
        return contenders, await watching

    contenders, written = asyncio.run(whole())
    # As the contenders saw it: no lead's acts lie between those of another.
    leads = {lead: times for contender in contenders for lead, times in contender.acts().items()}
    assert len(leads) == sum(len(contender.acts()) for contender in contenders) > rounds
    ends = 0.0
    for _, times in sorted(leads.items()):
        assert ends < times[0]
        ends = max(times)
    # As the server saw it: a later lead's write is never followed by an earlier one's.
    tokens = [int(data["token"]) for data in written]
    assert tokens == sorted(tokens)
    assert len({(data["token"], data["by"]) for data in written}) == len(set(tokens)) > rounds
    # And each lead wrote all it believes to have written, in its order.
    for token in set(tokens):
        acts = [int(data["act"]) for data in written if int(data["token"]) == token]
        assert acts == list(range(1, len(acts) + 1))
