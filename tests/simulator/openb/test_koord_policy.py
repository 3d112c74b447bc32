# SPDX-License-Identifier: Apache-2.0
"""The koord policy on the openb traces, against the best published policy."""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from koord.kernels.devices import Fragmentation, TypicalPods
from koord.simulator.openb.replay import Experiment
from koord.simulator.openb.trace import read_nodes, read_pods
from koord.simulator.openb.workload import TraceWorkload, sample

OPENB = Path(__file__).resolve().parents[3] / "examples" / "openb"
NODES = OPENB / "openb_node_list_gpu_node.csv"
SEEDS = range(42, 52)
BINS = (100, 130)


@cache
def experiment(pod_list: str) -> Experiment:
    return Experiment.of(read_nodes(NODES), read_pods(OPENB / f"openb_pod_list_{pod_list}.csv"))


def published_fgd(pod_list: str) -> list[float]:
    """Means of the ten published runs at 100 and 130."""
    with (OPENB / "published" / "alloc.csv").open(encoding="ascii") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if (row["workload"], row["sc_policy"]) == (f"openb_pod_list_{pod_list}", "06-FGD")
        ]
    assert len(rows) == len(SEEDS)
    return [float(np.mean([float(row[str(cell)]) for row in rows])) for cell in BINS]


@pytest.mark.parametrize("pod_list", ["default", "gpushare40", "gpuspec33"])
def test_allocates_more_than_the_best_published_policy(pod_list: str) -> None:
    trace = experiment(pod_list)
    runs = [
        trace.run("koord", sample(trace.nodes, trace.pods, 1.3, seed)).gpu_allocated_percent
        for seed in SEEDS
    ]
    for cell, fgd in zip(BINS, published_fgd(pod_list), strict=True):
        assert np.mean([run[cell] or 0 for run in runs]) >= fgd + 0.5


def test_nothing_of_the_trace_is_known_in_advance() -> None:
    # Neither the pods that come later nor the typical pods, which are counted over the whole list.
    trace = experiment("gpuspec33")
    whole = sample(trace.nodes, trace.pods, 1.3, 42)
    half = TraceWorkload(whole.arrivals[:4000], whole.ranks, seed=42)
    blind = replace(trace, fragmentation=Fragmentation(TypicalPods.count({})))
    expected = trace.run("koord", whole).rows.node[:4000]
    assert np.array_equal(blind.run("koord", half).rows.node, expected)
