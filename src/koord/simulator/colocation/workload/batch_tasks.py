# SPDX-License-Identifier: Apache-2.0
"""The tasks of batch jobs over time: who waits, who runs where, what work is left.

Who submits the jobs of a kind makes pods in the order of arrival, and holds back the rest while too
many of them wait for a machine. A task that is evicted loses its work and goes to the end of the
line.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from koord.simulator.colocation.node_model.cpu_contention import summed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.simulator.colocation.inputs.scenario import BatchJobSpec
    from koord.simulator.colocation.results.result import Floats, Ints
    from koord.simulator.colocation.workload.batch_arrivals import BatchArrivals

NOWHERE = -1
_DONE = 1e-9


class BatchTasks:
    """All tasks of a run.

    Args:
        arrivals: see :func:`koord.simulator.colocation.workload.batch_arrivals.arrivals`.
        kinds: of jobs.
        machines: how many there are.

    Attributes:
        running: numbers of the tasks that run, in the order in which they began.
        machine: row of the machine of each task, :data:`NOWHERE` while it does not run.
        left: work that is left of each, core-seconds.
        done: what each has done in its present attempt, core-seconds.
        began: when the present attempt began, seconds.
        started: whether it ever began; ``waited`` is how long that took.
        ended: when each finished, NaN until then.
        evicted: how often each lost its work.
        wasted: core-seconds that were lost.
    """

    def __init__(self, arrivals: BatchArrivals, kinds: list[BatchJobSpec], machines: int) -> None:
        self.arrivals = arrivals
        self._machines = machines
        self._most = [kind.most_pending for kind in kinds]
        self._lines: list[deque[int]] = [deque() for _ in kinds]
        self._pending = [0] * len(kinds)
        self._next = 0
        self._kind = arrivals.kind.tolist()
        rows = arrivals.rows
        self.running: Ints = np.empty(0, np.int64)
        self.machine: Ints = np.full(rows, NOWHERE, np.int64)
        self.left = arrivals.work.copy()
        self.done = np.zeros(rows)
        self.began = np.full(rows, np.nan)
        self.waited = np.full(rows, np.nan)
        self.ended = np.full(rows, np.nan)
        self.evicted = np.zeros(rows, np.int64)
        self.wasted = np.zeros(rows)

    @property
    def waiting(self) -> int:
        """Tasks that have arrived and neither run nor have finished."""
        return sum(map(len, self._lines)) + sum(self._pending)

    def arrive(self, now: float) -> None:
        """Takes in whoever has come by now."""
        seconds, kinds = self.arrivals.seconds, self._kind
        end = int(np.searchsorted(seconds, now, "right"))
        for task in range(self._next, end):
            self._lines[kinds[task]].append(task)
        self._next = max(self._next, end)

    def due(self) -> list[int]:
        """Tasks whose pods are made now: as many of each kind as there is room in the queue."""
        found: list[int] = []
        for kind, line in enumerate(self._lines):
            for _ in range(min(len(line), self._most[kind] - self._pending[kind])):
                found.append(line.popleft())
                self._pending[kind] += 1
        return found

    def begin(self, placed: list[tuple[int, int]], now: float) -> None:
        """Tasks run on machines from now on."""
        if not placed:
            return
        tasks = np.array([task for task, _ in placed], np.int64)
        self.machine[tasks] = [row for _, row in placed]
        self.began[tasks] = now
        first = np.isnan(self.waited[tasks])
        self.waited[tasks[first]] = now - self.arrivals.seconds[tasks[first]]
        for task in tasks.tolist():
            self._pending[self._kind[task]] -= 1
        self.running = np.concatenate([self.running, tasks])

    def wanted(self, step_seconds: float) -> Floats:
        """Cores that each running task wants in the next step: what is left, at the end."""
        rows = self.running
        most: Floats = self.left[rows] / step_seconds
        return np.minimum(self.arrivals.cpu_cores[rows], most)

    def granted(self, wanted: Floats, by_machine: Floats, wanted_by_machine: Floats) -> Floats:
        """Cores that each running task gets.

        Where a machine has too little every task gets the same part of what it wants while it runs,
        so that one with little left ends. What such a task does not take nobody gets.

        Args:
            wanted: by each, see :meth:`wanted`.
            by_machine: granted to all tasks of a machine.
            wanted_by_machine: by all tasks of a machine.
        """
        full = self.arrivals.cpu_cores[self.running]
        part = np.ones_like(by_machine)
        all_full = self.by_machine(full)
        short = by_machine < wanted_by_machine
        np.divide(by_machine, all_full, out=part, where=short & (all_full > 0))
        found: Floats = np.minimum(wanted, full * part[self.machine[self.running]])
        return found

    def by_machine(self, amounts: NDArray[np.float64]) -> Floats:
        """Amounts of the running tasks added up by machine."""
        return summed(self.machine[self.running], amounts, self._machines)

    def work(self, cores: Floats, speed: Floats, now: float, step_seconds: float) -> Ints:
        """A step of work.

        Args:
            cores: that each running task got.
            speed: work a core-second, by machine.
            now: seconds, at the end of the step.
            step_seconds: its length.

        Returns:
            Tasks that have finished; they run no more.
        """
        rows = self.running
        done = cores * step_seconds
        self.done[rows] += done
        self.left[rows] -= done * speed[self.machine[rows]]
        over = self.left[rows] <= _DONE * self.arrivals.work[rows]
        finished: Ints = rows[over]
        if len(finished):
            self.ended[finished] = now
            self.running = rows[~over]
        return finished

    def over(self, tasks: Ints) -> NDArray[np.bool_]:
        """Which of some tasks have finished."""
        found: NDArray[np.bool_] = ~np.isnan(self.ended[tasks])
        return found

    def evict(self, tasks: list[int]) -> None:
        """Running tasks lose their machine and their work, and wait again."""
        if not tasks:
            return
        gone = np.array(tasks, np.int64)
        self.wasted[gone] += self.done[gone]
        self.done[gone] = 0.0
        self.left[gone] = self.arrivals.work[gone]
        self.machine[gone] = NOWHERE
        self.evicted[gone] += 1
        self.running = self.running[~np.isin(self.running, gone)]
        for task in tasks:
            self._lines[self._kind[task]].append(task)
