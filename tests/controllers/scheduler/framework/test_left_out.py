# SPDX-License-Identifier: Apache-2.0
"""What is said of nodes that PreFilter leaves out.

Rule: docs/reference/scheduling.md#messages. The texts are kube-scheduler 1.35's.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from koord.base.clock import VirtualClock
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.args_koord import SchedulingHintArgs
from koord.controllers.scheduler.decision.decider import Decider
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
from koord.controllers.scheduler.plugins.kubernetes.node_affinity import NodeAffinity
from koord.controllers.scheduler.plugins.scheduling_hint import SchedulingHint
from tests.controllers.scheduler.decision.test_decider import Room
from tests.controllers.scheduler.pods import info, node, pod

HINT = "internal.scheduling.koordinator.sh/scheduling-hint"


class Nobody:
    """Leaves no node over."""

    name = "Nobody"

    def pre_filter(self, cycle: Cycle) -> None:
        cycle.restrict(np.zeros(0, np.intp))


def decider(*more: Any) -> Decider:
    world = ClusterState(LocalViews(), VirtualClock(0.0))
    for name in "abc":
        world.table.put(node(name, cpu="4"))
    hint, affinity = SchedulingHint(SchedulingHintArgs(), world), NodeAffinity(None, world)
    room = Room()
    plugins = ProfilePlugins(
        pre_filter=[hint, affinity, *more], filter=[room, affinity], score=[(room, 1)]
    )
    return Decider(world.table, world.accounts, plugins)


def wanting(hinted: list[str], *named: str) -> Any:
    """A pod too big for any node, as a DaemonSet makes them for its nodes."""
    annotations = {HINT: json.dumps({"nodeNames": hinted})} if hinted else {}
    fields = [{"key": "metadata.name", "operator": "In", "values": list(named)}]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    affinity = {"affinity": {"nodeAffinity": node_affinity}} if named else {}
    return info(pod("p", cpu="8", annotations=annotations, **affinity))


@pytest.mark.parametrize(
    ("hinted", "named", "said"),
    [
        ([], ["b"], "1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."),
        (["b"], [], "1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [SchedulingHint]."),
        (
            ["b"],
            ["b", "c"],
            "1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity SchedulingHint].",
        ),
        ([], ["gone"], "3 node(s) didn't satisfy plugin(s) [NodeAffinity]."),
        (["gone"], ["gone"], "3 node(s) didn't satisfy plugin(s) [NodeAffinity SchedulingHint]."),
        (
            ["a"],
            ["b"],
            "node(s) didn't satisfy plugin(s) [NodeAffinity SchedulingHint] simultaneously.",
        ),
        (
            ["gone"],
            ["away"],
            "node(s) didn't satisfy plugin(s) [NodeAffinity SchedulingHint] simultaneously.",
        ),
    ],
)
def test_who_left_nodes_out_is_told_by_name(hinted: list[str], named: list[str], said: str) -> None:
    diagnosis = decider().decide(wanting(hinted, *named)).diagnosis
    assert diagnosis is not None
    assert diagnosis.message() == f"0/3 nodes are available: {said}"
    left_out = {"SchedulingHint": bool(hinted), "NodeAffinity": bool(named)}
    assert {name for name in diagnosis.plugins if name != "Room"} == {
        name for name, has in left_out.items() if has
    }


def test_one_plugin_may_leave_no_node_over() -> None:
    diagnosis = decider(Nobody()).decide(wanting([])).diagnosis
    assert diagnosis is not None
    assert diagnosis.message() == "0/3 nodes are available: node(s) didn't satisfy plugin Nobody."


def test_of_a_given_node_the_same_is_said() -> None:
    decides = decider()
    diagnosis = decides.try_row(Cycle(wanting([], "b"), decides.table), 0).diagnosis
    assert diagnosis is not None
    assert diagnosis.by_row[0].reasons == ("node(s) didn't satisfy plugin(s) [NodeAffinity]",)
