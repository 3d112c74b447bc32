# SPDX-License-Identifier: Apache-2.0
"""Explain says of the nearest nodes how many CPUs, devices and how much load room they lack."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kinds.pod import Pod
from koord.api.protocol import keys
from koord.controllers.scheduler.explain.explanation import PodExplanation
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.plugins.loadaware.filtering import EXPIRED
from tests.controllers.scheduler.explain.test_what_if import shipped_scheduler
from tests.controllers.scheduler.plugins.deviceshare.clusters import device, gpu
from tests.controllers.scheduler.plugins.loadaware.reports import START, Load, amounts, metric
from tests.controllers.scheduler.plugins.nodenumaresource.cluster import bound_pod, topology
from tests.controllers.scheduler.pods import node, pod
from tests.profiles import examples

NOW = 1_700_000_000.0
FREE = 1000


def explained(objects: list[Any], asked: Pod, *there: Pod) -> PodExplanation:
    """Explains a pod after others were placed.

    Raises:
        LookupError: one of these fits nowhere.
    """

    async def run() -> PodExplanation:
        made, views, explainer = shipped_scheduler([])
        for each in objects:
            views.view(type(each)).put(each)
        for one in there:
            views.view(Pod).put(one)
            made.loop.schedule(1.0)
            if made.world.accounts.get(one.metadata.uid) is None:
                raise LookupError("the set-up does not fit")
        views.view(Pod).put(asked)
        return explainer.pod("default", asked.metadata.name)

    return asyncio.run(run())


def lacks(objects: list[Any], asked: Pod, *there: Pod) -> list[str]:
    found = explained(objects, asked, *there)
    assert found.fitting == 0
    return found.nearest[0].lacks


def machine(policy: str = "", **more: Any) -> list[Any]:
    """16 CPUs of 8 cores in two zones; allocatable CPU is plenty, so that only zones are short."""
    return [node("a", cpu=str(FREE), **more), topology("a", policies=(policy,) if policy else ())]


@pytest.mark.parametrize(
    ("held", "asked", "text"),
    [
        ((), {"cpu": "18"}, "16 of 18 CPUs free to bind"),
        (("4",), {"cpu": "14"}, "12 of 14 CPUs free to bind"),
        (("15",), {"cpu": "2", "required": "FullPCPUs"},
         "0 of 2 CPUs free to bind in whole cores"),
        (("2",), {"cpu": "8", "required": "SpreadByPCPUs"},
         "7 of 8 CPUs free to bind on different cores"),
    ],
)  # fmt: skip
def test_cpus_to_bind(held: tuple[str, ...], asked: dict[str, Any], text: str) -> None:
    there = [bound_pod(f"t{i}", cpu) for i, cpu in enumerate(held)]
    assert lacks(machine(), bound_pod("p", **asked), *there) == [text]


def test_the_zone_that_comes_nearest() -> None:
    single = machine("SingleNUMANodePodLevel")
    there = bound_pod("t", "2")
    assert lacks(single, bound_pod("p", "10"), there) == ["zone 1: 8 of 10 CPUs free to bind"]
    memory = bound_pod("p", "4", memory="20Gi")
    assert lacks(single, memory, there) == ["zone 1: memory 16384Mi of 20480Mi free"]
    shared = bound_pod("p", "10", qos="")
    assert lacks(single, shared, there) == ["zone 1: cpu 8 of 10 free"]
    every = machine("BestEffort")
    assert lacks(every, bound_pod("p", "4", memory="40Gi")) == ["memory 32768Mi of 40960Mi free"]


def test_what_contradicts_lacks_nothing() -> None:
    labels = {keys.CPU_BIND_POLICY: "FullPCPUsOnly"}
    asked = bound_pod("p", "2", required="SpreadByPCPUs")
    assert lacks(machine(labels=labels), asked) == []


RATIO = ("koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio")


def wants(percent: int, **spec: Any) -> Pod:
    return pod("p", cpu="1", requests=dict.fromkeys(RATIO, str(percent)), **spec)


def cards(count: int, each: str = "400") -> list[Any]:
    offered = dict.fromkeys(RATIO, each) | {"koordinator.sh/gpu-memory": "999Gi"}
    return [node("a", allocatable=offered), device("a", *(gpu(minor) for minor in range(count)))]


def test_cards_and_shares_of_one() -> None:
    half = pod("t", cpu="1", requests=dict.fromkeys(RATIO, "60"))
    assert lacks(cards(2), wants(400)) == ["2 of 4 gpu cards free"]
    assert lacks(cards(2), wants(200), half) == ["1 of 2 gpu cards free"]
    found = lacks(cards(1), wants(50), half)
    assert found == ["0 of 1 gpu card free", *(f"card 0: {name} 40 of 50 free" for name in RATIO)]


def loaded(percent: int, age: float = 10.0, threshold: int = 65) -> list[Any]:
    text = json.dumps({"usageThresholds": {"cpu": threshold}})
    return [
        node("a", cpu="10", annotations={keys.USAGE_THRESHOLDS: text}),
        metric("a", NOW - age, amounts(100 * percent, 0)),
    ]


def test_load_against_its_threshold() -> None:
    found = lacks(loaded(64), pod("p", cpu="1"))
    assert found == ["cpu load 64.0%, 72.5% with the pod, at most 65%"]


def test_a_report_that_is_too_old() -> None:
    load = Load(usageThresholds={"cpu": 65}, enableScheduleWhenNodeMetricsExpired=False)
    load.put(node("a"), metric("a", START - 1000, amounts(0, 0)))
    cycle = Cycle(load.world.shapes.info(pod("p", cpu="1")), load.table)
    assert load.ask(cycle.pod.pod)[0] == {"a": EXPIRED}
    assert load.plugin.shortfall(cycle, 0) == ["NodeMetric expired 820s ago"]


COUNT = st.integers(1, 4)


@settings(max_examples=examples(0.25), deadline=None)
@given(there=COUNT, wanted=COUNT, taken=st.lists(st.sampled_from([30, 60, 100]), max_size=3))
def test_so_many_cards_would_fit(there: int, wanted: int, taken: list[int]) -> None:
    """What is said to be free is: a pod that asks for so many fits, one more does not."""
    held = [
        pod(f"t{i}", cpu="1", requests=dict.fromkeys(RATIO, str(each)))
        for i, each in enumerate(taken)
    ]
    try:
        found = explained(cards(there), wants(100 * wanted), *held)
    except LookupError:
        return
    if found.fitting:
        return
    free = int(found.nearest[0].lacks[0].split()[0])
    assert free < wanted
    assert free == 0 or explained(cards(there), wants(100 * free), *held).fitting == 1
    assert explained(cards(there), wants(100 * (free + 1)), *held).fitting == 0


@settings(max_examples=examples(0.25), deadline=None)
@given(
    wanted=st.integers(1, 18),
    held=st.integers(0, 16),
    required=st.sampled_from(["", "FullPCPUs", "SpreadByPCPUs"]),
)
def test_so_many_cpus_would_fit(wanted: int, held: int, required: str) -> None:
    there = [bound_pod("t", str(held))] if held else []
    found = explained(machine(), bound_pod("p", str(wanted), required=required), *there)
    if found.fitting or not found.nearest[0].lacks:
        return  # it fits, or contradicts the machine
    free = int(found.nearest[0].lacks[0].split()[0])
    assert free < wanted

    def fits(cpus: int) -> bool:
        asked = bound_pod("p", str(cpus), required=required)
        return explained(machine(), asked, *there).fitting == 1

    assert free == 0 or fits(free)
    assert not fits(free + (2 if required == "FullPCPUs" else 1))
