# SPDX-License-Identifier: Apache-2.0
"""What the comparison with kube-scheduler says of its runs, without running any."""

from __future__ import annotations

import asyncio
import json
import math

import pytest

from benchmarks.peer import table
from benchmarks.peer.arena import Run
from benchmarks.peer.rows import Row, Timetable
from benchmarks.peer.scenarios import SCENARIOS
from benchmarks.peer.turns import Turns

PODS = 60


def run(per_second: float, **busy: float) -> Run:
    cores = {name.replace("_", "-"): each for name, each in busy.items()}
    return Run(100, 100, per_second, 0.1, 0.2, 0.5, 0.1, cores, 0.05)


@pytest.mark.parametrize(
    ("cores", "made", "limit"),
    [
        (2, run(90, kube_apiserver=0.9, etcd=0.3, generator=0.4, koord_scheduler=0.3), "all cores"),
        (16, run(90, kube_apiserver=0.9, koord_scheduler=0.9), "koord-scheduler's core"),
        (16, run(90, kube_apiserver=4.0, generator=0.95, koord_scheduler=0.5), "generator's core"),
        (16, run(90, kube_apiserver=4.0, koord_scheduler=0.5), "answers of the API server"),
        (16, run(30, kube_apiserver=4.0, koord_scheduler=0.5), "its own cycle"),
        # A scheduler of many threads is not full with one core.
        (16, run(30, kube_apiserver=4.0, koord_scheduler=3.0), "its own cycle"),
    ],
)
def test_what_limits_is_told_by_the_cores_in_use(cores: int, made: Run, limit: str) -> None:
    assert table.limit([made], table.KOORD, 100.0, cores).startswith(limit)


def test_all_cpu_of_a_scheduler_is_in_its_line() -> None:
    kube, ours = run(50, kube_scheduler=0.5), run(100, koord_scheduler=0.5)
    runs = {table.KUBE: [kube], table.KOORD: [ours._replace(cpu_seconds=0.2)]}
    first, second = table.lines(Row("basic", 1000, 3000), runs, 100.0)
    assert first.split(" | ")[:5] == ["| basic", "1,000", "3,000", "1", "kube-scheduler"]
    assert first.split(" | ")[8:] == ["5.00", "1.00", "2.00x", "0.40 |"]
    assert second.split(" | ")[8:] == ["2.00 (deciding 0.50)", "1.00", "", " |"]


def test_a_row_without_a_whole_pair_has_as_many_cells() -> None:
    (line,) = table.lines(Row("basic", 10, 10), {table.KUBE: [], table.KOORD: []}, math.nan)
    assert line.count("|") == table.head([]).splitlines()[-1].count("|")


def test_pairs_go_round_while_one_more_would_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("benchmarks.peer.rows.time.monotonic", lambda: now[0])
    short, long = Row("basic", 10, 10), Row("different", 10, 10)
    done = []
    for number, row in Timetable([long, short], pairs=5, seconds=100.0):
        done.append((number, row))
        now[0] += 30.0 if row is long else 8.0
    assert done[:4] == [(0, long), (0, short), (1, long), (1, short)]
    # A third long one would end at 106.
    assert done[4:] == [(2, short), (3, short), (4, short)][: len(done) - 4]
    assert now[0] == 100.0


def test_those_that_start_together_are_measured_one_after_the_other() -> None:
    async def story(together: bool) -> list[str]:
        turns, said = Turns(2, together), list[str]()

        async def side(place: int) -> None:
            await turns.begin(place)
            said.append(f"start {place}")
            await asyncio.sleep(0.01 * (2 - place))
            await turns.ready(place)
            said.append(f"measure {place}")
            await asyncio.sleep(0)
            said.append(f"end {place}")
            turns.over(place)

        await asyncio.gather(side(0), side(1))
        return said

    in_turn = ["measure 0", "end 0", "measure 1", "end 1"]
    assert asyncio.run(story(True)) == ["start 0", "start 1", *in_turn]
    alone = ["start 0", *in_turn[:2], "start 1", *in_turn[2:]]
    assert asyncio.run(story(False)) == alone


@pytest.mark.parametrize("name", ["different", "selectors", "rich"])
def test_no_two_pods_are_alike(name: str) -> None:
    scenario = SCENARIOS[name]
    assert scenario.before is not None
    made = [scenario.pod(f"measured-{n:06}") for n in range(PODS)]
    made += [scenario.before(f"before-{n:06}") for n in range(PODS)]
    kinds = {json.dumps([each["metadata"]["labels"], each["spec"]]) for each in made}
    assert len(kinds) == len(made)
