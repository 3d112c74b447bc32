# SPDX-License-Identifier: Apache-2.0
"""Gangs, reservations, quotas and devices are explained with their pods, nodes and quotas."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from koord.api.kinds.quota import ElasticQuota, PodGroup
from koord.api.kinds.reservation import Reservation
from koord.base.errors import KoordError
from koord.controllers.scheduler.explain.object_explainer import ObjectExplainer
from koord.controllers.scheduler.scheduler import Scheduler
from koord.kube.codec.decoder import UnreadableObject
from tests.controllers.scheduler.explain.test_what_if import shipped_scheduler
from tests.controllers.scheduler.plugins.coscheduling.gangs import pod_group
from tests.controllers.scheduler.plugins.elasticquota.objects import guide, quota
from tests.controllers.scheduler.pods import node, pod

GANG = "gang.scheduling.koordinator.sh"
QUOTA = "quota.scheduling.koordinator.sh/name"


def member(name: str, least: str) -> Any:
    annotations = {f"{GANG}/name": "g", f"{GANG}/min-available": least}
    return pod(name, cpu="2", annotations=annotations, labels={QUOTA: "team"})


def asked(
    question: Any, *, put: Any = (), pods: Any = (), cpu: str = "4"
) -> tuple[dict[str, Any], Scheduler]:
    async def run() -> tuple[dict[str, Any], Scheduler]:
        made, views, explainer = shipped_scheduler([node("a", cpu=cpu)])
        for each in put:
            views.view(type(each)).put(each)
        for each in pods:
            views.view(type(each)).put(each)
        made.loop.schedule(1.0)
        return question(explainer.objects, made), made

    return asyncio.run(run())


def test_a_gang_that_lacks_a_pod() -> None:
    team = quota("team", max={"cpu": "8"})
    found, _ = asked(
        lambda objects, _: objects.gang("default", "g"),
        put=[team], pods=[member("p0", "3"), member("p1", "3")],
    )  # fmt: skip
    assert (found["gang"], found["minimum"], found["mode"]) == ("default/g", 3, "Strict")
    assert found["plan"]["members"] == [
        {"gang": "default/g", "pods": 2, "minimum": 3, "bound": 0, "held": 0, "lacks": 1}
    ]
    assert [(line["pod"], line["state"], line["quota"]) for line in found["pods"]] == [
        ("default/p0", "gated by Coscheduling", "team"),
        ("default/p1", "gated by Coscheduling", "team"),
    ]
    (line,) = found["quotas"]
    assert (line["name"], line["max"]) == ("team", {"cpu": "8"})


def test_a_gang_whose_pod_group_asks_for_what_cannot_be() -> None:
    found, _ = asked(lambda objects, _: objects.gang("default", "g"), put=[pod_group(least=-5)])
    line = "PodGroup default/g: spec.minMember: got -5, expected an integer of at least 0"
    assert (found["problem"], found["pods"]) == (line, [])


def test_a_quota_that_is_not_in_force_is_explained() -> None:
    odd = quota("odd", min={"cpu": "4"}, max={"cpu": "2"})
    orphan = quota("orphan", parent="nobody", max={"cpu": "2"})
    least = "ElasticQuota default/odd: spec.min[cpu]: got '4', expected no more than the spec's max"
    lost = (
        "ElasticQuota default/orphan: labels[quota.scheduling.koordinator.sh/parent]: "
        "got 'nobody', expected a quota that exists"
    )

    def both(objects: ObjectExplainer, _: Scheduler) -> list[Any]:
        return [objects.quota("odd"), objects.quota("orphan")]

    (first, second), _ = asked(both, put=[odd, orphan])
    assert first == {"name": "odd", "problem": least}
    assert (second["problem"], second["max"]) == (lost, {"cpu": "2"})


def test_a_quota_without_a_tree_is_found_by_its_name_where_one_namespace_has_it() -> None:
    odd = guide("odd", "default", min={"cpu": "4"}, max={"cpu": "2"})
    least = "ElasticQuota default/odd: spec.min[cpu]: got '4', expected no more than the spec's "
    found, _ = asked(lambda objects, _: objects.quota("odd"), put=[odd])
    assert found == {"name": "default/odd", "problem": f"{least}max and hard"}
    other = guide("odd", "web", max={"cpu": "2"})
    with pytest.raises(KeyError, match="odd; did you mean default/odd or web/odd"):
        asked(lambda objects, _: objects.quota("odd"), put=[odd, other])
    of_web, _ = asked(lambda objects, _: objects.quota("odd", "web"), put=[odd, other])
    assert (of_web["name"], of_web["problem"]) == ("web/odd", "")


def test_a_quota_with_the_nodes_of_its_pods() -> None:
    wanted = [pod(name, cpu="2", labels={QUOTA: "team"}) for name in ("p", "q", "r")]
    found, _ = asked(
        lambda objects, _: objects.quota("team"),
        put=[quota("team", max={"cpu": "4"})], pods=wanted,
    )  # fmt: skip
    assert {key: one["node"] for key, one in found["podCache"].items()} == {
        "default/p": "a", "default/q": "a", "default/r": "",
    }  # fmt: skip


def test_what_does_not_decode_is_explained_and_what_is_not_there_is_not() -> None:
    def ask(objects: ObjectExplainer, made: Scheduler) -> list[Any]:
        error = KoordError("Reservation", "spec.ttl", "1hour", "a duration such as 24h")
        why = UnreadableObject("odd", "7", error, "uid-1")
        made.world.invalid.unreadable(Reservation, "odd", why)
        found: list[Any] = [objects.reservation("odd")]
        for question in (
            lambda: objects.reservation("even"),
            lambda: objects.gang("default", "none"),
            lambda: objects.quota("teem"),
            lambda: objects.device("a"),
            lambda: objects.device("b"),
        ):
            try:
                found.append(question())
            except KeyError as missing:
                found.append(missing.args[0])
        return found

    found, _ = asked(ask, put=[quota("team", max={"cpu": "4"})])
    assert found == [
        {"reservation": "odd",
         "problem": "Reservation odd: spec.ttl: got '1hour', expected a duration such as 24h"},
        "cannot find reservation even",
        "cannot find gang default/none: no pod names it, and there is no PodGroup",
        "cannot find quota teem; did you mean team?",
        {"node": "a", "problem": "node a has no Device: no agent has reported cards there"},
        "cannot find node b",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [ElasticQuota, PodGroup])
def test_what_is_mended_is_no_longer_told(kind: Any) -> None:
    item = quota("x", max={"cpu": "1"}) if kind is ElasticQuota else pod_group(least=2)

    def ask(_: ObjectExplainer, made: Scheduler) -> list[str]:
        invalid, name = made.world.invalid, item.metadata.name
        invalid.judge(kind, item, "wrong")
        first = invalid.message(kind, f"default/{name}")
        invalid.judge(kind, item, None)
        return [first, invalid.message(kind, f"default/{name}")]

    assert asked(ask)[0] == ["wrong", ""]


def test_pods_that_name_a_quota_that_is_not_in_force() -> None:
    odd = quota("team", min={"cpu": "4"}, max={"cpu": "2"})
    found, _ = asked(
        lambda objects, _: objects.gang("default", "g"), put=[odd], pods=[member("p0", "1")]
    )
    assert [(line["pod"], line["quota"]) for line in found["pods"]] == [("default/p0", "team")]
    assert found["quotas"] == [
        {"name": "team", "problem": "ElasticQuota default/team: spec.min[cpu]: got '4', "
         "expected no more than the spec's max"}
    ]  # fmt: skip
