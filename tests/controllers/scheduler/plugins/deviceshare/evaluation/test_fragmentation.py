# SPDX-License-Identifier: Apache-2.0
"""Fragmentation-aware scores rank nodes as the placement kernel's policies do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.scheduler.config.args_koord import DeviceShareArgs
from koord.controllers.scheduler.plugins.deviceshare.args import (
    DeviceShareOptions,
    ScoringType,
    options_of,
)
from koord.controllers.scheduler.plugins.deviceshare.evaluation.fragmentation import (
    accepted_models,
    scores_of,
)
from koord.kernels.devices import Fragmentation, PodShape, TypicalPods
from koord.kernels.placement import OUT, NodeTable, Placer
from tests.controllers.scheduler.plugins.deviceshare.clusters import Cluster, gpu
from tests.controllers.scheduler.pods import pod

GIB = 1 << 30
MODEL = "node.koordinator.sh/gpu-model"
TYPICAL = {PodShape(2000, 500, 1): 0.5, PodShape(8000, 1000, 1): 0.3, PodShape(4000): 0.2}
AWARE = DeviceShareOptions(scoring=ScoringType.FRAGMENTATION_AWARE)
GRADIENT = DeviceShareOptions(scoring=ScoringType.FRAGMENTATION_GRADIENT, typical_pods=TYPICAL)

# Nodes: CPUs, GPUs, model. Pods: CPUs, percent of each GPU, GPUs, the model they insist on.
nodes = st.lists(
    st.tuples(st.integers(4, 32), st.integers(0, 4), st.sampled_from(["T4", "A10"])),
    min_size=2, max_size=5,
)  # fmt: skip
pods = st.lists(
    st.tuples(
        st.integers(0, 8),
        st.sampled_from([(0, 0), (20, 1), (50, 1), (80, 1), (100, 1), (100, 2)]),
        st.sampled_from(["", "", "T4"]),
    ),
    min_size=1, max_size=12,
)  # fmt: skip


def cards(count: int) -> list[dict]:
    # A Device without cards of any kind is a node whose pods the plugin accounts for.
    return [{**gpu(minor), "topology": None} for minor in range(count)]


class Twins:
    """The plugin's cluster, and the kernel's table with the same nodes and pods."""

    def __init__(self, settings: DeviceShareOptions, policy: str, found) -> None:
        self.cluster = Cluster(settings)
        self.table = NodeTable(["cpu", "memory"])
        for number, (cpus, count, model) in enumerate(found):
            name = f"n{number}"
            self.cluster.add(name, *cards(count), cpu=str(cpus), labels={MODEL: model})
            capacity = {"cpu": cpus * 1000, "memory": 128 * GIB}
            self.table.add_node(name, capacity, gpus=count, model=model)
        measure = Fragmentation(TypicalPods(TYPICAL)) if policy == "fgd" else None
        self.placer = Placer(self.table, policy, fragmentation=measure)

    def both(self, cpus: int, percent: int, count: int, model: str):
        requested = {}
        if count:
            requested = {"koordinator.sh/gpu": str(percent * count)}
        selector = {"nodeSelector": {MODEL: model}} if model and count else {}
        info = self.cluster.pod(cpu=f"{cpus}", requests=requested, **selector)
        shape = self.table.shape(
            {"cpu": cpus * 1000, "memory": 0},
            gpus=count,
            gpu_milli=percent * 10,
            models=[model] if model and count else [],
        )
        return info, shape


@pytest.mark.parametrize(("settings", "policy"), [(AWARE, "koord"), (GRADIENT, "fgd")])
@given(nodes, pods)
def test_rows_are_rated_and_gpus_chosen_as_by_the_placer(settings, policy, found, arrivals) -> None:
    twins = Twins(settings, policy, found)
    rows = np.arange(len(found), dtype=np.int64)
    for cpus, (percent, count), model in arrivals:
        info, shape = twins.both(cpus, percent, count, model)
        twins.placer.arrived(shape)
        want = twins.placer.rate(shape, rows).astype(np.int64)
        decision = twins.cluster.decide(info)
        plugin = twins.cluster.plugin
        got = plugin.score(decision.cycle, rows)
        assert got.tolist() == scores_of(want, settings.scoring).tolist()
        if not (want != OUT).any():
            continue
        # Place it in both where the kernel would.
        best = twins.placer.pick(shape)
        assert best is not None
        assert plugin.reserve(decision.cycle, best.row) is None
        word = plugin.cache.nodes[best.row].inventory is not None
        held = info.allocations.get("DeviceShare", ())
        assert [each.minor for each in held] == (list(best.gpus) if word else [])
        twins.cluster.accounts.add(best.row, info)
        twins.table.commit(best)


def test_a_share_goes_where_it_leaves_no_useless_rest() -> None:
    cluster = Cluster(AWARE)
    cluster.add("a", *cards(2), cpu="64")
    cluster.add("b", *cards(2), cpu="64")
    for _ in range(3):
        assert cluster.place(cluster.pod(gpu=50, cpu="1")).startswith("gpu:")
    rows = sorted(len(pods) for pods in cluster.table.pods[:2])
    assert rows in ([0, 3], [1, 2])
    whole = cluster.pod(requests={"nvidia.com/gpu": "2"}, cpu="1")
    assert cluster.place(whole) == "gpu:0,1"


def test_ratings_do_not_outlive_an_estimate() -> None:
    cluster = Cluster(AWARE)
    cluster.add("a", *cards(1))
    info = cluster.pod(gpu=30, cpu="1")
    first = cluster.decide(info).cycle
    before = cluster.plugin.generation(first)
    for _ in range(4):
        cluster.decide(cluster.pod(gpu=70, cpu="2"))
    assert cluster.plugin.generation(cluster.decide(info).cycle) != before


def test_memory_by_bytes_is_rated_by_use() -> None:
    cluster = Cluster(AWARE)
    cluster.add("a", *cards(1))
    cluster.add("b", *cards(2))
    assert cluster.place(cluster.pod(gpu_memory="4Gi")) == "gpu:0"
    second = cluster.pod(gpu_memory="4Gi")
    assert cluster.place(second) == "gpu:0"
    assert second.row == 0


def test_costs_are_counted_in_steps() -> None:
    ratings = np.array([0, 39, 40, -1, -40, -41, 9000, -9000, OUT], np.int64)
    got = scores_of(ratings, ScoringType.FRAGMENTATION_AWARE).tolist()
    assert got == [50, 50, 51, 49, 49, 48, 100, 0, 0]


def test_models_that_a_pod_insists_on() -> None:
    assert accepted_models(pod("p", nodeSelector={MODEL: "T4"})) == ("T4",)
    expression = {"key": MODEL, "operator": "In", "values": ["T4", "A10"]}
    terms = [{"matchExpressions": [expression]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    assert accepted_models(pod("p", affinity={"nodeAffinity": required})) == ("T4", "A10")
    terms.append({"matchExpressions": [{"key": "zone", "operator": "Exists"}]})
    assert accepted_models(pod("p", affinity={"nodeAffinity": required})) == ()
    assert accepted_models(pod("p")) == ()


def test_arguments_become_settings() -> None:
    assert options_of(DeviceShareArgs()) == DeviceShareOptions() == options_of(None)
