# SPDX-License-Identifier: Apache-2.0
"""Single changes of koord's own wishes: CPUs, zones, devices, reservations, a gang's minimum."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kinds.pod import Pod
from koord.api.protocol import keys
from koord.controllers.scheduler.explain import annotation_variants
from koord.controllers.scheduler.explain.suggestions import fits
from tests.controllers.scheduler.explain.test_gang_forecast import everything, made, member
from tests.controllers.scheduler.explain.test_gang_forecast import explained as in_gang
from tests.controllers.scheduler.explain.test_shortfall import (
    RATIO,
    cards,
    explained,
    machine,
    wants,
)
from tests.controllers.scheduler.explain.test_suggestions import NAME, search, told
from tests.controllers.scheduler.explain.test_what_if import shipped_scheduler
from tests.controllers.scheduler.plugins.nodenumaresource.cluster import bound_pod
from tests.controllers.scheduler.pods import node, pod
from tests.profiles import examples


def texts(objects: list[Any], asked: Pod, *there: Pod) -> list[str]:
    return [text for text, nodes in told(explained(objects, asked, *there)) if nodes]


def test_cpu_policies() -> None:
    there = bound_pod("t", "2")
    spread = bound_pod("p", "8", required="SpreadByPCPUs")
    found = texts(machine(), spread, there)
    assert "take requiredCPUBindPolicy SpreadByPCPUs out of the resource spec" in found
    assert "make it LS, not LSR, so that it shares its CPUs" in found
    many = texts(machine(), bound_pod("p", "18"))
    assert "make it LS, not LSR, so that it shares its CPUs" in many
    assert not any("resource spec" in each for each in many), "it has none"


def test_numa_policies() -> None:
    asked = bound_pod("p", "10", numa="SingleNUMANode")
    found = texts(machine(), asked)
    assert "take numaTopologyPolicy SingleNUMANode out of the NUMA topology spec" in found


def annotated(percent: int, **annotations: Any) -> Pod:
    written = {key: json.dumps(value) for key, value in annotations.items()}
    return wants(percent, annotations=written)


def test_gpu_partition_and_topology_hint() -> None:
    partition = annotated(200, **{keys.GPU_PARTITION_SPEC: {"allocatePolicy": "Restricted"}})
    assert "take the GPU partition spec away" in texts(cards(2), partition)
    scope = {"gpu": {"requiredTopologyScope": "Device"}}
    hinted = annotated(200, **{keys.DEVICE_ALLOCATE_HINT: scope})
    found = texts(cards(2), hinted)
    assert "take requiredTopologyScope Device out of the hint for gpu devices" in found


def test_a_reservation_affinity_that_no_reservation_meets() -> None:
    wanted = {keys.RESERVATION_AFFINITY: json.dumps({"name": "none"})}
    found = texts([node("a")], pod("p", cpu="1", annotations=wanted))
    assert found == ["take the reservation affinity away"]


def test_two_things_wrong_are_no_single_change() -> None:
    both = bound_pod("p", "17", numa="SingleNUMANode", required="SpreadByPCPUs")
    assert texts(machine(), both) == ["ask for cpu 4, not 17"]


def test_what_cannot_be_read_is_left_alone() -> None:
    broken = {keys.DEVICE_ALLOCATE_HINT: "{", keys.NUMA_TOPOLOGY_SPEC: "[]"}
    asked = pod("p", annotations={**broken, keys.DEVICE_JOINT_ALLOCATE: '{"requiredScope": 1}'})
    for variant in annotation_variants.looser(asked):
        kept = variant.pod.metadata.annotations
        assert {key: kept[key] for key in broken} == broken


WISH = st.fixed_dictionaries(
    {},
    optional={
        keys.RESOURCE_SPEC: st.just({"requiredCPUBindPolicy": "FullPCPUs", "other": 1}),
        keys.NUMA_TOPOLOGY_SPEC: st.just({"numaTopologyPolicy": "SingleNUMANode"}),
        keys.GPU_PARTITION_SPEC: st.just({"allocatePolicy": "Restricted"}),
        keys.RESERVATION_AFFINITY: st.just({"name": "r"}),
        keys.DEVICE_ALLOCATE_HINT: st.just({"gpu": {"requiredTopologyScope": "Device"}}),
    },
)


@settings(max_examples=examples(0.25), deadline=None)
@given(wish=WISH, cpu=st.integers(1, 20), percent=st.sampled_from([0, 50, 200]))
def test_each_is_one_change_and_what_is_told_does_it(
    wish: dict[str, Any], cpu: int, percent: int
) -> None:
    annotations = {key: json.dumps(value) for key, value in wish.items()}
    labels = {keys.QOS_CLASS: "LSR"}
    requests = dict.fromkeys(RATIO, str(percent)) if percent else {}
    asked = pod("p", cpu=str(cpu), annotations=annotations, labels=labels, requests=requests,
                priority=9500)  # fmt: skip
    for variant in annotation_variants.looser(asked):
        changed = variant.pod.metadata
        differs = [
            key
            for before, after in (
                (annotations, changed.annotations),
                (labels, changed.labels),
            )
            for key in before.keys() | after.keys()
            if before.get(key) != after.get(key)
        ]
        assert len(differs) == 1, variant.text
        assert variant.pod.spec == asked.spec

    async def run() -> None:
        scheduler, views, _ = shipped_scheduler([])
        for each in (*machine(), *cards(2)[1:]):
            views.view(type(each)).put(each)
        decider, shapes = scheduler.deciders[NAME], scheduler.world.shapes
        if fits(decider, shapes, asked):
            return
        found = search(scheduler, asked)
        for change in found.annotation_changes():
            assert fits(decider, shapes, found.pods[change.text]) == change.nodes > 0

    asyncio.run(run())


def minimum(name: str, least: int) -> str:
    return f"lower the minimum of the gang default/{name} to {least}"


@pytest.mark.parametrize("count", [2, 3])
def test_the_minimum_of_a_gang(count: int) -> None:
    """Two would find nodes, whether a third is there or not."""
    nodes = [node("a", cpu="3"), node("b", cpu="3")]
    pods = [member(f"p{i}", 3, cpu="2") for i in range(count)]
    before: list[Any] = []

    def then(scheduler: Any, explainer: Any) -> None:
        before.append(everything(scheduler))
        assert told(explainer.pod("default", "p0")) == [(minimum("g", 2), 2)]
        assert everything(scheduler) == before[0]

    made(nodes, pods, then)
    fewer = [member(f"p{i}", 2, cpu="2") for i in range(count)]
    assert in_gang(nodes, fewer, "p0").gang.goes  # type: ignore[union-attr]


def test_no_minimum_helps_a_pod_that_fits_nowhere() -> None:
    pods = [member("p0", 2, cpu="9"), member("p1", 2, cpu="1")]
    assert not any("minimum" in text for text, _ in told(in_gang([node("a", cpu="4")], pods, "p0")))
    assert (minimum("g", 1), 1) in told(in_gang([node("a", cpu="4")], pods, "p1"))
