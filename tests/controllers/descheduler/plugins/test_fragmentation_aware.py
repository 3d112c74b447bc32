# SPDX-License-Identifier: Apache-2.0
"""FragmentationAware: the reference's example, one pod a node, and a plain model of the choice."""

from __future__ import annotations

import asyncio
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.descheduler.plugins.fragmentationaware.fragmentation_aware import (
    FragmentationAwareArgs,
    imbalance,
)
from koord.controllers.scheduler.config.field_path import FieldPath
from tests.controllers.descheduler.world import RecordedEvictions, cluster, make, node, pod
from tests.outcomes import refusal

NAMES = ["cpu", "memory"]


def run(args: dict[str, Any], view: Any, **more: Any) -> RecordedEvictions:
    evictions = RecordedEvictions(more.pop("refuses", ()))
    descheduling = make("balance", "FragmentationAware", args, evictions, **more)
    assert asyncio.run(descheduling.run(view)).errors == []
    return evictions


def test_half_of_the_gpus_and_no_cpu_are_a_quarter() -> None:
    offered = {"example.com/gpu": 2, "cpu": 4000}
    assert imbalance({"example.com/gpu": 1}, offered, ["example.com/gpu", "cpu"]) == 0.25
    # What a node does not offer says nothing.
    assert imbalance({"example.com/gpu": 1}, {"cpu": 4000}, ["example.com/gpu", "cpu"]) == 0
    assert imbalance({}, {}, NAMES) == 0


def test_the_pod_that_improves_most_goes_and_no_other() -> None:
    # Node n1 of 4 CPUs and 8 GiB: CPU 3/4, memory 3/8 of it; without b 1/4 and 1/8 ... of a and c.
    pods = [pod("a", cpu="1", memory="1Gi"), pod("b", cpu="2", memory="1Gi"),
            pod("c", cpu="100m", memory="1Gi")]  # fmt: skip
    evictions = run({}, cluster([node("n1"), node("n2")], pods))
    assert evictions.names == ["b"]
    # (0.775 - 0.375) / 2 = 0.2 before, (0.275 - 0.25) / 2 after.
    assert evictions.reasons == [
        "fragmentation reduction: stdBefore=0.2000 stdAfter=0.0125 gain=0.1875"
    ]


@pytest.mark.parametrize(
    "args",
    [
        {"paused": True}, {"dryRun": True}, {"imbalanceThreshold": 0.2},
        {"minImprovementThreshold": 0.1875}, {"resources": ["cpu"]},
        {"nodeSelector": {"matchLabels": {"pool": "other"}}},
        {"podSelectors": [{"selector": {"matchLabels": {"app": "other"}}}]},
        {"evictableNamespaces": {"exclude": ["default"]}},
    ],
)  # fmt: skip
def test_what_keeps_the_pod(args: dict[str, Any]) -> None:
    pods = [pod("a", cpu="1", memory="1Gi"), pod("b", cpu="2", memory="1Gi"),
            pod("c", cpu="100m", memory="1Gi")]  # fmt: skip
    assert run(args, cluster([node("n1"), node("n2")], pods)).names == []


def test_a_pod_that_fits_nowhere_stays_and_the_next_best_goes() -> None:
    pods = [pod("a", cpu="1"), pod("b", cpu="2")]
    small = cluster([node("n1"), node("n2", cpu="1")], pods)
    assert run({}, small).names == ["a"]
    assert run({"nodeFit": False}, small).names == ["b"]
    # The best one that the evictor holds back keeps the node as it is.
    held = run({}, cluster([node("n1"), node("n2")], pods), evictor={"nodeFit": True})
    assert held.names == ["b"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"resources": ["cpu", "cpu"]}, "args.resources[1]: got 'cpu', expected every resource"),
        ({"imbalanceThreshold": -0.1}, "args.imbalanceThreshold: got -0.1"),
        ({"minImprovementThreshold": -1}, "args.minImprovementThreshold: got -1"),
        ({"minImprovementThreshold": "x"}, "minImprovementThreshold"),
        ({"resource": ["cpu"]}, "such as resources"),
        ({"evictableNamespaces": {"include": ["a"], "exclude": ["b"]}}, "evictableNamespaces"),
        ({"podSelectors": [{"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}]},
         "args.podSelectors[0].selector"),
    ],
)  # fmt: skip
def test_wrong_arguments_name_their_place(args: dict[str, Any], message: str) -> None:
    assert message in refusal(FragmentationAwareArgs.read, args, FieldPath("f", "args"))


def test_what_holds_without_arguments() -> None:
    args = FragmentationAwareArgs.read({"resources": []}, FieldPath("f", "args"))
    assert (args.resources, args.imbalance_threshold, args.min_improvement_threshold) == (
        NAMES, 0.15, 0.02,
    )  # fmt: skip
    assert args.node_fit


def _gains(asked: list[tuple[int, int]]) -> tuple[float, list[float]]:
    """By the definition, with the standard library: imbalance before, what each would gain."""

    def spread(chosen: list[tuple[int, int]]) -> float:
        cpu = sum(each[0] for each in chosen) / 4000
        memory = sum(each[1] for each in chosen) / (8 * 1024)
        return statistics.pstdev([cpu, memory])

    before = spread(asked)
    return before, [before - spread(asked[:i] + asked[i + 1 :]) for i in range(len(asked))]


@given(
    st.lists(st.tuples(st.sampled_from([0, 500, 700, 1300]), st.sampled_from([64, 512, 1900]))),
    st.sampled_from([0.0007, 0.151, 0.3003]),
    st.sampled_from([0.0007, 0.0213]),
)
def test_it_chooses_as_the_model_does(
    asked: list[tuple[int, int]], least: float, improvement: float
) -> None:
    pods = [
        pod(f"p{number:03}", cpu=f"{cpu}m", memory=f"{size}Mi")
        for number, (cpu, size) in enumerate(asked)
    ]
    args = {"imbalanceThreshold": least, "minImprovementThreshold": improvement, "nodeFit": False}
    before, gains = _gains(asked)
    evicted = run(args, cluster([node("n1"), node("n2")], pods)).names
    if before <= least or not gains or max(gains) <= improvement:
        assert evicted == []
    else:
        (name,) = evicted
        assert gains[int(name[1:])] == pytest.approx(max(gains), abs=1e-9)
