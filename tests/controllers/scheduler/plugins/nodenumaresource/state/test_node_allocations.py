# SPDX-License-Identifier: Apache-2.0
"""What pods hold of a node: always what those that are there make of it, in the order they came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.scheduler.plugins.nodenumaresource.objects.allocation_annotation import (
    NUMAAllocation,
)
from koord.controllers.scheduler.plugins.nodenumaresource.objects.node_topology import (
    NodeTopologies,
    NodeTopology,
)
from koord.controllers.scheduler.plugins.nodenumaresource.state.node_allocations import (
    NodeAllocations,
)
from koord.kernels.cpuset import CPUSet
from koord.kernels.topology import ExclusivePolicy
from tests.controllers.scheduler.plugins.nodenumaresource.cluster import topology
from tests.controllers.scheduler.pods import node

ALLOCATIONS = st.builds(
    NUMAAllocation,
    st.sampled_from(["", "0-1", "0-3", "2-5", "4,6"]).map(CPUSet.parse),
    st.sampled_from([{}, {0: {"cpu": 2000}}, {1: {"cpu": 1000}}]),
    st.sampled_from([each.value for each in ExclusivePolicy]),
)
STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.none() | ALLOCATIONS), max_size=12)


def machine() -> NodeTopology:
    return NodeTopologies("LeastAllocated").of(node("n0"), topology("n0", (2, 1, 2, 2)))[0]


def held(cpus: str, exclusive: str) -> NUMAAllocation:
    return NUMAAllocation(CPUSet.parse(cpus), {}, exclusive)


@given(STEPS)
def test_a_pod_leaves_no_trace(taken: list[tuple[str, NUMAAllocation | None]]) -> None:
    """Pods may share CPUs, as a reserve pod and its owners do."""
    state, model = NodeAllocations(machine()), dict[str, NUMAAllocation]()
    for uid, allocation in taken:
        if allocation is None:
            assert state.release(uid) is (model.pop(uid, None) is not None)
        else:
            assert state.add(uid, allocation) is (uid not in model)
            model.setdefault(uid, allocation)
        fresh = NodeAllocations(state.topology)
        for each, holds in model.items():
            fresh.add(each, holds)
        assert (state.pods, state.key()) == (fresh.pods, fresh.holdings())
        assert state.bindable() == fresh.bindable()


def test_a_reservation_keeps_others_off_as_before_once_an_owner_is_gone() -> None:
    state = NodeAllocations(machine())
    state.add("reserve", held("0-1", ExclusivePolicy.NUMA_NODE_LEVEL))
    before = state.holdings()
    state.add("owner", held("0-1", ExclusivePolicy.PCPU_LEVEL))
    assert state.holdings() != before
    state.release("owner")
    assert state.holdings() == before
