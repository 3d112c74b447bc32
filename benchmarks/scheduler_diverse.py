# SPDX-License-Identifier: Apache-2.0
"""Pods that differ, decided from their JSON on: ``python -m benchmarks.scheduler_diverse``.

By stage, in seconds of this process's CPU, after a tenth of the pods has warmed what is kept, and
with Python's garbage collector set as the program sets it: decoding, the pod's shape, the decision,
holding the pod there; with ``--profile shipped`` also the loop around these, from the queue to the
end of the binding. ``--calls 30`` adds the functions that took longest.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from benchmarks.diverse_pods import CASES, KOORD_KINDS, SEED, ZONE, ZONES, documents
from benchmarks.scheduler_profile import Shipped
from benchmarks.scheduler_restart import Split
from koord.api.kinds.pod import Pod
from koord.base.garbage_collection import collect_rarely
from koord.controllers.cluster.trimmed_pods import TrimmedPod
from koord.kube.codec.decoder import decoder_of
from koord.kube.requests.options import resolve
from tests.controllers.scheduler.pods import node
from tests.controllers.scheduler.stock import Stock

PROFILES = ("stock", "shipped")
_CLUSTERS = {"binding": "numa", "gpushare": "gpushare", "reservation": "reservation",
             "quota": "quota"}  # fmt: skip


def stock_cluster(nodes: int) -> Stock:
    """The stock plugins over empty nodes in three zones."""
    stock = Stock()
    for index in range(nodes):
        labels = {ZONE: f"zone-{index % ZONES}", "disk": "ssd" if index % 2 else "hdd"}
        made = node(f"node-{index:05}", cpu="64", memory="256Gi", pods="500", labels=labels)
        stock.add(made)
    return stock


def decoded(bodies: Iterable[bytes]) -> list[Pod]:
    """Pods as an informer of the scheduler has them."""
    decoder = decoder_of(resolve(Pod)[0], TrimmedPod)
    return [decoder.one(body) for body in bodies]


def place(stock: Stock, pods: Iterable[Pod], split: Split | None = None) -> None:
    """Decides and holds pods one after the other.

    Raises:
        RuntimeError: one fits nowhere.
    """
    split = split or Split()
    decider, shapes = stock.decider, stock.world.shapes
    clock = time.process_time
    for pod in pods:
        start = clock()
        info = shapes.info(pod)
        shaped = clock()
        decision = decider.decide(info)
        decided = clock()
        if decision.row < 0 or decider.assume(decision) is not None:
            raise RuntimeError(f"{info.key} was not placed")
        held = clock()
        split.pods += 1
        split.add("shape", shaped - start)
        split.add("decide", decided - shaped)
        split.add("hold", held - decided)


def measure_stock(case: str, nodes: int, pods: int, around: Any = nullcontext) -> Split:
    """By stage, what the stock plugins take."""
    stock = stock_cluster(nodes)
    bodies = list(documents(case, pods))
    warm = max(1, pods // 10)
    place(stock, decoded(bodies[:warm]))
    collect_rarely()
    split = Split()
    with around():
        with split.step("decode"):
            waiting = decoded(bodies[warm:])
        collect_rarely()
        place(stock, waiting, split)
    return split


def measure_shipped(case: str, nodes: int, pods: int, around: Any = nullcontext) -> Split:
    """The same of the shipped profile, with the queue, the loop and the binding."""

    async def run() -> Split:
        made = Shipped(_CLUSTERS.get(case, "shipped"), nodes)
        bodies = list(documents(case, pods))
        warm = max(1, pods // 10)
        await made.place_pods(decoded(bodies[:warm]))
        collect_rarely()
        split = Split()
        with around():
            with split.step("decode"):
                waiting = decoded(bodies[warm:])
            collect_rarely()
            _time(made, split)
            before = sum(split.seconds.values())
            with split.step("whole"):
                await made.place_pods(waiting)
        whole = split.seconds.pop("whole")
        split.add("queue, loop, binding", whole - (sum(split.seconds.values()) - before))
        split.pods = len(waiting)
        return split

    return asyncio.run(run())


def _time(made: Shipped, split: Split) -> None:
    """Has the stages within a place timed."""
    (decider,) = made.scheduler.loop.parts.deciders.values()
    stages: Sequence[tuple[Any, str, str]] = (
        (made.world.shapes, "_by_content", "shape"),
        (decider, "attempt", "decide"),
        (decider, "assume", "hold"),
    )
    for owner, name, stage in stages:
        setattr(owner, name, _timed(getattr(owner, name), stage, split))


def _timed(function: Callable[..., Any], stage: str, split: Split) -> Callable[..., Any]:
    def call(*args: Any, **more: Any) -> Any:
        start = time.process_time()
        try:
            return function(*args, **more)
        finally:
            split.add(stage, time.process_time() - start)

    return call


MEASURES: dict[str, Callable[..., Split]] = {"stock": measure_stock, "shipped": measure_shipped}


class _Calls(AbstractContextManager["_Calls"]):
    """Profiles what it is around, and prints the functions that took longest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._profile = cProfile.Profile(time.process_time)

    def __enter__(self) -> _Calls:
        self._profile.enable()
        return self

    def __exit__(self, *raised: object) -> None:
        self._profile.disable()
        pstats.Stats(self._profile).sort_stats("tottime").print_stats(self._most)


def main() -> None:
    """Prints a table by stage for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--profile", choices=PROFILES, nargs="+", default=list(PROFILES))
    parser.add_argument("--case", choices=CASES, nargs="+", default=list(CASES))
    parser.add_argument("--calls", type=int, default=0, help="profile, print so many functions")
    options = parser.parse_args()
    around = (lambda: _Calls(options.calls)) if options.calls else nullcontext
    print(f"{options.nodes} nodes, {options.pods} pods, seed {SEED}; us of CPU a pod by stage")
    for profile in options.profile:
        for case in options.case:
            if profile == "stock" and case in KOORD_KINDS:
                continue
            split = MEASURES[profile](case, options.nodes, options.pods, around)
            each = {name: s / split.pods * 1e6 for name, s in split.seconds.items()}
            stages = ", ".join(f"{name} {us:.1f}" for name, us in each.items())
            rate = 1e6 / (sum(each.values()) - each["decode"])
            print(f"{profile:8} {case:13} {rate:8.0f} pods/s: {stages}", flush=True)


if __name__ == "__main__":
    main()
