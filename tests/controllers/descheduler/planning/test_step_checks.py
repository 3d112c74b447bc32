# SPDX-License-Identifier: Apache-2.0
"""Steps that meet what has changed since their plan was made."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from koord.base.clock import VirtualClock
from koord.controllers.descheduler.planning.current_cluster import MoveUnderWay
from koord.controllers.descheduler.planning.landing import LandingNodes
from koord.controllers.descheduler.planning.planner import PlannedRounds
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from tests.controllers.descheduler.planning.worlds import budget
from tests.controllers.descheduler.world import NOW, RecordedEvictions, cluster, make, node
from tests.controllers.descheduler.world import pod as pod_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from koord.api.kinds.pod import Pod
    from koord.api.kinds.workloads import PodDisruptionBudget


def pod(name: str, place: str, cpu: str, age: int = 1, **more: Any) -> Pod:
    return pod_of(name, place, cpu=cpu, age=age, spec={"schedulerName": "koord-scheduler"}, **more)


NODES = [node("n1", cpu="3"), node("n2", cpu="3"), node("n3", cpu="1")]
WEB = {"app": "web"}
PODS = [
    pod("a", "n1", cpu="1", age=900, labels=WEB), pod("b", "n1", cpu="1", age=800, labels=WEB),
]  # fmt: skip


class Live:
    """A cluster that changes when the first pod is evicted."""

    def __init__(self, change: Callable[[Live], None]) -> None:
        self.pods = {each.metadata.uid: each for each in PODS}
        self.allowed, self.moves = 5, list[MoveUnderWay]()
        self._change = change

    def pod(self, pod: Pod) -> Pod | None:
        return self.pods.get(pod.metadata.uid)

    def budgets(self) -> list[PodDisruptionBudget]:
        return [budget("web", self.allowed, **WEB)]

    def under_way(self, namespace: str | None = None) -> Iterator[MoveUnderWay]:
        del namespace
        return iter(self.moves)

    def is_placed(self, pod: Pod) -> bool:
        uid = pod.metadata.uid
        return any(each.is_placed for each in self.moves if each.pod.metadata.uid == uid)

    def happens(self) -> None:
        self._change(self)


class _Evictions(RecordedEvictions):
    """Takes every eviction; something happens after the first."""

    def __init__(self, live: Live) -> None:
        super().__init__()
        self._live = live

    async def evict(self, pod: Pod, request: Any) -> bool:
        taken = await super().evict(pod, request)
        if len(self.names) == 1:
            self._live.happens()
        return taken


def _told(change: Callable[[Live], None], live: Live | None = None) -> list[tuple[str, str, str]]:
    """Name, result and message of each outcome."""
    registry, live = Registry(), live or Live(change)
    objects = [*NODES, *PODS]
    landing = LandingNodes.of(objects, shipped(registry), registry, VirtualClock(NOW))
    args = {"maxPodLifeTimeSeconds": 100}
    rounds = PlannedRounds(
        make("deschedule", "PodLifeTime", args, _Evictions(live)),
        lambda _: landing, {"cpu": 80.0}, lambda: NOW, live=live,  # type: ignore[arg-type]
    )  # fmt: skip
    record = asyncio.run(rounds.run(cluster(NODES, PODS, budgets=live.budgets())))
    return [(each.name, each.result, each.message) for each in record.outcomes]


def _pod_b(place: str, cpu: str) -> Callable[[Live], None]:
    def change(live: Live) -> None:
        live.pods[PODS[1].metadata.uid] = pod("b", place, cpu, 800, labels=WEB)

    return change


def _gone(live: Live) -> None:
    del live.pods[PODS[1].metadata.uid]


def _budget(live: Live) -> None:
    live.allowed = 1


def _ends(live: Live) -> None:
    now = live.pods[PODS[1].metadata.uid]
    live.pods[now.metadata.uid] = replace(now, status=replace(now.status, phase="Succeeded"))


def test_what_has_not_changed_is_done() -> None:
    told = _told(lambda live: None)
    assert [result for _, result, _ in told] == ["evicted", "evicted"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_gone, "it is gone"),
        (_pod_b(place="n2", cpu="1"), "it is not on n1 any more"),
        (_pod_b(place="n1", cpu="2"), "it has changed since the plan was made"),
        (_ends, "it has ended"),
        # The first eviction is on its way, and takes the one that is allowed.
        (_budget, "PodDisruptionBudget default/web allows 1 disruptions, 1 are planned"),
    ],
)
def test_what_has_changed_stays(change: Callable[[Live], None], message: str) -> None:
    told = _told(change)
    assert told[0][:2] == ("a", "evicted")
    assert told[1] == ("b", "refused", message)


def test_moves_under_way_count_in_budgets_of_the_next_plan() -> None:
    live = Live(lambda live: None)
    live.allowed, live.moves = 1, [MoveUnderWay(PODS[0], "n2", True)]
    told = _told(lambda live: None, live)
    assert [result for _, result, _ in told] == ["failed", "failed"]
    assert told[0][2] == "an earlier step of the plan moves it"
    assert told[1][2] == "PodDisruptionBudget default/web allows 1 disruptions, 1 are planned"


def test_a_node_that_has_filled_up_takes_a_pod_no_more() -> None:
    registry = Registry()
    names = "koord-scheduler", "default-scheduler"
    full = pod("full", "n2", cpu="2")
    objects = [*NODES, *PODS, full]
    landing = LandingNodes.of(objects, shipped(registry, *names), registry, VirtualClock(NOW))
    a, b = PODS
    assert landing.refusal(a, "n2", []) == ""
    # One that is on its way to it has the room.
    assert "Insufficient cpu" in landing.refusal(a, "n2", [(b, "n2")])
    assert landing.refusal(a, "n2", [(b, "n3")]) == ""
    assert landing.refusal(a, "absent", []) == "node absent is gone"
    assert landing.refusal(a, "n2", []) == ""
