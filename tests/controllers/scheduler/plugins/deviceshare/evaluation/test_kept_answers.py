# SPDX-License-Identifier: Apache-2.0
"""Answers that are kept by what is asked of cards are those of nodes that are asked anew."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kinds.device import Device
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.plugins.deviceshare.evaluation.kept_answers import (
    MANY,
    KeptDeviceAnswers,
)
from tests.controllers.scheduler.plugins.deviceshare.clusters import Cluster, device, gpu

NODES = MANY + 16
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["place", "place", "gone", "sick", "well", "unknown", "away", "back"]),
        st.integers(0, NODES - 1),
    ),
    max_size=25,
)


def _cluster() -> Cluster:
    cluster = Cluster()
    for index in range(NODES):
        cluster.add(f"n{index:02}", *([gpu(0), gpu(1)] if index % 7 else []))
    return cluster


def _check(cluster: Cluster, **asked: int) -> None:
    cycle, plugin = Cycle(cluster.pod(**asked), cluster.table), cluster.plugin
    assert plugin.pre_filter(cycle) is None
    rows, state = cluster.table.rows, cycle.state["DeviceShare"]
    plugin.tracker.follow()
    assert plugin._kept.fits(state, rows) is not None
    every = np.flatnonzero(cluster.table.open[: cluster.table.size])
    for found, one in (
        (plugin.filter(cycle, rows), plugin.evaluator.passes),
        (plugin.score(cycle, rows), plugin.scorer.score),
    ):
        assert found.tolist() == one(state, every).tolist()


@settings(max_examples=30)
@given(steps=STEPS)
def test_kept_answers_are_those_of_nodes_asked_anew(steps: list[tuple[str, int]]) -> None:
    cluster = _cluster()
    placed: list[PodInfo] = []
    devices = cluster.views.view(Device)
    for what, which in steps:
        name = f"n{which:02}"
        if what == "place":
            info = cluster.pod(cpu=f"{100 + len(placed)}m", gpu=25 + 25 * (which % 4))
            if cluster.place(info).startswith("gpu"):
                placed.append(info)
        elif what == "gone" and placed:
            cluster.accounts.drop(placed.pop(which % len(placed)))
        elif what in ("sick", "well") and which % 7:
            cluster.put(device(name, gpu(0, health=what == "well"), gpu(1)))
        elif what == "unknown" and devices.get(name) is not None:
            devices.remove(name)
        elif what == "away" and not any(cluster.table.name(each.row) == name for each in placed):
            if cluster.table.row(name) is not None and len(cluster.table) > MANY:
                cluster.table.remove(name)
        elif what == "back" and cluster.table.row(name) is None:
            cluster.add(name)
        _check(cluster, gpu=25 + 25 * (which % 4))
    _check(cluster, gpu=50)


def test_answers_of_the_last_requests_are_kept_and_of_no_more() -> None:
    cluster = _cluster()
    for share in range(1, 40):
        _check(cluster, gpu=share)
    kept = cluster.plugin._kept
    assert isinstance(kept, KeptDeviceAnswers)
    assert len(kept) == 16


def test_pods_that_say_more_of_their_cards_are_asked_about_anew() -> None:
    cluster = _cluster()
    note = {"scheduling.koordinator.sh/device-allocate-hint": '{"gpu": {"selector": {}}}'}
    for more in ({"annotations": note}, {"labels": {"koordinator.sh/gpu-isolation-provider": "x"}}):
        cycle = Cycle(cluster.pod(gpu=50, **more), cluster.table)
        assert cluster.plugin.pre_filter(cycle) is None
        state = cycle.state["DeviceShare"]
        assert cluster.plugin._kept.fits(state, slice(0, NODES)) is None
    few = Cycle(cluster.pod(gpu=50), cluster.table)
    assert cluster.plugin.pre_filter(few) is None
    assert cluster.plugin._kept.fits(few.state["DeviceShare"], slice(0, MANY - 1)) is None
