# SPDX-License-Identifier: Apache-2.0
"""What containers ask for, worked out once for all shapes, against each rule asked by itself."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.api import requests
from koord.controllers.cluster.pods import MIN_CPU_MILLI, MIN_MEMORY_BYTES, ContainerRequests
from tests.controllers.scheduler.pods import pod

AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "example.com/card"]),
    st.sampled_from(["0", "1", "3", "-1", "1500m"]),
    max_size=3,
)
CONTAINERS = st.builds(lambda amounts: {"resources": {"requests": amounts}}, AMOUNTS)


@given(
    containers=st.lists(CONTAINERS, min_size=1, max_size=2),
    more=st.fixed_dictionaries(
        {},
        optional={
            "overhead": AMOUNTS,
            "initContainers": st.lists(CONTAINERS, max_size=1),
            "resources": st.builds(lambda amounts: {"requests": amounts}, AMOUNTS),
        },
    ),
)
def test_scores_count_what_the_rule_for_pods_counts(
    containers: list[dict[str, Any]], more: dict[str, Any]
) -> None:
    named = [{"name": f"c{i}", **each} for i, each in enumerate(containers)]
    if "initContainers" in more:
        more["initContainers"] = [{"name": "i", **each} for each in more["initContainers"]]
    made = pod("p", containers=named, **more)
    found = ContainerRequests(made)
    assert found.scored == requests.nonzero(made, MIN_CPU_MILLI, MIN_MEMORY_BYTES)


def test_what_is_asked_for_the_whole_pod_takes_the_place_of_its_one_container() -> None:
    amounts = {"requests": {"cpu": "3", "memory": "1Gi"}}
    found = ContainerRequests(pod("p", cpu="1", resources=amounts))
    assert found.request == {"cpu": 3000, "memory": 1 << 30}
    assert found.scored == (3000, 1 << 30)
