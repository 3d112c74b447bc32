# SPDX-License-Identifier: Apache-2.0
"""Gangs that want to be close together, through the whole scheduler."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.rejection import Rejection
from tests.controllers.scheduler.plugins.coscheduling.gangs import (
    GangWorld,
    bound,
    layers,
    member,
    running,
)
from tests.controllers.scheduler.pods import node

AWARE = {"aware_network_topology": True}
SELECTOR = "scheduling.koordinator.sh/network-topology-selector"


def racks(sizes: Mapping[str, str], cpu: Mapping[str, str] | None = None) -> list[Node]:
    """Nodes by name with their racks; 4 CPUs where nothing else is said."""
    return [
        node(name, cpu=(cpu or {}).get(name, "4"), labels={"rack": rack})
        for name, rack in sizes.items()
    ]


def near(*rules: dict[str, Any]) -> dict[str, str]:
    return {"network-topology-spec": json.dumps({"gatherStrategy": list(rules)})}


MUST = near({"layer": "rack", "strategy": "MustGather"})
TWO = {"a1": "a", "a2": "a", "b1": "b", "b2": "b"}


def gang(
    count: int, least: int | None = None, notes: dict[str, str] = MUST, **more: Any
) -> list[Pod]:
    return [member(f"p{i}", least=least or count, notes=notes, **more) for i in range(count)]


def world(nodes: list[Node], **more: Any) -> GangWorld:
    made = GangWorld(nodes, AWARE, **more)
    made.put(layers("rack"))
    return made


@running
async def test_all_in_one_rack_and_the_tightest() -> None:
    made = world(racks(TWO, {"b2": "2"}))
    made.put(*gang(3))
    await made.schedule()
    assert made.where() == {"p0": "b1", "p1": "b1", "p2": "b2"}


@running
async def test_no_rack_has_room() -> None:
    made = world(racks(TWO, {"b2": "2"}))
    made.put(*gang(5))
    await made.schedule()
    assert made.where() == {}
    assert made.said("p0") == [
        "0/4 nodes are available: no candidate topology nodes can accommodate job,"
        " desiredOfferSlot: 5, topology topologyNode rack/a: 4;topology topologyNode rack/b: 3,"
        " 0/4 nodes are available: 4 Insufficient cpu.."
    ]
    assert 'gets rejected due to member Pod "default/p0"' in made.said("p4")[0]
    assert (made.world.table.requested == 0).all()


@running
async def test_multiples_are_said_where_they_stand_in_the_way() -> None:
    made = world(racks(TWO))
    rule = {"layer": "rack", "strategy": "MustGather", "podCountMultiple": 3}
    made.put(*gang(4, notes=near(rule)))
    await made.schedule()
    assert made.where() == {}
    assert made.said("p0")[0].endswith("; podCountMultiple constraints: rack=3.")


@running
async def test_where_not_all_fit_those_that_are_needed_go() -> None:
    made = world(racks(TWO, {"b2": "2"}))
    made.put(*gang(6, least=4))
    await made.schedule()
    assert made.where() == {"p0": "a1", "p1": "a1", "p2": "a2", "p3": "a2"}


@running
async def test_those_that_come_later_join_their_gang() -> None:
    made = world(racks({**TWO, "b3": "b"}, {"a2": "2"}))
    made.put(*gang(2, least=2))
    await made.schedule()
    assert set(made.where().values()) == {"a1"}
    made.confirm()
    made.put(member("p2", notes=MUST))
    await made.schedule()
    assert made.where()["p2"] == "a2"
    made.confirm()
    made.put(member("p3", notes=MUST))
    await made.schedule()
    assert "p3" not in made.where()


@running
async def test_without_a_network_nobody_goes() -> None:
    made = GangWorld(racks(TWO), AWARE)
    made.put(*gang(2))
    await made.schedule()
    assert made.said("p0") == ["0/4 nodes are available: no cluster network topology."]


@running
async def test_a_layer_that_is_not_there_is_named() -> None:
    made = world(racks(TWO))
    made.put(*gang(2, notes=near({"layer": "row", "strategy": "MustGather"})))
    await made.schedule()
    assert "gatherStrategy[0].layer: got 'row'" in made.said("p0")[0]


@running
async def test_unless_switched_on_the_network_does_not_matter() -> None:
    made = GangWorld(racks(TWO))
    made.put(*gang(5))
    await made.schedule()
    assert len(made.where()) == 5


@running
async def test_pods_fill_nodes_in_the_order_of_their_index() -> None:
    made = world(racks(TWO))
    pods = [
        member(f"p{i}", least=3, notes={**MUST, "network-topology-index": str(9 - i)})
        for i in range(3)
    ]
    made.put(*pods)
    await made.schedule()
    assert made.where() == {"p2": "a1", "p1": "a1", "p0": "a2"}


class Moody:
    """Looks alike on all nodes, but lets only so many pods onto some."""

    name = "Moody"
    depends = 127

    def __init__(self, most: Mapping[str, int]) -> None:
        self.most = dict(most)

    def applies(self, cycle: Cycle) -> bool:
        return True

    def generation(self, cycle: Cycle) -> int:
        return 0

    def events(self) -> list[Any]:
        return []

    def filter_node(self, cycle: Cycle, row: int) -> Rejection | None:
        most = self.most.get(cycle.table.name(row))
        if most is None or len(cycle.table.pods[row]) < most:
            return None
        return Rejection(self.name, ("moody",))


@running
async def test_nodes_that_only_look_alike_are_found_out() -> None:
    made = world(racks(TWO), more={"filter": [Moody({"a2": 1})]})
    made.put(*gang(4))
    await made.schedule()
    assert set(made.where().values()) == {"b1", "b2"}
    other = world(racks(TWO), more={"filter": [Moody({"a1": 1, "b1": 1})]})
    other.put(*gang(4))
    await other.schedule()
    assert other.where() == {}
    assert "rack/a: 3;topology topologyNode rack/b: 3" in other.said("p0")[0]
    assert (other.world.table.requested == 0).all()


@running
async def test_pods_are_drawn_to_others_of_their_selector() -> None:
    made = world(racks({**TWO, "c1": "c"}))
    selected = {SELECTOR: "x"}
    made.put(bound(member("p0", gang="", cpu="3", annotations=selected), "a1"))
    info: PodInfo = made.world.shapes.info(member("p2", gang="", cpu="2", annotations=selected))
    cycle = Cycle(info, made.world.table)
    rows = made.world.table.rows
    assert isinstance(rows, slice)
    feasible = np.arange(made.world.table.size)
    scores = made.plugin.normalize(cycle, made.plugin.score(cycle, rows), feasible)
    names = [made.world.table.name(row) for row in feasible.tolist()]
    assert dict(zip(names, scores.tolist(), strict=True)) == {
        "a1": 100, "a2": 75, "c1": 50, "b1": 25, "b2": 0
    }  # fmt: skip
