# SPDX-License-Identifier: Apache-2.0
"""ScaleDownBinPack: the reference's order, costs that come and go, a plain model of the rank."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.kinds.pod import Pod
from koord.api.protocol import keys
from koord.controllers.descheduler.plugins.scaledownbinpack.ranking import (
    RankedNode,
    node_score,
    ranked,
)
from koord.controllers.descheduler.plugins.scaledownbinpack.scale_down_bin_pack import (
    ScaleDownBinPackArgs,
)
from koord.controllers.scheduler.config.field_path import FieldPath
from tests.controllers.descheduler.world import RecordedEvictions, cluster, make, node, pod
from tests.outcomes import refusal

WEB = {"podSelectors": [{"name": "web", "selector": {"matchLabels": {"app": "web"}}}]}
MOST = 2**31 - 1


class RecordedCosts:
    """Takes annotations and puts them on the pods, but of those that it refuses."""

    def __init__(self, refuses: str = "") -> None:
        self.writes = 0
        self._refuses = refuses

    async def annotate(self, pod: Pod, annotations: Mapping[str, str | None], **_: Any) -> bool:
        self.writes += 1
        if pod.metadata.name == self._refuses:
            return False
        for key, value in annotations.items():
            if value is None:
                pod.metadata.annotations.pop(key, None)
            else:
                pod.metadata.annotations[key] = value
        return True


def written(args: dict[str, Any], view: Any, writer: RecordedCosts | None = None) -> dict[str, str]:
    """Costs of pods after a round."""
    descheduling = make("balance", "ScaleDownBinPack", args, RecordedEvictions())
    plugin: Any = descheduling.profiles[0].plugins["ScaleDownBinPack"]
    plugin._costs._writer = writer or RecordedCosts()
    assert asyncio.run(descheduling.run(view)).errors == []
    return costs(view)


def costs(view: Any) -> dict[str, str]:
    return {
        pod.metadata.name: pod.metadata.annotations[keys.POD_DELETION_COST]
        for pod in view.pods
        if keys.POD_DELETION_COST in pod.metadata.annotations
    }


def web(name: str, node_name: str, **more: Any) -> Pod:
    return pod(name, node_name, labels={"app": "web"}, **more)


def test_nodes_that_empty_soonest_come_first() -> None:
    # One target on a clean node, then clean nodes with two by name, then six, then a shared node.
    pods = [web("s1", "shared"), pod("other", "shared", labels={"app": "db"})]
    pods += [web(f"six{number}", "full") for number in range(6)]
    pods += [web(f"{place}{number}", place) for place in ("two-b", "two-a") for number in (1, 2)]
    pods += [web("one1", "one")]
    view = cluster([node(name) for name in ("full", "one", "shared", "two-a", "two-b")], pods)
    found = written(WEB, view)
    order = sorted(found, key=lambda name: int(found[name]))
    assert order == ["one1", "two-a1", "two-a2", "two-b1", "two-b2",
                     *(f"six{number}" for number in range(6)), "s1"]  # fmt: skip
    assert sorted(map(int, found.values())) == list(range(12))


def test_the_reference_s_example() -> None:
    on_a = RankedNode(node("a"), [web("p", "a", cpu="1")])
    on_b = RankedNode(node("b"), [web("q", "b", cpu="1")], others=[pod("r", "b", cpu="2")])
    assert [node_score(each, {"cpu": 1.0}) for each in (on_a, on_b)] == [0, 2]
    assert [each.metadata.name for each in ranked([on_b, on_a], {"cpu": 1.0})] == ["p", "q"]
    idle = RankedNode(node("c"), [web("s", "c", cpu="0")], others=[pod("t", "c")])
    assert node_score(idle, {"cpu": 1.0}) == float("inf")


def test_large_and_new_pods_of_a_node_go_first() -> None:
    pods = [web("old", "n1", age=100), web("new", "n1", age=1), web("big", "n1", cpu="2", age=500),
            web("a", "n1", age=100, namespace="zz")]  # fmt: skip
    found = written(WEB, cluster([node("n1"), node("n2")], pods))
    assert sorted(found, key=lambda name: int(found[name])) == ["big", "new", "old", "a"]


def test_pods_that_may_not_go_cost_most_wherever_they_are() -> None:
    # A bare pod is one that DefaultEvictor keeps; n2 has no other.
    pods = [web("a", "n1"), web("kept", "n1", owner=None), web("alone", "n2", owner=None)]
    found = written(WEB, cluster([node("n1"), node("n2")], pods))
    assert found == {"a": "0", "kept": str(MOST), "alone": str(MOST)}


def test_a_cost_that_no_longer_holds_is_taken_back() -> None:
    pods = [web("a", "n1"), web("b", "n1"), web("c", "n1"), pod("d", "n1")]
    pods[3].metadata.annotations[keys.POD_DELETION_COST] = "7"
    view = cluster([node("n1"), node("n2")], pods)
    assert written(WEB, view) == {"a": "0", "b": "1", "c": "2", "d": "7"}
    # Nobody ranks b and c any more; what an operator has given c since stays, and so does d's.
    for name in (1, 2):
        pods[name].metadata.labels = {}
    pods[2].metadata.annotations[keys.POD_DELETION_COST] = "99"
    writer = RecordedCosts()
    assert written(WEB, view, writer) == {"a": "0", "c": "99", "d": "7"}
    assert all(keys.SCALE_DOWN_RANK not in each.metadata.annotations for each in pods[1:])
    # All is as it should be: nothing is written.
    assert writer.writes == 2
    written(WEB, view, writer)
    assert writer.writes == 2


def test_costs_of_other_profiles_stay() -> None:
    other = pod("a", "n1", annotations={keys.POD_DELETION_COST: "3",
                                        keys.SCALE_DOWN_RANK: "x/y/3"})  # fmt: skip
    view = cluster([node("n1"), node("n2")], [other])
    assert written(WEB, view) == {"a": "3"}


def test_costs_that_cannot_be_written_are_one_error() -> None:
    view = cluster([node("n1"), node("n2")], [web("a", "n1"), web("b", "n1")])
    descheduling = make("balance", "ScaleDownBinPack", WEB, RecordedEvictions())
    plugin: Any = descheduling.profiles[0].plugins["ScaleDownBinPack"]
    plugin._costs._writer = RecordedCosts(refuses="a")
    (error,) = asyncio.run(descheduling.run(view)).errors
    assert "1 pods not written" in error
    assert costs(view) == {"b": "1"}


def _evicted(limit: int, **more: Any) -> list[tuple[str, str]]:
    view = cluster([node("n1"), node("n2")], [web(name, "n1", age=9) for name in "abcd"])
    evictions = RecordedEvictions(refuses={"a"})
    args = {**WEB, "strategy": "EvictDirectly", "maxPodsToEvict": limit}
    descheduling = make("balance", "ScaleDownBinPack", args, evictions, **more)
    record = asyncio.run(descheduling.run(view))
    assert set(evictions.reasons) <= {"scale-down binpack"}
    assert costs(view) == {}
    return [(each.name, each.result) for each in record.outcomes]


def test_evictions_end_when_enough_have_gone() -> None:
    assert _evicted(2) == [("a", "failed"), ("b", "evicted"), ("c", "evicted")]
    # A dry run names them, within the limits of the round.
    told = _evicted(2, dryRun=True, maxNoOfPodsToEvictTotal=1)
    assert told[0] == ("a", "evicted")
    assert {result for _, result in told[1:]} == {"refused"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"strategy": "Evict"}, "args.strategy: got 'Evict', expected one of CalculateOnly"),
        ({"strategy": "EvictDirectly"}, "args.maxPodsToEvict: got 0"),
        ({"strategy": "EvictDirectly", "maxPodsToEvict": -1}, "args.maxPodsToEvict: got -1"),
        ({"resourceWeights": {"cpu": 0}}, 'args.resourceWeights."cpu": got 0'),
        ({"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}, "nodeSelector"),
    ],
)
def test_wrong_arguments_name_their_place(args: dict[str, Any], message: str) -> None:
    assert message in refusal(ScaleDownBinPackArgs.read, args, FieldPath("f", "args"))


def test_weights_come_from_both_arguments() -> None:
    args = ScaleDownBinPackArgs.read({"resourceWeights": {"cpu": 2, "x": 3}}, FieldPath("f"))
    assert args.weights() == {"cpu": 2, "memory": 1, "x": 3}


KIND = st.sampled_from(["eligible", "skipped", "others"])


@given(st.lists(st.tuples(st.integers(0, 3), KIND, st.integers(0, 3000)), max_size=20))
def test_it_ranks_nodes_as_the_model_does(asked: list[tuple[int, str, int]]) -> None:
    groups = [RankedNode(node(f"n{number}")) for number in range(4)]
    amounts: list[dict[str, int]] = [{} for _ in groups]
    for number, (place, kind, milli) in enumerate(asked):
        getattr(groups[place], kind).append(web(f"p{number:02}", f"n{place}", cpu=f"{milli}m"))
        amounts[place][kind] = amounts[place].get(kind, 0) + milli

    def model(place: int) -> tuple[float, int, int]:
        mine = amounts[place].get("eligible", 0)
        rest = amounts[place].get("others", 0) + amounts[place].get("skipped", 0)
        # Of the tenth digit on two scores are equal, which is right for scores of 0 alone.
        score = round(rest / mine, 9) if mine else (inf if rest else 0.0)
        counts = (len(groups[place].eligible), place) if not rest else (0, 0)
        return score, *counts

    found = ranked([each for each in groups if each.eligible], {"cpu": 1.0})
    places = list(dict.fromkeys(int(each.spec.node_name[1:]) for each in found))
    assert sorted(places) == [place for place in range(4) if groups[place].eligible]
    keys_of_places = [model(place) for place in places]
    assert keys_of_places == sorted(keys_of_places)
    sizes = [
        [-asked[int(each.metadata.name[1:])][2] for each in found if each.spec.node_name == f"n{i}"]
        for i in range(4)
    ]
    assert all(each == sorted(each) for each in sizes)
