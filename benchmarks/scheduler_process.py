# SPDX-License-Identifier: Apache-2.0
"""koord-scheduler as a process of its own on a real kube-apiserver: CPU a pod, by stage.

``python -m benchmarks.scheduler_process --nodes 1000 --pods 3000 --runs 3``
``python -m benchmarks.scheduler_process --other /path/to/another/.venv/bin/python``, both in turn
``python -m benchmarks.scheduler_process --stages``, and where that CPU time goes
``python -m benchmarks.scheduler_process --scenario rich``, pods no two of which are alike

A fresh etcd and kube-apiserver for each run, no limit on client requests; equal pods, if none else
are asked for. The CPU time is of the scheduler's process alone, user and system told apart, from
the first create to the last binding and from there until all events are written; what deciding
takes is the scheduler's own word. Where ``--other`` names the interpreter of another installation,
runs of that one and of this come in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import signal
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.cpu_stages import STAGES
from benchmarks.peer.arena import PODS, Watcher, create, events_there, fill, quiet, settle
from benchmarks.peer.rows import Row
from benchmarks.peer.scenarios import SCENARIOS
from benchmarks.peer.sides import fresh_plane, koord_scheduler

_TICKS = os.sysconf("SC_CLK_TCK")
# Until the scheduler has listed the nodes.
_START_SECONDS = 5.0


class Used(NamedTuple):
    """CPU seconds of a process."""

    user: float
    system: float

    def since(self, before: Used) -> Used:
        """What came after."""
        return Used(self.user - before.user, self.system - before.system)


class Cost(NamedTuple):
    """What a run took, in CPU seconds of the scheduler's process.

    Attributes:
        pods: that were bound.
        events: that were written.
        binding: until the last binding.
        after: from then until all events were written.
        deciding: by the scheduler's own word, a part of ``binding``.
        stages: samples by stage, where they were asked for.
        per_second: pods by the wall clock, from the first create to the last binding.
    """

    pods: int
    events: int
    binding: Used
    after: Used
    deciding: float
    per_second: float
    stages: Mapping[str, int] = {}


def _used(process: int) -> Used:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return Used(int(fields[11]) / _TICKS, int(fields[12]) / _TICKS)


async def _run(row: Row, interpreter: str, by_stage: bool) -> Cost:
    async with fresh_plane() as (made, client):
        await fill(client, row)
        samples = made.folder / "stages.json"
        under = ("benchmarks.cpu_stages", str(samples)) if by_stage else ()
        with koord_scheduler(made, row, interpreter, under) as scheduler:
            await asyncio.sleep(_START_SECONDS)
            await scheduler.ready()
            await settle(client, row, scheduler)
            async with Watcher(client) as watcher:
                events = await events_there(client)
                begun, decided = _used(scheduler.pid), await scheduler.decision_seconds()
                if by_stage:
                    os.kill(scheduler.pid, signal.SIGUSR2)
                pods = [row.scenario.pod(f"measured-{number:06}") for number in range(row.pods)]
                began = time.perf_counter()
                sent = await create(client, PODS, pods)
                await watcher.wait_for(sent)
                bound = _used(scheduler.pid)
                events = await quiet(scheduler.pid, client) - events
                ended = _used(scheduler.pid)
                if by_stage:
                    os.kill(scheduler.pid, signal.SIGUSR2)
                decided = await scheduler.decision_seconds() - decided
                seen = [watcher.bound[key] for key in sent if key in watcher.bound]
        stages = json.loads(samples.read_text(encoding="utf-8")) if by_stage else {}
    rate = len(seen) / (max(seen, default=math.inf) - began)
    return Cost(len(seen), events, bound.since(begun), ended.since(bound), decided, rate, stages)


def _line(name: str, costs: Sequence[Cost]) -> str:
    """Medians over runs, in milliseconds a pod."""

    def median(amounts: Sequence[float], digits: int = 2) -> str:
        middle, least, most = statistics.median(amounts), min(amounts), max(amounts)
        return f"{middle:.{digits}f} ({least:.{digits}f} to {most:.{digits}f})"

    to_binding = [1e3 * sum(each.binding) / each.pods for each in costs]
    after = [1e3 * sum(each.after) / each.pods for each in costs]
    whole = [one + other for one, other in zip(to_binding, after, strict=True)]
    system = [1e3 * (each.binding.system + each.after.system) / each.pods for each in costs]
    deciding = [1e3 * each.deciding / each.pods for each in costs]
    rates = [each.per_second for each in costs]
    return (
        f"{name}: to the last binding {median(to_binding)}, after {median(after)}, "
        f"in all {median(whole)}; of it in the kernel {median(system)}, "
        f"deciding {median(deciding)}; {median(rates, 0)} pods/s"
    )


def _stages(costs: Sequence[Cost]) -> list[str]:
    """The CPU time of all runs by stage, in milliseconds a pod and percent."""
    samples = {name: sum(cost.stages.get(name, 0) for cost in costs) for name in STAGES}
    whole = sum(samples.values())
    spent = statistics.fmean(1e3 * sum((*each.binding, *each.after)) / each.pods for each in costs)
    return [
        f"  {name}: {spent * count / whole:.3f} ({100 * count / whole:.0f} %)"
        for name, count in sorted(samples.items(), key=lambda item: -item[1])
    ]


def main() -> int:
    """See the head of this file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--nodes", type=int, default=1000)
    add("--pods", type=int, default=3000)
    add("--scenario", default="basic", choices=SCENARIOS, help="what is scheduled (make peer)")
    add("--runs", type=int, default=3)
    add("--other", type=Path, help="interpreter of another installation, in turn with this one")
    add("--stages", action="store_true", help="where the CPU time goes too; costs a little itself")
    wish = parser.parse_args()
    row = Row(wish.scenario, wish.nodes, wish.pods)
    sides = {"this": sys.executable}
    if wish.other is not None:
        sides = {"other": str(wish.other.absolute()), **sides}
    costs: dict[str, list[Cost]] = {name: [] for name in sides}
    for number in range(wish.runs):
        for name, interpreter in sides.items():
            cost = asyncio.run(_run(row, interpreter, wish.stages))
            costs[name].append(cost)
            told = f"run {number + 1}: {cost.pods} bound, {cost.events} events"
            print(_line(f"{name}, {told}", [cost]), file=sys.stderr, flush=True)
    print("CPU ms a pod of koord-scheduler, median (least to most)")
    for name, several in costs.items():
        print(_line(name, several))
        if wish.stages:
            print("\n".join(_stages(several)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
