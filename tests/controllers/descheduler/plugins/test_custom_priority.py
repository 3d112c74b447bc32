# SPDX-License-Identifier: Apache-2.0
"""CustomPriority: the reference's example, whole nodes or none, cordons that are taken back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.kinds.node import Node
from koord.controllers.descheduler.plugins.custompriority.custom_priority_args import (
    CustomPriorityArgs,
)
from koord.controllers.scheduler.config.field_path import FieldPath
from tests.controllers.descheduler.world import RecordedEvictions, cluster, make, node, pod
from tests.outcomes import refusal

DEAR, CHEAP = {"pool": "dear"}, {"pool": "cheap"}


def level(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "nodeSelector": {"matchLabels": {"pool": name}}, **more}


LEVELS = {"evictionOrder": [level("dear"), level("cheap")]}
DRAIN = {**LEVELS, "mode": "DrainNode", "autoCordon": True}


class RecordedCordons:
    """Takes cordons, or none."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.calls: list[str] = []
        self._refuses = refuses

    async def cordon(self, node: Node) -> bool:
        self.calls.append(f"cordon {node.metadata.name}")
        return not self._refuses

    async def uncordon(self, node: Node) -> bool:
        self.calls.append(f"uncordon {node.metadata.name}")
        return True


def run(args: dict[str, Any], view: Any, **more: Any) -> tuple[RecordedEvictions, list[str]]:
    """What is evicted, and which cordons are set and taken back."""
    evictions = RecordedEvictions(more.pop("refuses", ()))
    cordons = RecordedCordons(refuses=more.pop("uncordonable", False))
    descheduling = make("balance", "CustomPriority", args, evictions, **more)
    handle: Any = descheduling.profiles[0].handle
    handle.writer = cordons
    assert asyncio.run(descheduling.run(view)).errors == []
    return evictions, cordons.calls


def two_levels(dear_cpus: list[str], cheap: Node | None = None, **more: Any) -> Any:
    pods = [pod(f"p{number}", "n1", cpu=cpu) for number, cpu in enumerate(dear_cpus)]
    nodes = [node("n1", labels=DEAR, **more), cheap or node("n2", cpu="2", labels=CHEAP)]
    return cluster(nodes, pods)


def test_each_for_itself_or_all_together() -> None:
    view = two_levels(["1", "2"])
    evictions, _ = run(LEVELS, view)
    assert evictions.names == ["p0", "p1"]
    assert set(evictions.reasons) == {
        "evicting from dear priority resource to lower priority resource"
    }
    # They do not fit together.
    evictions, cordons = run(DRAIN, view)
    assert (evictions.names, cordons) == ([], [])


def test_a_node_is_cordoned_and_drained() -> None:
    view = two_levels(["1", "900m"])
    evictions, cordons = run(DRAIN, view)
    assert (evictions.names, cordons) == (["p1", "p0"], ["cordon n1"])
    assert set(evictions.reasons) == {"drain node n1 (sourcePriority=dear)"}
    # The first that fails ends it, and the cordon is taken back.
    evictions, cordons = run(DRAIN, view, refuses={"p0"})
    assert (evictions.names, cordons) == (["p1"], ["cordon n1", "uncordon n1"])


def test_what_is_not_ours_to_uncordon() -> None:
    view = two_levels(["1", "900m"], unschedulable=True)
    assert run(DRAIN, view, refuses={"p0"})[1] == []
    # Pods would come back to a node that cannot be cordoned.
    evictions, cordons = run(DRAIN, two_levels(["1"]), uncordonable=True)
    assert (evictions.names, cordons) == ([], ["cordon n1"])


def test_a_dry_run_cordons_and_evicts_nothing() -> None:
    evictions, cordons = run({**DRAIN, "dryRun": True}, two_levels(["1"]))
    assert (evictions.names, cordons) == ([], [])


def test_a_pod_that_may_not_go_now_keeps_its_node() -> None:
    view = two_levels(["1", "900m"])
    held = {"namespaceLabelSelector": {"matchLabels": {"tier": "spare"}}}
    assert run(DRAIN, view, evictor=held)[1] == []
    assert run(LEVELS, view, evictor=held)[0].names == []


def test_pods_take_room_of_the_number_of_pods() -> None:
    cheap = node("n2", labels=CHEAP, pods="1")
    assert run(DRAIN, two_levels(["100m", "100m"], cheap))[0].names == []
    assert run(DRAIN, two_levels(["100m"], cheap))[0].names == ["p0"]


def test_what_was_placed_stays_placed() -> None:
    nodes = [node("n1", labels=DEAR), node("n2", labels=DEAR), node("n3", cpu="2", labels=CHEAP)]
    pods = [pod("a", "n1", cpu="1500m"), pod("b", "n2", cpu="1")]
    assert run(DRAIN, cluster(nodes, pods))[0].names == ["a"]


def test_five_in_a_row_that_fit_nowhere_end_a_node() -> None:
    # By size: five that nobody tolerates to take, then one that fits.
    other = {"nodeSelector": {"disk": "none"}}
    stuck = [pod(f"p{number}", "n1", cpu="100m", spec=other) for number in range(5)]
    nodes = [node("n1", labels=DEAR), node("n2", labels=CHEAP)]
    fits = pod("z", "n1", cpu="200m")
    assert run(LEVELS, cluster(nodes, [*stuck, fits]))[0].names == []
    assert run(LEVELS, cluster(nodes, [*stuck[:4], fits]))[0].names == ["z"]
    assert len(run({**LEVELS, "nodeFit": False}, cluster(nodes, [*stuck, fits]))[0].names) == 6


def test_a_node_is_of_the_first_level_that_selects_it() -> None:
    everything = {"name": "all", "nodeSelector": {}}
    view = two_levels(["1"])
    # All nodes are of one level, and the others have none.
    assert run({"evictionOrder": [everything, level("cheap")]}, view)[0].names == []
    assert run({"evictionOrder": [level("dear"), everything]}, view)[0].names == ["p0"]


def test_thresholds_keep_pods_and_refuse_them() -> None:
    view = two_levels(["1"])  # of 4 CPUs: 25 %; the cheap node is empty
    kept = [level("dear", keepThreshold={"cpu": 30}), level("cheap")]
    assert run({"evictionOrder": kept}, view)[0].names == []
    kept = [level("dear", keepThreshold={"cpu": 25}), level("cheap")]
    assert run({"evictionOrder": kept}, view)[0].names == ["p0"]
    pods = [pod("a", "n1", cpu="1"), pod("b", "n2", cpu="1")]
    view = cluster([node("n1", labels=DEAR), node("n2", labels=CHEAP)], pods)
    for percent, names in ((24, []), (25, ["a"])):
        order = [level("dear"), level("cheap", rejectThreshold={"cpu": percent})]
        assert run({"evictionOrder": order}, view)[0].names == names


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({}, "args.evictionOrder: got '0 levels', expected 2 levels or more"),
        ({"evictionOrder": [level("a"), level("a")]}, "args.evictionOrder[1]: got 'a', expected"),
        ({"evictionOrder": [level("a"), {"name": "b"}]}, "args.evictionOrder[1].nodeSelector"),
        ({"evictionOrder": [level(""), level("b")]}, "args.evictionOrder[0].name: got ''"),
        ({**LEVELS, "mode": "drainNode"}, "args.mode: got 'drainNode', expected one of BestEffort"),
        ({"evictionOrder": [level("a"), level("b", keepThreshold={"cpu": 101})]},
         'args.evictionOrder[1].keepThreshold."cpu": got 101'),
    ],
)  # fmt: skip
def test_wrong_arguments_name_their_place(args: dict[str, Any], message: str) -> None:
    assert message in refusal(CustomPriorityArgs.read, args, FieldPath("f", "args"))


SIZES = st.lists(st.integers(1, 30), max_size=6)


@given(SIZES, SIZES, st.lists(st.integers(0, 40), min_size=1, max_size=3))
def test_drained_nodes_fit_on_the_others(
    first: list[int], second: list[int], room: list[int]
) -> None:
    """By a model: first fit in order of size, node after node, all or none."""
    nodes = [node("n1", labels=DEAR), node("n2", labels=DEAR)]
    nodes += [
        node(f"t{number}", cpu=f"{cpu * 100}m", labels=CHEAP) for number, cpu in enumerate(room)
    ]
    pods = [
        pod(f"{name}-{number}", name, cpu=f"{cpu * 100}m", memory="0")
        for name, sizes in (("n1", first), ("n2", second))
        for number, cpu in enumerate(sizes)
    ]
    left, slots, expected = list(room), [10] * len(room), set()
    for name, sizes in (("n1", first), ("n2", second)):
        try_left, try_slots = list(left), list(slots)
        for cpu in sorted(sizes):
            fits = [i for i, have in enumerate(try_left) if have >= cpu and try_slots[i]]
            if not fits:
                break
            try_left[fits[0]] -= cpu
            try_slots[fits[0]] -= 1
        else:
            left, slots = try_left, try_slots
            expected |= {f"{name}-{number}" for number in range(len(sizes))}
    assert set(run(DRAIN, cluster(nodes, pods))[0].names) == expected
