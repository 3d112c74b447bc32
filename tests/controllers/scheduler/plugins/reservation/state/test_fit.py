# SPDX-License-Identifier: Apache-2.0
"""The fit rule by hand, asked for one row and for all at once.

Rule: docs/reference/reservations.md#what-is-free.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from koord.controllers.scheduler.config.args_gangs_and_quota import ReservationArgs
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.plugins.reservation.evaluation.cycle_state import state_of
from koord.controllers.scheduler.plugins.reservation.objects.reserve_pod import reserve_pod
from koord.controllers.scheduler.plugins.reservation.state import fit
from tests.controllers.scheduler.plugins.reservation.bench import (
    Bench,
    available,
    reservation,
    slots_of,
)
from tests.controllers.scheduler.pods import node, pod

PREFIX = "scheduling.koordinator.sh/"
OPTIONS = {f"{PREFIX}reservation-restricted-options": '{"resources":["cpu"]}'}
WITHHELD = {"node.koordinator.sh/reservation": '{"resources":{"cpu":"3"}}'}
GPU, NIC = "example.com/gpu", "other.io/nic"
BY_NAME = ReservationArgs(ignored_resources=(GPU,))
BY_GROUP = ReservationArgs(ignored_resource_groups=("example.com",))
OF_ANOTHER = ReservationArgs(ignored_resources=(NIC,), ignored_resource_groups=("example",))


def bench_of(args: ReservationArgs | None, owner: dict[str, str], **spec: Any) -> Bench:
    """16 CPUs, 32 GiB, 4 GPUs, 10 pods; R holds 4 CPUs, 8 GiB and a GPU, unless it says else."""
    offered = {GPU: "4"}
    bench = Bench(node("n", cpu="16", memory="32Gi", pods="10", allocatable=offered), args=args)
    status = {"allocatable": spec.pop("allocatable", {})}
    spec = {"allocatePolicy": "Restricted", "allocateOnce": False, **spec}
    bench.put(available("R", "n", requests=HELD, status=status, **spec))
    if owner:
        sits = {f"{PREFIX}reservation-allocated": '{"name":"R","uid":"r-R"}'}
        bench.bound(pod("owner", requests=owner, labels={"app": "R"}, annotations=sits), "n")
    return bench


def answers(bench: Bench, asks: dict[str, str], **affinity: Any) -> tuple[tuple[str, ...], bool]:
    """Why R will not do, and whether the columns say that it will."""
    notes = {f"{PREFIX}reservation-affinity": json.dumps(affinity)}
    wanted = pod("p", requests=asks, labels={"app": "R"}, annotations=notes)
    cycle = Cycle(bench.info(wanted), bench.table)
    assert bench.plugin.pre_filter(cycle) is None
    attempt, chooser = state_of(cycle).attempt, bench.plugin.chooser
    refusal = chooser.rejection(cycle, attempt, 0)
    (passes,) = chooser.passes(cycle, attempt, attempt.flat()).tolist()
    return refusal.reasons if refusal is not None else (), passes


HELD = {"cpu": "4", "memory": "8Gi", GPU: "1"}
NO_CPU, NO_GPU = "Reservation(s) Insufficient cpu", f"Reservation(s) Insufficient {GPU}"
NO_MEMORY, TOO_MANY = "Reservation(s) Insufficient memory", "Reservation(s) Too many pods"


@pytest.mark.parametrize(
    ("args", "owner", "asks", "why"),
    [
        (None, {}, HELD, []),
        (None, {}, {"cpu": "4001m"}, [NO_CPU]),
        (None, {}, {"cpu": "5", "memory": "9Gi", GPU: "2"}, [NO_CPU, NO_GPU, NO_MEMORY]),
        (None, {}, {GPU: "5"}, [f"Insufficient {GPU} by node", NO_GPU]),
        (None, {"cpu": "3"}, {"cpu": "1"}, []),
        (None, {"cpu": "3"}, {"cpu": "1001m"}, [NO_CPU]),
        # What others look after counts neither on the node nor in the reservation.
        (BY_NAME, {}, {"cpu": "1", GPU: "2"}, []),
        (BY_NAME, {}, {"cpu": "1", GPU: "5"}, []),
        (BY_NAME, {GPU: "1"}, {GPU: "1"}, []),
        (BY_NAME, {}, {"cpu": "5", GPU: "2"}, [NO_CPU]),
        (BY_GROUP, {}, {"cpu": "1", GPU: "2"}, []),
        (BY_GROUP, {GPU: "1"}, {GPU: "1"}, []),
        (BY_GROUP, {}, {"memory": "9Gi", GPU: "2"}, [NO_MEMORY]),
        (OF_ANOTHER, {}, {"cpu": "1", GPU: "2"}, [NO_GPU]),
        (OF_ANOTHER, {GPU: "1"}, {GPU: "1"}, [NO_GPU]),
    ],
)
def test_a_restricted_reservation(
    args: ReservationArgs | None, owner: dict[str, str], asks: dict[str, str], why: list[str]
) -> None:
    assert answers(bench_of(args, owner), asks) == (tuple(why), not why)


@pytest.mark.parametrize(
    ("spec", "owner", "asks", "why"),
    [
        ({"allocatePolicy": "Aligned"}, {}, {"cpu": "16"}, []),
        ({"allocatePolicy": "Aligned"}, {}, {"cpu": "17"}, ["Insufficient cpu by node"]),
        ({"allocatePolicy": ""}, {}, {"memory": "32Gi", GPU: "4"}, []),
        ({"annotations": OPTIONS}, {}, {"cpu": "4", "memory": "9Gi", GPU: "4"}, []),
        ({"annotations": OPTIONS}, {}, {"cpu": "5", "memory": "9Gi"}, [NO_CPU]),
        ({"annotations": WITHHELD}, {}, {"cpu": "1"}, []),
        ({"annotations": WITHHELD}, {}, {"cpu": "2"}, [NO_CPU]),
        ({"allocatable": {"pods": "2"}}, {"cpu": "1"}, {"cpu": "3"}, []),
        ({"allocatable": {"pods": "1"}}, {"cpu": "1"}, {"cpu": "4"}, [TOO_MANY, NO_CPU]),
        ({"allocatable": {"pods": "1"}, "allocatePolicy": "Aligned"}, {"cpu": "1"}, {}, []),
    ],
)
def test_what_a_reservation_says(
    spec: dict[str, Any], owner: dict[str, str], asks: dict[str, str], why: list[str]
) -> None:
    assert answers(bench_of(None, owner, **spec), asks) == (tuple(why), not why)


def test_amounts_are_told_of_a_reservation_that_is_named() -> None:
    bench = bench_of(None, {"cpu": "3"}, allocatable={"pods": "1"}, annotations=WITHHELD)
    assert answers(bench, {"cpu": "2", GPU: "2"}, name="R") == (
        (
            "Reservation(s) Too many pods, requested: 1, used: 1, capacity: 1",
            "Reservation(s) Insufficient cpu, requested: 2000, used: 3000, capacity: 1000",
            f"Reservation(s) Insufficient {GPU}, requested: 2, used: 0, capacity: 1",
        ),
        False,
    )


def test_places_are_counted_where_nothing_else_is_held() -> None:
    bench = Bench(node("n"))
    status = {"allocatable": {"pods": "1"}}
    bench.put(available("R", "n", allocateOnce=False, allocatePolicy="Restricted", status=status))
    assert answers(bench, {"cpu": "1"}) == ((), True)
    sits = {f"{PREFIX}reservation-allocated": '{"name":"R","uid":"r-R"}'}
    bench.bound(pod("owner", cpu="1", labels={"app": "R"}, annotations=sits), "n")
    assert answers(bench, {"cpu": "1"}) == ((TOO_MANY,), False)


def test_a_node_without_places() -> None:
    bench = Bench(node("n", pods="1"))
    bench.put(available("R", "n", cpu="4", allocateOnce=False))
    # A place is kept for the first owner.
    assert answers(bench, {"cpu": "1"}) == ((), True)
    bench.place(pod("owner", cpu="1", labels={"app": "R"}))
    assert answers(bench, {"cpu": "1"}) == (("Insufficient pods by node",), False)


def test_what_a_pod_does_not_ask_for_is_not_looked_at() -> None:
    """40 GiB of 32 are given out; a pod of CPU alone does not mind."""
    bench = bench_of(None, {})
    bench.bound(pod("big", memory="32Gi"), "n")
    assert answers(bench, {"cpu": "4"}) == ((), True)
    assert answers(bench, {"memory": "1Gi"}) == (("Insufficient memory by node",), False)


def test_native_resources_are_never_left_out() -> None:
    skipped = fit.IgnoredResources(["cpu", GPU], ["example.com"])
    bench = bench_of(None, {})
    record = bench.book.get("r-R")
    assert record is not None
    asks = {"cpu": 17_000, GPU: 5, "example.com/other": 1}
    assert fit.node_shortfall(bench.table, 0, asks, record, skipped) == ["cpu"]
    assert fit.reservation_shortfall(record, asks, skipped) == [NO_CPU]


@pytest.mark.parametrize(
    ("args", "taken"), [(None, ()), (BY_NAME, ("uid-running",)), (BY_GROUP, ("uid-running",))]
)
def test_a_pod_that_is_taken_over(args: ReservationArgs | None, taken: tuple[str, ...]) -> None:
    """It must fit the reservation: 2 GPUs do not fit in one, unless others look after GPUs."""
    bench = Bench(node("n", cpu="4", allocatable={GPU: "4"}), args=args)
    bench.bound(pod("running", cpu="2", requests={GPU: "2"}, labels={"app": "R"}), "n")
    value = reservation(
        "R", cpu="4", requests={GPU: "1"}, allocatePolicy="Restricted", preAllocation=True
    )
    bench.put(value)
    decision = bench.decide(reserve_pod(value))
    assert (decision.row >= 0) == bool(taken)
    if taken:
        assert bench.decider.assume(decision) is None
        assert decision.cycle.pod.allocations["Reservation"].pre_allocated == taken


@pytest.mark.parametrize(
    ("owner", "asks", "want"),
    [
        # 50 of CPU, 100 of memory, nothing of GPUs.
        ({}, {"cpu": "2", "memory": "8Gi"}, 50),
        ({"cpu": "1"}, {"cpu": "1", GPU: "1"}, 50),
        # More CPU than is held adds nothing: 100 of three parts.
        ({"cpu": "1"}, {"cpu": "4", GPU: "1"}, 33),
        ({}, {"cpu": "1"}, 8),
    ],
)
def test_scores(owner: dict[str, str], asks: dict[str, str], want: int) -> None:
    bench = bench_of(None, owner, allocatePolicy="Aligned")
    record = bench.book.get("r-R")
    assert record is not None
    request = bench.info(pod("p", requests=asks)).shape.request
    columns = bench.book.ledger.columns
    assert fit.score(record, request) == want
    assert columns.scores(slots_of(columns, record), request).tolist() == [want]
