# SPDX-License-Identifier: Apache-2.0
"""Random histories of a cluster.

At every quiet moment nothing is given twice, and nothing waits that has a place.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, example, given, settings

from tests.controllers.scheduler.histories import History, live

FORMS = ("plain", "plain", "bound", "share", "gpus", "high", "apart", "broken")
Step = tuple[Any, ...]
# A history takes a second or more: to shrink one takes minutes, and is for who looks into it.
PHASES = (Phase.explicit, Phase.generate)

_at = st.integers(0, 9)
steps = st.one_of(
    st.tuples(st.just("node"), st.booleans()),
    st.tuples(
        st.just("pod"), st.sampled_from(FORMS), st.sampled_from((1, 2, 4)),
        st.sampled_from(("", "", "team-a")), st.sampled_from(("", "", "r")),
    ),
    st.tuples(
        st.just("gang"), st.integers(2, 4), st.sampled_from(("plain", "share", "bound")),
        st.sampled_from((1, 2)),
    ),
    st.tuples(
        st.just("reservation"), st.sampled_from((1, 2, 4)),
        st.sampled_from(("Aligned", "Restricted")), st.booleans(),
    ),
    st.tuples(st.just("quota"), st.integers(1, 12)),
    st.tuples(st.just("delete"), st.sampled_from(("Pod", "Pod", "Reservation")), _at),
    st.tuples(st.just("finish"), _at),
    st.tuples(st.just("remove-node"), _at),
    st.tuples(st.just("cordon"), _at, st.booleans()),
    st.tuples(st.just("faults"), st.booleans(), st.integers(0, 99)),
    st.tuples(st.just("restart")),
    st.tuples(st.just("settle")),
)  # fmt: skip


async def carry_out(history: History, step: Step) -> None:
    match step:
        case ("node", gpus):
            await history.add_node(gpus)
        case ("pod", form, cpu, quota, owner):
            await history.add_pod(form, cpu, quota, owner)
        case ("gang", size, form, cpu):
            await history.add_gang(size, form, cpu)
        case ("reservation", cpu, policy, once):
            await history.add_reservation(cpu, policy, once)
        case ("quota", most):
            await history.set_quota("team-a", most)
        case ("delete", what, at):
            await history.delete(what, at)
        case ("finish", at):
            await history.finish(at)
        case ("remove-node", at):
            await history.remove_node(at)
        case ("cordon", at, off):
            await history.cordon(at, off)
        case ("faults", lost, seed):
            await history.with_faults("scheduler.bind", 0.5, seed, lost)
        case ("restart",):
            await history.restart()
        case ("settle",):
            await history.settle()


@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=25, phases=PHASES)
@given(st.lists(steps, min_size=4, max_size=14))
@example([("node", True), ("gang", 3, "share", 1), ("pod", "bound", 4, "", "")])
@example([("node", False), ("reservation", 4, "Restricted", False), ("pod", "plain", 2, "", "r")])
@example(  # a node without a Device, above all rows that have one
    [("gang", 3, "share", 2), ("node", True), ("remove-node", 7), ("node", False),
     ("pod", "share", 1, "", ""), ("faults", True, 56)]
)  # fmt: skip
@example([("node", False), ("cordon", 9, True), ("gang", 3, "share", 1), ("restart",)])
def test_whatever_happens(history: list[Step]) -> None:
    async def run(made: History) -> None:
        await made.set_quota("team-a", 6)
        await made.add_node(True)
        for step in history:
            await carry_out(made, step)
        await made.settle()

    live(run)
