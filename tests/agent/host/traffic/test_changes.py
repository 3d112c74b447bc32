# SPDX-License-Identifier: Apache-2.0
"""What is done to a link: literal steps, and any link against a plain model of HTB."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.host.traffic.changes import (
    LinkAction,
    LinkChange,
    LinkState,
    QdiscOwner,
    RootQdisc,
    changes_of,
    owner_of,
)
from koord.agent.host.traffic.plan import (
    BE,
    BE_GROUP,
    LAYOUT,
    LS_GROUP,
    ROOT,
    SYSTEM,
    SYSTEM_GROUP,
    TrafficClass,
    TrafficPlan,
    handle,
    plan_of,
)

DEFAULT, OURS = RootQdisc("noqueue", 0), RootQdisc("htb", 0x10000, 2)
FIXED = [TrafficClass(minor, parent, 1000, 5000, minor & 3) for minor, parent in LAYOUT.items()]
POD = TrafficClass(0x20, BE_GROUP, 1000, 2000, 3)
ORIGINALS = {
    minor: TrafficClass(minor, 0 if minor == ROOT else ROOT, 1000, 5000, minor - 1)
    for minor in range(ROOT, BE + 1)
}


def link(root: RootQdisc, *rows: TrafficClass) -> LinkState:
    return LinkState("eth0", root, {row.minor: row for row in rows})


def plan(*rows: TrafficClass) -> TrafficPlan:
    return TrafficPlan(rows)


@pytest.mark.parametrize(
    ("found", "owner"),
    [
        (link(DEFAULT), QdiscOwner.KERNEL),
        (link(RootQdisc("mq", 0)), QdiscOwner.KERNEL),
        (link(RootQdisc("fq_codel", 0x80010000)), QdiscOwner.OTHER),
        (link(RootQdisc("htb", 0x10000, 10), *FIXED), QdiscOwner.OTHER),
        (link(RootQdisc("htb", 0x20000, 2), *FIXED), QdiscOwner.OTHER),
        (link(OURS), QdiscOwner.KOORD),
        (link(OURS, *FIXED[:3]), QdiscOwner.KOORD),
        (link(OURS, *FIXED, POD), QdiscOwner.KOORD),
        (link(OURS, *FIXED, POD._replace(parent=BE)), QdiscOwner.OTHER),
        (link(OURS, *ORIGINALS.values()), QdiscOwner.ORIGINAL),
        (link(OURS, *ORIGINALS.values(), POD._replace(parent=ROOT)), QdiscOwner.ORIGINAL),
        (link(OURS, *[row._replace(priority=0) for row in ORIGINALS.values()]), QdiscOwner.OTHER),
        (link(OURS, ORIGINALS[ROOT], ORIGINALS[SYSTEM]), QdiscOwner.OTHER),
    ],
)
def test_whose_a_root_qdisc_is(found: LinkState, owner: QdiscOwner) -> None:
    assert owner_of(found) is owner


def test_steps() -> None:
    assert changes_of(link(DEFAULT), plan(*FIXED)) == [
        LinkChange(LinkAction.ADD_ROOT), *(LinkChange(LinkAction.ADD_CLASS, row) for row in FIXED),
    ]  # fmt: skip
    assert changes_of(link(OURS, *FIXED), plan(*FIXED)) == []
    assert changes_of(link(OURS, *FIXED), plan(*FIXED, POD)) == [
        LinkChange(LinkAction.ADD_CLASS, POD)
    ]
    more = POD._replace(ceil_bytes=3000)
    assert changes_of(link(OURS, *FIXED, POD), plan(*FIXED, more)) == [
        LinkChange(LinkAction.CHANGE_CLASS, more)
    ]
    moved = POD._replace(parent=LS_GROUP)
    assert changes_of(link(OURS, *FIXED, POD), plan(*FIXED, moved)) == [
        LinkChange(LinkAction.DELETE_CLASS, POD), LinkChange(LinkAction.ADD_CLASS, moved),
    ]  # fmt: skip
    assert changes_of(link(OURS, *FIXED, POD), plan()) == [LinkChange(LinkAction.DELETE_ROOT)]
    assert changes_of(link(DEFAULT), plan()) == []
    assert changes_of(link(RootQdisc("tbf", 0x80010000)), plan(*FIXED)) == []
    first = changes_of(link(OURS, *ORIGINALS.values()), plan(*FIXED))
    assert [step.action for step in first[:3]] == [
        LinkAction.DELETE_ROOT, LinkAction.ADD_ROOT, LinkAction.ADD_CLASS,
    ]  # fmt: skip


class Htb:
    """A link as the kernel has it: refuses what it would."""

    def __init__(self, found: LinkState) -> None:
        self.root, self.classes = found.root, dict(found.classes)

    def do(self, step: LinkChange) -> None:
        action, row = step
        if action is LinkAction.DELETE_ROOT:
            assert self.root.handle
            self.root, self.classes = DEFAULT, {}
        elif action is LinkAction.ADD_ROOT:
            assert self.root.handle == 0
            self.root = OURS
        else:
            assert row is not None
            assert self.root == OURS
            assert row.parent == 0 or row.parent in self.classes
            assert (row.minor in self.classes) is (action is not LinkAction.ADD_CLASS)
            if action is LinkAction.CHANGE_CLASS:
                assert self.classes[row.minor].parent == row.parent
            if action is LinkAction.DELETE_CLASS:
                assert all(each.parent != row.minor for each in self.classes.values())
                del self.classes[row.minor]
            else:
                self.classes[row.minor] = row


RATES = st.integers(1000, 10**14)
GROUPS = st.sampled_from([SYSTEM_GROUP, LS_GROUP, BE_GROUP])
PODS = st.lists(
    st.builds(TrafficClass, st.integers(0x10, 0x18), GROUPS, RATES, RATES, st.integers(1, 3)),
    max_size=6,
    unique_by=lambda row: row.minor,
)


@st.composite
def whole(draw: st.DrawFn) -> list[TrafficClass]:
    fixed = [
        TrafficClass(minor, parent, draw(RATES), draw(RATES), draw(st.integers(0, 3)))
        for minor, parent in LAYOUT.items()
    ]
    return fixed + draw(PODS)


FOUND = st.one_of(
    st.just(link(DEFAULT)),
    whole().map(lambda rows: link(OURS, *rows)),
    st.integers(0, 7).map(lambda n: link(OURS, *FIXED[:n])),
    st.just(link(OURS, *ORIGINALS.values())),
    st.just(link(RootQdisc("tbf", 0x80010000))),
)


@given(FOUND, st.one_of(whole(), st.just([])))
def test_steps_lead_to_the_plan_and_no_further(found: LinkState, rows: list[TrafficClass]) -> None:
    kernel = Htb(found)
    for step in changes_of(found, plan(*rows)):
        kernel.do(step)
    if owner_of(found) is QdiscOwner.OTHER:
        assert (kernel.root, kernel.classes) == (found.root, found.classes)
        return
    assert kernel.root == (OURS if rows else DEFAULT)
    assert kernel.classes == {row.minor: row for row in rows}
    assert changes_of(LinkState("eth0", kernel.root, kernel.classes), plan(*rows)) == []


@given(whole(), st.dictionaries(st.text(), st.integers(0, 0xFFFF), max_size=4))
def test_a_plan_is_read_as_it_was_written(rows: list[TrafficClass], names: dict[str, int]) -> None:
    made = TrafficPlan(tuple(rows), names, names)
    assert plan_of(made.text()) == made
    assert "\n" not in made.text()


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"classes":3}', "[" * 5000, "null", "1"])
def test_other_texts_are_no_plans(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        plan_of(text)


def test_handles_are_those_of_tc() -> None:
    assert f"{handle(BE_GROUP):#x}" == "0x1fff4"
    assert plan_of("") == TrafficPlan()
    assert TrafficPlan().text() == ""
