# SPDX-License-Identifier: Apache-2.0
"""Explanations say what the decision would be, and leave no trace of having asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.base.clock import VirtualClock
from koord.base.errors import KoordError
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.explain.attempt_history import AttemptHistory
from koord.controllers.scheduler.explain.explanation import PodExplanation, amount
from koord.controllers.scheduler.explain.pod_explainer import PodExplainer, as_it_came
from koord.controllers.scheduler.explain.what_if import plain
from koord.controllers.scheduler.registry import Registry
from koord.controllers.scheduler.scheduler import Scheduler
from tests.controllers.scheduler.cycles.test_scheduling_loop import bound
from tests.controllers.scheduler.pods import node, pod
from tests.profiles import examples


def shipped_scheduler(
    nodes: Iterable[Node], pods: Iterable[Pod] = ()
) -> tuple[Scheduler, LocalViews, PodExplainer]:
    """A scheduler as it is shipped, on hand-fed views, with the explainer of an application."""
    views, clock = LocalViews(), VirtualClock(1_700_000_000.0)
    world = ClusterState(views, clock)
    history = AttemptHistory(world.table, clock)
    registry = Registry(())
    wish = shipped(registry, "koord-scheduler")
    made = Scheduler(world, wish.profiles, registry, observers=(history.observe,))
    for each in nodes:
        views.view(Node).put(each)
    for one in pods:
        views.view(Pod).put(one)
    return made, views, PodExplainer(made, history)


def explained(nodes: Iterable[Node], asked: Pod, *others: Pod) -> PodExplanation:
    async def run() -> PodExplanation:
        _, _, explainer = shipped_scheduler(nodes, [asked, *others])
        return explainer.pod("default", asked.metadata.name)

    return asyncio.run(run())


def test_what_filters_remove_who_is_nearest_and_by_how_much() -> None:
    nodes = [node("a", cpu="4"), node("b", cpu="8"), node("c", cpu="8", labels={"disk": "ssd"})]
    found = explained(nodes, pod("p", cpu="10", nodeSelector={"disk": "ssd"}))
    assert (found.nodes, found.fitting, found.chosen) == (3, 0, "")
    removed = {line.plugin: (line.nodes, line.first) for line in found.filters}
    assert removed == {"NodeAffinity": (2, 2), "NodeResourcesFit": (3, 1)}
    assert [near.node for near in found.nearest] == ["c", "b", "a"]
    assert found.nearest[0].missing == {"cpu": 2000}
    assert found.nearest[0].reasons == ["Insufficient cpu"]
    assert [(change.text, change.nodes) for change in found.changes] == [
        ("ask for cpu 8, not 10", 1),
        ("have a machine like c with cpu 10 free", 1),
    ]


@pytest.mark.parametrize(
    ("spec", "more", "text"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, {}, "take disk=ssd out of the node selector"),
        ({}, {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
         "tolerate the taint {k: v}"),
        ({}, {"spec": {"unschedulable": True}},
         "uncordon a node, or tolerate node.kubernetes.io/unschedulable"),
    ],
)  # fmt: skip
def test_the_one_change_that_helps(spec: dict[str, Any], more: dict[str, Any], text: str) -> None:
    found = explained([node("a", **more)], pod("p", cpu="1", **spec))
    assert [(change.text, change.nodes) for change in found.changes] == [(text, 1)]


def test_a_bound_pod_is_decided_as_if_it_were_not_there() -> None:
    there = bound(pod("p", cpu="3"), "a")
    found = explained([node("a", cpu="4"), node("b", cpu="2")], there)
    assert (found.state, found.node) == ("bound", "a")
    assert found.chosen == "a", "its own CPUs are free for it, and its nodeName is no wish"
    assert [line.plugin for line in found.filters] == ["NodeResourcesFit"]


def test_what_a_scheduler_wrote_is_taken_away_and_nothing_else() -> None:
    written = {"scheduling.koordinator.sh/resource-status": '{"cpuset":"0"}', "mine": "x"}
    bare = as_it_came(bound(pod("p", annotations=written), "a"))
    assert bare.metadata.annotations == {"mine": "x"}
    assert bare.spec.node_name == ""


def test_refused_before_any_node_is_looked_at() -> None:
    spec = {"scheduling.koordinator.sh/resource-spec": "{"}
    labels = {"koordinator.sh/qosClass": "LSR"}
    asked = pod("p", cpu="2", annotations=spec, labels=labels, priority=9000)
    found = explained([node("a")], asked)
    assert "annotations[scheduling.koordinator.sh/resource-spec]" in found.refused
    assert "\n" not in found.refused


def test_who_is_not_there_and_who_is_not_ours() -> None:
    async def run() -> None:
        _, _, explainer = shipped_scheduler([node("a")], [pod("p", schedulerName="another")])
        with pytest.raises(KeyError, match="cannot find pod default/nope"):
            explainer.pod("default", "nope")
        with pytest.raises(KoordError, match=r"spec\.schedulerName: got 'another'"):
            explainer.pod("default", "p")

    asyncio.run(run())


CPUS = st.integers(1, 8)


@settings(max_examples=examples(0.25), deadline=None)
@given(nodes=st.lists(CPUS, min_size=1, max_size=5), there=st.lists(CPUS, max_size=4), asked=CPUS)
def test_the_answer_is_the_decision_and_leaves_no_trace(
    nodes: list[int], there: list[int], asked: int
) -> None:
    async def run() -> None:
        made, views, explainer = shipped_scheduler(
            [node(f"n{i}", cpu=str(cpu)) for i, cpu in enumerate(nodes)],
            [pod(f"t{i}", cpu=str(cpu)) for i, cpu in enumerate(there)],
        )
        made.loop.schedule(1.0)
        table = made.world.table
        views.view(Pod).put(pod("p", cpu=str(asked)))
        before = (table.requested.tolist(), made.queue.pending())
        first = explainer.pod("default", "p")
        assert explainer.pod("default", "p") == first
        assert (table.requested.tolist(), made.queue.pending()) == before
        free = [table.allocatable[0, row] - table.requested[0, row] for row in range(len(nodes))]
        assert first.fitting == sum(1000 * asked <= each for each in free)
        made.loop.schedule(1.0)
        info = made.world.accounts.get("uid-p")
        assert first.chosen == (table.name(info.row) if info is not None else "")

    asyncio.run(run())


def test_choices_are_plain_data() -> None:
    class Choice:
        def describe(self) -> object:
            return {"cards": (1, 2)}

    assert plain({"a": (Choice(), None)}) == {"a": [{"cards": [1, 2]}, None]}
    assert plain(object)  # its text, whatever it is


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [("cpu", 1500, "1500m"), ("cpu", 2000, "2"), ("memory", (3 << 20) + 1, "3Mi"),
     ("memory", 5, "5"), ("pods", 7, "7")],
)  # fmt: skip
def test_amounts_as_people_write_them(resource: str, value: int, text: str) -> None:
    assert amount(resource, value) == text
