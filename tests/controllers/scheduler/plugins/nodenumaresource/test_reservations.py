# SPDX-License-Identifier: Apache-2.0
"""CPUs and zones that reservations hold: for their owners, and for everybody else."""

from __future__ import annotations

from typing import Any

import numpy as np

from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.nodenumaresource import reasons
from koord.controllers.scheduler.plugins.nodenumaresource.objects.allocation_annotation import (
    NUMAAllocation,
)
from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
    PLUGIN,
    RESTRICTED,
    MatchedReservation,
)
from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
    ReservationAllocation as Seat,
)
from tests.controllers.scheduler.plugins.nodenumaresource.cluster import Cluster
from tests.controllers.scheduler.plugins.nodenumaresource.test_plugin import SHORT

NAME = "NodeNUMAResource"
SINGLE = {"node.koordinator.sh/numa-topology-policy": "SingleNUMANode"}


class Nominator:
    """Says which reservation a pod gets."""

    def __init__(self, offer: MatchedReservation | None) -> None:
        self._offer = offer

    def nominate(self, cycle: Cycle, row: int) -> MatchedReservation | None:
        return self._offer


def reserved(cluster: Cluster, name: str, cpu: str, memory: str = "1Gi") -> PodInfo:
    """A reserve pod that has its CPUs."""
    info = cluster.info(name, cpu, memory)
    cluster.place(info)
    info.allocations[PLUGIN] = Seat("", "")
    return info


def offer(reserve: PodInfo, *owners: PodInfo, **more: Any) -> MatchedReservation:
    return MatchedReservation(
        reserve.uid, reserve.pod.metadata.name, reserve, {o.uid: o for o in owners},
        more.pop("policy", "Aligned"), frozenset(more.pop("restricted", {"cpu", "memory"})),
        {}, {}, {}, **more,
    )  # fmt: skip


def attempt(
    cluster: Cluster,
    info: PodInfo,
    *offers: MatchedReservation,
    chosen: MatchedReservation | None = None,
) -> tuple[str, Rejection | None]:
    """Places a pod that matches these reservations; its CPUs and why not."""
    cycle = Cycle(info, cluster.world.table)
    cycle.reservations = lambda row: offers
    cycle.state[PLUGIN] = Nominator(chosen)
    decision = cluster.decider.attempt(cycle)
    if decision.diagnosis is not None:
        return "", next(iter(decision.diagnosis.by_row.values()))
    for plugin in cluster.decider.plugins.reserve:
        refused = plugin.reserve(cycle, decision.row)
        if refused is not None:
            return "", refused
    if chosen is not None:
        info.allocations[PLUGIN] = Seat(chosen.uid, chosen.name)
    cluster.world.accounts.add(decision.row, info)
    held = info.allocations.get(NAME)
    return str(held.cpus) if held is not None else "", None


def small(**labels: Any) -> Cluster:
    cluster = Cluster()
    cluster.node("n0", (1, 1, 4, 2), labels=labels)
    return cluster


def test_owners_get_reserved_cpus_and_others_do_not() -> None:
    cluster = small()
    held = reserved(cluster, "r", "4")
    assert cluster.put("other", "6").endswith(f"1 {SHORT}.")
    deal = offer(held)
    assert attempt(cluster, cluster.info("a", "2"), deal, chosen=deal) == ("0-1", None)
    first = cluster.world.accounts.get("uid-a")
    assert first is not None
    deal = offer(held, first)
    assert attempt(cluster, cluster.info("b", "2"), deal, chosen=deal) == ("2-3", None)
    assert cluster.put("rest", "4") == "4-7"


def test_a_pod_may_use_reservation_and_node_together() -> None:
    cluster = small()
    held = reserved(cluster, "r", "4")
    deal = offer(held)
    assert attempt(cluster, cluster.info("a", "6"), deal, chosen=deal) == ("0-5", None)


def test_a_restricted_reservation_gives_its_own_only() -> None:
    cluster = small()
    held = reserved(cluster, "r", "4")
    deal = offer(held, policy=RESTRICTED, required=True)
    cpus, refused = attempt(cluster, cluster.info("a", "6"), deal, chosen=deal)
    assert (cpus, refused) == (
        "", Rejection(NAME, (f"Reservation(s) {SHORT}",))
    )  # fmt: skip
    assert attempt(cluster, cluster.info("b", "4"), deal, chosen=deal) == ("0-3", None)
    memory = offer(held, policy=RESTRICTED, restricted={"memory"})
    assert attempt(cluster, cluster.info("c", "2"), memory, chosen=memory) == ("4-5", None)


def test_who_needs_no_reservation_falls_back_to_the_node() -> None:
    cluster = small()
    held = reserved(cluster, "r", "2")
    deal = offer(held, policy=RESTRICTED)
    assert attempt(cluster, cluster.info("a", "4"), deal) == ("2-5", None)


def test_a_nominated_reservation_is_not_fallen_through() -> None:
    cluster = small()
    held = reserved(cluster, "r", "2")
    deal = offer(held, policy=RESTRICTED)
    _, refused = attempt(cluster, cluster.info("a", "4"), deal, chosen=deal)
    assert refused == Rejection(NAME, reasons.NOMINATED_BUT_UNUSABLE.reasons)


def test_who_must_have_a_reservation_gets_none_without_a_nomination() -> None:
    cluster = small()
    held = reserved(cluster, "r", "2")
    deal = offer(held, required=True)
    _, refused = attempt(cluster, cluster.info("a", "2"), deal)
    assert refused == Rejection(NAME, reasons.NO_NOMINATED_RESERVATION.reasons)


def test_one_reservations_cpus_are_not_taken_for_anothers() -> None:
    cluster = small()
    one, two = reserved(cluster, "r1", "2"), reserved(cluster, "r2", "2")
    deals = offer(one), offer(two)
    assert attempt(cluster, cluster.info("b", "8"), *deals, chosen=deals[0])[1] is not None
    assert attempt(cluster, cluster.info("c", "4"), *deals, chosen=deals[0]) == ("0-1,4-5", None)
    assert attempt(cluster, cluster.info("a", "2"), *deals, chosen=deals[1]) == ("2-3", None)


def test_who_ignores_reservations_takes_what_nobody_uses() -> None:
    cluster = small()
    held = reserved(cluster, "r", "6")
    label = {"scheduling.koordinator.sh/reservation-ignored": "true"}
    assert attempt(cluster, cluster.info("a", "4", labels=label), offer(held)) == ("0-3", None)


def test_a_reservation_takes_over_a_running_pods_cpus() -> None:
    cluster = small()
    running = cluster.info("old", "2")
    assert cluster.place(running) == "0-1"
    cluster.put("beside", "2")
    deal = offer(running, policy=RESTRICTED, pre_allocation=True)
    assert attempt(cluster, cluster.info("r", "4"), deal, chosen=deal) == ("0-1,4-5", None)


def test_zones_of_a_reservation_are_not_counted_twice() -> None:
    cluster = Cluster()
    cluster.node("n0", (2, 1, 4, 2), labels=SINGLE)
    held = reserved(cluster, "r", "8", "8Gi")
    deal = offer(held)
    assert attempt(cluster, cluster.info("a", "6", "6Gi"), deal, chosen=deal) == ("0-5", None)
    owner = cluster.world.accounts.get("uid-a")
    assert owner is not None
    # What the owner uses of the reservation leaves the rest of the zone as it was.
    assert cluster.put("small", "1", "8Gi", qos="LS") == ""
    other = cluster.world.accounts.get("uid-small")
    assert other is not None
    assert other.allocations[NAME].zones.keys() == {1}
    assert cluster.put("b", "2", "6Gi") == "8-9"
    deal = offer(held, owner)
    assert attempt(cluster, cluster.info("c", "2", "2Gi"), deal, chosen=deal) == ("6-7", None)


def test_which_reservation_would_do() -> None:
    cluster = Cluster()
    cluster.node("n0", (2, 1, 4, 2), labels=SINGLE)
    small_one, big = reserved(cluster, "r1", "2", "1Gi"), reserved(cluster, "r2", "6", "4Gi")
    deals = [offer(each, policy=RESTRICTED, required=True) for each in (small_one, big)]
    cycle = Cycle(cluster.info("a", "4", "1Gi"), cluster.world.table)
    cycle.reservations = lambda row: deals
    assert cluster.plugin.pre_filter(cycle) is None
    assert cluster.plugin.filter_reservation(cycle, 0, deals[0]) is not None
    assert cluster.plugin.filter_reservation(cycle, 0, deals[1]) is None


def test_amplified_nodes_let_owners_into_their_reservation() -> None:
    cluster = Cluster()
    ratio = {"node.koordinator.sh/resource-amplification-ratio": '{"cpu":1.5}'}
    cluster.node("n0", (1, 1, 4, 2), annotations=ratio, cpu="12")
    held = reserved(cluster, "r", "8")
    assert cluster.put("x", "1").endswith("1 Insufficient amplified cpu.")
    deal = offer(held)
    info = cluster.info("a", "4")
    cycle = Cycle(info, cluster.world.table)
    cycle.reservations = lambda row: [deal]
    gone = cluster.world.table.requested[:, 0] * 0
    gone[0] = 8000
    cycle.set_overlay(lambda row: gone)
    assert cluster.plugin.pre_filter(cycle) is None
    assert cluster.plugin.filter(cycle, np.array([0], np.intp)).tolist() == [True]
    assert isinstance(held.allocations[NAME], NUMAAllocation)
