# SPDX-License-Identifier: Apache-2.0
"""How much CPU in use a day with a hot spot loses to relief that could not be better.

Nobody moves pods. What services want too much of on hot machines is wanted elsewhere in the same
minute, in any portion, at no cost. As much of the hot minutes as ``--cut`` says is taken off:

``alike``    of all hot minutes, drawn; each is known before it comes, and cooled to the very bound
``mildest``  the least hot ones, likewise; the hottest machines stay as hot as they are
``mean``     known is what machines want on average over ``--minutes``, not what each of them
             brings; they are cooled to the level above which as many hot minutes are left

``python -m benchmarks.hot_spot_limit --scenario examples/scenarios/wandering-hot-spot.yaml
--seeds 1-10`` takes some seconds: what services want is known without a day. ``--days`` runs the
days, too, for what batch makes of it.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from koord.base import rng
from koord.cli.commands.simulate.descheduling import NODES, STEP
from koord.cli.options.values import parse_seeds
from koord.simulator.colocation.descheduling.comparison import descheduled_day
from koord.simulator.colocation.descheduling.load_account import HOT_PERCENT
from koord.simulator.colocation.descheduling.movable_services import (
    DeschedulingMode,
    MovableServices,
)
from koord.simulator.colocation.inputs import scenario_file, slo_config
from koord.simulator.colocation.workload.services import ServiceDemands, placed

if TYPE_CHECKING:
    from koord.simulator.colocation.inputs.scenario import Scenario
    from koord.simulator.colocation.results.result import Floats

_HOT = HOT_PERCENT[0]
_JUST_BELOW = 1e-3


def wanted(scenario: Scenario, seed: int) -> Floats:
    """What services want of each machine's CPUs, percent, ``[steps, machines]``; nobody moves."""
    fleet, pods = placed(scenario, seed)
    demands = ServiceDemands(scenario, pods, seed)
    rows = []
    for step in range(scenario.steps):
        demands.step(step * scenario.step_seconds)
        cores = np.bincount(pods.machine, demands.capped, len(fleet.cpus))
        rows.append(100.0 * cores / fleet.cpus)
    return np.array(rows)


def cooled_to_the_bound(kind: str, load: Floats, cut: float, seed: int) -> Floats:
    """What is left of each load where it is, as a share, ``[steps, machines]``.

    Args:
        kind: ``alike`` or ``mildest``.
        load: see :func:`wanted`.
        cut: which share of the hot minutes is no longer.
        seed: of which ones.
    """
    hot = load > _HOT
    if kind == "alike":
        chosen = hot & (rng.numpy_stream(seed, "relief").random(load.shape) < cut)
    else:
        chosen = hot & (load <= np.quantile(load[hot], cut))
    return np.where(chosen, (_HOT - _JUST_BELOW) / load, 1.0)


def cooled_to_a_level(load: Floats, cut: float, stay: int, known: int) -> Floats:
    """The same where only means are known: what is above a level on average comes down to it.

    Args:
        load: see :func:`wanted`.
        cut: see :func:`cooled_to_the_bound`.
        stay: for how many steps a hot spot stays; a mean is of one stay.
        known: over how many steps means are.
    """
    means = np.empty_like(load)
    for step in range(len(load)):
        first, half = step // stay * stay, known // 2
        around = slice(max(step - half, first), min(step + half + 1, first + stay))
        means[step] = load[around].mean(axis=0)
    low, high = 0.0, float(_HOT)
    for _ in range(30):
        level = (low + high) / 2
        kept = np.minimum(level / means, 1.0)
        if (load * kept > _HOT).sum() > (1 - cut) * (load > _HOT).sum():
            high = level
        else:
            low = level
    found: Floats = np.minimum(low / means, 1.0)
    return found


class RelievedServices(MovableServices):
    """Services whose load is elsewhere as it is wanted to be; cool machines have equal parts of it.

    Args:
        kept: what is left where it is, see :func:`cooled_to_the_bound`.
        rest: as of :class:`MovableServices`.
    """

    def __init__(self, load: Floats, kept: Floats, *rest: Any) -> None:
        super().__init__(*rest)
        room = np.where(kept == 1, np.maximum(_HOT - load, 0.0), 0.0)
        self._parts = room / np.maximum(room.sum(axis=1, keepdims=True), 1e-9)
        self._kept, self._step = kept, 0

    def redirect(self, demands: ServiceDemands) -> None:
        """Takes load off, from pods that may move, and gives it to pods of others."""
        kept, parts = self._kept[self._step], self._parts[self._step]
        self._step += 1
        machine, may_move, cores = self._pods.machine, ~self._pods.bound, demands.capped.copy()
        count = len(kept)
        movable = np.bincount(machine[may_move], cores[may_move], count)
        goes = np.minimum(np.bincount(machine, cores, count) * (1 - kept), movable)
        factor = 1 + (parts * goes.sum() - goes) / np.maximum(movable, 1e-9)
        cores[may_move] *= factor[machine[may_move]].astype(np.float32)
        demands.replace(cores)


class _Relief(NamedTuple):
    """The share of hot minutes that is taken off, and over how many minutes means are known."""

    cut: float
    minutes: float


class _Figures(NamedTuple):
    """Hot minutes of all, percent; points above the line; CPU in use, percent, 0 without a day."""

    hot: float
    above: float
    cpu: float


def _kept(scenario: Scenario, seed: int, kind: str, load: Floats, of: _Relief) -> Floats:
    if kind == "none":
        return np.ones_like(load)
    if kind != "mean":
        return cooled_to_the_bound(kind, load, of.cut, seed)
    step, spot = scenario.step_seconds, scenario.hot_spot
    stay = len(load) if spot is None else round(spot.every_seconds / step)
    return cooled_to_a_level(load, of.cut, stay, round(60 * of.minutes / step))


def figures(scenario: Scenario, seed: int, kind: str, of: _Relief, *, days: bool) -> _Figures:
    """Of a seed; ``none`` is a kind, too."""
    load = wanted(scenario, seed)
    kept = _kept(scenario, seed, kind, load, of)
    if days:
        of_day = partial(RelievedServices, load, kept)
        day = descheduled_day(scenario, seed, DeschedulingMode.NONE, services=of_day)
        return _Figures(day.hot_percent[0], day.above_line_percent, day.cpu_percent)
    reclaimed = slo_config.of(scenario).colocation.cpu_reclaim_threshold_percent or 0
    line = reclaimed - 100 * scenario.system.cpu
    above = np.maximum(load * kept - line, 0.0).mean()
    return _Figures(100.0 * float((load * kept > _HOT).mean()), float(above), 0.0)


def main() -> None:
    """A line a seed and kind, then means, against the day without relief where that is a kind."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--scenario", type=Path, required=True)
    parser.add_argument("--seeds", default="1-10")
    parser.add_argument("--kinds", default="none,alike,mildest,mean")
    parser.add_argument("--cut", type=float, default=0.8)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--days", action="store_true")
    given = parser.parse_args()
    day = scenario_file.varied(scenario_file.load(given.scenario), nodes=NODES, step=STEP)
    of = _Relief(given.cut, given.minutes)
    found: dict[str, list[_Figures]] = {kind: [] for kind in given.kinds.split(",")}
    print(f"{'seed':<5}{'relief':<9}  hot %      above the line       CPU %", flush=True)
    for seed in parse_seeds(given.seeds, "--seeds"):
        for kind, runs in found.items():
            runs.append(figures(day, seed, kind, of, days=given.days))
            _show(str(seed), kind, found)
    means = {kind: [_Figures(*np.mean(runs, axis=0).tolist())] for kind, runs in found.items()}
    for kind in means:
        _show("mean", kind, means)


def _show(seed: str, kind: str, found: dict[str, list[_Figures]]) -> None:
    """The last of a kind."""
    of = found[kind][-1]
    without = found.get("none", [of])[-1]
    line = f"{seed:<5}{kind:<9}{of.hot:7.2f}{of.above:10.3f}{of.above - without.above:+10.3f}"
    if without.cpu:
        line += f"{of.cpu:10.3f}{100 * (of.cpu / without.cpu - 1):+8.2f} %"
    print(line, flush=True)


if __name__ == "__main__":
    main()
