# SPDX-License-Identifier: Apache-2.0
"""The picker: the rules' worked examples, and random machines against the plain model."""

from __future__ import annotations

import re

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from koord.kernels.topology import PASSES, CPUState, Topology
from tests.models import topology as model

Row = tuple[int, int, int, int]


def rows_of(sockets: int, nodes: int, cores: int, threads: int) -> list[Row]:
    """(cpu, core, socket, node): ids nested, the threads of a core adjacent."""
    per_node = cores * threads
    return [
        (cpu, cpu // threads, cpu // (nodes * per_node), cpu // per_node)
        for cpu in range(sockets * nodes * per_node)
    ]


def topology_of(rows: list[Row]) -> Topology:
    cpu, core, socket, node = zip(*rows, strict=True)
    return Topology.from_cpus(cpu, core=core, socket=socket, node=node)


# Topology, allocated (cpus, policy), count, options, cpus, pass.
EXAMPLES = [
    ((2, 2, 4, 2), "0-3", 4, {"bind": "FullPCPUs"}, "4-7", "full-cores-in-node"),
    ((2, 2, 4, 2), "0-3", 4, {"bind": "FullPCPUs", "strategy": "LeastAllocated"}, "16-19",
     "full-cores-in-node"),
    ((2, 2, 4, 2), "0-3", 3, {"bind": "SpreadByPCPUs"}, "8,10,12", "one-per-core-in-node"),
    ((2, 2, 4, 2), "0-3", 5, {"bind": "SpreadByPCPUs"}, "8-10,12,14", "cpus-in-node"),
    ((2, 2, 4, 2), "0,2,8", 5, {"bind": "FullPCPUs"}, "10-14", "full-cores-in-node"),
    ((2, 1, 4, 2), "0,2:PCPULevel", 3, {"bind": "SpreadByPCPUs", "exclusive": "PCPULevel"},
     "8,10,12", "one-per-core-in-node"),
    ((2, 1, 4, 2), "0,2:PCPULevel", 3, {"bind": "SpreadByPCPUs"}, "1,3-4", "one-per-core-in-node"),
    ((2, 1, 4, 2), "0,2", 3, {"bind": "FullPCPUs", "preferred": "9,11"}, "4,9,11",
     "preferred:fallback+full-cores-in-node"),
    ((2, 1, 4, 2), "0-1,8-9", 7, {"bind": "FullPCPUs"}, "2-7,10",
     "full-cores-across-sockets+fallback"),
    ((1, 1, 4, 2), "0,2,4,6", 2, {"bind": "FullPCPUs"}, "1,3", "fallback"),
    ((2, 1, 4, 2), "0-3", 4, {"bind": "FullPCPUs", "max_ref_count": 2}, "4-7",
     "full-cores-in-node"),
    ((2, 1, 4, 2), "0-3", 4, {"bind": "SpreadByPCPUs", "max_ref_count": 2}, "0,2,4,6",
     "one-per-core-in-node"),
    ((2, 2, 4, 2), "0-1:NUMANodeLevel", 2, {"bind": "FullPCPUs", "exclusive": "NUMANodeLevel"},
     "8-9", "full-cores-in-node"),
    ((1, 2, 4, 2), "0-1,8-9:NUMANodeLevel", 2,
     {"bind": "FullPCPUs", "exclusive": "NUMANodeLevel"}, "2-3",
     "full-cores-in-node-ignoring-exclusivity"),
    ((1, 1, 2, 2), "0,2:PCPULevel", 2, {"bind": "FullPCPUs", "exclusive": "PCPULevel"}, "1,3",
     "fallback-ignoring-exclusivity"),
    ((1, 2, 4, 2), "0,8", 10, {"bind": "FullPCPUs"}, "2-7,10-13", "full-cores-in-socket"),
    ((1, 2, 4, 2), "", 8, {}, "0-7", "cpus-in-node"),
    ((1, 2, 2, 2), "0,4", 4, {"bind": "SpreadByPCPUs"}, "1-2,5-6", "one-per-core-in-socket"),
    ((1, 2, 2, 2), "0,4", 5, {"bind": "SpreadByPCPUs"}, "1-3,5-6", "cpus-in-socket"),
    # Koordinator hands out twelve CPUs here.
    ((4, 1, 4, 2), "", 11, {"bind": "FullPCPUs", "strategy": "LeastAllocated"}, "0-10",
     "full-cores-across-sockets+fallback"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "taken", "count", "options", "cpus", "name"), EXAMPLES)
def test_worked_examples(shape, taken, count, options, cpus, name) -> None:
    state = CPUState(topology_of(rows_of(*shape)))
    held, _, exclusive = taken.partition(":")
    state.add("pod", held, exclusive or "None")
    picked = state.pick(count, **{"strategy": "MostAllocated"} | options)
    assert (picked.cpu_list, picked.pass_name) == (cpus, name)


def test_too_few_cpus_are_a_reason_and_not_an_error() -> None:
    state = CPUState(topology_of(rows_of(1, 1, 4, 2)))
    state.add("pod", "0-6")
    picked = state.pick(2, bind="FullPCPUs")
    assert not picked
    assert picked.reason == "not enough cpus available to satisfy request"
    assert (len(picked.cpus), picked.pass_name) == (0, "")
    assert repr(picked) == "Pick(reason='not enough cpus available to satisfy request')"


@pytest.mark.parametrize("bind", ["FullPCPUs", "SpreadByPCPUs"])
def test_a_required_policy_is_never_broken(bind: str) -> None:
    state = CPUState(topology_of(rows_of(1, 1, 4, 2)))
    state.add("pod", "0")
    assert state.pick(3, bind="FullPCPUs", required=True).reason == (
        "insufficient CPUs to satisfy required cpu bind policy FullPCPUs"
    )
    assert state.pick(5, bind="SpreadByPCPUs", required=True).reason == (
        "not enough cpus available to satisfy request"
    )
    assert str(state.available(bind=bind, required=True)) == (
        "2-7" if bind == "FullPCPUs" else "1-2,4,6"
    )


def test_unequal_cores_are_full_when_their_own_threads_are_free() -> None:
    """Two cores of two threads and four of one, as on hybrid processors."""
    rows = [(0, 0, 0, 0), (1, 0, 0, 0), (2, 1, 0, 0), (3, 1, 0, 0)]
    state = CPUState(topology_of(rows + [(cpu, cpu, 0, 0) for cpu in range(4, 8)]))
    pick = {"bind": "FullPCPUs", "required": True}
    assert state.pick(2, **pick).cpu_list == "0-1"
    assert state.pick(3, **pick).cpu_list == "0-1,4"  # a small core rather than half a large one
    state.add("pod", "0")
    assert state.pick(4, **pick).cpu_list == "2-5"
    assert state.pick(7)
    assert not state.pick(8)


def test_a_core_whose_sibling_is_offline_is_full_by_itself() -> None:
    topology = Topology.from_cpus(range(4), core=[0, 0, 1, 1], socket=[0] * 4, node=[0] * 4,
                                  online=[True, False, True, True])  # fmt: skip
    assert topology.pick(3, bind="FullPCPUs").cpu_list == "0,2-3"
    assert str(CPUState(topology).available(bind="FullPCPUs", required=True)) == "0,2-3"


def test_a_count_below_one_is_answered_with_no_cpus() -> None:
    picked = topology_of(rows_of(1, 1, 2, 2)).pick(0)
    assert picked
    assert picked.cpu_list == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bind": "fullpcpus"},
         "bind policy: got 'fullpcpus', expected Default, FullPCPUs or SpreadByPCPUs"),
        ({"bind": "ConstrainedBurst"},
         "bind policy: got 'ConstrainedBurst', expected Default, FullPCPUs or SpreadByPCPUs"),
        ({"exclusive": "Core"},
         "exclusive policy: got 'Core', expected None, PCPULevel or NUMANodeLevel"),
        ({"strategy": ""},
         "NUMA strategy: got '', expected MostAllocated, LeastAllocated or DistributeEvenly"),
        ({"reserved": "0-"}, "cpu list: got '0-', expected ids and ranges such as 0-3,8"),
    ],
)  # fmt: skip
def test_bad_words_are_errors_of_one_line(options: dict[str, str], message: str) -> None:
    state = CPUState(topology_of(rows_of(1, 1, 2, 2)))
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        state.pick(1, **options)


def subsets(cpus: list[int]) -> st.SearchStrategy[frozenset[int]]:
    """As bits of one number: cheap to draw, and it shrinks towards the empty set."""
    bits = st.integers(0, (1 << len(cpus)) - 1)
    return bits.map(lambda b: frozenset(cpu for i, cpu in enumerate(cpus) if b >> i & 1))


@st.composite
def machines(draw: st.DrawFn) -> list[Row]:
    sockets, nodes, cores = draw(st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 3)))
    count = sockets * nodes * cores
    threads = draw(
        st.sampled_from([1, 2, 4]).map(lambda t: [t] * count)
        | st.lists(st.integers(1, 3), min_size=count, max_size=count)
    )
    core_of = [core for core in range(count) for _ in range(threads[core])]
    if draw(st.booleans()):  # siblings far apart, as most firmware numbers them
        core_of = [core for turn in range(4) for core in range(count) if threads[core] > turn]
    per_socket = nodes * cores
    return [(cpu, core, core // per_socket, core // cores) for cpu, core in enumerate(core_of)]


EXCLUSIVE = [model.NONE, model.PCPU, model.NODE]


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[Row], model.State, model.Request]:
    rows = draw(machines())
    cpus = [row[0] for row in rows]
    some = subsets(cpus)
    rarely = st.just(frozenset()) | some
    state = model.State(model.Machine.of(rows))
    for uid in range(draw(st.integers(0, 3))):
        state.add(str(uid), draw(some), draw(st.sampled_from(EXCLUSIVE)))
    request = model.Request(
        count=draw(st.integers(0, len(cpus) + 1)),
        bind=draw(st.sampled_from([model.FULL, model.SPREAD, model.DEFAULT])),
        required=draw(st.booleans()),
        exclusive=draw(st.sampled_from(EXCLUSIVE)),
        strategy=draw(st.sampled_from(["MostAllocated", "LeastAllocated", "DistributeEvenly"])),
        max_ref_count=draw(st.integers(0, 3)),
        reserved=draw(rarely),
        preferred=draw(rarely),
        preemptible=tuple(draw(st.lists(some, max_size=2))),
        within=draw(st.none() | some),
    )
    return rows, state, request


def native_state(rows: list[Row], state: model.State) -> CPUState:
    native = CPUState(topology_of(rows))
    for uid, (cpus, exclusive) in state.pods.items():
        native.add(uid, cpus, exclusive)
    return native


@given(questions())
def test_the_picker_is_its_model(question: tuple[list[Row], model.State, model.Request]) -> None:
    rows, state, ask = question
    native = native_state(rows, state)
    before = {cpu: native.ref_count(cpu) for cpu, *_ in rows}
    picked = native.pick(
        ask.count, bind=ask.bind, required=ask.required, exclusive=ask.exclusive,
        strategy=ask.strategy, max_ref_count=ask.max_ref_count, reserved=ask.reserved,
        preferred=ask.preferred, preemptible=ask.preemptible, within=ask.within,
    )  # fmt: skip
    want = model.pick(state, ask)
    passes = ["preferred:" + name for name in picked.preferred_passes] + picked.passes
    event(want.reason or "+".join(want.passes))
    assert (set(picked.cpus), passes, picked.reason) == (want.cpus, want.passes, want.reason)
    assert picked.reason or len(picked.cpus) == ask.count
    assert set(passes) <= set(PASSES) | {"preferred:" + name for name in PASSES}
    assert {cpu: native.ref_count(cpu) for cpu, *_ in rows} == before


@given(questions())
def test_what_is_available_is_what_the_model_says(
    question: tuple[list[Row], model.State, model.Request],
) -> None:
    rows, state, ask = question
    got = native_state(rows, state).available(
        bind=ask.bind, required=ask.required, max_ref_count=ask.max_ref_count,
        reserved=ask.reserved, preferred=ask.preferred, preemptible=ask.preemptible,
        within=ask.within,
    )  # fmt: skip
    assert set(got) == model.available(state, ask)
