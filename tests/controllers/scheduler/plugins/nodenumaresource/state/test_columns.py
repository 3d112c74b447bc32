# SPDX-License-Identifier: Apache-2.0
"""Many rows at once say what each of them says alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.scheduler.framework.cycle import Cycle
from tests.controllers.scheduler.plugins.nodenumaresource.cluster import Cluster, cpus
from tests.controllers.scheduler.plugins.nodenumaresource.test_model import PODS

HYBRID = [
    {"id": cpu, "core": core, "socket": 0, "node": core // 3}
    for cpu, core in enumerate([0, 0, 1, 1, 2, 3, 4, 4, 5])
]
SHAPES: list[Any] = [None, (1, 1, 4, 2), (2, 1, 2, 2), (2, 1, 3, 1), HYBRID]
NODES = st.lists(
    st.fixed_dictionaries(
        {
            "shape": st.sampled_from(SHAPES),
            "label": st.sampled_from(["None", "None", "FullPCPUsOnly", "SpreadByPCPUs"]),
            "policy": st.sampled_from(["", "", "Restricted", "SingleNUMANode"]),
            "ratio": st.sampled_from(["", "", "", '{"cpu":1.5}', '{"cpu":']),
            "held": st.lists(st.integers(0, 15), max_size=6),
        }
    ),
    min_size=9,
    max_size=14,
)


def built(nodes: list[dict[str, Any]]) -> Cluster:
    cluster = Cluster()
    for number, spec in enumerate(nodes):
        labels = {
            "node.koordinator.sh/cpu-bind-policy": spec["label"],
            "node.koordinator.sh/numa-topology-policy": spec["policy"],
        }
        notes = {"node.koordinator.sh/resource-amplification-ratio": spec["ratio"]}
        cluster.node(
            f"n{number:02}",
            spec["shape"],
            labels=labels,
            annotations=notes if spec["ratio"] else {},
            cpu="24" if spec["ratio"] else "",
        )
        for place, cpu in enumerate(spec["held"]):
            info = cluster.info(f"h{number}-{place}", "1", held={"cpuset": str(cpu)})
            cluster.plugin.restore(info)
            cluster.world.accounts.add(number, info)
    return cluster


def pods(pod: dict[str, Any]) -> dict[str, Any]:
    wanted = {key: pod[key] for key in ("qos", "required", "preferred", "exclusive")}
    return {**wanted, "numa": pod["numa"], "alone": pod["alone"]}


@given(NODES, PODS)
def test_filter_score_and_diagnosis(nodes: list[dict[str, Any]], pod: dict[str, Any]) -> None:
    cluster = built(nodes)
    plugin, rows = cluster.plugin, np.arange(len(nodes), dtype=np.intp)
    info = cluster.info("p", f"{pod['milli']}m", f"{pod['gib']}Gi", **pods(pod))
    cycle = Cycle(info, cluster.world.table)
    if plugin.pre_filter(cycle) is not None:
        return
    together = plugin.filter(cycle, rows)
    assert plugin.filter(cycle, slice(0, len(rows))).tolist() == together.tolist()
    alone = [bool(plugin.filter(cycle, rows[i : i + 1])[0]) for i in rows.tolist()]
    assert together.tolist() == alone
    refused = rows[~together]
    why = plugin.diagnose(cycle, refused)
    for row, rejection in zip(refused.tolist(), why, strict=True):
        exact = plugin.evaluator.rejection(cycle, plugin._need(cycle), row)
        assert exact is not None
        assert (rejection.reasons, rejection.unresolvable) == (exact.reasons, exact.unresolvable)
    scores = plugin.score(cycle, rows)
    assert ((scores >= 0) & (scores <= 100)).all()
    one_by_one = [int(plugin.score(cycle, rows[i : i + 1])[0]) for i in rows.tolist()]
    assert scores.tolist() == one_by_one


@given(NODES, PODS)
def test_reserve_keeps_what_filter_promises(
    nodes: list[dict[str, Any]], pod: dict[str, Any]
) -> None:
    cluster = built(nodes)
    plugin = cluster.plugin
    info = cluster.info("p", f"{pod['milli']}m", f"{pod['gib']}Gi", **pods(pod))
    cycle = Cycle(info, cluster.world.table)
    if plugin.pre_filter(cycle) is not None:
        return
    for row in np.flatnonzero(plugin.filter(cycle, slice(0, len(nodes)))).tolist():
        assert plugin.reserve(cycle, row) is None
        held = info.allocations.get("NodeNUMAResource")
        if held is None or not held.cpus:
            continue
        assert len(held.cpus) == pod["milli"] // 1000
        spec = nodes[row]
        there = set(range(len(spec["shape"] if spec["shape"] is HYBRID else cpus(*spec["shape"]))))
        assert set(held.cpus) <= there - set(spec["held"])
