# SPDX-License-Identifier: Apache-2.0
"""The simulation of co-location in plain Python: a machine at a time, loops."""

from __future__ import annotations

from collections.abc import Sequence

from tests.models import agent_strategies_suppress as suppress

Delay = tuple[float, float]  # free share below which, loss at zero


def loss(free: float, delay: Delay) -> float:
    below, at_zero = delay
    if free >= below and not (below == 0 and free == 0):
        return 0.0
    return at_zero if free <= 0 else at_zero * (1 - free / below)


def grants(
    cpus: tuple[float, float],
    wants: tuple[float, float, float, float],
    tier: tuple[float, float, float] | None,
    delay: Delay,
) -> tuple[float, float, float, float, float]:
    """Shared services, bound services, batch, system and free of one machine; no tier: native."""
    all_shared, all_bound = cpus
    shared, bound, batch, system = wants
    system = min(system, all_shared)
    free_shared, free_bound = all_shared - system, all_bound - min(bound, all_bound)
    bound = min(bound, all_bound)
    if tier is None:
        batch = min(batch, free_shared)
        free_shared -= batch
        shared = min(shared, free_shared)
        free_shared -= shared
    else:
        shared = min(shared, free_shared)
        free_shared -= shared
        most_shared, most_bound = min(tier[0], free_shared), min(tier[1], free_bound)
        batch = min(batch, tier[2], most_shared + most_bound)
        if most_shared + most_bound > 0:
            part = batch / (most_shared + most_bound)
            free_shared -= most_shared * part
            free_bound -= most_bound * part
    free = free_shared + free_bound
    share = free / (all_shared + all_bound)
    if all_shared > 0:
        shared *= 1 - loss(min(share, free_shared / all_shared), delay)
    if all_bound > 0:
        bound *= 1 - loss(min(share, free_bound / all_bound), delay)
    return shared, bound, batch, system, free


class Agent:
    """Suppression of one machine by CPUs, second by second."""

    def __init__(self, cpus: int, bound: int, threshold: int) -> None:
        self.cpus, self.bound, self.threshold = cpus, bound, threshold
        self.count = cpus
        self.before: int | None = None
        self.seen: tuple[float, ...] | None = None

    def second(
        self, wants: tuple[float, float, float, float], delay: Delay
    ) -> tuple[float, float, float, float, float]:
        bound = self.count * self.bound // self.cpus
        tier = (float(self.count - bound), float(bound), float("inf"))
        found = grants((self.cpus - self.bound, self.bound), wants, tier, delay)
        if self.seen is not None:
            self._act(self.seen)
        self.seen = found
        return found

    def _act(self, seen: tuple[float, ...]) -> None:
        services, batch = seen[0] + seen[1], seen[2]
        node = seen[0] + seen[1] + seen[2] + seen[3]
        pods = [(services, False), (batch, True)]
        allowed = suppress.allowed(node, pods, [], 1000 * self.cpus, 0, self.threshold, None)
        milli = suppress.smoothed(allowed, self.before)
        self.before = allowed
        found = suppress.counts(milli, self.count, self.cpus, self.bound, self.cpus - self.bound)
        if sum(found):
            self.count = sum(found)


def offered(
    capacity: tuple[int, int],
    system: tuple[int, int],
    pods: Sequence[tuple[int, int]],
    percents: tuple[int, int],
) -> tuple[int, int]:
    """Batch CPU and memory by usage: milli-cores and bytes."""
    found = []
    for at in (0, 1):
        margin = int(capacity[at] * ((100 - percents[at]) / 100))
        used = sum(pod[at] for pod in pods)
        found.append(max(0, capacity[at] - margin - system[at] - used))
    return found[0], found[1]


def overfull(
    held: Sequence[float], capacity: Sequence[int], tasks: Sequence[tuple[int, int]]
) -> set[int]:
    """Numbers of the tasks (machine, bytes) that go, the largest first."""
    gone: set[int] = set()
    for machine, bytes_ in enumerate(held):
        left = bytes_
        here = [number for number, task in enumerate(tasks) if task[0] == machine]
        for number in sorted(here, key=lambda number: (-tasks[number][1], number)):
            if left > capacity[machine]:
                left -= tasks[number][1]
                gone.add(number)
    return gone
