# SPDX-License-Identifier: Apache-2.0
"""A moved pod is not moved again for load within the hour."""

from __future__ import annotations

import pytest

from koord.api.kinds.pod import Pod
from koord.api.objects import decode_as
from koord.controllers.descheduler.planning.rest_periods import REST_SECONDS, RestPeriods


def _pod(owner: str, node: str) -> Pod:
    owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner,
               "controller": True}] if owner else []  # fmt: skip
    document = {
        "metadata": {"name": "a", "namespace": "b", "ownerReferences": owners},
        "spec": {"nodeName": node, "containers": []},
    }
    return decode_as(document, Pod)


@pytest.mark.parametrize(
    ("owner", "node", "later", "rests"),
    [
        ("web", "n2", 3599.0, True),
        ("web", "n2", 3600.0, False),
        ("web", "n1", 1.0, False),
        ("api", "n2", 1.0, False),
        ("", "n2", 1.0, False),
    ],
)
def test_pods_of_the_controller_rest_where_one_came_to(
    owner: str, node: str, later: float, rests: bool
) -> None:
    periods = RestPeriods()
    periods.begin(_pod("web", "n1"), "n2", 100.0)
    periods.begin(_pod("", "n1"), "n2", 100.0)
    assert periods.rests(_pod(owner, node), 100.0 + later) is rests


def test_what_is_over_is_forgotten() -> None:
    periods = RestPeriods()
    for number in range(1000):
        periods.begin(_pod(f"w{number}", "n1"), "n2", number * REST_SECONDS)
    assert len(periods._until) == 1
