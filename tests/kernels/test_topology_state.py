# SPDX-License-Identifier: Apache-2.0
"""The CPUs that pods hold: changed in place, and always what a replay from nothing gives."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kernels.cpuset import CPUSet
from koord.kernels.topology import CPUState, NUMAStatus, Topology
from tests.models import topology as model
from tests.outcomes import KERNEL_ERRORS, refusal

# Two NUMA nodes of two cores of two threads.
ROWS = [(cpu, cpu // 2, 0, cpu // 4) for cpu in range(8)]


def state_of_eight() -> CPUState:
    cpu, core, socket, node = zip(*ROWS, strict=True)
    return CPUState(Topology.from_cpus(cpu, core=core, socket=socket, node=node))


def test_adding_a_known_pod_changes_nothing() -> None:
    state = state_of_eight()
    assert state.add("a", "0-1")
    assert not state.add("a", "4-7")
    assert (str(state.allocated()), str(state.cpus_of("a"))) == ("0-1", "0-1")
    assert repr(state).endswith("allocated='0-1')")


def test_releasing_gives_back_once() -> None:
    state = state_of_eight()
    state.add("a", "0-1")
    state.add("b", "1-2")
    assert state.release("a")
    assert not state.release("a")
    assert [state.ref_count(cpu) for cpu in range(4)] == [0, 1, 1, 0]
    with pytest.raises(KeyError, match="got 'a', expected a pod of this node"):
        state.cpus_of("a")


def test_a_node_is_single_until_a_pod_spans_it() -> None:
    state = state_of_eight()
    assert [state.numa_status(node) for node in (0, 1, 9)] == [NUMAStatus.IDLE] * 3
    state.add("a", "0-1")
    state.add("none", "")
    assert [state.numa_status(node) for node in (0, 1)] == [NUMAStatus.SINGLE, NUMAStatus.IDLE]
    state.add("b", "2,4")
    assert [state.numa_status(node) for node in (0, 1)] == [NUMAStatus.SHARED] * 2
    state.update("b", "4")
    assert [state.numa_status(node) for node in (0, 1)] == [NUMAStatus.SINGLE] * 2


def test_the_last_pod_on_a_cpu_sets_its_exclusive_policy() -> None:
    state = state_of_eight()
    state.add("a", "0", "PCPULevel")
    assert state.pick(4, exclusive="PCPULevel", max_ref_count=2, within="0-3").cpu_list == "0-3"
    assert state.pick(1, exclusive="PCPULevel", max_ref_count=2, within="0-3").cpu_list == "2"
    state.add("b", "0", "None")
    assert state.pick(1, exclusive="PCPULevel", max_ref_count=3, within="0-3").cpu_list == "1"
    state.release("b")
    # The mark of the first pod is not brought back, as in Koordinator.
    assert state.pick(1, exclusive="PCPULevel", max_ref_count=2, within="0-3").cpu_list == "1"


def test_a_cpu_that_two_hold_must_be_given_back_twice() -> None:
    state = state_of_eight()
    state.add("reservation", "0-3")
    state.add("owner", "0-3")
    assert str(state.available(preemptible=["0-1"])) == "4-7"
    assert str(state.available(preemptible=["0-1", "0"])) == "0,4-7"
    assert str(state.available(preferred="0-1", preemptible=["0-1"])) == "0-1,4-7"
    assert str(state.available()) == "4-7"


def test_cpus_that_the_machine_lacks_count_nowhere() -> None:
    state = state_of_eight()
    state.add("a", "7,100")
    assert str(state.allocated()) == "7"
    assert str(state.cpus_of("a")) == "7,100"
    assert (state.ref_count(100), state.ref_count(-1)) == (0, 0)


@pytest.mark.parametrize("cpus", [[-1], [8192], [1 << 70], ["0"], [0.5], [None]])
def test_bad_cpu_ids_are_errors_of_one_line(cpus: list[object]) -> None:
    message = f"cpu id: got '{cpus[0]!r}', expected an integer from 0 to 8191"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        state_of_eight().add("a", cpus)


def test_sets_may_be_given_in_any_form() -> None:
    state = state_of_eight()
    for uid, cpus in enumerate([np.array([0]), (1,), CPUSet.parse("2"), "3", range(4, 5), {5}]):
        state.add(str(uid), cpus)
    assert str(state.allocated()) == "0-5"


@given(st.text(max_size=20))
def test_any_policy_word_is_known_or_refused_in_one_line(word: str) -> None:
    pick = partial(state_of_eight().pick, 1, bind=word, exclusive=word)
    said = refusal(pick, errors=KERNEL_ERRORS)
    assert not said or "policy" in said


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "release", "update"]),
        st.sampled_from(["a", "b", "c"]),
        st.integers(0, 255).map(lambda bits: [cpu for cpu in range(8) if bits >> cpu & 1]),
        st.sampled_from([model.NONE, model.PCPU, model.NODE]),
    ),
    max_size=12,
)


@given(STEPS)
def test_any_history_is_the_models(steps: list[tuple[str, str, list[int], str]]) -> None:
    native, plain = state_of_eight(), model.State(model.Machine.of(ROWS))
    for verb, uid, cpus, exclusive in steps:
        if verb == "add":
            assert native.add(uid, cpus, exclusive) == plain.add(uid, cpus, exclusive)
        elif verb == "release":
            assert native.release(uid) == plain.release(uid)
        else:
            native.update(uid, cpus, exclusive)
            plain.release(uid)
            plain.add(uid, cpus, exclusive)
        assert set(native.allocated()) == set(plain.records)
        for cpu in range(8):
            assert native.ref_count(cpu) == plain.ref_count(cpu)
        for node in (0, 1):
            assert native.numa_status(node) == plain.numa_status(node)
    for exclusive in (model.PCPU, model.NODE):
        ask = model.Request(2, exclusive=exclusive, max_ref_count=2)
        picked = native.pick(2, exclusive=exclusive, max_ref_count=2)
        assert set(picked.cpus) == model.pick(plain, ask).cpus


HELD = st.dictionaries(
    st.sampled_from("abcd"),
    st.tuples(st.frozensets(st.integers(0, 9), max_size=4), st.sampled_from(["", "PCPULevel"])),
)


@given(HELD, st.sampled_from(["Default", "FullPCPUs", "SpreadByPCPUs"]), st.booleans())
def test_counts_are_of_what_is_available(
    held: dict[str, tuple[frozenset[int], str]], bind: str, required: bool
) -> None:
    state = state_of_eight()
    for uid, (cpus, exclusive) in held.items():
        state.add(uid, cpus, exclusive)
    free = state.available(bind=bind, required=required, reserved="1", preferred="4-5")
    counts = state.count_available(bind=bind, required=required, reserved="1", preferred="4-5")
    assert counts == [(node, sum(cpu // 4 == node for cpu in free)) for node in (0, 1)]
    within = state.count_available(bind=bind, within="0-3")
    assert within[1] == (1, 0)


@given(HELD, HELD)
def test_a_fingerprint_tells_states_apart(
    one: dict[str, tuple[frozenset[int], str]], two: dict[str, tuple[frozenset[int], str]]
) -> None:
    states = []
    for held in (one, two):
        state = state_of_eight()
        for uid, (cpus, exclusive) in held.items():
            state.add(uid, cpus, exclusive)
        states.append(state)
    alike = states[0].fingerprint() == states[1].fingerprint()
    seen = [
        (
            [state.ref_count(cpu) for cpu in range(8)],
            [state.numa_status(node) for node in (0, 1)],
            [str(state.pick(n, exclusive="PCPULevel").cpus) for n in range(1, 5)],
        )
        for state in states
    ]
    assert not alike or seen[0] == seen[1]
    assert states[0].fingerprint() == states[0].fingerprint()


def test_a_fingerprint_forgets_pods_that_left() -> None:
    state = state_of_eight()
    empty = state.fingerprint()
    state.add("a", "0-1", "PCPULevel")
    assert state.fingerprint() != empty
    state.release("a")
    assert state.fingerprint() == empty
