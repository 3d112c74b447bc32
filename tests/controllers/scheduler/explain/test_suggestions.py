# SPDX-License-Identifier: Apache-2.0
"""What explain says would get a pod onto a node does get it there, and nothing smaller does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kinds.device import Device
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import ElasticQuota
from koord.api.kinds.reservation import Reservation
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.explain import pod_variants
from koord.controllers.scheduler.explain.explanation import PodExplanation
from koord.controllers.scheduler.explain.suggestions import SuggestionFinder, fits
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.scheduler import Scheduler
from tests.controllers.scheduler.cycles.test_scheduling_loop import settle
from tests.controllers.scheduler.explain.test_what_if import shipped_scheduler
from tests.controllers.scheduler.histories import documents
from tests.controllers.scheduler.pods import node, pod

NAME = "koord-scheduler"
DISK = {"disk": "ssd"}
TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


def typed(kind: Any, document: dict[str, Any]) -> Any:
    from koord.api import codec

    return codec.decode_json(documents.json.dumps(document).encode(), kind, "test")


def explained(nodes: Iterable[Node], asked: Pod, *others: Any) -> PodExplanation:
    async def run() -> PodExplanation:
        _, views, explainer = shipped_scheduler(nodes)
        for each in (*others, asked):
            views.view(type(each)).put(each)
        return explainer.pod("default", asked.metadata.name)

    return asyncio.run(run())


def told(found: PodExplanation) -> list[tuple[str, int]]:
    return [(change.text, change.nodes) for change in found.changes]


def wish(*requirements: dict[str, Any]) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(requirements)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


SSD = {"key": "disk", "operator": "In", "values": ["ssd"]}
ZONE = {"key": "zone", "operator": "Exists"}


@pytest.mark.parametrize(
    ("nodes", "asked", "texts"),
    [
        # Two things are wrong: no single change helps.
        ([node("a", cpu="4")], pod("p", cpu="8", nodeSelector=DISK), []),
        ([node("a", cpu="4", taints=[TAINT]), node("b", cpu="2")], pod("p", cpu="3"),
         [("ask for cpu 2, not 3", 1), ("have a machine like b with cpu 3 free", 1),
          ("tolerate the taint {k: v}", 1)]),
        ([node("a"), node("b", labels=DISK)], pod("p", cpu="1", affinity=wish(SSD, ZONE)),
         [("take the required node affinity away", 2),
          ("take zone Exists out of the node affinity", 1)]),
        ([node("a", cpu="4", memory="1Gi")], pod("p", cpu="5", memory="2Gi"),
         [("ask for cpu 4, not 5 and ask for memory 1024Mi, not 2048Mi", 1),
          ("have a machine like a with cpu 5 and memory 2048Mi free", 1)]),
        ([node("a")], pod("p", cpu="1", requests={"example.com/x": "2"}),
         [("do not ask for example.com/x", 1)]),
    ],
)  # fmt: skip
def test_changes(nodes: list[Node], asked: Pod, texts: list[tuple[str, int]]) -> None:
    assert told(explained(nodes, asked)) == texts


def test_more_is_free_only_on_a_machine_that_has_as_much() -> None:
    """Nothing that ends on a machine of four makes room for five."""
    others = pod("q", cpu="2", nodeName="a")
    assert told(explained([node("a", cpu="4")], pod("p", cpu="3"), others)) == [
        ("ask for cpu 2, not 3", 1),
        ("have cpu 1 more free on a", 1),
    ]
    assert told(explained([node("a", cpu="4")], pod("p", cpu="5"), others)) == [
        ("ask for cpu 2, not 5", 1),
        ("have a machine like a with cpu 5 free", 1),
    ]


def test_a_reservation_in_the_way() -> None:
    made = documents.reservation("r", 3, "Restricted", False)
    amounts = {"cpu": "3", "memory": "256Mi"}
    made["status"] = {"phase": "Available", "nodeName": "a", "allocatable": amounts}
    made["metadata"]["uid"] = "r"
    found = explained([node("a", cpu="4")], pod("p", cpu="2"), typed(Reservation, made))
    assert ("delete the reservation r", 1) in told(found)


@pytest.mark.parametrize("cards", ["9", "4"])
def test_cards_are_asked_for_fewer_before_none(cards: str) -> None:
    """Of the node's four one is ill; nodes without cards would take the pod without any."""
    shares = dict.fromkeys((*documents.MINOR, "koordinator.sh/gpu"), "400")
    shares |= {"koordinator.sh/gpu-memory": "64Gi", "nvidia.com/gpu": "4"}
    device = documents.device("g", 4)
    device["spec"]["devices"][0]["health"] = False
    asked = pod("p", cpu="1", requests={"nvidia.com/gpu": cards})
    found = explained([node("a"), node("g", allocatable=shares)], asked, typed(Device, device))
    assert told(found) == [(f"ask for nvidia.com/gpu 3, not {cards}", 1)]


def test_a_quota_that_is_full() -> None:
    quota = documents.quota("team", 2)
    labels = {documents.QUOTA + "name": "team"}
    nodes = [node("a", cpu="8"), node("b", cpu="2")]
    found = explained(nodes, pod("p", cpu="3", labels=labels), typed(ElasticQuota, quota))
    assert found.refused.startswith("Insufficient quotas, quotaName: team")
    assert told(found) == [("raise max of the quota team to cpu 3", 1)]
    assert (found.fitting, found.chosen) == (1, "a"), "where it would go but for its quota"
    short = explained(nodes, pod("p", cpu="9", labels=labels), typed(ElasticQuota, quota))
    assert told(short) == [], "a higher quota alone would not do"
    assert short.nearest[0].node == "a"
    assert short.nearest[0].missing == {"cpu": 1000}


def test_a_claim_that_is_not_there() -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    found = explained([node("a", cpu="2")], pod("p", cpu="3", volumes=volumes))
    assert found.refused == 'persistentvolumeclaim "c" not found'
    assert [(near.node, near.missing) for near in found.nearest] == [("a", {"cpu": 1000})]


def search(made: Scheduler, asked: Pod) -> SuggestionFinder:
    info = made.world.shapes.info(asked)
    cycle = Cycle(PodInfo(info.pod, info.shape), made.world.table)
    decider = made.deciders[NAME]
    decider.attempt(cycle)
    return SuggestionFinder(decider, made.world.shapes, cycle)


CPUS = st.integers(1, 6)
NODES = st.lists(
    st.tuples(CPUS, CPUS, st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=4
)
WISHES = st.tuples(CPUS, CPUS, st.booleans(), st.booleans(), st.booleans())


def a_node(number: int, cpu: int, memory: int, ssd: bool, taint: bool, cordoned: bool) -> Node:
    labels = DISK if ssd else {}
    taints = [TAINT] if taint else []
    return node(
        f"n{number}", cpu=str(cpu), memory=f"{memory}Gi", labels=labels, taints=taints,
        spec={"unschedulable": cordoned},
    )  # fmt: skip


def a_pod(cpu: int, memory: int, ssd: bool, tolerates: bool, zoned: bool) -> Pod:
    spec: dict[str, Any] = {"nodeSelector": DISK} if ssd else {}
    if tolerates:
        spec["tolerations"] = [{"key": "k", "operator": "Exists"}]
    if zoned:
        spec["affinity"] = wish(ZONE)
    return pod("p", cpu=str(cpu), memory=f"{memory}Gi", **spec)


@settings(deadline=None)
@given(nodes=NODES, asks=WISHES)
def test_what_is_told_does_it(nodes: list[Any], asks: Any) -> None:
    async def run() -> None:
        there = [a_node(i, *each) for i, each in enumerate(nodes)]
        made, views, _ = shipped_scheduler(there)
        decider, shapes = made.deciders[NAME], made.world.shapes
        asked = a_pod(*asks)
        if fits(decider, shapes, asked):
            return
        before = made.world.table.allocatable.tolist(), made.world.table.version
        found = search(made, asked)
        changes = {change.text: change.nodes for change in found.suggestions()}
        assert (made.world.table.allocatable.tolist(), made.world.table.version) == before
        assert changes.keys() == found.pods.keys() | found.larger_nodes.keys()
        for text, changed in found.pods.items():
            views.view(Pod).put(changed)
            made.loop.schedule(1.0)
            assert made.world.accounts.get("uid-p") is not None, text
            await settle()
            views.view(Pod).remove("default/p")
            assert fits(decider, shapes, changed) == changes[text]
        for name, more in found.larger_nodes.values():
            i = int(name[1:])
            cpu, memory, *rest = nodes[i]
            cpu += -(-more.get("cpu", 0) // 1000)
            memory += -(-more.get("memory", 0) // (1 << 30))
            there[i] = a_node(i, cpu, memory, *rest)
            again, _, _ = shipped_scheduler(there)
            assert fits(again.deciders[NAME], again.world.shapes, asked) >= 1
        smallest(made, asked, found)

    asyncio.run(run())


def smallest(made: Scheduler, asked: Pod, found: SuggestionFinder) -> None:
    """A cut of CPU alone that is a milli less does not do."""
    for text, changed in found.pods.items():
        if text.startswith("ask for cpu") and " and " not in text:
            wanted, given = (
                each.spec.containers[0].resources.requests["cpu"].milli()
                for each in (asked, changed)
            )
            less = pod_variants.smaller(asked, {"cpu": wanted - given - 1})
            if less is not None:
                assert not fits(made.deciders[NAME], made.world.shapes, less), text
