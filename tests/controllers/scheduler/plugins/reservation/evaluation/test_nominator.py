# SPDX-License-Identifier: Apache-2.0
"""Nomination, scores, messages, reserve.

Rules: docs/reference/reservations.md#nomination and docs/reference/reservations.md#messages.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from koord.api.kinds.pod import Pod
from koord.controllers.scheduler.framework.plugin import Normalization
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.reservation.matched_reservation import holders, nominated
from koord.controllers.scheduler.plugins.reservation.state import fit
from tests.controllers.scheduler.plugins.reservation.bench import Bench, available, slots_of
from tests.controllers.scheduler.pods import node, pod

AFFINITY = "scheduling.koordinator.sh/reservation-affinity"
ORDER = "scheduling.koordinator.sh/reservation-order"
SCHEME = {"app": "R"}
FOR_R = [{"labelSelector": {"matchLabels": SCHEME}}]


def held(name: str, where: str, cpu: str, memory: str = "", **spec: Any) -> Any:
    return available(name, where, cpu, memory, owners=FOR_R, **spec)


def asks(cpu: str = "1", memory: str = "", **affinity: Any) -> Pod:
    given = {AFFINITY: json.dumps(affinity)} if affinity else {}
    return pod("p", cpu=cpu, memory=memory, labels=SCHEME, annotations=given)


def test_score_is_most_allocated() -> None:
    """docs/reference/reservations.md#nomination: a pod of 2 cores and 4 GiB."""
    bench = Bench(node("n", cpu="32", memory="64Gi"))
    bench.put(held("half", "n", "4", "8Gi"), held("full", "n", "2", "4Gi"))
    request = {"cpu": 2000, "memory": 4 * 2**30}
    scores = {r.name: fit.score(r, request) for r in bench.book.ledger.records.values()}
    assert scores == {"half": 50, "full": 100}
    assert fit.score(bench.book.get("r-full"), {"cpu": 3000}) == 0  # type: ignore[arg-type]
    assert bench.place(asks("2", "4Gi")) == ("n", "full")


def test_score_counts_places_of_pods() -> None:
    """Cores are full, memory is half full, none of the places counts: 150 / 3."""
    bench = Bench(node("n", cpu="32", memory="64Gi"))
    status = {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "4"}}
    bench.put(held("R", "n", "2", "8Gi", status=status))
    request = {"cpu": 2000, "memory": 4 * 2**30}
    record = bench.book.get("r-R")
    assert record is not None
    assert fit.score(record, request) == 50
    columns = bench.book.ledger.columns
    assert columns.scores(slots_of(columns, record), request).tolist() == [50]


def test_the_lowest_order_wins_on_a_node_and_among_nodes() -> None:
    bench = Bench(node("a"), node("b"), node("c"))
    bench.put(
        held("big", "a", "8"),
        held("second", "b", "2", labels={ORDER: "2"}),
        held("first", "c", "16", labels={ORDER: "1"}),
        held("also", "c", "1", labels={ORDER: "zero"}),
    )
    assert bench.place(asks("1")) == ("c", "first")
    assert bench.place(pod("q", cpu="1", labels=SCHEME)) == ("b", "second")
    assert bench.place(pod("s", cpu="1", labels=SCHEME)) == ("c", "also")
    assert bench.place(pod("t", cpu="1", labels=SCHEME)) == ("a", "big")


def test_an_order_counts_where_the_pod_gets_the_reservation() -> None:
    bench = Bench(node("a"), node("b"))
    small = held("small", "a", "1", labels={ORDER: "1"}, allocatePolicy="Restricted")
    bench.put(small, held("fits", "b", "8", labels={ORDER: "2"}, allocatePolicy="Restricted"))
    # It would be let onto a beside small, of which it gets nothing.
    assert bench.place(asks("2")) == ("b", "fits")


def test_equal_orders_go_by_the_name_of_the_node() -> None:
    bench = Bench(node("b"), node("a"))
    label = {ORDER: "5"}
    bench.put(held("x", "b", "2", labels=label), held("y", "a", "8", labels=label))
    assert bench.place(asks("1")) == ("a", "y")


def test_equal_scores_go_to_the_oldest_then_by_name() -> None:
    bench = Bench(node("n"))
    bench.put(
        held("c", "n", "2", created="2023-11-14T22:00:00Z"),
        held("b", "n", "2", created="2023-11-14T21:00:00Z"),
        held("a", "n", "2", created="2023-11-14T21:00:00Z"),
    )
    placed = [bench.place(pod(f"p{i}", cpu="1", labels=SCHEME))[1] for i in range(4)]
    assert placed == ["a", "b", "c", ""]


def test_a_node_with_a_reservation_is_preferred() -> None:
    bench = Bench(node("a"), node("b"))
    bench.put(held("R", "b", "4"))
    assert bench.place(asks("1")) == ("b", "R")


def test_allocate_once_is_used_once() -> None:
    bench = Bench(node("n", cpu="8"))
    bench.put(held("R", "n", "4"))
    assert bench.place(pod("p1", cpu="1", labels=SCHEME)) == ("n", "R")
    assert bench.place(pod("p2", cpu="1", labels=SCHEME)) == ("n", "")


def test_unreserve_gives_all_back() -> None:
    bench = Bench(node("n", cpu="8"))
    bench.put(held("R", "n", "4"))
    decision = bench.decide(asks("1"))
    before = bench.table.requested.copy()
    assert bench.decider.assume(decision) is None
    bench.decider.retract(decision)
    assert (bench.table.requested == before).all()
    assert not decision.cycle.pod.allocations
    assert bench.place(asks("1")) == ("n", "R")


def test_a_terminating_reservation_is_refused_at_reserve() -> None:
    bench = Bench(node("n", cpu="8"))
    bench.put(held("R", "n", "8", metadata={"deletionTimestamp": "2023-11-14T22:13:20Z"}))
    assert bench.place(asks("1", name="R")) == ("", "target reservation is terminating")


def test_messages_of_a_restricted_reservation() -> None:
    bench = Bench(node("n", cpu="32"))
    bench.put(held("R", "n", "6", allocateOnce=False, allocatePolicy="Restricted"))
    bench.place(pod("owner", cpu="4", labels=SCHEME))
    assert bench.place(asks("8", reservationSelector={}))[1] == (
        "0/1 nodes are available: 1 Reservation(s) Insufficient cpu. "
        "1 Reservation(s) matched owner total"
    )
    assert bench.place(asks("8", name="R"))[1] == (
        "0/1 nodes are available: "
        "1 Reservation(s) Insufficient cpu, requested: 8000, used: 4000, capacity: 6000. "
        "1 Reservation(s) exactly matches the requested reservation name, "
        "1 Reservation(s) matched owner total"
    )
    assert bench.events[-1] == (
        "FailedScheduling-Reservation",
        "0/1 reservations are available: 1 Reservation(s) exactly matches the requested "
        "reservation name, 1 Reservation(s) Insufficient cpu.",
    )


def test_too_many_pods_in_a_reservation() -> None:
    bench = Bench(node("n", cpu="32"))
    status = {"allocatable": {"cpu": "6", "pods": "1"}}
    bench.put(held("R", "n", "6", allocateOnce=False, allocatePolicy="Restricted", status=status))
    assert bench.place(asks("1", reservationSelector={})) == ("n", "R")
    assert (
        "1 Reservation(s) Too many pods"
        in bench.place(pod("q", cpu="1", labels=SCHEME, annotations={AFFINITY: "{}"}))[1]
    )


def test_the_node_lacks_what_the_reservation_does_not_hold() -> None:
    bench = Bench(node("n", cpu="8"), node("m", cpu="1"))
    bench.put(held("R", "n", "4"))
    bench.bound(pod("others", cpu="4"), "n")
    # Room (the stock filter) sees what R holds, and refuses first.
    assert bench.place(asks("5", reservationSelector={}))[1].startswith(
        "0/2 nodes are available: 1 Insufficient cpu, "
    )
    decision = bench.decide(asks("5", reservationSelector={}))
    attempt = decision.cycle.state["Reservation"].attempt
    refusal = bench.plugin.chooser.rejection(decision.cycle, attempt, 0)
    assert refusal == Rejection("Reservation", ("Insufficient cpu by node",))


def test_misses_are_counted() -> None:
    bench = Bench(node("n", cpu="32"))
    taint = [{"key": "koordinator.sh/pool", "value": "test", "effect": "NoSchedule"}]
    bench.put(
        held("closed", "n", "1", unschedulable=True),
        held("tainted", "n", "1", taints=taint),
        held("plain", "n", "1"),
        held("gold", "n", "1", labels={"tier": "gold"}),
    )
    wanted = {"reservationSelector": {"tier": "gold"}}
    placed = bench.place(
        pod("p", cpu="40", labels=SCHEME, annotations={AFFINITY: json.dumps(wanted)})
    )
    assert placed[1] == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "1 Reservation(s) didn't match affinity rules, 1 Reservation(s) is unschedulable, "
        "1 Reservation(s) had untolerated taint {koordinator.sh/pool: test}, "
        "1 Reservation(s) for node reason that Insufficient cpu, "
        "4 Reservation(s) matched owner total"
    )
    other = bench.place(asks("1", name="none"))[1]
    assert other == (
        "0/1 nodes are available: node(s) no reservations match reservation affinity. "
        "4 Reservation(s) didn't match the requested reservation name, "
        "4 Reservation(s) matched owner total"
    )
    exact = {"scheduling.koordinator.sh/exact-match-reservation": '{"resourceNames": ["cpu"]}'}
    only = pod("q", cpu="40", labels=SCHEME, annotations=exact)
    assert "3 Reservation(s) is not exact matched" in bench.place(only)[1]


def test_pods_that_no_reservation_is_for_are_told_nothing() -> None:
    bench = Bench(node("n", cpu="1"))
    bench.put(held("R", "n", "1"))
    assert bench.place(pod("p", cpu="2"))[1] == "0/1 nodes are available: 1 Insufficient cpu."
    assert not bench.events


class Fussy:
    """A plugin with a say: not the reservations it names, and a score."""

    name: ClassVar[str] = "Fussy"

    def __init__(self, refused: str = "", best: str = "") -> None:
        self.refused, self.best = refused, best

    def filter_reservation(self, cycle: Any, row: int, offer: Any) -> Rejection | None:
        return (
            Rejection("Fussy", ("Reservation(s) no card",)) if offer.name == self.refused else None
        )

    def score_reservation(self, cycle: Any, row: int, offer: Any) -> int:
        return 100 if offer.name == self.best else 0


def test_other_plugins_have_a_say() -> None:
    bench = Bench(node("n"), more=(Fussy(refused="small", best="big"),))
    bench.put(held("small", "n", "1"), held("mid", "n", "2"), held("big", "n", "8"))
    decision = bench.decide(asks("1"))
    offer = nominated(decision.cycle, 0)
    assert offer is not None
    assert (offer.name, offer.required, offer.remaining) == ("big", True, {"cpu": 8000})
    assert bench.place(asks("1")) == ("n", "big")
    only = Bench(node("n"), more=(Fussy(refused="small"),))
    only.put(held("small", "n", "1"))
    assert "1 Reservation(s) no card" in only.place(asks("1", reservationSelector={}))[1]
    assert only.place(asks("1")) == ("n", "")


class Raw:
    """Scores that are not within 0..100 until the best of them is."""

    name: ClassVar[str] = "Raw"
    reservation_normalization: ClassVar[Normalization] = Normalization.DEFAULT

    def __init__(self, **scores: int) -> None:
        self.scores = scores

    def score_reservation(self, cycle: Any, row: int, offer: Any) -> int:
        return self.scores[offer.name]


def test_scores_of_others_are_scaled_so_that_the_best_is_100() -> None:
    # Alone: 25 of R holding 4, 50 of S holding 2, 3 of T holding 32.
    def best(**scores: int) -> str:
        bench = Bench(node("n", cpu="64"), more=(Raw(**scores),))
        bench.put(held("R", "n", "4"), held("S", "n", "2"), held("T", "n", "32"))
        return bench.place(asks("1"))[1]

    assert best(R=0, S=0, T=0) == "S"
    # 25 + 100, 50 + 100 * 149 // 200, 3 + 0: 125, 124, 3.
    assert best(R=200, S=149, T=0) == "R"
    # 25 + 100, 50 + 75, 3 + 0: the first by name.
    assert best(R=200, S=150, T=0) == "R"
    assert best(R=200, S=152, T=0) == "S"
    # 25 + 33, 50 + 33, 3 + 100, where they were 35, 60 and 33.
    assert best(R=10, S=10, T=30) == "T"


def test_offers_say_who_sits_where() -> None:
    bench = Bench(node("n"))
    bench.put(held("R", "n", "8", allocateOnce=False, allocatePolicy="Restricted"))
    bench.place(pod("owner", cpu="3", labels=SCHEME))
    decision = bench.decide(asks("1"))
    (offer,) = decision.cycle.reservations(0)
    assert offer.is_restricted
    assert offer.restricted == {"cpu"}
    assert (offer.allocatable, offer.allocated, offer.remaining) == (
        {"cpu": 8000}, {"cpu": 3000}, {"cpu": 5000},
    )  # fmt: skip
    assert list(offer.owners) == ["uid-owner"]
    ((reserve, sitting),) = holders(bench.table.pods[0])
    assert reserve.uid == "r-R"
    assert list(sitting) == ["uid-owner"]
    overlay = decision.cycle.overlay(0)
    assert overlay is not None
    assert overlay[0] == 5000


def test_pods_that_match_nothing_have_no_overlay() -> None:
    bench = Bench(node("n"))
    bench.put(held("R", "n", "8"))
    decision = bench.decide(pod("p", cpu="1"))
    assert not decision.cycle.has_overlay
    assert not decision.cycle.state
    assert decision.cycle.reservations(0) == ()


def test_a_gate_skips_the_node() -> None:
    bench = Bench(node("n", cpu="8"), gates="SkipReservationFitsNode=true")
    bench.put(held("R", "n", "4"))
    bench.bound(pod("others", cpu="4"), "n")
    decision = bench.decide(asks("5", reservationSelector={}))
    attempt = decision.cycle.state["Reservation"].attempt
    assert bench.plugin.chooser.rejection(decision.cycle, attempt, 0) is None


def test_a_pod_that_insists_where_no_reservation_is_for_it_is_told_that() -> None:
    bench = Bench(node("n", cpu="32"))
    bench.place(asks("8", reservationSelector={}))
    assert bench.events[-1] == (
        "FailedScheduling-Reservation",
        "0/0 reservations are available: no reservation is for this pod.",
    )
