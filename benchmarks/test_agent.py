# SPDX-License-Identifier: Apache-2.0
"""What a round of the node agent's collectors costs, against a plain loop over the same files."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.agent_metrics import RESOURCES, plain_loop
from benchmarks.conftest import Gate
from koord.agent.metrics.collectors.page_cache import PageCacheCollector
from koord.agent.metrics.collectors.pods import PodsCollector
from koord.agent.metrics.collectors.throttling import ThrottlingCollector
from koord.agent.metrics.options import MetricsOptions
from koord.kernels.cgroup import Reader
from tests.agent.machine_tree import Group, MachineTree
from tests.agent.metrics.bench import Bench, lay_out, pod_json, pod_of

PODS, CONTAINERS = 100, 4  # five hundred directories


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    tree, settings = MachineTree(tmp_path), MetricsOptions(page_cache=True)
    pods = tuple(pod_of(tree, pod_json(f"p{n}", CONTAINERS)) for n in range(PODS))
    for pod in pods:
        lay_out(tree, pod, Group(10**9, 1 << 20, 0, 1 << 20, 10, 1, pages={0: 9, 1: 9}))
    kinds = (PodsCollector, ThrottlingCollector, PageCacheCollector)
    made = Bench(tree, [kind(settings) for kind in kinds], settings, pods)
    made.step(1.0)
    return made


def test_round_of_all_pods_and_containers(gate: Gate, bench: Bench) -> None:
    """Reading, rates, four figures a directory and the cache, against reading and parsing alone."""
    root, directories = bench.machine.roots.cgroup, bench.groups.directories
    assert len(directories) == PODS * (1 + CONTAINERS)
    gate("agent: a round over 500 cgroups, against a plain read and parse",
         lambda: bench.step(1.0), lambda: plain_loop(root, directories), 1.5)  # fmt: skip
    assert bench.errors() == {}


def test_one_pass(gate: Gate, bench: Bench) -> None:
    root, directories = bench.machine.roots.cgroup, bench.groups.directories
    reader = Reader(bench.machine.hierarchy, kept_max=len(directories) * len(RESOURCES))
    gate("agent: 500 cgroups x 3 files read and parsed in one pass",
         lambda: reader.read(directories, RESOURCES),
         lambda: plain_loop(root, directories), 3)  # fmt: skip
