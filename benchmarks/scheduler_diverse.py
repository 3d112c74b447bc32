# SPDX-License-Identifier: Apache-2.0
"""Pods that differ, decided from their JSON on: ``python -m benchmarks.scheduler_diverse``.

By stage, in seconds of this process's CPU, after a tenth of the pods has warmed what is kept, or as
many as ``--before`` says, so that a mix has brought most of its workloads, and with Python's
garbage collector set as the program sets it: decoding as a watch does it (with ``--apart`` nothing
that is equal is shared), the pod's shape, the decision, holding the pod there; with ``--profile
shipped`` also the loop around these, from the queue to the end of the binding. ``--calls 30`` adds
the functions that took longest.
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

from benchmarks.diverse_pods import CASES, KOORD_KINDS, SEED, WORKLOADS, ZONE, ZONES, documents
from benchmarks.scheduler_profile import Shipped
from benchmarks.scheduler_restart import Split
from koord.api.kinds.pod import Pod
from koord.base.memory.garbage_collection import collect_rarely
from koord.controllers.cluster.trimmed_pods import TrimmedPod
from koord.kube.codec.decoder import decoder_of
from koord.kube.codec.interner import Interner
from koord.kube.codec.page_reader import PageReader
from koord.kube.requests.options import resolve
from tests.controllers.scheduler.pods import node
from tests.controllers.scheduler.stock import Stock

PROFILES = ("stock", "shipped")
_CLUSTERS = {"binding": "numa", "gpushare": "gpushare", "reservation": "reservation",
             "quota": "quota", "trace": "trace"}  # fmt: skip
_GPUS = {"koordinator.sh/gpu-core": "800", "koordinator.sh/gpu-memory-ratio": "800"}


def stock_cluster(nodes: int, case: str = "") -> Stock:
    """The stock plugins over empty nodes in three zones; larger ones with GPUs for a trace."""
    stock = Stock()
    traced = case == "trace"
    cpu, memory, more = ("128", "1Ti", _GPUS) if traced else ("64", "256Gi", {})
    for index in range(nodes):
        labels = {ZONE: f"zone-{index % ZONES}", "disk": "ssd" if index % 2 else "hdd"}
        made = node(f"node-{index:05}", cpu, memory, pods="500", labels=labels, allocatable=more)
        stock.add(made)
    return stock


class Watch:
    """Decodes pods as an informer of the scheduler does that watches them: events one by one, of
    which equal parts are one object.

    Args:
        share: whether they are; without that each pod is decoded as if it were the first.
    """

    def __init__(self, share: bool = True) -> None:
        self._decoder = decoder_of(resolve(Pod)[0], TrimmedPod)
        self._reader = PageReader(TrimmedPod, Interner()) if share else None

    def pods(self, bodies: Iterable[bytes]) -> list[Pod]:
        """Pods of their JSON.

        Raises:
            ApiError: an event is none.
        """
        lines = [b'{"type":"ADDED","object":%s}' % body for body in bodies]
        events, error = self._decoder.events(lines, self._reader)
        if error is not None:
            raise error
        return [pod for event in events if (pod := event.object) is not None]


def decoded(bodies: Iterable[bytes]) -> list[Pod]:
    """Pods that share nothing."""
    return Watch(share=False).pods(bodies)


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


def _drawn(case: str, pods: int, before: int | None, workloads: int) -> tuple[list[bytes], int]:
    """Pods, and how many of them come before those that are measured."""
    warm = max(1, pods // 10) if before is None else before
    whole = pods if before is None else before + pods
    return list(documents(case, whole, workloads=workloads)), warm


def measure_stock(
    case: str,
    nodes: int,
    pods: int,
    around: Any = nullcontext,
    share: bool = True,
    before: int | None = None,
    workloads: int = WORKLOADS,
) -> Split:
    """By stage, what the stock plugins take."""
    stock, watch = stock_cluster(nodes, case), Watch(share)
    bodies, warm = _drawn(case, pods, before, workloads)
    place(stock, watch.pods(bodies[:warm]))
    collect_rarely()
    split = Split()
    with around():
        with split.step("decode"):
            waiting = watch.pods(bodies[warm:])
        collect_rarely()
        place(stock, waiting, split)
    return split


def measure_shipped(
    case: str,
    nodes: int,
    pods: int,
    around: Any = nullcontext,
    share: bool = True,
    before: int | None = None,
    workloads: int = WORKLOADS,
    reported: bool = False,
) -> Split:
    """The same of the shipped profile, with the queue, the loop and the binding."""

    async def run() -> Split:
        made = Shipped(_CLUSTERS.get(case, "shipped"), nodes, reported)
        watch = Watch(share)
        bodies, warm = _drawn(case, pods, before, workloads)
        await made.place_pods(watch.pods(bodies[:warm]))
        collect_rarely()
        split = Split()
        with around():
            with split.step("decode"):
                waiting = watch.pods(bodies[warm:])
            collect_rarely()
            _time(made, split)
            decoded_seconds = sum(split.seconds.values())
            with split.step("whole"):
                await made.place_pods(waiting)
        whole = split.seconds.pop("whole")
        split.add("queue, loop, binding", whole - (sum(split.seconds.values()) - decoded_seconds))
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
    parser.add_argument("--before", type=int, help="pods that are placed before (a tenth)")
    parser.add_argument("--workloads", type=int, default=WORKLOADS, help="of zipf and turns")
    parser.add_argument(
        "--reported", action="store_true", help="shipped: NodeMetrics tell the usage of all nodes"
    )
    parser.add_argument("--apart", action="store_true", help="pods whose equal parts are not one")
    options = parser.parse_args()
    around = (lambda: _Calls(options.calls)) if options.calls else nullcontext
    print(f"{options.nodes} nodes, {options.pods} pods, seed {SEED}; us of CPU a pod by stage")
    for profile in options.profile:
        for case in options.case:
            if profile == "stock" and case in KOORD_KINDS:
                continue
            more = {"reported": True} if options.reported and profile == "shipped" else {}
            split = MEASURES[profile](
                case, options.nodes, options.pods, around, not options.apart, options.before,
                options.workloads, **more,
            )  # fmt: skip
            each = {name: s / split.pods * 1e6 for name, s in split.seconds.items()}
            stages = ", ".join(f"{name} {us:.1f}" for name, us in each.items())
            rate = 1e6 / (sum(each.values()) - each["decode"])
            print(f"{profile:8} {case:13} {rate:8.0f} pods/s: {stages}", flush=True)


if __name__ == "__main__":
    main()
