# SPDX-License-Identifier: Apache-2.0
"""Batch jobs: when they come, and what becomes of their tasks.

All is drawn before a run begins, so that two runs of a seed have the same arrivals. A task's work
is CPU time: its duration times what it uses when it gets all that it wants. So a task that gets
half takes twice as long.
"""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.base import rng
from koord.base.documents import read_text
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from koord.simulator.colocation.inputs.scenario import (
        BatchJobSpec,
        Scenario,
        TaskCountSpec,
        UsageShare,
    )
    from koord.simulator.colocation.results.result import Floats, Ints

_LEAST_SHARE = 0.01
_COLUMNS = ("seconds", "tasks", "duration_seconds")
_MOST_ARRIVALS = 5_000_000


class BatchArrivals(NamedTuple):
    """All tasks of a run in the order of their arrival, a row a task.

    Attributes:
        kind: of job, in the scenario's order.
        job: number of the job.
        seconds: of the arrival, since the start.
        cpu_cores: used when it gets all it wants.
        memory_bytes: held while it runs.
        work: core-seconds.
    """

    kind: Ints
    job: Ints
    seconds: Floats
    cpu_cores: Floats
    memory_bytes: Ints
    work: Floats

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self[0])


def arrivals(scenario: Scenario, seed: int, beside: Path | None = None) -> BatchArrivals:
    """All tasks of a run.

    Args:
        scenario: kinds of jobs, and for how long.
        seed: every kind has streams of its own.
        beside: the folder of the scenario, where arrivals files are; the current one if None.

    Raises:
        KoordError: an arrivals file that is unreadable or has a wrong row.
    """
    factor = load_factor(scenario)
    found = [
        _of_kind(scenario, index, factor, seed, beside) for index in range(len(scenario.batch))
    ]
    if not found:
        none = np.empty(0)
        return BatchArrivals(none.astype(np.int64), none.astype(np.int64), none, none,
                        none.astype(np.int64), none)  # fmt: skip
    jobs = np.cumsum([0, *(int(each.job.max(initial=-1)) + 1 for each in found)])
    shifted = [
        each._replace(job=each.job + first) for each, first in zip(found, jobs, strict=False)
    ]
    joined = [np.concatenate(columns) for columns in zip(*shifted, strict=True)]
    order = np.argsort(joined[2], kind="stable")
    return BatchArrivals(*(column[order] for column in joined))


def load_factor(scenario: Scenario) -> float:
    """By how much Poisson arrivals are multiplied; see ``batchRequestShareOfClusterCPU``."""
    if not scenario.batch_request_share:
        return 1.0
    cores = sum(offered_cores(kind) for kind in scenario.batch)
    return scenario.batch_request_share * scenario.cluster_cores / cores if cores else 1.0


def offered_cores(kind: BatchJobSpec) -> float:
    """What tasks of a kind request on average while they run at full grant, if all run at once."""
    spread = kind.duration_seconds
    seconds = spread.median * math.exp(spread.sigma**2 / 2)
    tasks = kind.arrivals_per_hour / 3600 * mean_tasks(kind.tasks)
    return tasks * seconds * kind.request.cpu_milli / 1000


def mean_tasks(tasks: TaskCountSpec) -> float:
    """Expected tasks of a job: the sum over k of the chance of at least k."""
    k = np.arange(tasks.min + 1, tasks.max + 1, dtype=np.float64)
    return tasks.min + float(np.sum(_tail(k, tasks)))


def _tail(k: Floats, tasks: TaskCountSpec) -> Floats:
    """The chance that a truncated Pareto variable is at least k."""
    a, cut = tasks.shape, (tasks.min / tasks.max) ** tasks.shape
    if tasks.min == tasks.max:
        return np.zeros_like(k)
    found: Floats = ((tasks.min / k) ** a - cut) / (1 - cut)
    return found


def _of_kind(
    scenario: Scenario, index: int, factor: float, seed: int, beside: Path | None
) -> BatchArrivals:
    kind = scenario.batch[index]
    if kind.arrivals_file:
        path = beside / kind.arrivals_file if beside is not None else _path(kind.arrivals_file)
        times, tasks, seconds = _read(path, scenario.hours * 3600)
    else:
        times = _poisson(kind, scenario.hours * 3600, factor, seed)
        tasks = _sizes(kind.tasks, len(times), rng.numpy_stream(seed, "batch", kind.name, "tasks"))
        seconds = None
    count = int(tasks.sum())
    draws = rng.numpy_stream(seed, "batch", kind.name, "durations")
    if seconds is None:
        spread = kind.duration_seconds
        seconds = spread.median * np.exp(spread.sigma * draws.standard_normal(count))
    cores = kind.request.cpu_milli / 1000
    used = cores * _shares(kind.cpu_use, count, rng.numpy_stream(seed, "batch", kind.name, "cpu"))
    memory_draws = rng.numpy_stream(seed, "batch", kind.name, "memory")
    memory = kind.request.memory_bytes * _shares(kind.memory_use, count, memory_draws)
    return BatchArrivals(
        np.full(count, index, np.int64),
        np.repeat(np.arange(len(times)), tasks),
        np.repeat(times, tasks),
        used,
        memory.astype(np.int64),
        used * seconds,
    )


def _poisson(kind: BatchJobSpec, seconds: float, factor: float, seed: int) -> Floats:
    """Times of jobs, ascending."""
    mean = kind.arrivals_per_hour / 3600 * seconds * factor
    draws = rng.numpy_stream(seed, "batch", kind.name, "arrivals")
    return np.sort(draws.random(int(draws.poisson(mean)))) * seconds


def _sizes(tasks: TaskCountSpec, count: int, draws: rng.NumpyGenerator) -> Ints:
    """Tasks of each job, by the inverse of the truncated Pareto distribution."""
    a, cut = tasks.shape, (tasks.min / tasks.max) ** tasks.shape
    found = tasks.min * (1 - draws.random(count) * (1 - cut)) ** (-1 / a)
    whole: Ints = np.clip(np.floor(found), tasks.min, tasks.max).astype(np.int64)
    return whole


def _shares(use: UsageShare, count: int, draws: rng.NumpyGenerator) -> Floats:
    found: Floats = np.clip(use.mean + use.sigma * draws.standard_normal(count), _LEAST_SHARE, 1.0)
    return found


def _path(name: str) -> Path:
    from pathlib import Path

    return Path(name)


def _read(path: Path, until_seconds: float) -> tuple[Floats, Ints, Floats]:
    """Times and tasks of the jobs of a file that come in time, and durations of their tasks."""
    rows = list(csv.reader(io.StringIO(read_text(path))))
    if not rows or tuple(rows[0]) != _COLUMNS:
        value = ",".join(rows[0]) if rows else ""
        raise KoordError(f"{path}:1", "", value, "the columns " + ",".join(_COLUMNS))
    jobs = [_job(f"{path}:{number}", row) for number, row in enumerate(rows[1:], 2) if row]
    jobs = sorted((job for job in jobs if job[0] < until_seconds), key=lambda job: job[0])
    tasks = np.array([job[1] for job in jobs], np.int64)
    if tasks.sum() > _MOST_ARRIVALS:
        raise KoordError(str(path), "tasks", int(tasks.sum()), f"at most {_MOST_ARRIVALS} in all")
    durations: NDArray[np.float64] = np.array([job[2] for job in jobs], np.float64)
    return np.array([job[0] for job in jobs], np.float64), tasks, np.repeat(durations, tasks)


def _job(where: str, row: list[str]) -> tuple[float, int, float]:
    if len(row) != len(_COLUMNS):
        raise KoordError(where, "", ",".join(row), "the columns " + ",".join(_COLUMNS))
    bounds = ((0.0, math.inf), (1.0, 100_000.0), (1.0, 1e7))
    values = []
    for name, text, (least, most) in zip(_COLUMNS, row, bounds, strict=True):
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and least <= value <= most):
            raise KoordError(where, name, text, f"a number of at least {least:g}")
        values.append(value)
    if values[1] != int(values[1]):
        raise KoordError(where, "tasks", row[1], "a whole number")
    return values[0], int(values[1]), values[2]
