# SPDX-License-Identifier: Apache-2.0
"""Which pods of a group that uses too much go."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.plugins.elasticquota.allocation.revocation import (
    RevocablePod,
    exceeds,
    importance,
    revoked,
)
from tests.controllers.scheduler.plugins.elasticquota.objects import pod


def names(pods: list[PodInfo]) -> list[str]:
    return [each.pod.metadata.name for each in pods]


def held(name: str, priority: int, cpu: int, memory: int = 0, **more: Any) -> RevocablePod:
    amounts = {"cpu": cpu, "memory": memory} if memory else {"cpu": cpu}
    return RevocablePod(pod(name, "a", priority=priority), amounts, **more)


EXAMPLE = [held("p1", 10, 20), held("p2", 9, 10, 1), held("p3", 8, 20), held("p4", 7, 40)]


def test_the_worked_example() -> None:
    """docs/reference/quota-scheduling.md#revocation."""
    used = {"cpu": 90, "memory": 1}
    assert names(revoked(used, {"cpu": 50, "memory": 0}, EXAMPLE)) == ["p2", "p4"]
    assert names(revoked(used, {"cpu": -1, "memory": 0}, EXAMPLE)) == ["p4", "p3", "p2", "p1"]
    assert revoked(used, {"cpu": 90, "memory": 1}, EXAMPLE) == []


def test_what_a_victim_does_not_ask_for_still_counts() -> None:
    """Koordinator forgets a resource over its limit once a victim without it was taken."""
    pods = [held("m", 9, 1, 5), held("c", 1, 5)]
    assert names(revoked({"cpu": 6, "memory": 5}, {"cpu": 3, "memory": 2}, pods)) == ["m", "c"]


def test_pods_that_must_stay_are_passed_over() -> None:
    pods = [held("p", 1, 4, preemptible=False), held("q", 2, 4), held("r", 3, 4)]
    assert names(revoked({"cpu": 12}, {"cpu": 8}, pods)) == ["q"]
    assert names(revoked({"cpu": 12}, {"cpu": 2}, pods)) == ["q", "r"]


amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 9))


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), amounts, st.booleans()), max_size=7),
    limit=amounts, below=amounts,
)  # fmt: skip
def test_no_more_go_than_must(rows: Any, limit: Any, below: Any) -> None:
    """Against the rule in plain words: what stays fits, and nobody who went could have stayed."""
    pods = [RevocablePod(pod(f"p{i}", "a", priority=rank), asked, may)
            for i, (rank, asked, may) in enumerate(rows)]  # fmt: skip
    used = dict(below)
    for each in pods:
        for key, amount in each.amounts.items():
            used[key] = used.get(key, 0) + amount
    gone = {each.uid for each in revoked(used, limit, pods)}
    assert gone <= {each.pod.uid for each in pods if each.preemptible}

    def rest(stay: set[str]) -> dict[str, int]:
        left = dict(used)
        for each in pods:
            if each.pod.uid in gone - stay:
                for key, amount in each.amounts.items():
                    left[key] -= amount
        return left

    everybody = {each.pod.uid for each in pods if each.preemptible}
    if exceeds(rest(set()), limit):
        # All that may go is not enough; those who came last in the walk need not have been met.
        assert gone == everybody
        return
    for uid in gone:
        assert exceeds(rest({uid}), limit)


def test_the_more_important_pod_is_of_higher_priority_older_and_first_by_name() -> None:
    started = {"startTime": "2026-01-01T00:00:00Z"}
    pods = [
        pod("a", priority=9), pod("c", priority=1, status=started), pod("b", priority=1),
        pod("d", priority=1, status={"startTime": "2026-01-02T00:00:00Z"}),
    ]  # fmt: skip
    assert names(sorted(pods, key=importance)) == ["a", "c", "d", "b"]
