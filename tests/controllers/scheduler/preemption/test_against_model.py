# SPDX-License-Identifier: Apache-2.0
"""Preemption against the plain model: same node, same victims; also from kept answers."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.cluster.pods import PodInfo
from tests.controllers.scheduler.pods import info, node, pod
from tests.controllers.scheduler.preemption.world import Cluster, Room, SlowRoom
from tests.models import preemption as model

_APPS = ("a", "b", "")


@st.composite
def _pods(draw: st.DrawFn, prefix: str, most: int) -> list[model.Pod]:
    made = []
    for i in range(draw(st.integers(0, most))):
        app = draw(st.sampled_from(_APPS))
        start = draw(st.one_of(st.just(math.inf), st.integers(0, 3).map(float)))
        made.append(
            model.Pod(
                f"{prefix}-{i}",
                draw(st.integers(0, 4)),
                draw(st.integers(-1, 3)),
                start,
                {"app": app} if app else {},
            )
        )
    return made


@st.composite
def _nodes(draw: st.DrawFn) -> list[model.Node]:
    made = []
    for i in range(draw(st.integers(1, 5))):
        name = f"n{i}"
        promised = draw(_pods(f"{name}-nominated", 2))
        made.append(model.Node(name, draw(st.integers(1, 8)), draw(_pods(name, 5)), promised))
    return made


_BUDGETS = st.lists(
    st.builds(
        model.Budget,
        st.sampled_from(("a", "b")),
        st.integers(0, 2),
        st.sets(st.sampled_from(("n0-0", "n0-1", "n1-0"))),
    ),
    max_size=2,
    unique_by=lambda budget: budget.app,
)


def _info(plain: model.Pod) -> PodInfo:
    status = {}
    if plain.start < math.inf:
        moment = datetime.fromtimestamp(plain.start, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = {"startTime": moment}
    made = pod(
        plain.name, cpu=str(plain.cpu), priority=plain.priority, labels=plain.labels, status=status
    )
    return info(made)


def _build(nodes: list[model.Node], budgets: list[model.Budget], room: Any, most: int) -> Cluster:
    documents = [node(n.name, cpu=str(n.cpu)) for n in nodes]
    cluster = Cluster(*documents, room=room, percentage=0, absolute=most)
    for plain in nodes:
        for each in plain.pods:
            cluster.put(plain.name, _info(each))
        row = cluster.world.table.row(plain.name)
        assert row is not None
        cluster.promised.by_row[row] = [_info(p) for p in plain.nominated]
    for budget in budgets:
        gone = dict.fromkeys(sorted(budget.disrupted), "2026-01-01T00:00:00Z")
        cluster.budget(budget.app, budget.allowed, disruptedPods=gone)
    return cluster


def _compare(
    cluster: Cluster, plain: model.Pod, nodes: list[model.Node], budgets: Any, most: int
) -> None:
    decision = cluster.decider.decide(_info(plain))
    if decision.row >= 0:
        return
    assert decision.diagnosis is not None
    before = cluster.world.table.requested.copy()
    possible = [n for n in nodes if plain.cpu <= n.cpu]
    expected = model.choose(plain, possible, budgets, most)
    found = cluster.plugin.engine.find(decision.cycle, decision.diagnosis).candidate
    assert (cluster.world.table.requested == before).all()
    if expected is None:
        assert found is None
        return
    assert found is not None
    assert cluster.world.table.name(found.row) == expected.node
    assert [v.pod.metadata.name for v in found.victims] == expected.victims
    assert found.violations == expected.violations


@pytest.mark.parametrize("room", [Room, SlowRoom])
@given(
    nodes=_nodes(),
    budgets=_BUDGETS,
    most=st.integers(1, 4),
    cpu=st.integers(1, 8),
    priority=st.integers(0, 4),
    data=st.data(),
)
def test_node_and_victims(
    room: Any,
    nodes: list[model.Node],
    budgets: list[model.Budget],
    most: int,
    cpu: int,
    priority: int,
    data: st.DataObject,
) -> None:
    cluster = _build(nodes, budgets, room, min(most, len(nodes)))
    plain = model.Pod("p", cpu, priority)
    _compare(cluster, plain, nodes, budgets, most)
    # Answers are kept; some of them must not be any more.
    for step in range(3):
        chosen = data.draw(st.sampled_from(nodes), label=f"changed node {step}")
        if chosen.pods and data.draw(st.booleans(), label="a pod goes"):
            gone = chosen.pods.pop()
            known = cluster.world.accounts.get(f"uid-{gone.name}")
            assert known is not None
            cluster.world.accounts.drop(known)
        elif budgets and data.draw(st.booleans(), label="a budget changes"):
            budgets[0].allowed = data.draw(st.integers(0, 2))
            disrupted = dict.fromkeys(sorted(budgets[0].disrupted), "2026-01-01T00:00:00Z")
            cluster.budget(budgets[0].app, budgets[0].allowed, disruptedPods=disrupted)
        else:
            more = model.Pod(f"{chosen.name}-more{step}", 2, 1)
            chosen.pods.append(more)
            cluster.put(chosen.name, _info(more))
        _compare(cluster, plain, nodes, budgets, most)
