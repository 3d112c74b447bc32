# SPDX-License-Identifier: Apache-2.0
"""Kernels compiled for all pods that request the same resources, against those of the plugins."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.decision.decider import Decider
from koord.controllers.scheduler.framework.feasibility.fit_kernels import FitKernels, FitKernelTable
from tests.controllers.scheduler.explain.test_what_if import shipped_scheduler
from tests.controllers.scheduler.pods import node, pod
from tests.controllers.scheduler.stock import Stock

OFFERED, NOWHERE = "example.com/fpga", "example.com/none"
RESOURCES = ("cpu", "memory", "ephemeral-storage", OFFERED, NOWHERE)
AMOUNTS = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 5), max_size=len(RESOURCES))


@cache
def _stock() -> tuple[Decider, Any]:
    stock = Stock()
    stock.add(node("a", allocatable={OFFERED: "4"}))
    return stock.decider, stock.world.shapes


@cache
def _shipped() -> tuple[Decider, Any]:
    made, _, _ = shipped_scheduler([node("a", allocatable={OFFERED: "4"})], [])
    (decider,) = made.loop.parts.deciders.values()
    return decider, made.world.shapes


def _kernels(decider: Decider, info: PodInfo, table: FitKernelTable) -> FitKernels:
    found = table.of(info.shape, decider.evaluator.participants.of(info.shape))
    assert found is not None
    return found


@pytest.mark.parametrize("cluster", [_stock, _shipped])
@given(asked=st.lists(AMOUNTS, min_size=2, max_size=8))
def test_kernels_of_a_kind_are_those_of_each_pod(cluster: Any, asked: list[dict[str, int]]) -> None:
    decider, shapes = cluster()
    plugins = decider.evaluator._filters, decider.evaluator._scores
    kept = FitKernelTable(*plugins)
    for number, amounts in enumerate(asked):
        requests = {name: str(amount) for name, amount in amounts.items()}
        info = shapes.info(pod(f"p{number}", requests=requests))
        participants = decider.evaluator.participants.of(info.shape)
        mine = _kernels(decider, info, kept)
        # A new table asks the plugins.
        info.shape.container_requests.memo.clear()
        participants.kernel_sources = None
        theirs = _kernels(decider, info, FitKernelTable(*plugins))
        assert mine.rooms == theirs.rooms
        assert mine.equals(theirs)
        assert (mine.of.checks, mine.of.ratings) == (theirs.of.checks, theirs.of.ratings)
        info.shape.container_requests.memo.clear()


def test_of_a_known_kind_no_plugin_is_asked_again() -> None:
    decider, shapes = _stock()
    first, second = (shapes.info(pod(f"p{i}", cpu=f"{i + 1}", memory="1Gi")) for i in range(2))
    table = FitKernelTable(decider.evaluator._filters, decider.evaluator._scores)
    before = _kernels(decider, first, table)
    asked = len(second.shape.container_requests.memo)
    after = _kernels(decider, second, table)
    assert len(second.shape.container_requests.memo) == asked + 1
    assert before.of is after.of
    assert not before.equals(after)
