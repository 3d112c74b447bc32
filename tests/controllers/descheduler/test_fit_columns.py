# SPDX-License-Identifier: Apache-2.0
"""Fit in columns is the fit of one node after the other, and requests are shared where they may."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from koord.api import requests
from koord.controllers.descheduler.predicates.fit_columns import FitColumns
from koord.controllers.descheduler.predicates.node_fit import NodeFit
from tests.controllers.descheduler.world import cluster, node, pod

TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
NODES = st.tuples(
    st.integers(0, 3), st.booleans(), st.booleans(), st.sampled_from(["ssd", "hdd"])
)  # fmt: skip
PODS = st.tuples(
    st.sampled_from([0, 400, 1100]), st.booleans(), st.sampled_from(["", "ssd", "hdd"])
)  # fmt: skip


def _pod(number: int, asked: tuple[int, bool, str], node_name: str = "") -> Any:
    milli, tolerates, disk = asked
    spec: dict[str, Any] = {"nodeSelector": {"disk": disk} if disk else {}}
    if tolerates:
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    return pod(f"p{number}", node_name, cpu=f"{milli}m", spec=spec)


@given(
    st.lists(NODES, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), PODS), max_size=6),
    st.lists(st.tuples(PODS, st.integers(0, 63)), min_size=1, max_size=6),
)
def test_the_first_of_the_rows_that_takes_the_pod(
    drawn: list[Any], there: list[Any], asked: list[Any]
) -> None:
    nodes = [
        node(f"n{number}", cpu=str(cpu), labels={"disk": disk}, unschedulable=cordoned,
             taints=[TAINT] if tainted else [])
        for number, (cpu, cordoned, tainted, disk) in enumerate(drawn)
    ]  # fmt: skip
    pods = [_pod(100 + number, each, f"n{place}") for number, (place, each) in enumerate(there)]
    fit = NodeFit(cluster(nodes, pods))
    columns = FitColumns(nodes, fit)
    # One after the other, so that answers that are kept are asked for again.
    for number, (each, mask) in enumerate(asked):
        wanted = _pod(number, each)
        rows = [row for row in range(len(nodes)) if mask >> row & 1]
        expected = next((row for row in rows if fit.fits_by_requests(wanted, nodes[row])), None)
        given_rows = np.array([row in rows for row in range(len(nodes))], np.bool_)
        assert columns.first(wanted, given_rows) == expected
        assert fit.requested(wanted) == requests.requested(wanted)


def test_pods_that_share_their_resources_share_the_answer() -> None:
    first, second, other = pod("a"), pod("b"), pod("c")
    second.spec.containers[0].resources = first.spec.containers[0].resources
    requested = NodeFit(cluster([], [first, second, other])).requested
    assert requested(first) is requested(second)
    assert requested(first) is not requested(other)
    init = pod("d")
    init.spec.init_containers = list(first.spec.containers)
    init.spec.containers = list(first.spec.containers)
    assert requested(init) is not requested(first)
