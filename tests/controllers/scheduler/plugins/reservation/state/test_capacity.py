# SPDX-License-Identifier: Apache-2.0
"""The capacity split: the worked example of the reference, and what stands beside it."""

from __future__ import annotations

from tests.controllers.scheduler.plugins.reservation.bench import Bench, available
from tests.controllers.scheduler.pods import node, pod


def split(policy: str) -> Bench:
    """32 cores: R holds 8, its owner uses 4, other pods 20."""
    bench = Bench(node("n", cpu="32"))
    bench.bound(pod("others", cpu="20"), "n")
    bench.put(available("R", "n", cpu="8", allocateOnce=False, allocatePolicy=policy))
    owner = pod("owner", cpu="4", labels={"app": "R"})
    assert bench.place(owner) == ("n", "R")
    return bench


def test_worked_example() -> None:
    """docs/reference/reservations.md#what-is-free."""
    bench = split("Aligned")
    assert bench.requested("n") == 28_000
    assert bench.decide(pod("free", cpu="4")).row == 0
    assert bench.decide(pod("much", cpu="4001m")).row == -1
    assert bench.place(pod("eight", cpu="8", labels={"app": "R"})) == ("n", "R")


def test_worked_example_aligned_takes_no_more_than_is_free() -> None:
    bench = split("")
    assert bench.decide(pod("eight", cpu="8001m", labels={"app": "R"})).row == -1


def test_worked_example_restricted() -> None:
    bench = split("Restricted")
    big = pod("eight", cpu="8", labels={"app": "R"}, annotations=AFFINITY)
    node_name, why = bench.place(big)
    assert not node_name
    assert "1 Reservation(s) Insufficient cpu" in why
    assert bench.place(pod("four", cpu="4", labels={"app": "R"})) == ("n", "R")


AFFINITY = {"scheduling.koordinator.sh/reservation-affinity": "{}"}


def test_owners_beyond_the_reservation_are_not_free_for_others() -> None:
    """Of a reservation and its owners the greater counts, by resource."""
    bench = split("Aligned")
    bench.place(pod("eight", cpu="8", labels={"app": "R"}))
    # 20 + 4 + 8 are all of the node; the original would show 4 more.
    assert bench.requested("n") == 32_000
    assert bench.decide(pod("one", cpu="1m")).row == -1


def test_amounts_come_back_as_they_went() -> None:
    bench = split("Aligned")
    table = bench.table
    before = table.requested.copy(), table.nonzero.copy()
    with bench.world.accounts.what_if():
        for info in list(table.pods[0].values()):
            bench.world.accounts.drop(info)
        assert not table.requested.any()
        assert not table.nonzero.any()
    assert (table.requested == before[0]).all()
    assert (table.nonzero == before[1]).all()


def test_the_reservation_may_come_after_its_owners() -> None:
    bench = Bench(node("n", cpu="32"))
    key = "scheduling.koordinator.sh/reservation-allocated"
    sits = {key: '{"name": "R", "uid": "r-R"}'}
    bench.bound(pod("owner", cpu="4", labels={"app": "R"}, annotations=sits), "n")
    assert bench.requested("n") == 4_000
    bench.put(available("R", "n", cpu="8", allocateOnce=False))
    assert bench.requested("n") == 8_000
    bench.remove("R")
    assert bench.requested("n") == 4_000


def test_a_pod_place_is_held_while_nobody_sits_there() -> None:
    bench = Bench(node("n", cpu="32", pods="1"))
    bench.put(available("R", "n", cpu="1"))
    assert bench.requested("n", "pods") == 1
    assert bench.decide(pod("other", cpu="1")).row == -1
    assert bench.place(pod("owner", cpu="1", labels={"app": "R"})) == ("n", "R")
    assert bench.requested("n", "pods") == 1


def test_withheld_resources_are_not_for_owners() -> None:
    held_back = {"node.koordinator.sh/reservation": '{"resources": {"cpu": "3"}}'}
    bench = Bench(node("n", cpu="8"))
    bench.put(available("R", "n", cpu="8", annotations=held_back, allocateOnce=False))
    labels = {"app": "R"}
    assert bench.decide(pod("six", cpu="6", labels=labels, annotations=AFFINITY)).row == -1
    assert bench.place(pod("five", cpu="5", labels=labels, annotations=AFFINITY)) == ("n", "R")


def test_restricted_options_limit_what_is_restricted() -> None:
    only = {"scheduling.koordinator.sh/reservation-restricted-options": '{"resources": ["cpu"]}'}
    bench = Bench(node("n", cpu="32", memory="64Gi"))
    bench.put(
        available(
            "R", "n", cpu="4", memory="4Gi", annotations=only, allocatePolicy="Restricted",
            allocateOnce=False,
        )
    )  # fmt: skip
    labels = {"app": "R"}
    assert bench.place(pod("a", cpu="2", memory="8Gi", labels=labels)) == ("n", "R")
    # Memory counts as used too, though it is not restricted.
    assert bench.requested("n", "memory") == 8 * 2**30
    again = pod("b", cpu="3", memory="1Gi", labels=labels, annotations=AFFINITY)
    assert "Reservation(s) Insufficient cpu" in bench.place(again)[1]


def test_ignored_resources_are_left_to_others() -> None:
    from koord.controllers.scheduler.config.args_gangs_and_quota import ReservationArgs

    args = ReservationArgs(ignored_resource_groups=["example.com"])
    for given, fits in ((args, True), (ReservationArgs(), False)):
        bench = Bench(node("n", cpu="32"), args=given)
        bench.put(available("R", "n", cpu="4", allocateOnce=False))
        asking = pod("a", cpu="1", requests={"example.com/card": "1"}, labels={"app": "R"})
        decision = bench.decide(asking)
        attempt = decision.cycle.state["Reservation"].attempt
        refusal = bench.plugin.chooser.rejection(decision.cycle, attempt, 0)
        assert (refusal is None) is fits
