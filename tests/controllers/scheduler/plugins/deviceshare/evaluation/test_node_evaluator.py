# SPDX-License-Identifier: Apache-2.0
"""Native answers for many rows are what a full allocation on each of them says."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.deviceshare.state.cycle_state import DeviceCycleState
from tests.controllers.scheduler.plugins.deviceshare.clusters import Cluster, gpus, nic

ALLOCATED = "scheduling.koordinator.sh/device-allocated"
JOINT = "scheduling.koordinator.sh/device-joint-allocate"
SPEC = "scheduling.koordinator.sh/gpu-partition-spec"
HINT = "scheduling.koordinator.sh/device-allocate-hint"

nodes = st.lists(
    st.tuples(
        st.sampled_from([0, 2, 4, 8]),  # GPUs
        st.sampled_from([0, 0, 2]),  # RDMA cards
        st.dictionaries(st.integers(0, 7), st.sampled_from([30, 100]), max_size=4),  # in use
        st.booleans(),  # linked, and to be given as partitions only
        st.booleans(),  # well planned
    ),
    min_size=1,
    max_size=4,
)
asks = st.fixed_dictionaries(
    {},
    optional={
        "gpu": st.sampled_from([30, 50, 100, 200, 300, 400]),
        "rdma": st.sampled_from([1, 100, 200]),
    },
).filter(bool)
annotations = st.fixed_dictionaries(
    {},
    optional={
        JOINT: st.sampled_from([
            '{"deviceTypes":["gpu","rdma"]}',
            '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}',
        ]),
        SPEC: st.sampled_from(["{}", '{"allocatePolicy":"Restricted"}']),
        HINT: st.sampled_from([
            '{"gpu":{"requiredTopologyScope":"PCIe"}}',
            '{"gpu":{"exclusivePolicy":"PCIeLevel"}}',
            '{"rdma":{"allocateStrategy":"ApplyForAll"}}',
            '{"rdma":{"vfSelector":{}}}',
        ]),
    },
)  # fmt: skip


def cluster_of(found) -> Cluster:
    cluster = Cluster()
    for number, (count, nics, busy, linked, planned) in enumerate(found):
        labels = {"node.koordinator.sh/secondary-device-well-planned": str(planned).lower()}
        model = {}
        if linked:
            model = {
                "node.koordinator.sh/gpu-model": "H20",
                "node.koordinator.sh/gpu-partition-policy": "Honor",
            }
        cards = [*gpus(count), *(nic(minor, 0, str(minor), vfs=1) for minor in range(nics))]
        row = cluster.add(f"n{number}", *cards, labels=model, device_labels=labels)
        held = [
            {"minor": minor, "resources": {"koordinator.sh/gpu-core": str(core)}}
            for minor, core in busy.items()
        ]
        holder = cluster.pod(f"h{number}", annotations={ALLOCATED: json.dumps({"gpu": held})})
        cluster.hold("h", row, holder)
    return cluster


@given(nodes, asks, annotations)
def test_masks_and_reasons_are_those_of_a_trial(found, requested, hints) -> None:
    cluster = cluster_of(found)
    cycle = Cycle(cluster.pod(annotations=hints, **requested), cluster.table)
    plugin = cluster.plugin
    rows = np.arange(len(found), dtype=np.intp)
    passes = plugin.filter(cycle, rows)
    refused = rows[~passes]
    reasons = dict(zip(refused.tolist(), plugin.diagnose(cycle, refused), strict=True))
    cycle_state = cycle.state["DeviceShare"]
    assert isinstance(cycle_state, DeviceCycleState)
    for row in rows.tolist():
        if not plugin.tracker.columns.known[row]:
            assert passes[row]  # the kubelet's
            continue
        tried = plugin.evaluator.try_allocate(cycle_state, row)
        assert passes[row] == (not isinstance(tried, Rejection))
        if isinstance(tried, Rejection):
            said = reasons[row]
            assert (said.reasons, said.unresolvable) == (tried.reasons, tried.unresolvable)
