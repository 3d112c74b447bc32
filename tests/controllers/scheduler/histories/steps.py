# SPDX-License-Identifier: Apache-2.0
"""The steps that histories are made of: hypothesis draws them, ``carry_out`` takes them."""

from __future__ import annotations

import asyncio
from typing import Any

import hypothesis.strategies as st

from tests.controllers.scheduler.histories.cluster import History
from tests.controllers.scheduler.histories.documents import CPU_FORMS, GUIDE, MINIMA
from tests.controllers.scheduler.histories.weather import STORMS

Step = tuple[Any, ...]
FORMS = ("plain", "plain", "share", "gpus", "high", "apart", "broken", "gated", *CPU_FORMS)
TEAMS = ("team-a", "team-b", GUIDE)
CHANGES = ("owner", "team", "mend", "tolerate", "ungate", "ungate")
GANG_FORMS = ("plain", "share", "bound", "pcpu")
DELETED = ("Pod", "Pod", "Reservation", "ElasticQuota", "PodGroup")
BAD = sorted(STORMS.keys() - {"calm"})

_at = st.integers(0, 9)
_pods = st.tuples(
    st.just("pod"), st.sampled_from(FORMS), st.sampled_from((1, 2, 4)),
    st.sampled_from(("", "", *TEAMS)), st.sampled_from(("", "", "r")),
)  # fmt: skip
_many = st.tuples(
    st.just("pods"), st.integers(2, 6), st.sampled_from(FORMS), st.sampled_from((1, 2)),
    st.sampled_from(("", *TEAMS)), st.sampled_from(("", "r")),
)  # fmt: skip
_gangs = st.tuples(
    st.just("gang"), st.integers(2, 4), st.sampled_from(GANG_FORMS), st.sampled_from((1, 2)),
    st.sampled_from(("annotations", "PodGroup")), st.sampled_from(("", "", "r")),
)  # fmt: skip
_reservations = st.tuples(
    st.just("reservation"), st.sampled_from((1, 2, 4)),
    st.sampled_from(("Aligned", "Restricted")), st.booleans(), st.sampled_from(("0s", "0s", "40s")),
    st.sampled_from(("plain", "plain", "share", "gpus", *CPU_FORMS)),
)  # fmt: skip
_storms = st.tuples(st.just("storm"), st.sampled_from(BAD), st.integers(0, 999))
steps = st.one_of(
    _storms,
    _storms,
    st.tuples(st.just("node"), st.booleans()),
    st.just(("bare-node",)),
    _pods,
    _pods,
    _many,
    _many,
    st.tuples(st.just("change"), _at, st.sampled_from(CHANGES)),
    _gangs,
    st.tuples(st.just("resize-gang"), _at, st.integers(1, 4)),
    st.tuples(st.just("group-gangs"), _at, st.booleans()),
    _reservations,
    st.tuples(st.just("quota"), st.sampled_from(sorted(MINIMA)), st.integers(1, 12)),
    st.tuples(st.just("delete"), st.sampled_from(DELETED), _at),
    st.tuples(st.sampled_from(("finish", "replace", "lose-cards", "come-back")), _at),
    st.tuples(st.just("remove-node"), _at),
    st.tuples(st.sampled_from(("cordon", "close")), _at, st.booleans()),
    st.tuples(st.just("resize"), _at, st.sampled_from((4, 8, 12))),
    st.tuples(st.just("resize-pod"), _at, st.integers(1, 4)),
    st.tuples(st.just("report"), _at, st.sampled_from(("follow", "follow", "lag", "refuse"))),
    st.tuples(st.just("relabel"), _at, st.sampled_from(("z0", "z1", "z2"))),
    st.tuples(st.just("faults"), st.booleans(), st.integers(0, 99)),
    st.tuples(st.just("strike"), st.booleans()),
    st.tuples(st.just("wait"), st.sampled_from((0.0, 0.01, 0.5, 5.0, 30.0))),
    st.tuples(st.just("restart")),
    st.tuples(st.just("settle")),
)
HISTORIES = st.lists(steps, min_size=4, max_size=14)


async def carry_out(history: History, step: Step) -> None:
    match step:
        case ("node", gpus):
            await history.add_node(gpus)
        case ("bare-node",):
            await history.add_node(False, bare=True)
        case ("pod", form, cpu, quota, owner):
            await history.add_pod(form, cpu, quota, owner)
        case ("pods", count, form, cpu, quota, owner):
            for _ in range(count):
                await history.add_pod(form, cpu, quota, owner)
        case ("change", at, how):
            await history.change(at, how)
        case ("gang", *wish):
            await history.add_gang(*wish)
        case ("resize-gang", at, least):
            await history.resize_gang(at, least)
        case ("group-gangs", at, together):
            await history.group_gangs(at, together)
        case ("reservation", *wish):
            await history.add_reservation(*wish)
        case ("quota", name, most):
            await history.set_quota(name, most)
        case ("delete", what, at):
            await history.delete(what, at)
        case ("finish", at):
            await history.finish(at)
        case ("replace", at):
            await history.replace(at)
        case ("remove-node", at):
            await history.remove_node(at)
        case ("come-back", at):
            await history.come_back(at)
        case ("lose-cards", at):
            await history.lose_cards(at)
        case ("cordon", at, off):
            await history.cordon(at, off)
        case ("close", at, off):
            await history.close_reservation(at, off)
        case ("resize", at, cpu):
            await history.resize(at, cpu)
        case ("resize-pod", at, cpu):
            await history.resize_pod(at, cpu)
        case ("report", at, how):
            await history.report(at, how)
        case ("relabel", at, zone):
            await history.relabel(at, zone)
        case _:
            await _go_wrong(history, step)


async def _go_wrong(history: History, step: Step) -> None:
    match step:
        case ("faults", lost, seed):
            await history.with_faults("scheduler.bind", 0.5, seed, lost)
        case ("storm", name, seed):
            history.storm(name, seed)
        case ("strike", gone):
            history.weather.strike(gone)
        case ("wait", seconds):
            await asyncio.sleep(seconds)
        case ("restart",):
            await history.restart()
        case ("settle",):
            await history.settle()
        case _:
            raise ValueError(f"step: got {step!r}, expected one that is known")


async def tell(history: History, taken: list[Step]) -> None:
    """A whole history: quotas and a node with cards first, quiet at the end."""
    for name, most in (("company", 10), ("team-a", 6), ("team-b", 5), ("guide", 5)):
        await history.set_quota(name, most)
    await history.add_node(True)
    # No weather keeps these from the scheduler: who has not heard of a quota cannot hold to it.
    await asyncio.sleep(1.0)
    for step in taken:
        await carry_out(history, step)
    await history.settle()
