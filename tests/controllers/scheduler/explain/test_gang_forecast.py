# SPDX-License-Identifier: Apache-2.0
"""Explain tells of a gang what its plan would come to, and nothing of the plan stays behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.protocol import keys
from koord.controllers.scheduler.explain.explanation import GangForecast, PodExplanation
from koord.controllers.scheduler.explain.pod_explainer import PodExplainer
from koord.controllers.scheduler.scheduler import Scheduler
from tests.controllers.scheduler.cycles.test_scheduling_loop import bound
from tests.controllers.scheduler.explain.test_what_if import shipped_scheduler
from tests.controllers.scheduler.pods import node, pod
from tests.profiles import examples


def member(name: str, minimum: int, cpu: str = "1", mode: str = "", **spec: Any) -> Pod:
    annotations = {keys.GANG_NAME: "g", keys.GANG_MIN_AVAILABLE: str(minimum)}
    if mode:
        annotations[keys.GANG_MODE] = mode
    return pod(name, cpu=cpu, annotations={**annotations, **spec.pop("more", {})}, **spec)


def made(
    nodes: Iterable[Node], pods: Iterable[Pod], then: Callable[[Scheduler, PodExplainer], None]
) -> None:
    async def run() -> None:
        scheduler, _, explainer = shipped_scheduler(nodes, pods)
        then(scheduler, explainer)

    asyncio.run(run())


def explained(nodes: Iterable[Node], pods: Iterable[Pod], name: str) -> PodExplanation:
    found: list[PodExplanation] = []
    made(nodes, pods, lambda _, explainer: found.append(explainer.pod("default", name)))
    return found[0]


def of_gang(found: PodExplanation) -> GangForecast:
    assert found.gang is not None
    return found.gang


def everything(scheduler: Scheduler) -> Any:
    """All that a plan could leave behind: columns, who counts where, gangs, queue, load."""
    plugins = {plugin.name: plugin for plugin in scheduler.plugins}
    gangs = plugins["Coscheduling"]
    quotas = [
        {name: value for name, value in each.items() if name != "runtimeVersion"}
        for each in plugins["ElasticQuota"].debug(["quotas"])
    ]
    waits = {
        each.info.uid: (each.place, each.gated_by, each.info.row, dict(each.info.allocations))
        for each in scheduler.queue.waiting()
    }
    return (
        scheduler.world.table.requested.tolist(),
        {uid: (each.row, dict(each.allocations))
         for uid, each in scheduler.world.accounts.pods().items()},
        quotas,
        gangs.debug(["gangs"]),
        gangs.planning,
        plugins["LoadAwareScheduling"].cache.used.tolist(),
        dict(plugins["LoadAwareScheduling"]._assumed),
        waits,
    )  # fmt: skip


def test_a_gang_that_cannot_go_as_a_whole() -> None:
    """Each pod alone would fit; two of three do, and one of them is told so."""
    nodes = [node("a", cpu="3"), node("b", cpu="3")]
    found = explained(nodes, [member(f"p{i}", 3, cpu="2") for i in range(3)], "p0")
    gang = of_gang(found)
    assert found.fitting == 2
    assert (gang.goes, gang.tried, gang.placed, gang.missing) == (False, 3, 2, 1)
    assert gang.first == "default/p2"
    assert gang.message == "0/2 nodes are available: 2 Insufficient cpu."
    assert gang.chosen in ("a", "b")
    line = gang.members[0]
    assert (line.gang, line.pods, line.minimum, line.bound, line.held, line.lacks) == (
        "default/g", 3, 3, 0, 0, 0,
    )  # fmt: skip


def test_the_last_attempt_of_each_member_is_remembered() -> None:
    def then(scheduler: Scheduler, explainer: PodExplainer) -> None:
        scheduler.loop.schedule(1.0)
        said = [explainer.pod("default", f"p{i}").last for i in range(3)]
        assert all(each is not None and not each.node for each in said)
        rejected = [each.message for each in said if each and "GangGroup" in each.message]
        assert len(rejected) == 2
        assert all("due to member Pod" in message for message in rejected)

    made([node("a", cpu="5")], [member(f"p{i}", 3, cpu="2") for i in range(3)], then)


def test_a_gang_that_goes_without_its_last_pod() -> None:
    pods = [member(f"p{i}", 2, cpu="2") for i in range(3)]
    gang = of_gang(explained([node("a", cpu="4")], pods, "p2"))
    assert (gang.goes, gang.placed, gang.missing, gang.first) == (True, 2, 0, "default/p2")
    assert gang.chosen == ""


def test_an_incomplete_gang_is_told_how_many_pods_it_lacks() -> None:
    found = explained([node("a")], [member("p0", 4), member("p1", 4)], "p1")
    gang = of_gang(found)
    assert found.state == "gated by Coscheduling"
    assert gang.members[0].lacks == 2
    assert "child pod not collect enough" in gang.refused
    assert (gang.goes, gang.tried) == (False, 0)


def test_a_group_names_the_gang_that_is_not_there() -> None:
    groups = {keys.GANG_GROUPS: '["default/g","default/h"]'}
    gang = of_gang(explained([node("a")], [member("p0", 1, more=groups)], "p0"))
    assert [(each.gang, bool(each.problem)) for each in gang.members] == [
        ("default/g", False), ("default/h", True),
    ]  # fmt: skip
    assert gang.refused


def test_pods_that_hold_a_node_count_and_gated_ones_are_missing() -> None:
    there = bound(member("p0", 3), "a")
    gates = [{"name": "later"}]
    policy = {keys.GANG_MATCH_POLICY: "waiting-and-running"}
    pods = [there, member("p1", 3), member("p2", 3, schedulingGates=gates)]
    for each in pods:
        each.metadata.annotations.update(policy)
    gang = of_gang(explained([node("a")], pods, "p0"))
    assert (gang.members[0].bound, gang.tried, gang.placed, gang.missing) == (1, 1, 1, 1)
    assert gang.message == 'GangGroup "default/g" waits for 1 more pods that can be scheduled'
    assert not gang.goes


def test_a_pod_of_no_gang() -> None:
    assert explained([node("a")], [pod("p", cpu="1")], "p").gang is None


def test_a_gang_within_a_quota_that_is_full() -> None:
    from koord.api.kinds.quota import ElasticQuota
    from tests.controllers.scheduler.explain.test_suggestions import typed
    from tests.controllers.scheduler.histories import documents

    async def run() -> None:
        scheduler, views, explainer = shipped_scheduler([node("a")])
        views.view(ElasticQuota).put(typed(ElasticQuota, documents.quota("team", 2)))
        labels = {documents.QUOTA + "name": "team"}
        for i in range(2):
            views.view(Pod).put(member(f"p{i}", 2, cpu="2", labels=labels))
        before = everything(scheduler)
        gang = of_gang(explainer.pod("default", "p1"))
        assert (gang.placed, gang.missing, gang.first) == (1, 1, "default/p1")
        assert "Insufficient quotas, quotaName: team" in gang.message
        assert everything(scheduler) == before

    asyncio.run(run())


def test_pods_that_wait_on_permit_keep_their_nodes() -> None:
    """Whoever is explained, held or not, nobody loses what it holds."""
    pods = [member(f"p{i}", 3, cpu="2", mode="NonStrict") for i in range(3)]

    async def run() -> None:
        scheduler, _, explainer = shipped_scheduler([node("a", cpu="4")], pods)
        scheduler.loop.schedule(1.0)
        before = everything(scheduler)
        held = [each.uid for each in scheduler.world.accounts.pods().values()]
        assert len(held) == 2
        for i in range(3):
            found = explainer.pod("default", f"p{i}")
            gang = of_gang(found)
            assert (gang.members[0].held, gang.tried, gang.placed, gang.missing) == (2, 1, 0, 1)
            assert everything(scheduler) == before

    asyncio.run(run())


CPUS = st.integers(1, 4)


@settings(max_examples=examples(0.25), deadline=None)
@given(
    nodes=st.lists(CPUS, min_size=1, max_size=3),
    pods=st.lists(CPUS, min_size=1, max_size=5),
    minimum=st.integers(1, 5),
    mode=st.sampled_from(["", "NonStrict"]),
)
def test_the_outlook_is_the_plan_and_leaves_no_trace(
    nodes: list[int], pods: list[int], minimum: int, mode: str
) -> None:
    def then(scheduler: Scheduler, explainer: PodExplainer) -> None:
        before = everything(scheduler)
        gang = of_gang(explainer.pod("default", "p0"))
        assert everything(scheduler) == before
        scheduler.loop.schedule(1.0)
        held = len(scheduler.world.accounts.pods())
        kept = gang.placed if gang.goes or mode else 0
        assert held == kept
        assert gang.goes == (held > 0 and not scheduler.world.waiting())
        assert gang.members[0].lacks == max(0, minimum - len(pods))

    made(
        [node(f"n{i}", cpu=str(cpu)) for i, cpu in enumerate(nodes)],
        [member(f"p{i}", minimum, str(cpu), mode) for i, cpu in enumerate(pods)],
        then,
    )


@pytest.mark.parametrize("name", ["LoadAwareScheduling", "Coscheduling"])
@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_plan_that_breaks_half_way_leaves_nothing(name: str, fails_at: int) -> None:
    def then(scheduler: Scheduler, explainer: PodExplainer) -> None:
        before = everything(scheduler)
        plugin = next(each for each in scheduler.plugins if each.name == name)
        left, reserve = fails_at, plugin.reserve

        def broken(*args: Any) -> Any:
            nonlocal left
            left -= 1
            found = reserve(*args)
            if not left:
                raise RuntimeError("a fault")
            return found

        plugin.reserve = broken
        with pytest.raises(RuntimeError, match="a fault"):
            explainer.pod("default", "p0")
        del plugin.reserve
        assert everything(scheduler) == before
        assert of_gang(explainer.pod("default", "p0")).goes

    made([node("a")], [member(f"p{i}", 3) for i in range(3)], then)
