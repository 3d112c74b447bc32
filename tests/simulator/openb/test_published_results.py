# SPDX-License-Identifier: Apache-2.0
"""The deterministic policies against the published tables: every order file, every bin."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import pytest

from koord.simulator.openb.published_results import POLICIES
from koord.simulator.openb.replay import Experiment
from koord.simulator.openb.result_tables import Table
from koord.simulator.openb.trace import read_nodes, read_pods
from koord.simulator.openb.workload import read_order, sample

OPENB = Path(__file__).resolve().parents[3] / "examples" / "openb"
NODES = OPENB / "openb_node_list_gpu_node.csv"
ORDERS = sorted((OPENB / "orders").iterdir())
TABLES = {"alloc": 0.0, "frag_amount": 0.0, "frag_ratio": 0.001}

Key = tuple[str, str, int]


@cache
def published(table: str) -> dict[Key, list[float | None]]:
    with (OPENB / "published" / f"{table}.csv").open(encoding="ascii") as file:
        return {
            (row["workload"].removeprefix("openb_pod_list_"), POLICIES[row["sc_policy"]],
             int(row["seed"])): [float(row[str(b)]) if row[str(b)] else None for b in range(131)]
            for row in csv.DictReader(file)
        }  # fmt: skip


@cache
def experiment(pod_list: str) -> Experiment:
    return Experiment.of(read_nodes(NODES), read_pods(OPENB / f"openb_pod_list_{pod_list}.csv"))


def different_bins(ours: Table, theirs: list[float | None], tolerance: float) -> list[object]:
    return [
        (cell, ours[cell], want)
        for cell, want in enumerate(theirs)
        if (ours[cell] is None) != (want is None)
        or abs((ours[cell] or 0) - (want or 0)) > tolerance
    ]


def test_all_order_files_are_there() -> None:
    assert len(ORDERS) == 16


@pytest.mark.parametrize("order", ORDERS, ids=lambda path: path.name.removesuffix(".txt.gz"))
@pytest.mark.parametrize("policy", [policy for policy in POLICIES.values() if policy != "random"])
def test_every_bin_is_the_published_one(order: Path, policy: str) -> None:
    pod_list, seed = order.name.split(".")[:2]
    trace = experiment(pod_list)
    run = trace.run(policy, read_order(order, trace.nodes, trace.pods))
    ours = {
        "alloc": run.gpu_allocated_percent,
        "frag_amount": run.fragmented_percent,
        "frag_ratio": run.fragmentation_ratio,
    }
    for table, tolerance in TABLES.items():
        theirs = published(table)[pod_list, policy, int(seed)]
        assert different_bins(ours[table], theirs, tolerance) == []


@pytest.mark.parametrize("pod_list", ["default", "gpushare40", "gpuspec33"])
@pytest.mark.parametrize("policy", POLICIES.values())
def test_our_own_generator_gives_the_published_means(pod_list: str, policy: str) -> None:
    trace = experiment(pod_list)
    seeds = range(42, 52)
    runs = [
        trace.run(policy, sample(trace.nodes, trace.pods, 1.3, seed)).gpu_allocated_percent
        for seed in seeds
    ]
    for cell in (100, 130):
        ours = sum(run[cell] or 0 for run in runs) / len(runs)
        rows = [published("alloc")[pod_list, policy, seed][cell] or 0 for seed in seeds]
        assert ours == pytest.approx(sum(rows) / len(rows), abs=0.2)
