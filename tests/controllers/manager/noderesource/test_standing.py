# SPDX-License-Identifier: Apache-2.0
"""What columns decide about nodes that stand is what is decided of each by itself."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import Node, NodeResourceTopology
from koord.api.protocol import keys
from koord.controllers.manager.noderesource import zones
from koord.controllers.manager.noderesource.changes import status_due, status_patch
from koord.controllers.manager.noderesource.plugins import Plugins
from koord.controllers.manager.noderesource.result import Result, Wanted
from koord.controllers.manager.noderesource.standing import Judged, Standing, read
from koord.controllers.manager.overcommit.batch import Offer
from koord.controllers.manager.overcommit.nodes import Degraded
from koord.controllers.manager.overcommit.zones import Zones
from tests.controllers.manager.noderesource import things

NAMES = (
    "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory",
    "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory",
)  # fmt: skip
BATCH = NAMES[:2]
NOW, PAUSE = 10_000.0, 300
OFFERS = Plugins(("MidResource", "BatchResource"), lambda *told: None)

# Close together, so that what differs by less than the threshold is among them.
amount = st.sampled_from([0, 1, 900, 1000, 1001, 1090, 1100, 1101, 1500, 2**40])
pair = st.tuples(amount, amount)
four = st.tuples(amount, amount, amount, amount)


class Case(NamedTuple):
    """A node that stands, and what it is to offer now.

    Attributes:
        shown: batch and mid, None for no such resources.
        origin: of batch, by name; None without the annotation.
        held: by third parties.
        speed: of its CPUs.
        zones: what two zones show, memory in thousandths; None for nothing.
        offered, zone_offers: now; None where the node offers nothing, or the zone is not there.
        share: ``resourceDiffThreshold``.
        ages: seconds since the node and its zones were written.
    """

    shown: tuple[int, int, int, int] | None
    origin: dict[str, int] | None
    held: tuple[int, int]
    speed: float | None
    zones: tuple[tuple[int, int] | None, ...]
    offered: tuple[int, int, int, int] | None
    zone_offers: tuple[tuple[int, int] | None, ...]
    share: float
    ages: tuple[float, float]

    def node(self) -> Node:
        shown = dict(zip(NAMES, map(str, self.shown), strict=True)) if self.shown else {}
        notes = {}
        if self.origin is not None:
            resources = {name: str(count) for name, count in self.origin.items()}
            notes[keys.ORIGIN_EXTENDED_ALLOCATABLE] = json.dumps({"resources": resources})
        if any(self.held):
            held = dict(zip(BATCH, map(str, self.held), strict=True))
            entry = {"name": "x", "priority": "koord-batch", "resources": held}
            notes[keys.THIRD_PARTY_ALLOCATIONS] = json.dumps({"allocations": [entry]})
        return things.node(shown, annotations=notes)

    def topology(self) -> NodeResourceTopology:
        def told(name: str, text: str) -> dict[str, str]:
            return {"name": name, "capacity": text, "allocatable": text, "available": text}

        return things.topology(
            [
                {
                    "name": f"node-{number}", "type": "Node",
                    "resources": [
                        told("cpu", "8"),
                        *([told(BATCH[0], str(shown[0])), told(BATCH[1], f"{shown[1]}m")]
                          if shown else []),
                    ],
                }
                for number, shown in enumerate(self.zones)
            ]
        )  # fmt: skip

    def result(self) -> Result:
        ratio = None if self.speed is None else f"{self.speed:.2f}"
        return Result({}, {} if ratio is None else {keys.CPU_NORMALIZATION_RATIO: ratio}, {})

    def judged(self) -> Judged:
        return Judged(self.node(), self.topology(), None, self.result(), True)

    def wanted(self) -> Wanted:
        """What plugins want of the node."""
        batch, mid = (self.offered[:2], self.offered[2:]) if self.offered else (None, None)
        seen = things.seen(self.node(), batch=batch, mid=mid)
        return OFFERS.wanted(seen.node, OFFERS.result(seen, True, self.result()))

    def plain(self) -> tuple[bool, float]:
        """Whether anything is written now, and else after how many seconds."""
        node, wanted, topology = self.node(), self.wanted(), self.topology()
        offers = {
            f"node-{number}": zones.amounts(*offer, self.speed or 1.0)
            for number, offer in enumerate(self.zone_offers)
            if offer is not None and self.offered is not None
        }
        late, zones_late = (age > PAUSE for age in self.ages)
        differs = status_patch(node, wanted) is not None
        due = status_due(node, wanted, self.share) or (late and differs)
        zones_differ = zones.patch(topology, offers, self.share, late=True) is not None
        zones_due = zones.patch(topology, offers, self.share, late=zones_late) is not None
        if due or zones_due:
            return True, float("inf")
        left = [
            max(0.0, PAUSE - age)
            for age, differ in zip(self.ages, (differs, zones_differ), strict=True)
            if differ
        ]
        return False, min(left, default=float("inf"))


zone = st.none() | pair
cases = st.builds(
    Case,
    shown=st.none() | four,
    origin=st.none() | st.dictionaries(st.sampled_from(BATCH), amount),
    held=st.just((0, 0)) | pair,
    speed=st.sampled_from([None, 1.0, 1.01, 1.22, 3.33]),
    zones=st.tuples(zone, zone),
    offered=st.none() | four,
    zone_offers=st.tuples(zone, zone),
    share=st.sampled_from([0.0, 0.05, 0.1, 1.0]),
    ages=st.tuples(*2 * [st.sampled_from([0.0, 299.0, 300.0, 301.0, float("inf")])]),
)


def ledger(rows: list[Case]) -> Any:
    """The columns that are read of a ledger."""

    def column(part: slice) -> Any:
        return np.array([(case.offered or (0, 0, 0, 0))[part] for case in rows], np.int64).T

    degraded = [Degraded.NO if case.offered else Degraded.EXPIRED for case in rows]
    there = np.array([[z is not None for z in case.zone_offers] for case in rows]).T
    amounts = [[z if z and case.offered else (0, 0) for z in case.zone_offers] for case in rows]
    reasons = np.array(degraded, np.uint8)
    return SimpleNamespace(
        batch=Offer(column(slice(0, 2)), reasons),
        mid=Offer(column(slice(2, 4)), reasons),
        zones=Zones(there, np.array(0), np.array(0)),
        zone_amounts=np.array(amounts, np.int64).transpose(2, 1, 0),
        settings=Settings(
            np.ones(len(rows), np.bool_),
            np.array([case.share for case in rows]),
            np.full(len(rows), PAUSE),
        ),
    )


class Settings(NamedTuple):
    """The part of settings that counts here."""

    enable: Any
    diff_threshold: Any
    update_seconds: Any


def standing(rows: list[Case]) -> Standing:
    found = Standing()
    for row, case in enumerate(rows):
        at = NOW - case.ages[0], NOW - case.ages[1]
        found.put(row, found.mark(row), case.judged(), at)
    return found


@given(rows=st.lists(cases, min_size=1, max_size=6))
def test_columns_decide_as_each_node_by_itself(rows: list[Case]) -> None:
    found, said, every = standing(rows), ledger(rows), np.arange(len(rows))
    assert found.stands(every).all()
    verdict = found.decide(said, every, NOW)
    for row, case in enumerate(rows):
        due, left = case.plain()
        assert bool(verdict.due[row]) is due, case
        assert verdict.left_seconds[row] == pytest.approx(left, abs=0.01), case
        asked = found.wanted(row)
        assert asked is not None
        assert _change(case.node(), asked) == _change(case.node(), case.wanted())
        assert found.follow(row, found.mark(row), case.judged(), (NOW, NOW))
    again = found.decide(said, every, NOW)
    assert not again.due.any()
    assert np.isinf(again.left_seconds).all(), "what was asked of it is shown"


def _change(node: Node, wanted: Wanted) -> Any:
    patch = status_patch(node, wanted)
    if patch is None:
        return None
    document = json.loads(patch.body)
    for text in (notes := document["metadata"].get("annotations", {})).copy():
        notes[text] = json.loads(notes[text])
    return document


CASE = Case(
    (1000, 1000, 5, 5), {BATCH[0]: 1000, BATCH[1]: 1000}, (0, 0), None, ((500, 5),),
    (1000, 1000, 5, 5), ((500, 5),), 0.1, (0.0, 0.0),
)  # fmt: skip


def test_a_node_stands_until_something_of_it_changes() -> None:
    found, judged = Standing(), CASE.judged()
    node, topology = judged.node, judged.topology
    assert found.result(0) is None
    found.put(0, found.mark(0), judged, (NOW, NOW))
    assert found.is_of(0, node, topology, None)
    assert found.is_of(0, CASE.node(), CASE.topology(), None), "told again"
    assert not found.is_of(0, node, None, None)
    assert not found.is_of(0, _version(""), topology, None), "nobody knows which state"
    assert not found.is_of(0, None, topology, None)
    assert not found.is_of(0, node, topology, things.device([]))
    assert found.is_of(0, _version("6"), topology, None), "late news"
    assert not found.is_of(0, _version("8"), topology, None)
    mark = found.mark(0)
    found.drop(0)
    found.put(0, mark, judged, (NOW, NOW))
    assert found.result(0) is None, "it changed while it was written"
    found.put(0, found.mark(0), judged, (NOW, NOW))
    found.clear()
    assert not found.stands(np.array([0])).any()


def _version(version: str) -> Node:
    other = CASE.node()
    other.metadata.resource_version = version
    return other


def test_who_writes_what_was_asked_before_has_not_done_what_is_asked_now() -> None:
    found = standing([CASE])
    assert found.wanted(0) is None, "nothing was asked yet"
    assert not found.follow(0, found.mark(0), CASE.judged(), (NOW, NOW))
    found.decide(ledger([CASE]), np.array([0]), NOW)
    before = found.mark(0)
    more = CASE._replace(offered=(3000, 3000, 5, 5))
    assert found.decide(ledger([more]), np.array([0]), NOW).due.all()
    assert not found.follow(0, before, CASE.judged(), (NOW, NOW))


def test_where_co_location_is_switched_plugins_have_to_look() -> None:
    found, said = standing([CASE]), ledger([CASE])
    said.settings.enable[0] = False
    assert found.decide(said, np.array([0]), NOW).due.all()
    assert found.result(0) is None


@pytest.mark.parametrize(
    "odd",
    [
        things.node({NAMES[0]: "1500m"}),
        things.node({NAMES[0]: "5"}, capacity={NAMES[0]: "6"}),
        things.node({NAMES[1]: str(2**60)}),
        things.node(annotations={keys.ORIGIN_EXTENDED_ALLOCATABLE: "{"}),
        things.node(
            annotations={keys.ORIGIN_EXTENDED_ALLOCATABLE: '{"resources":{"example.com/x":"1"}}'}
        ),
        things.node(annotations={keys.THIRD_PARTY_ALLOCATIONS: "{"}),
    ],
)
def test_columns_have_no_room_for_what_is_odd(odd: Node) -> None:
    assert read(odd, None) is None
    assert read(CASE.node(), CASE.topology()) is not None


@pytest.mark.parametrize("field", ["capacity", "allocatable", "available"])
def test_nor_for_zones_that_show_two_amounts(field: str) -> None:
    resource = {"name": BATCH[0], "capacity": "5", "allocatable": "5", "available": "5"}
    zone = {"name": "node-0", "type": "Node", "resources": [resource | {field: "6"}]}
    assert read(CASE.node(), things.topology([zone])) is None
    other = {"name": "cache", "type": "Socket", "resources": [resource]}
    assert read(CASE.node(), things.topology([other])) is None


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize(("age", "due"), [(299.0, False), (300.0, False), (300.5, True)])
def test_little_is_due_once_the_pause_is_over(part: int, age: float, due: bool) -> None:
    more = {"offered": (1001, 1000, 5, 5)} if part == 0 else {"zone_offers": ((501, 5),)}
    ages = (age, 0.0) if part == 0 else (0.0, age)
    case = CASE._replace(ages=ages, **more)  # type: ignore[arg-type]
    verdict = standing([case]).decide(ledger([case]), np.array([0]), NOW)
    assert case.plain()[0] is bool(verdict.due[0]) is due
    if not due:
        assert verdict.left_seconds[0] == pytest.approx(PAUSE - age, abs=0.01)
