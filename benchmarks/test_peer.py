# SPDX-License-Identifier: Apache-2.0
"""What the comparison with kube-scheduler says of its runs, without running any."""

from __future__ import annotations

import json

import pytest

from benchmarks.peer import table
from benchmarks.peer.arena import Run
from benchmarks.peer.scenarios import SCENARIOS

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


def test_all_cpu_of_a_scheduler_is_in_its_row() -> None:
    kube, ours = run(50, kube_scheduler=0.5), run(100, koord_scheduler=0.5)
    cells = table.row("basic", [kube], [ours._replace(cpu_seconds=0.2)], [run(100)]).split(" | ")
    assert cells[8:] == ["5.00", "0.50 + 1.50", "1.00 / 1.00", "0.40 |"]


@pytest.mark.parametrize("name", ["different", "selectors"])
def test_no_two_pods_are_alike(name: str) -> None:
    scenario = SCENARIOS[name]
    assert scenario.before is not None
    made = [scenario.pod(f"measured-{n:06}") for n in range(PODS)]
    made += [scenario.before(f"before-{n:06}") for n in range(PODS)]
    kinds = {json.dumps([each["metadata"]["labels"], each["spec"]]) for each in made}
    assert len(kinds) == len(made)
