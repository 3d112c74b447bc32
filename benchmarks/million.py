# SPDX-License-Identifier: Apache-2.0
"""Very large clusters on one core: ``python -m benchmarks.million --nodes 1000000 --pods 1000000``.

All stock plugins, no API server, no etcd, no kubelets: a pod is decided, reserved and counted on
its node, and on to the next. Nodes and pods are made while the benchmark runs and let go again, so
that only what the scheduler keeps of them takes memory. Cases:

* ``plain``: ten workloads in turn.
* ``bursts``: 1,000 workloads, the replicas of each one after the other.
* ``shuffled``: the same pods in random order (seeded).

Seconds are of this process's CPU: a shared machine's other work is not in them, the making of
objects is told apart. Bytes are resident memory.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.resident import resident_bytes
from koord.api.codec import convert
from koord.api.kinds.pod import Pod
from tests.controllers.scheduler.pods import node
from tests.controllers.scheduler.stock import Stock

TEMPLATES, WORKLOADS, STEP, SEED = 10, 1000, 1000, 42
ZONE = "topology.kubernetes.io/zone"
CASES = ("plain", "bursts", "shuffled")


@dataclass(frozen=True)
class Outcome:
    """One run; seconds of CPU, bytes resident."""

    case: str
    nodes: int
    pods: int
    placed: int
    filling: float
    making: float
    deciding: float
    node_bytes: int
    pod_bytes: int

    def line(self) -> str:
        """A row of the table."""
        rate = self.pods / self.deciding
        return (
            f"{self.case:8} {self.nodes:9,} {self.pods:9,} {self.placed:9,} {self.deciding:9.1f}"
            f" {rate:9,.0f} {self.filling:8.1f} {self.making:8.1f}"
            f" {self.node_bytes:6,} {self.pod_bytes:6,}"
        )


HEAD = (
    f"{'case':8} {'nodes':>9} {'pods':>9} {'placed':>9} {'decided s':>9} {'pods/s':>9}"
    f" {'nodes s':>8} {'pods s':>8} {'B/node':>6} {'B/pod':>6}"
)


def workload(case: str, pods: int) -> Iterator[int]:
    """The workload of each pod in order of arrival."""
    if case == "plain":
        yield from (index % TEMPLATES for index in range(pods))
        return
    replicas = -(-pods // WORKLOADS)
    order: Sequence[int] = range(pods)
    if case == "shuffled":
        order = random.Random(SEED).sample(order, pods)
    yield from (index // replicas for index in order)


def spec(group: int) -> dict[str, Any]:
    """What the pods of a workload ask for."""
    requests = {"cpu": f"{100 + 10 * (group % 97)}m", "memory": f"{128 + 64 * (group % 11)}Mi"}
    container = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
    return {"containers": [container], "schedulerName": "koord-scheduler"}


def pod(index: int, group: int) -> Pod:
    """One replica."""
    meta = {
        "name": f"app-{group}-{index}", "namespace": "default", "uid": f"{index}",
        "labels": {"app": f"app-{group}"},
    }  # fmt: skip
    return convert({"metadata": meta, "spec": spec(group), "status": {}}, Pod, "Pod")


def fill(stock: Stock, nodes: int, progress: Progress) -> None:
    """Nodes of one kind in three zones, put and let go."""
    for index in range(nodes):
        stock.add(node(f"node-{index:07}", labels={ZONE: f"zone-{index % 3}"}))
        if index % STEP == 0:
            progress.show("nodes", index, nodes)


class Progress:
    """A line on stderr, a few times a second at most."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.last = time.monotonic()

    def show(self, what: str, done: int, total: int) -> None:
        """Says how far it is, if it is time to."""
        now = time.monotonic()
        if self.quiet or now - self.last < 0.5:
            return
        self.last = now
        print(f"\r{what}: {done:,} of {total:,} ", end="", file=sys.stderr, flush=True)


def decide(stock: Stock, case: str, pods: int, progress: Progress) -> tuple[int, float, float]:
    """Places all pods; how many fitted, and the seconds of making and of deciding them."""
    groups = workload(case, pods)
    placed, making, deciding = 0, 0.0, 0.0
    for first in range(0, pods, STEP):
        start = time.process_time()
        infos = [
            stock.world.shapes.info(pod(index, next(groups)))
            for index in range(first, min(first + STEP, pods))
        ]
        made = time.process_time()
        for info in infos:
            decision = stock.decider.decide(info)
            if decision.row >= 0 and stock.decider.assume(decision) is None:
                placed += 1
        making, deciding = making + made - start, deciding + time.process_time() - made
        progress.show(case, first, pods)
    return placed, making, deciding


def measure(case: str, nodes: int, pods: int, progress: Progress) -> Outcome:
    """A cluster of its own, filled and then given the pods of a case."""
    stock = Stock()
    at_first, start = resident_bytes(), time.process_time()
    fill(stock, nodes, progress)
    filling, filled = time.process_time() - start, resident_bytes()
    placed, making, deciding = decide(stock, case, pods, progress)
    return Outcome(
        case, nodes, pods, placed, filling, making, deciding,
        (filled - at_first) // nodes, (resident_bytes() - filled) // pods,
    )  # fmt: skip


def main() -> None:
    """Prints a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--case", choices=CASES, nargs="+", default=["plain", "bursts"])
    options = parser.parse_args()
    progress = Progress(quiet=not sys.stderr.isatty())
    print(HEAD, flush=True)
    for case in options.case:
        # A process of its own, which has no memory that another case left.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            outcome = pool.apply(measure, (case, options.nodes, options.pods, progress))
        print(("\r" if not progress.quiet else "") + outcome.line(), flush=True)


if __name__ == "__main__":
    main()
