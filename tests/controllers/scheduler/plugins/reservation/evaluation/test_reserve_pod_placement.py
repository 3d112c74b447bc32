# SPDX-License-Identifier: Apache-2.0
"""Where Reservations go, pods they take over, pods that work as reservations.

Rules: docs/reference/reservations.md#reserve-pods,
docs/reference/reservations.md#pre-allocation and docs/reference/reservations.md#operating-mode.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec import structs

from koord.api.kinds.pod import Pod
from koord.controllers.scheduler.config.args_gangs_and_quota import (
    PreAllocationConfig,
    ReservationArgs,
)
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.feasibility import best_node
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.reservation.explain.metrics import node_reservations
from koord.controllers.scheduler.plugins.reservation.objects.reserve_pod import reserve_pod
from koord.controllers.scheduler.queue.events import ASSIGNED_POD_DELETE
from tests.controllers.scheduler.plugins.event_hints import wakes
from tests.controllers.scheduler.plugins.reservation.bench import Bench, available, reservation
from tests.controllers.scheduler.pods import node, pod

PREFIX = "scheduling.koordinator.sh/"
SCHEME = {"app": "R"}
REQUIRED = {f"{PREFIX}pre-allocation-required": "true"}


def place(bench: Bench, value: Any) -> tuple[str, tuple[str, ...] | str]:
    """The node of a Reservation and the pods it takes over, or why not."""
    bench.put(value)
    decision = bench.decide(reserve_pod(value))
    if decision.row < 0:
        assert decision.diagnosis is not None
        return "", decision.diagnosis.message()
    assert bench.decider.assume(decision) is None
    allocation = decision.cycle.pod.allocations.get("Reservation")
    return bench.table.name(decision.row), allocation.pre_allocated if allocation else ()


def taking(cpu: str, **spec: Any) -> Any:
    spec = {"allocatePolicy": "Restricted", "preAllocation": True, "allocateOnce": False, **spec}
    return reservation("R", cpu=cpu, **spec)


def test_a_reservation_is_placed_as_a_pod() -> None:
    bench = Bench(node("a", cpu="2"), node("b", cpu="8"))
    assert place(bench, reservation("R", cpu="4")) == ("b", ())
    assert bench.requested("b") == 4000
    # It is of use once the API says that it is available.
    assert bench.decide(pod("p", cpu="6", labels=SCHEME)).row == -1


def test_pinned() -> None:
    template = {
        "spec": {
            "nodeName": "b",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}],
        }
    }
    assert place(Bench(node("a"), node("b")), reservation("R", template=template)) == ("b", ())
    assert place(Bench(node("a")), reservation("R", template=template))[1] == (
        "0/1 nodes are available: 1 node(s) didn't match the nodeName specified by reservation."
    )


def test_policies_do_not_mix_on_a_node() -> None:
    bench = Bench(node("n"))
    bench.put(available("old", "n", cpu="1"))
    assert place(bench, reservation("R", cpu="1", allocatePolicy="Aligned"))[1] == (
        "0/1 nodes are available: 1 node(s) reservation allocate policy conflict."
    )
    # The pod of another policy has the same shape.
    assert place(bench, reservation("S", cpu="1")) == ("n", ())
    assert not place(bench, reservation("T", cpu="1", allocatePolicy="Restricted"))[0]


CONFLICT = "0/1 nodes are available: 1 node(s) reservation allocate policy conflict."


def test_policies_of_used_up_reservations_do_not_matter() -> None:
    bench = Bench(node("n"))
    bench.put(available("old", "n", cpu="1"))
    aligned = reservation("R", cpu="1", allocatePolicy="Aligned")
    assert place(bench, aligned)[1] == CONFLICT
    assert bench.place(pod("owner", cpu="1", labels={"app": "old"})) == ("n", "old")
    assert place(bench, aligned) == ("n", ())


def test_a_reservation_counts_from_when_it_is_placed() -> None:
    bench = Bench(node("n"))
    assert place(bench, reservation("first", cpu="1")) == ("n", ())
    assert place(bench, reservation("R", cpu="1", allocatePolicy="Aligned"))[1] == CONFLICT


def test_who_waits_for_another_policy_is_tried_again_when_a_reservation_goes() -> None:
    bench = Bench(node("n"))
    old = available("old", "n", cpu="1")
    aligned = reservation("R", cpu="1", allocatePolicy="Aligned")
    bench.put(old, aligned)
    labels = {f"{PREFIX}operating-mode": "Reservation"}
    gone = bench.info(reserve_pod(old))
    for waits in (reserve_pod(aligned), pod("w", cpu="1", labels=labels)):
        assert wakes(bench.plugin, bench.info(waits), ASSIGNED_POD_DELETE, gone, None)
    plain = bench.info(pod("plain", cpu="1"))
    assert not wakes(bench.plugin, plain, ASSIGNED_POD_DELETE, gone, None)


def test_pods_that_work_as_reservations_are_aligned() -> None:
    bench = Bench(node("n"))
    works = working("w", "1")
    bench.views.view(Pod).put(works)
    bench.bound(works, "n")
    assert place(bench, reservation("R", cpu="1"))[1] == CONFLICT
    assert place(bench, reservation("S", cpu="1", allocatePolicy="Aligned")) == ("n", ())


def test_a_pod_that_will_work_as_a_reservation_is_aligned() -> None:
    bench = Bench(node("n"))
    bench.put(available("old", "n", cpu="1"))
    labels = {f"{PREFIX}operating-mode": "Reservation"}
    assert bench.place(pod("w", cpu="1", labels=labels)) == ("", CONFLICT)
    assert bench.place(pod("plain", cpu="1")) == ("n", "")
    bench.table.put(node("free", cpu="2"))
    assert bench.place(pod("v", cpu="1", labels=labels)) == ("free", "")
    aligned = Bench(node("n"))
    aligned.put(available("old", "n", cpu="1", allocatePolicy="Aligned"))
    assert aligned.place(pod("w", cpu="1", labels=labels)) == ("n", "")


def test_a_running_pod_is_taken_over() -> None:
    bench = Bench(node("n", cpu="8"))
    bench.bound(pod("owner", cpu="4", labels=SCHEME), "n")
    bench.bound(pod("other", cpu="2"), "n")
    assert place(bench, taking("6")) == ("n", ("uid-owner",))
    # 2 of others, and the reservation's 6, in which 4 are used.
    assert bench.requested("n") == 8000
    record = bench.book.get("r-R")
    assert record is not None
    assert record.used == {"cpu": 4000}
    owner = bench.world.accounts.get("uid-owner")
    assert owner is not None
    with bench.world.accounts.what_if():
        bench.world.accounts.drop(owner)
        assert record.used == {"cpu": 0}
        assert bench.requested("n") == 8000
    assert record.used == {"cpu": 4000}


def test_a_pod_that_does_not_fit_the_reservation_is_left_alone() -> None:
    bench = Bench(node("n", cpu="8"))
    bench.bound(pod("big", cpu="7", labels=SCHEME), "n")
    assert place(bench, taking("6"))[1] == ("0/1 nodes are available: 1 Insufficient cpu by node.")
    assert place(bench, taking("6", labels=REQUIRED))[1] == (
        "0/1 nodes are available: 1 Reservation(s) Insufficient cpu."
    )


def test_all_reasons_against_a_required_pod_are_told() -> None:
    class Refuses:
        name = "Refuses"

        def filter_reservation(self, cycle: Any, row: int, offer: Any) -> Rejection | None:
            no = Rejection("Refuses", ("Reservation(s) no card",))
            return no if offer.name == "odd" else None

    bench = Bench(node("n", cpu="8"), more=(Refuses(),))
    bench.bound(pod("big", cpu="7", labels=SCHEME), "n")
    bench.bound(pod("odd", cpu="1", labels=SCHEME), "n")
    bench.put(taking("6", labels=REQUIRED))
    cycle = Cycle(bench.info(reserve_pod(taking("6", labels=REQUIRED))), bench.table)
    assert bench.plugin.pre_filter(cycle) is None
    (refusal,) = bench.plugin.diagnose(cycle, np.array([0], np.intp))
    # With big there would be room for 6, which is not enough for 7; with odd 1 of 6 is free.
    assert sorted(refusal.reasons) == [
        "Insufficient cpu by node", "Reservation(s) Insufficient cpu", "Reservation(s) no card",
    ]  # fmt: skip
    several = taking("6", labels=REQUIRED, preAllocationPolicy={"enableMultiple": True})
    bench.put(several)
    cycle = Cycle(bench.info(reserve_pod(several)), bench.table)
    assert bench.plugin.pre_filter(cycle) is None
    (refusal,) = bench.plugin.diagnose(cycle, np.array([0], np.intp))
    # Of several the node is told of as it was with the last, big.
    assert sorted(refusal.reasons) == ["Reservation(s) Insufficient cpu", "Reservation(s) no card"]


def test_a_pod_that_uses_nothing_of_what_is_held_is_not_taken_over() -> None:
    bench = Bench(node("n", cpu="8"))
    bench.bound(pod("other", memory="1Gi", labels=SCHEME), "n")
    assert place(bench, taking("6", labels=REQUIRED))[1] == (
        "0/1 nodes are available: 1 node(s) no pod(s) to meet the pre-allocation requirements."
    )
    assert place(bench, taking("6")) == ("n", ())


def scores(bench: Bench, value: Any) -> list[int]:
    """What Reservation makes of each feasible node, as it is added up."""
    bench.put(value)
    cycle = Cycle(bench.info(reserve_pod(value)), bench.table)
    rows, _ = bench.decider.survey(cycle)
    verdict = bench.decider.evaluator.entry(cycle)
    _, parts = best_node.totals(cycle, verdict, [(bench.plugin, 1)], rows)
    return parts["Reservation"].tolist()


def test_the_node_of_the_pod_that_fills_it_best_is_taken() -> None:
    bench = Bench(node("a", cpu="8"), node("b", cpu="8"), node("c", cpu="8"))
    bench.bound(pod("half", cpu="3", labels=SCHEME), "a")
    bench.bound(pod("whole", cpu="6", labels=SCHEME), "b")
    assert scores(bench, taking("6")) == [50, 100, 0]
    assert place(bench, taking("6")) == ("b", ("uid-whole",))


def test_scores_of_reserve_pods_are_not_normalised() -> None:
    bench = Bench(node("a", cpu="8"), node("b", cpu="8"))
    bench.bound(pod("third", cpu="2", labels=SCHEME), "a")
    bench.bound(pod("half", cpu="3", labels=SCHEME), "b")
    assert scores(bench, taking("6")) == [33, 50]
    several = taking("6", preAllocationPolicy={"enableMultiple": True})
    bench.bound(pod("beside", cpu="2"), "a")
    bench.bound(pod("also", cpu="2", labels=SCHEME), "a")
    # On a 2 + 2 of 6 are taken over, on b 3.
    assert scores(bench, several) == [33, 50]
    assert place(bench, several) == ("b", ("uid-half",))


def test_pre_allocation_may_be_required() -> None:
    bench = Bench(node("a", cpu="32"), node("b", cpu="32"))
    assert place(bench, taking("4", labels=REQUIRED))[1] == (
        "0/2 nodes are available: node(s) no pod match reservation with pre allocation required."
    )
    bench = Bench(node("a", cpu="32"), node("b", cpu="32"))
    bench.bound(pod("owner", cpu="1", labels=SCHEME), "b")
    assert place(bench, taking("4", labels=REQUIRED)) == ("b", ("uid-owner",))


def test_the_best_pod_is_taken() -> None:
    bench = Bench(node("n", cpu="32"))
    for name, cpu in (("small", "1"), ("big", "4"), ("over", "5")):
        bench.bound(pod(name, cpu=cpu, labels=SCHEME), "n")
    assert place(bench, taking("4")) == ("n", ("uid-big",))


def test_several_pods_are_taken() -> None:
    bench = Bench(node("n", cpu="8"))
    for name, cpu in (("a", "1"), ("b", "3"), ("c", "2"), ("x", "2")):
        bench.bound(pod(name, cpu=cpu, labels=SCHEME if name != "x" else {}), "n")
    several = {"preAllocationPolicy": {"enableMultiple": True}}
    assert place(bench, taking("6", **several)) == ("n", ("uid-b", "uid-c", "uid-a"))


def test_none_is_taken_where_that_is_preferred() -> None:
    args = ReservationArgs(
        pre_allocation_config=PreAllocationConfig(prefer_no_pre_allocated_pods=True)
    )
    bench = Bench(node("n", cpu="32"), args=args)
    bench.bound(pod("owner", cpu="4", labels=SCHEME), "n")
    assert place(bench, taking("4")) == ("n", ())


def test_cluster_mode() -> None:
    cluster = {"preAllocationPolicy": {"mode": "Cluster"}}
    assert place(Bench(node("n")), taking("4", **cluster))[1] == (
        "0/1 nodes are available: "
        "reservation requires cluster mode pre-allocation which is disabled."
    )
    config = PreAllocationConfig(enable_cluster_mode=True)
    bench = Bench(node("n", cpu="4"), args=ReservationArgs(pre_allocation_config=config))
    label = {"pod.koordinator.sh/is-pre-allocatable": "true"}
    for name, priority in (("low", "1"), ("high", "9"), ("odd", "x")):
        annotations = {"pod.koordinator.sh/pre-allocatable-priority": priority}
        bench.bound(pod(name, cpu="1", labels=label, annotations=annotations), "n")
    several = {"preAllocationPolicy": {"mode": "Cluster", "enableMultiple": True}}
    assert place(bench, taking("3", **several)) == ("n", ("uid-high", "uid-low"))


def test_other_policies_wait_for_room() -> None:
    """The guide's batch jobs reserve with preAllocation and no policy."""
    bench = Bench(node("n", cpu="8"))
    bench.bound(pod("owner", cpu="4", labels=SCHEME), "n")
    assert place(bench, taking("4", allocatePolicy="")) == ("n", ())
    assert not place(Bench(node("n", cpu="2")), taking("4", allocatePolicy=""))[0]
    assert place(Bench(node("n")), taking("4", allocatePolicy="", labels=REQUIRED))[1] == (
        "0/1 nodes are available: "
        "node(s) reservation pre allocation is unsupported with current attributes."
    )


def working(name: str, cpu: str, *, ready: bool = True, **annotations: str) -> Pod:
    """A pod in operating mode, for pods of app R."""
    owners = '[{"labelSelector": {"matchLabels": {"app": "R"}}}]'
    given = {f"{PREFIX}reservation-owners": owners}
    given.update({f"{PREFIX}{key.replace('_', '-')}": text for key, text in annotations.items()})
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return pod(
        name, cpu=cpu, labels={f"{PREFIX}operating-mode": "Reservation"}, annotations=given,
        status={"phase": "Running", "conditions": conditions},
    )  # fmt: skip


def test_a_running_pod_works_as_a_reservation() -> None:
    bench = Bench(node("n", cpu="4"))
    bench.bound(working("host", "4"), "n")
    assert bench.decide(pod("other", cpu="1")).row == -1
    assert bench.place(pod("p", cpu="3", labels=SCHEME)) == ("n", "host")
    assert bench.requested("n") == 4000
    (item,) = node_reservations(bench.book, "n")["items"]
    assert (item["kind"], item["name"], item["allocated"]) == ("Pod", "host", {"cpu": "3"})


def test_only_while_it_is_ready_and_free() -> None:
    user = '{"namespace": "default", "name": "q"}'
    for host in (working("h", "4", ready=False), working("h", "4", reservation_current_owner=user)):
        bench = Bench(node("n", cpu="4"))
        bench.bound(host, "n")
        assert bench.decide(pod("p", cpu="3", labels=SCHEME)).row == -1


def test_it_becomes_ready() -> None:
    bench = Bench(node("n", cpu="4"))
    waiting, ready = working("h", "4", ready=False), working("h", "4")
    bench.views.view(Pod).put(waiting)
    bench.bound(waiting, "n")
    asking = pod("p", cpu="3", labels=SCHEME)
    assert bench.decide(asking).row == -1
    bench.views.view(Pod).put(ready)
    assert bench.decide(asking).row == 0
    info = bench.world.accounts.get("uid-h")
    assert info is not None
    bench.world.accounts.drop(info)
    assert not bench.book.ledger.records


def test_malformed_owners_make_it_unusable() -> None:
    bench = Bench(node("n", cpu="4"))
    bench.bound(working("h", "4", reservation_owners="{"), "n")
    record = bench.book.get("uid-h")
    assert record is not None
    assert record.error.startswith("Pod default/h: annotations[")
    assert bench.decide(pod("p", cpu="3", labels=SCHEME)).row == -1


def test_a_malformed_note_of_a_bound_pod_counts_as_none() -> None:
    bench = Bench(node("n", cpu="4"))
    bench.put(available("R", "n", cpu="2"))
    for number, text in enumerate(("{", '{"uid": 7}', "{}", "null")):
        info = bench.bound(
            pod(f"p{number}", cpu="1m", annotations={f"{PREFIX}reservation-allocated": text}), "n"
        )
        assert not info.allocations
    assert bench.requested("n") == 2004


def test_the_debug_answer() -> None:
    bench = Bench(node("n", cpu="32"))
    bench.put(available("R", "n", cpu="8", memory="1Gi", allocatePolicy="Restricted"))
    bench.place(pod("p", cpu="2", labels=SCHEME))
    assert bench.plugin.debug(["nodeReservations", "n"]) == {
        "items": [
            {
                "name": "R",
                "uid": "r-R",
                "kind": "Reservation",
                "available": True,
                "allocateOnce": True,
                "allocatable": {"cpu": "8", "memory": "1Gi"},
                "allocated": {"cpu": "2"},
                "owners": [{"labelSelector": {"matchLabels": {"app": "R"}}}],
                "allocatePolicy": "Restricted",
                "assignedPods": [
                    {
                        "namespace": "default",
                        "name": "p",
                        "uid": "uid-p",
                        "requests": {"cpu": "2"},
                    }
                ],
            }
        ]
    }
    with pytest.raises(KeyError, match="cannot find node none"):
        bench.plugin.debug(["nodeReservations", "none"])


def test_a_reservation_that_was_made_anew_is_another() -> None:
    bench = Bench(node("n", cpu="8"))
    first = available("R", "n", cpu="4")
    bench.put(first)
    metadata = structs.replace(first.metadata, uid="r-again")
    info = bench.world.accounts.get("r-R")
    assert info is not None
    bench.world.accounts.drop(info)
    bench.put(structs.replace(first, metadata=metadata))
    assert bench.place(pod("p", cpu="1", labels=SCHEME)) == ("n", "R")
    assert list(bench.book.ledger.records) == ["r-again"]
