# SPDX-License-Identifier: Apache-2.0
"""What columns decide about reconciled nodes is what is decided of each by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import Node
from koord.api.codec import to_json
from koord.controllers.manager.noderesource.state.reconciled_nodes import ReconciledNodes
from koord.controllers.manager.noderesource.writers import zone_patches
from koord.controllers.manager.noderesource.writers.decided_patches import DecidedPatches
from koord.controllers.manager.noderesource.writers.node_patches import status_patch
from koord.kube.patches import Patch
from tests.controllers.manager.noderesource import builders
from tests.controllers.manager.noderesource.state.cases import (
    CASE,
    NOW,
    PAUSE,
    Case,
    cache_of,
    cases,
    change,
    reconciled,
)


@given(rows=st.lists(cases, min_size=1, max_size=6))
def test_columns_decide_as_each_node_by_itself(rows: list[Case]) -> None:
    found, said, every = reconciled(rows), cache_of(rows), np.arange(len(rows))
    assert found.are_reconciled(every).all()
    decided = found.decide(said, every, NOW)
    for row, case in enumerate(rows):
        due, left = case.plain()
        assert bool(decided.due[row]) is due, case
        assert decided.left_seconds[row] == pytest.approx(left, abs=0.01), case
        each = found.decided(row)
        assert each is not None
        assert change(case.node(), each.desired) == change(case.node(), case.wanted())
        assert found.confirm(row, found.observe(row), case.inputs(), (NOW, NOW))
    again = found.decide(said, every, NOW)
    assert not again.due.any()
    assert np.isinf(again.left_seconds).all(), "what was asked of it is shown"


@given(rows=st.lists(cases, min_size=1, max_size=6))
def test_patches_of_columns_are_those_of_objects(rows: list[Case]) -> None:
    found = reconciled(rows)
    found.decide(cache_of(rows), np.arange(len(rows)), NOW)
    for row, case in enumerate(rows):
        node, topology, decided = case.node(), case.topology(), found.decided(row)
        made = found.patches(row, node, topology)
        assert decided is not None
        if not (decided.node_due and decided.zones_due):
            assert made is None
            continue
        zones = zone_patches.updated_zones(topology, case.wanted_zones(), 0.0, late=True)
        assert zones is not None
        assert made == DecidedPatches(
            decided.desired,
            status_patch(node, decided.desired) or Patch.merge({}),
            zone_patches.zones_patch(topology, zones),
            to_json(zones),
        )
        assert found.patches(row, _version("8"), topology) is None, "another state"
        assert found.patches(row, node, None) is None, "another state"
        assert found.confirm(row, found.observe(row), case.inputs(), (NOW, NOW), as_decided=True)
        assert found.patches(row, node, topology) is None, "nothing is due"


def test_a_node_stands_until_something_of_it_changes() -> None:
    found, inputs = ReconciledNodes(), CASE.inputs()
    node, topology = inputs.node, inputs.topology
    assert found.calculated(0) is None
    found.record(0, found.observe(0), inputs, (NOW, NOW))
    assert found.covers(0, node, topology, None)
    assert found.covers(0, CASE.node(), CASE.topology(), None), "told again"
    assert not found.covers(0, node, None, None)
    assert not found.covers(0, _version(""), topology, None), "nobody knows which state"
    assert not found.covers(0, None, topology, None)
    assert not found.covers(0, node, topology, builders.device([]))
    assert found.covers(0, _version("6"), topology, None), "late news"
    assert not found.covers(0, _version("8"), topology, None)
    token = found.observe(0)
    found.invalidate(0)
    found.record(0, token, inputs, (NOW, NOW))
    assert found.calculated(0) is None, "it changed while it was written"
    found.record(0, found.observe(0), inputs, (NOW, NOW))
    found.invalidate_all()
    assert not found.are_reconciled(np.array([0])).any()


def _version(version: str) -> Node:
    other = CASE.node()
    other.metadata.resource_version = version
    return other


def test_who_writes_what_was_asked_before_has_not_done_what_is_asked_now() -> None:
    found = reconciled([CASE])
    assert found.decided(0) is None, "nothing was asked yet"
    assert not found.confirm(0, found.observe(0), CASE.inputs(), (NOW, NOW))
    found.decide(cache_of([CASE]), np.array([0]), NOW)
    before = found.observe(0)
    more = CASE._replace(offered=(3000, 3000, 5, 5))
    assert found.decide(cache_of([more]), np.array([0]), NOW).due.all()
    assert not found.confirm(0, before, CASE.inputs(), (NOW, NOW))


def test_where_co_location_is_switched_plugins_have_to_look() -> None:
    found, said = reconciled([CASE]), cache_of([CASE])
    said.settings.enable[0] = False
    assert found.decide(said, np.array([0]), NOW).due.all()
    assert found.calculated(0) is None


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize(("age", "due"), [(299.0, False), (300.0, False), (300.5, True)])
def test_little_is_due_once_the_pause_is_over(part: int, age: float, due: bool) -> None:
    more = {"offered": (1001, 1000, 5, 5)} if part == 0 else {"zone_offers": ((501, 5),)}
    ages = (age, 0.0) if part == 0 else (0.0, age)
    case = CASE._replace(ages=ages, **more)  # type: ignore[arg-type]
    decided = reconciled([case]).decide(cache_of([case]), np.array([0]), NOW)
    assert case.plain()[0] is bool(decided.due[0]) is due
    if not due:
        assert decided.left_seconds[0] == pytest.approx(PAUSE - age, abs=0.01)
