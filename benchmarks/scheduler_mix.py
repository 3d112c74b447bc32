# SPDX-License-Identifier: Apache-2.0
"""What pods of a mix pay for their decision, by kind: ``python -m benchmarks.scheduler_mix``.

Pods of ``zipf`` (:mod:`benchmarks.diverse_pods`) with stock plugins, after so many others that most
of its workloads have come. By what a pod has beside requests, and by how many pods came since the
last of its shape: how many are so, their part of all time, and microseconds of CPU a pod by stage
of the decision. What times are taken with is in them, some 3 us a pod.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.diverse_pods import documents
from benchmarks.scheduler_diverse import Watch, place, stock_cluster
from koord.base.memory.garbage_collection import collect_rarely
from koord.controllers.cluster.pods import PodInfo
from tests.controllers.scheduler.stock import Stock

LATELY = 1000
"""A shape of which a pod came within so many pods came lately."""


class Stages:
    """Times the stages of a decision, each without those within it.

    Args:
        stock: whose.
    """

    def __init__(self, stock: Stock) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._within: list[float] = []
        decider: Any = stock.decider
        cache: Any = decider.evaluator
        bounds: Any = cache._bounds
        for owner, name, stage in (
            (decider, "decide", "the rest"),
            (decider, "_pre_filter", "PreFilter"),
            (cache, "sources", "who takes part"),
            (cache, "_others", "who applies"),
            (cache, "_row_answers", "answers as bits"),
            (cache, "entry", "kept answers"),
            (bounds, "read", "bounds are read"),
            (bounds, "search", "search"),
        ):
            setattr(owner, name, self._timed(getattr(owner, name), stage))

    def _timed(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        clock, within = time.thread_time, self._within

        def call(*args: Any) -> Any:
            within.append(0.0)
            start = clock()
            try:
                return function(*args)
            finally:
                took = clock() - start
                self.seconds[stage] += took - within.pop()
                if within:
                    within[-1] += took

        return call


def kind_of(pod: PodInfo) -> str:
    """What a pod of the mix has beside requests."""
    affinity = pod.pod.spec.affinity
    if affinity is None:
        return "plain"
    return "node affinity" if affinity.node_affinity is not None else "selectors"


def split(nodes: int, before: int, pods: int) -> Iterator[tuple[str, str, dict[str, float]]]:
    """By pod its kind, when its shape last came, and its seconds by stage."""
    stock, watch = stock_cluster(nodes), Watch()
    bodies = list(documents("zipf", before + pods))
    shapes, decider = stock.world.shapes, stock.decider
    came: dict[int, int] = {}
    for number, pod in enumerate(watch.pods(bodies[:before])):
        place(stock, [pod])
        came[shapes.info(pod).shape.id] = number
    waiting = watch.pods(bodies[before:])
    collect_rarely()
    stages = Stages(stock)
    for number, pod in enumerate(waiting, before):
        info = shapes.info(pod)
        last = came.get(info.shape.id)
        came[info.shape.id] = number
        age = "new" if last is None else "lately" if number - last <= LATELY else "long ago"
        stages.seconds.clear()
        decision = decider.decide(info)
        decider.assume(decision)
        yield kind_of(info), age, dict(stages.seconds)


def main() -> None:
    """Prints a row a kind of pod and a column a stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--before", type=int, default=20_000, help="pods that are placed before")
    parser.add_argument("--pods", type=int, default=3000)
    options = parser.parse_args()
    by_kind: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    for kind, age, seconds in split(options.nodes, options.before, options.pods):
        by_kind[kind, age].append(seconds)
        by_kind["all", ""].append(seconds)
    every = sum(sum(seconds.values()) for seconds in by_kind["all", ""])
    print(f"{options.nodes} nodes, {options.pods} pods after {options.before}; us of CPU a pod")
    for (kind, age), pods in sorted(by_kind.items()):
        stages: dict[str, float] = defaultdict(float)
        for seconds in pods:
            for stage, its in seconds.items():
                stages[stage] += its
        whole = sum(stages.values())
        each = ", ".join(f"{name} {its / len(pods) * 1e6:.1f}" for name, its in stages.items())
        parts = f"{len(pods) / options.pods:4.0%} of pods, {whole / every:4.0%} of time"
        print(f"{kind:13} {age:8} {parts}, {whole / len(pods) * 1e6:6.1f}: {each}", flush=True)


if __name__ == "__main__":
    main()
