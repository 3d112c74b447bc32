# SPDX-License-Identifier: Apache-2.0
"""Refusals by row against a plain dict; what-ifs and the journal of the node table."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.cluster.node_table import Aspect
from koord.controllers.scheduler.framework.accounts import Accounts
from koord.controllers.scheduler.framework.diagnosis import Diagnosis
from koord.controllers.scheduler.framework.node_rejections import NodeRejections
from koord.controllers.scheduler.framework.rejection import Rejection
from tests.controllers.scheduler.pods import info, node, pod, table

_REJECTIONS = [
    Rejection("A", ("one",)),
    Rejection("A", ("one", "two")),
    Rejection("B", ("two",), unresolvable=True),
    Rejection("B", ("broken",), error=True),
]
_STEPS = st.lists(
    st.tuples(st.sampled_from(("put", "fill", "clear")), st.sets(st.integers(0, 7)),
              st.sampled_from(_REJECTIONS)),
    max_size=8,
)  # fmt: skip


@given(steps=_STEPS)
def test_like_a_dict(steps: list[tuple[str, set[int], Rejection]]) -> None:
    refusals, plain = NodeRejections(8), dict[int, Rejection]()
    for what, rows, rejection in steps:
        before, kept = refusals.copy(), dict(plain)
        mask = np.zeros(8, np.bool_)
        mask[list(rows)] = True
        if what == "put":
            refusals.put(np.flatnonzero(mask), [rejection] * len(rows))
        elif what == "fill":
            refusals.fill(mask, rejection)
        else:
            refusals.clear(np.flatnonzero(mask))
        for row in rows:
            if what == "clear":
                plain.pop(row, None)
            else:
                plain[row] = rejection
        assert dict(before) == kept
    assert dict(refusals) == plain
    assert len(refusals) == len(plain)
    assert [row in refusals for row in (-1, 8)] == [False, False]
    assert refusals.counts() == Counter(r for each in plain.values() for r in each.reasons)
    assert set(refusals.present()) == set(plain.values())
    mine, theirs = Diagnosis(8, None, refusals), Diagnosis(8, None, plain)
    assert mine.message() == theirs.message()
    assert (mine.plugins, mine.error) == (theirs.plugins, theirs.error)
    assert sorted(mine.resolvable().tolist()) == sorted(theirs.resolvable().tolist())


def test_the_journal_forgets_a_what_if() -> None:
    nodes = table(node("a"), node("b"))
    accounts = Accounts(nodes)
    accounts.add(0, info(pod("p")))
    seen = nodes.version
    with accounts.what_if():
        accounts.drop(next(iter(accounts.pods().values())))
        accounts.add(1, info(pod("q")))
    assert nodes.changes(seen) == {}
    nodes.touch(1, Aspect.LOAD)
    assert nodes.changes(seen) == {1: Aspect.LOAD}


def test_the_journal_keeps_what_somebody_has_seen() -> None:
    nodes = table(node("a"), node("b"))
    accounts = Accounts(nodes)
    before = nodes.version
    with accounts.what_if():
        accounts.add(1, info(pod("q")))
        during = nodes.version
    # An answer from inside must not pass for one about now, nor one from before.
    assert nodes.changes(during) == {1: Aspect.PODS}
    assert nodes.changes(before) == {1: Aspect.PODS}
