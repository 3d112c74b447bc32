# SPDX-License-Identifier: Apache-2.0
"""The openb trace through the whole scheduler, beside the same trace on the placement kernel."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from koord.api.protocol import keys
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.deviceshare.evaluation.fragmentation import (
    accepted_models,
)
from koord.kernels.devices import PodShape
from koord.kernels.quantity import Quantity
from koord.simulator.openb import scheduler_replay
from koord.simulator.openb.kubernetes_objects import (
    names_by_rank,
    node_objects,
    pod_object,
    pod_template,
)
from koord.simulator.openb.replay import Experiment
from koord.simulator.openb.scheduler_replay import Scheduling, run_scheduled
from koord.simulator.openb.trace import TraceNode, TracePod, read_nodes, read_pods
from koord.simulator.openb.workload import TraceWorkload, read_order, sample

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
OPENB = EXAMPLES / "openb"
PROFILE = EXAMPLES / "scheduler" / "fragmentation-aware.yaml"
BINS = (100, 130)
POINTS = 0.3


@cache
def experiment(pod_list: str) -> Experiment:
    nodes = read_nodes(OPENB / "openb_node_list_gpu_node.csv")
    return Experiment.of(nodes, read_pods(OPENB / f"openb_pod_list_{pod_list}.csv"))


def some_nodes(pod_list: str, every: int) -> Experiment:
    """The trace on every so many nodes, of all models."""
    whole = experiment(pod_list)
    return replace(whole, nodes=whole.nodes[::every])


class Checked(scheduler_replay._ReplayAccount):
    """Refuses a placement that the kernel would not make, and a failure where it would."""

    def count(self, kind: int, row: int, gpus: tuple[int, ...]) -> None:
        fits = self.table.filter(self._shapes[kind])
        assert fits[row] if row >= 0 else not fits.any()
        super().count(kind, row, gpus)


@pytest.fixture(autouse=True)
def _checked(monkeypatch) -> None:
    monkeypatch.setattr(scheduler_replay, "_ReplayAccount", Checked)


def test_the_scheduler_allocates_what_the_kernel_does() -> None:
    trace = experiment("default")
    order = OPENB / "orders" / "default.42.txt.gz"
    workload = read_order(order, trace.nodes, trace.pods)
    found = run_scheduled(trace, Scheduling.read(PROFILE), workload).gpu_allocated_percent
    for policy in ("fgd", "koord"):
        kernel = trace.run(policy, workload).gpu_allocated_percent
        for cell in BINS:
            assert (found[cell] or 0) >= (kernel[cell] or 100) - POINTS, (policy, cell)


@pytest.mark.parametrize("pod_list", ["gpuspec33", "gpushare40"])
def test_models_and_shares_on_part_of_the_cluster(pod_list: str) -> None:
    trace = some_nodes(pod_list, 24)
    # The originals alone are many times what these nodes hold.
    workload = sample(trace.nodes, trace.pods, 1.3, 7)
    found = run_scheduled(trace, Scheduling.read(PROFILE), workload)
    kernel = trace.run("fgd", workload)
    assert found.pods_submitted == kernel.pods_submitted
    assert found.pods_failed > 0
    # A small cluster is coarse: one GPU of 260 is 0.4 points.
    for cell in BINS:
        ours, theirs = found.gpu_allocated_percent[cell], kernel.gpu_allocated_percent[cell]
        assert (ours or 0) >= (theirs or 100) - 2
    assert found.nodes.cpu_free_milli.min() >= 0
    assert found.nodes.gpu_free_milli.min() >= 0


def test_a_run_is_reproducible_and_reports_what_it_did() -> None:
    trace = some_nodes("default", 60)
    workload = sample(trace.nodes, trace.pods, 2.0, 3)
    short = TraceWorkload(workload.arrivals[:150], workload.ranks, seed=3)
    steps: list[int] = []
    scheduling = Scheduling.read(PROFILE)
    first = run_scheduled(trace, scheduling, short, steps.append)
    again = run_scheduled(trace, scheduling, short)
    assert np.array_equal(first.rows.node, again.rows.node)
    assert sum(steps) == first.pods_submitted == 150
    assert first.policy == "scheduler"
    total = 1000 * sum(node.gpus for node in trace.nodes)
    assert first.rows.used_milli[-1] == total - first.nodes.gpu_free_milli.sum()
    assert (np.diff(first.rows.used_milli) >= 0).all()


def test_fragments_are_counted_as_in_the_replay() -> None:
    # While everything is placed on the one node there is, both see the same node.
    trace = replace(experiment("default"), nodes=experiment("default").nodes[:1])
    arrivals = [i for i, pod in enumerate(trace.pods) if pod.shape == PodShape(4000, 500, 1)][:3]
    if not arrivals:
        arrivals = [i for i, pod in enumerate(trace.pods) if pod.shape.gpu_count == 1][:1]
    workload = TraceWorkload(arrivals, [0], seed=1)
    ours = run_scheduled(trace, Scheduling.read(PROFILE), workload)
    theirs = trace.run("koord", workload)
    assert ours.rows.fragment_milli.tolist() == pytest.approx(theirs.rows.fragment_milli.tolist())
    assert ours.rows.used_milli.tolist() == theirs.rows.used_milli.tolist()


def test_the_profile_rates_by_fragmentation_and_by_what_pods_say() -> None:
    scheduling = Scheduling.read(PROFILE)
    (profile,) = scheduling.configuration.profiles
    assert scheduling.scheduler_name == "koord-scheduler"
    assert profile.args["DeviceShare"].scoring_strategy.type == "FragmentationAware"
    spreading = {"NodeResourcesFit", "NodeResourcesBalancedAllocation", "LoadAwareScheduling",
                 "NodeNUMAResource", "ImageLocality"}  # fmt: skip
    assert not spreading & set(profile.at("score"))
    assert {"NodeResourcesFit", "LoadAwareScheduling"} <= set(profile.at("filter"))
    assert scheduling.configuration.warnings == ()


# Objects.


def requests_of(pod: TracePod) -> dict[str, str]:
    made = pod_template(pod, "s")
    return {name: str(q) for name, q in made.spec.containers[0].resources.requests.items()}


@pytest.mark.parametrize(
    ("shape", "asked"),
    [
        (PodShape(1500), {}),
        (PodShape(1500, 460, 1), {"gpu-core": "46", "gpu-memory-ratio": "46"}),
        (PodShape(1500, 500, 2),
         {"gpu-core": "100", "gpu-memory-ratio": "100", "gpu.shared": "2"}),
    ],
)  # fmt: skip
def test_shares_are_asked_for_in_percent(shape: PodShape, asked: dict[str, str]) -> None:
    want = {"cpu": "1500m", "memory": "2Gi"}
    want |= {f"koordinator.sh/{name}": amount for name, amount in asked.items()}
    assert requests_of(TracePod("p", 2048, shape)) == want


def test_whole_gpus_are_asked_for_as_such() -> None:
    assert requests_of(TracePod("p", 1, PodShape(0, 1000, 8)))["nvidia.com/gpu"] == "8"


def test_a_share_finer_than_percent_is_refused() -> None:
    pod = TracePod("p", 1, PodShape(0, 455, 1))
    with pytest.raises(KoordError, match=r"pod p: gpu_milli: got 455, expected a multiple of 10"):
        pod_template(pod, "s")


def test_models_become_a_node_affinity() -> None:
    made = pod_template(TracePod("p", 1, PodShape(0, 1000, 1, "T4||A10")), "s")
    assert accepted_models(made) == ("T4", "A10")
    assert pod_template(TracePod("p", 1, PodShape(0, 1000, 1)), "s").spec.affinity is None


def test_nodes_have_cards_and_names_that_sort_by_rank() -> None:
    nodes = [TraceNode(f"n{i}", 4000, 1024, i, "T4") for i in range(12)]
    ranks = [(5 * i) % 12 for i in range(12)]
    names = names_by_rank(nodes, ranks)
    assert [ranks[names.index(name)] for name in sorted(names)] == list(range(12))
    node, device = node_objects(nodes[2], names[2], 1001)
    assert node.metadata.labels[keys.GPU_MODEL] == "T4"
    assert node.status.allocatable["koordinator.sh/gpu-core"] == Quantity.parse("200")
    assert [info.minor for info in device.spec.devices] == [0, 1]
    assert device.metadata.name == node.metadata.name == names[2]


def test_pods_of_a_kind_share_what_makes_their_shape() -> None:
    template = pod_template(TracePod("p", 1, PodShape(100)), "s")
    first, second = pod_object(template, "a"), pod_object(template, "b")
    assert (first.metadata.uid, second.metadata.uid) == ("a", "b")
    assert first.spec is second.spec
    assert first.metadata.labels is second.metadata.labels
    assert template.metadata.name == "p"
