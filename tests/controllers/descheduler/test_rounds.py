# SPDX-License-Identifier: Apache-2.0
"""Rounds: limits, dry run, plugins that fail, nodes that are too few."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from koord.base.errors import KoordError
from tests.controllers.descheduler.world import RecordedEvictions, cluster, make, node, pod

if TYPE_CHECKING:
    from koord.controllers.descheduler.framework.outcomes import RoundRecord

AGE = {"maxPodLifeTimeSeconds": 0}
NODES = [node("n1"), node("n2")]


def _round(evictions: RecordedEvictions, pods: list[Any], **more: Any) -> RoundRecord:
    descheduling = make("deschedule", "PodLifeTime", AGE, evictions, **more)
    return asyncio.run(descheduling.run(cluster(more.pop("nodes", NODES), pods)))


def _results(record: RoundRecord) -> list[tuple[str, str]]:
    return [(outcome.name, outcome.result) for outcome in record.outcomes]


def test_limits_count_what_succeeds_and_say_which_they_are() -> None:
    pods = [pod("a", age=9), pod("b", age=8), pod("c", age=7), pod("d", "n2", age=6)]
    evictions = RecordedEvictions(refuses={"a"})
    record = _round(evictions, pods, maxNoOfPodsToEvictPerNode=1)
    assert _results(record) == [
        ("a", "failed"), ("b", "evicted"), ("c", "refused"), ("d", "evicted"),
    ]  # fmt: skip
    assert record.outcomes[2].message == "1 pods of node n1 were evicted in this round, 1 may be"


@pytest.mark.parametrize(
    ("limit", "count"),
    [({"maxNoOfPodsToEvictTotal": 0}, 0), ({"maxNoOfPodsToEvictTotal": 3}, 3),
     ({"maxNoOfPodsToEvictPerNamespace": 1}, 2)],
)  # fmt: skip
def test_limits_of_namespaces_and_of_all(limit: dict[str, int], count: int) -> None:
    evictions = RecordedEvictions()
    pods = [pod("a"), pod("b"), pod("c", namespace="x"), pod("d", namespace="x")]
    _round(evictions, pods, **limit)
    assert len(evictions.names) == count


def test_every_round_begins_at_nothing() -> None:
    evictions = RecordedEvictions()
    descheduling = make("deschedule", "PodLifeTime", AGE, evictions, maxNoOfPodsToEvictTotal=1)
    view = cluster(NODES, [pod("a", age=9), pod("b", age=8)])
    for _ in range(2):
        record = asyncio.run(descheduling.run(view))
        assert _results(record) == [("a", "evicted"), ("b", "refused")]
    assert evictions.names == ["a", "a"]


def test_a_dry_run_counts_and_evicts_nothing() -> None:
    evictions = RecordedEvictions()
    pods = [pod("a", age=9), pod("b", age=8)]
    record = _round(evictions, pods, dryRun=True, maxNoOfPodsToEvictTotal=1)
    assert _results(record) == [("a", "evicted"), ("b", "refused")]
    assert evictions.names == []


def test_one_node_is_too_few() -> None:
    descheduling = make("deschedule", "PodLifeTime", AGE, RecordedEvictions())
    with pytest.raises(KoordError, match="2 ready nodes or more"):
        asyncio.run(descheduling.run(cluster([node("n1")], [pod("a")])))


def test_a_strategy_that_fails_spoils_its_own_turn_only() -> None:
    evictions = RecordedEvictions()
    descheduling = make("deschedule", "PodLifeTime", AGE, evictions)
    plugin: Any = descheduling.profiles[0].plugins["PodLifeTime"]

    async def fails(nodes: Any) -> None:
        raise ZeroDivisionError("by hand")

    works, plugin.deschedule = plugin.deschedule, fails
    view = cluster(NODES, [pod("a")])
    record = asyncio.run(descheduling.run(view))
    assert len(record.errors) == 1
    assert record.errors[0].startswith("koord-descheduler/PodLifeTime: ZeroDivisionError")
    plugin.deschedule = works
    record = asyncio.run(descheduling.run(view))
    assert (record.errors, evictions.names) == ([], ["a"])
