# SPDX-License-Identifier: Apache-2.0
"""Whatever annotations, labels and reports say, pods are answered, in one line each."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.api.codec import convert
from koord.api.kinds.topology import NodeResourceTopology
from koord.base.errors import KoordError
from tests.controllers.scheduler.plugins.nodenumaresource.cluster import (
    KEYS,
    NUMA_SPEC,
    SPEC,
    STATUS,
    Cluster,
    topology,
)

WORDS = st.sampled_from(
    ["", "{", "[]", "null", "7", '""', '{"cpuset":"0-3"}', '{"cpuset":"3-0,-1"}', "{}"]
)
WILD = st.one_of(WORDS, st.text(max_size=12))
AMOUNT = st.sampled_from(["4", "-1", "1500m", "9E", "0", "1e18"])
NAME = st.sampled_from(["node-0", "node-1", "node-1", "node-x", "zone-0", "node-99999", "node--1"])
ZONES = st.lists(st.tuples(NAME, AMOUNT, AMOUNT), max_size=4)


@given(
    pod=st.fixed_dictionaries({SPEC: WILD, NUMA_SPEC: WILD, STATUS: WILD}),
    report=st.dictionaries(st.sampled_from(sorted(KEYS.values())), WILD),
    labels=st.tuples(WILD, WILD, WILD),
    zones=ZONES,
    policies=st.lists(st.sampled_from(["Restricted", "BestEffort", "x", ""]), max_size=2),
    cpu=st.sampled_from(["4", "0", "1500m", ""]),
)
def test_nothing_goes_through_as_an_exception(
    pod: dict[str, str],
    report: dict[str, str],
    labels: tuple[str, str, str],
    zones: list[tuple[str, str, str]],
    policies: list[str],
    cpu: str,
) -> None:
    cluster = Cluster()
    names = ("cpu-bind-policy", "numa-allocate-strategy", "numa-topology-policy")
    found = {f"node.koordinator.sh/{name}": text for name, text in zip(names, labels, strict=True)}
    cluster.node("n0", (2, 1, 2, 2), labels=found, annotations=report)
    nrt = topology("n0", (2, 1, 2, 2))
    nrt.metadata.annotations.update(report)
    document: dict[str, Any] = {
        "metadata": {"name": "n0", "annotations": nrt.metadata.annotations},
        "topologyPolicies": policies,
        "zones": [
            {
                "name": name,
                "type": "Node",
                "resources": [
                    {"name": "cpu", "capacity": "1", "allocatable": cpus, "available": "1"},
                    {"name": "memory", "capacity": "1", "allocatable": memory, "available": "1"},
                ],
            }
            for name, cpus, memory in zones
        ],
    }
    try:
        reported = convert(document, NodeResourceTopology, "NodeResourceTopology n0")
    except KoordError:
        return
    cluster.views.view(NodeResourceTopology).put(reported)
    old = cluster.info("old", "1", annotations={STATUS: pod[STATUS]})
    cluster.plugin.restore(old)
    cluster.world.accounts.add(0, old)
    for number, numa in enumerate(("", "SingleNUMANode", "Restricted")):
        plain = cluster.put(f"plain-{number}", "1", numa=numa)
        assert "\n" not in plain
    said = cluster.put("p", cpu, annotations=pod)
    assert len(said.splitlines()) <= 1
    cluster.world.accounts.drop(old)
    assert "uid-old" not in cluster.plugin.cache.state(0).pods
