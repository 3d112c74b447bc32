# SPDX-License-Identifier: Apache-2.0
"""NodeResourcesFit says why of many rows at once what it says of each."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.base.clock import VirtualClock
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.args_kube_scheduler import NodeResourcesFitArgs
from koord.controllers.scheduler.config.field_path import FieldPath
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.plugins.noderesources.fit import NodeResourcesFit
from tests.controllers.scheduler.pods import node, pod
from tests.profiles import examples

GPU = "nvidia.com/gpu"
AMOUNTS = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(0, 3), st.integers(1, 3))


@settings(max_examples=examples(0.3))
@given(
    offers=st.lists(AMOUNTS, min_size=20, max_size=30),
    placed=st.lists(st.tuples(st.integers(0, 19), st.integers(1, 3)), max_size=30),
    asks=st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 2)),
)
def test_of_many_rows_as_of_each(
    offers: list[tuple[int, int, int, int]],
    placed: list[tuple[int, int]],
    asks: tuple[int, int, int],
) -> None:
    views = LocalViews()
    world = ClusterState(views, VirtualClock(0.0))
    plugin = NodeResourcesFit(NodeResourcesFitArgs.read({}, FieldPath("args")), world)
    for number, (cpu, memory, gpus, pods) in enumerate(offers):
        amounts = {"cpu": str(cpu), "memory": f"{memory}Gi", GPU: str(gpus), "pods": str(pods)}
        world.table.put(node(f"n{number:02}", allocatable=amounts))
    for number, (row, cpu) in enumerate(placed):
        world.accounts.add(row, world.shapes.info(pod(f"p{number}", requests={"cpu": str(cpu)})))
    wanted = {"cpu": str(asks[0]), "memory": f"{asks[1]}Gi", GPU: str(asks[2]), "none/such": "1"}
    cycle = Cycle(world.shapes.info(pod("asks", requests=wanted)), world.table)
    rows = np.arange(len(offers))
    each = [plugin.diagnose(cycle, rows[at : at + 1])[0] for at in range(len(offers))]
    assert list(plugin.diagnose(cycle, rows)) == each
