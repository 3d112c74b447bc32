# SPDX-License-Identifier: Apache-2.0
"""One pick of eight CPUs on machines of 64 to 384, against the plain model; and how it grows."""

from __future__ import annotations

import pytest

from koord.kernels.topology import CPUState, Topology
from tests.models import topology as model

Row = tuple[int, int, int, int]

# About half of what was measured.
GATES = {
    model.FULL: {64: 50.0, 104: 120.0, 256: 300.0, 384: 600.0},
    model.SPREAD: {64: 20.0, 104: 25.0, 256: 50.0, 384: 100.0},
}
SHAPES = {64: (2, 1, 16), 104: (2, 1, 26), 256: (2, 2, 32), 384: (2, 4, 24), 8192: (8, 8, 64)}


def rows_of(cpus: int) -> list[Row]:
    _, nodes, cores = SHAPES[cpus]
    per_node = 2 * cores
    return [(cpu, cpu // 2, cpu // (nodes * per_node), cpu // per_node) for cpu in range(cpus)]


def state_of(cpus: int) -> CPUState:
    cpu, core, socket, node = zip(*rows_of(cpus), strict=True)
    return CPUState(Topology.from_cpus(cpu, core=core, socket=socket, node=node))


@pytest.mark.parametrize("max_ref_count", [1, 2])
@pytest.mark.parametrize("bind", [model.FULL, model.SPREAD])
@pytest.mark.parametrize("cpus", [64, 104, 256, 384])
def test_pick(gate, cpus: int, bind: str, max_ref_count: int) -> None:
    state, plain = state_of(cpus), model.State(model.Machine.of(rows_of(cpus)))
    ask = model.Request(8, bind=bind, max_ref_count=max_ref_count)
    assert set(state.pick(8, bind=bind, max_ref_count=max_ref_count).cpus) == (
        model.pick(plain, ask).cpus
    )
    gate(
        f"topology: pick 8 of {cpus} CPUs, {bind}, max_ref_count={max_ref_count}",
        lambda: state.pick(8, bind=bind, max_ref_count=max_ref_count),
        lambda: model.pick(plain, ask),
        GATES[bind][cpus],
    )


def test_a_pick_grows_no_faster_than_the_words_of_a_cpu_set(gate) -> None:
    """32 times the words: one pick on 8,192 CPUs against 32 on 256."""
    small, large = state_of(256), state_of(8192)

    def many() -> None:
        for _ in range(32):
            small.pick(8, bind=model.FULL)

    gate(
        "topology: pick 8 of 8192 CPUs, against 32 picks of 256",
        lambda: large.pick(8, bind=model.FULL),
        many,
        1.5,
    )
