# SPDX-License-Identifier: Apache-2.0
"""What the comparison with kube-scheduler says of its runs, without running any."""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
from collections import Counter

import pytest

from benchmarks.peer import arena, table
from benchmarks.peer.arena import Run, Watcher, cpu_seconds
from benchmarks.peer.nodes import MOST_CPUS, node
from benchmarks.peer.rows import Row, Timetable
from benchmarks.peer.scenarios import SCENARIOS
from benchmarks.peer.sides import Scheduler, takes_part
from benchmarks.peer.turns import Turns
from koord.api.protocol import keys
from koord.kube.client import Client

PODS = 60


def run(per_second: float, **busy: float) -> Run:
    cores = {name.replace("_", "-"): each for name, each in busy.items()}
    return Run(100, 100, per_second, 0.1, 0.2, 0.5, 0.1, cores, 0.05, 100)


@pytest.mark.parametrize(
    ("cores", "made", "limit"),
    [
        (2, run(90, kube_apiserver=0.9, etcd=0.3, generator=0.4, koord_scheduler=0.3), "all cores"),
        (16, run(90, kube_apiserver=0.9, koord_scheduler=0.9), "koord-scheduler's core"),
        (16, run(90, kube_apiserver=4.0, generator=0.95, koord_scheduler=0.5), "generator's core"),
        (16, run(90, kube_apiserver=4.0, koord_scheduler=0.5), "answers of the API server"),
        (16, run(30, kube_apiserver=4.0, koord_scheduler=0.5), "its own cycle"),
        (2, run(90, kube_apiserver=0.5, koord_scheduler=0.1, others=1.3), "other programs of this"),
        (16, run(30, kube_apiserver=4.0, koord_scheduler=0.5, others=0.9), "its own cycle"),
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


def test_what_a_scheduler_left_undone_is_in_its_line() -> None:
    kube, ours = run(50)._replace(events=90), run(100)._replace(bound=95, events=95)
    runs = {table.KUBE: [kube], table.KOORD: [ours]}
    first, second = table.lines(Row("basic", 1000, 100), runs, 100.0)
    assert first.split(" | ")[4] == "kube-scheduler (10 without an event)"
    assert second.split(" | ")[4] == "koord-scheduler (5 not bound)"


def test_a_scheduler_that_ended_is_told_of() -> None:
    ended = run(0)._replace(bound=0, events=0, ended=True)
    runs = {table.KOORD: [run(50)], table.ORIGINAL: [ended]}
    _, line = table.lines(Row("gangs", 1000, 100), runs, 100.0)
    # There is nothing to hold against it.
    assert line.split(" | ")[10:] == ["", " |"]
    cell = f"{table.ORIGINAL} (100 not bound, its program ended in 1 of 1 runs)"
    assert line.split(" | ")[4] == cell


def test_whether_a_program_has_ended_is_seen_while_its_figures_can_still_be_read() -> None:
    with subprocess.Popen(["sleep", "100"]) as process:
        scheduler = Scheduler(process.pid)
        assert not scheduler.ended()
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert scheduler.ended()
        assert cpu_seconds(process.pid) >= 0
        assert scheduler.ended()


async def _tries(watcher: Watcher, binds: bool) -> None:
    """Pods change all the time, as where a scheduler says again and again why it places none."""
    for number in range(10_000):
        if binds and number % 20 == 0:
            watcher.bound[f"default/p{number}"] = 0.0
        watcher.changed.set()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("binds", [False, True])
def test_a_scheduler_that_tries_and_binds_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch, binds: bool
) -> None:
    """All are bound after three seconds, which is longer than it may take to bind one."""
    monkeypatch.setattr(arena, "STALLED_SECONDS", 2.0)

    async def wait() -> bool:
        client: Client = None  # type: ignore[assignment]
        watcher = Watcher(client)
        trying = asyncio.create_task(_tries(watcher, binds))
        try:
            async with asyncio.timeout(60):
                return await watcher.wait_for([f"default/p{20 * number}" for number in range(15)])
        finally:
            trying.cancel()

    assert asyncio.run(wait()) == binds


@pytest.mark.parametrize("name", ["gangs", "quota", "cpu-binding"])
def test_pods_of_koordinator_have_what_they_are_about(name: str) -> None:
    """Whatever a pod says it belongs to is there, and takes all that belong to it."""
    row = Row(name, 20, 37)
    assert row.scenario.objects is not None
    objects = [document for _, document in row.scenario.objects(row.nodes, row.pods)]
    names = {each["metadata"]["name"]: each for each in objects}
    assert len(names) == len(objects)
    pods = [row.scenario.pod(f"measured-{number:06}") for number in range(row.pods)]
    if name == "cpu-binding":
        assert set(names) == {node(number)["metadata"]["name"] for number in range(row.nodes)}
        detail = json.loads(objects[0]["metadata"]["annotations"][keys.CPU_TOPOLOGY])["detail"]
        cores = Counter((cpu["node"], cpu["core"]) for cpu in detail)
        assert len(detail) == MOST_CPUS
        assert set(cores.values()) == {2}
        return
    label = keys.POD_GROUP if name == "gangs" else keys.QUOTA_NAME
    members = Counter(pod["metadata"]["labels"][label] for pod in pods)
    if name == "gangs":
        assert {each: names[each]["spec"]["minMember"] for each in names} == members
        return
    for leaf in members:
        parent = names[names[leaf]["metadata"]["labels"][keys.QUOTA_PARENT]]
        children = [
            each for each in objects
            if each["metadata"]["labels"].get(keys.QUOTA_PARENT) == parent["metadata"]["name"]
        ]  # fmt: skip
        least = sum(int(each["spec"]["min"]["cpu"]) for each in children)
        assert least <= int(parent["spec"]["min"]["cpu"])


@pytest.mark.parametrize("side", [table.KUBE, table.KOORD, table.ORIGINAL])
def test_kube_scheduler_has_no_part_in_what_it_does_not_know(side: str) -> None:
    assert takes_part(side, Row("basic", 10, 10))
    assert takes_part(side, Row("gangs", 10, 10)) == (side != table.KUBE)


def test_the_table_of_a_terminal_is_no_wider_than_80_columns() -> None:
    slow = run(10.5, kube_scheduler=0.5)._replace(p50_seconds=42.749, p99_seconds=43.971, events=0)
    runs = {table.KUBE: [slow, run(9)], table.KOORD: [run(12345), run(9)], table.ORIGINAL: [slow]}
    shown = table.text(Row("preferred-anti-affinity", 100_000, 100_000), runs, math.nan)
    made = table.made_with([run(12345)])
    assert max(map(len, f"{shown}\n{made}".splitlines())) <= 80
    for part in ("42,749", "9 to 12,345", "the original's", "without an event"):
        assert part in shown


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
