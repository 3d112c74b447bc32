# SPDX-License-Identifier: Apache-2.0
"""What is said of all rows at once is what is said of each, and of it the plain functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.scheduler.config.args_gangs_and_quota import ReservationArgs
from koord.controllers.scheduler.framework.cycle import Cycle, stacked
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.reservation.evaluation.cycle_state import state_of
from tests.controllers.scheduler.plugins.reservation.bench import Bench, available
from tests.controllers.scheduler.pods import node, pod

NODES = 6
AFFINITY = {"scheduling.koordinator.sh/reservation-affinity": "{}"}
IGNORED = {"scheduling.koordinator.sh/reservation-ignored": "true"}
RESTRICTED = "scheduling.koordinator.sh/reservation-restricted-options"

held = st.fixed_dictionaries(
    {
        "node": st.integers(0, NODES - 1),
        "cpu": st.integers(1, 6),
        "memory": st.integers(0, 6),
        "gpu": st.integers(0, 2),
        "policy": st.sampled_from(("", "Aligned", "Restricted", "Restricted")),
        "order": st.sampled_from((0, 0, 0, 1)),
        "seats": st.sampled_from((None, None, 1, 2)),
        "only_cpu": st.booleans(),
    }
)
asked = st.fixed_dictionaries(
    {
        "cpu": st.integers(0, 8),
        "memory": st.integers(0, 8),
        "gpu": st.integers(0, 2),
        "required": st.booleans(),
        "ignores": st.sampled_from((False, False, False, True)),
    }
)


class Picky:
    """A partner that refuses rows of even number."""

    name = "Picky"

    def filter_reservation(self, cycle: Any, row: int, offer: Any) -> Rejection | None:
        return Rejection(self.name, ("even",)) if row % 2 == 0 else None


def _bench(reservations: list[dict[str, Any]], gates: str, picky: bool, skip: bool) -> Bench:
    offered = {"example.com/gpu": "3"}
    nodes = [
        node(f"n{i}", cpu="8", memory="8Gi", pods=str(3 + i % 2), allocatable=offered)
        for i in range(NODES)
    ]
    args = ReservationArgs(ignored_resources=("example.com/gpu",)) if skip else None
    bench = Bench(*nodes, args=args, gates=gates, more=(Picky(),) if picky else ())
    for number, each in enumerate(reservations):
        more = {"example.com/gpu": str(each["gpu"])} if each["gpu"] else {}
        seats = {"pods": str(each["seats"])} if each["seats"] else {}
        name, where = f"r{number}", f"n{each['node']}"
        amounts = {"cpu": str(each["cpu"]), "memory": f"{each['memory']}Gi", **more}
        notes = {RESTRICTED: '{"resources":["cpu"]}'} if each["only_cpu"] else {}
        bench.put(
            available(
                name, where, requests=amounts, allocateOnce=False, allocatePolicy=each["policy"],
                owners=[{"labelSelector": {"matchLabels": {"app": "x"}}}], annotations=notes,
                labels={"scheduling.koordinator.sh/reservation-order": str(each["order"])},
                status={"allocatable": {**amounts, **seats}},
            )
        )  # fmt: skip
    return bench


def _pod(name: str, ask: dict[str, Any]) -> Any:
    notes = AFFINITY if ask["required"] else {}
    more = {"example.com/gpu": str(ask["gpu"])} if ask["gpu"] else {}
    labels = {"app": "x", **(IGNORED if ask["ignores"] else {})}
    amounts = {"cpu": str(ask["cpu"]), "memory": f"{ask['memory']}Gi"}
    return pod(name, requests={**amounts, **more}, labels=labels, annotations=notes)


def _cycle(bench: Bench, ask: dict[str, Any], name: str) -> Cycle:
    cycle = Cycle(bench.info(_pod(name, ask)), bench.table)
    assert bench.plugin.pre_filter(cycle) is None
    return cycle


@given(
    st.lists(held, min_size=1, max_size=8), st.lists(asked, max_size=6), asked,
    st.sampled_from(("", "SkipReservationFitsNode=true")), st.booleans(), st.booleans(),
)  # fmt: skip
def test_all_rows_as_one_by_one(
    reservations: list[dict[str, Any]],
    before: list[dict[str, Any]],
    ask: dict[str, Any],
    gates: str,
    picky: bool,
    skip: bool,
) -> None:
    bench = _bench(reservations, gates, picky, skip)
    for number, each in enumerate(before):
        bench.place(_pod(f"b{number}", {**each, "ignores": False}))
    info = bench.info(_pod("p", ask))
    cycle = Cycle(info, bench.table)
    if bench.plugin.pre_filter(cycle) is not None or not bench.plugin.applies(cycle):
        return
    passes = bench.plugin.filter(cycle, slice(0, NODES))
    scores = bench.plugin.score(cycle, slice(0, NODES))
    rows = np.arange(NODES)
    assert passes.tolist() == bench.plugin.filter(cycle, rows).tolist()
    assert scores.tolist() == bench.plugin.score(cycle, rows).tolist()
    _overlays_agree(cycle, rows)


def _overlays_agree(cycle: Cycle, rows: Any) -> None:
    """Many rows, each thrice, so that they are more than a few."""
    many = np.repeat(rows, 7)
    found, plain = cycle.overlays(many), stacked(many, cycle.overlay)
    assert cycle.reserved(many).tolist() == [bool(cycle.reservations(row)) for row in many]
    if plain is None or found is None:
        assert plain is None
        assert found is None or not found.given.any()
        return
    order = np.argsort(found.places, kind="stable")
    size = max(len(found.given), len(plain.given))
    assert found.places[order].tolist() == plain.places.tolist()
    wide = [np.pad(given, ((0, size - len(given)), (0, 0)))
            for given in (found.given[:, order], plain.given)]  # fmt: skip
    assert (wide[0] == wide[1]).all()


def test_owners_are_counted_one_by_one_as_all_at_once() -> None:
    """A step a pod, also where it changed its shape while it sat."""
    bench = _bench([{"node": 0, "cpu": 6, "memory": 2, "gpu": 0, "policy": "Restricted",
                     "order": 0, "seats": None, "only_cpu": False}], "", False, False)  # fmt: skip
    base = {"cpu": 1, "memory": 1, "gpu": 0, "required": True, "ignores": False}
    for number in range(3):
        assert bench.place(_pod(f"p{number}", {**base, "memory": number % 2})) == ("n0", "r0")
    record = bench.book.get("r-r0")
    assert record is not None
    assert len(record.owners) == 3
    stepped = record.used, record.shared, record.shared_nonzero
    record.recount()
    assert stepped == (record.used, record.shared, record.shared_nonzero)
    for uid in list(record.owners):
        known = bench.world.accounts.get(uid)
        assert known is not None
        bench.world.accounts.drop(known)
    assert not record.owners
    assert not any(record.used.values())
    assert record.shared == {}
    assert record.shared_nonzero == (0, 0)
    assert state_of(_cycle(bench, base, "late")).attempt.records(0) == [record]
