# SPDX-License-Identifier: Apache-2.0
"""The ring of past rounds: bounded whatever happens, quiet rounds in one entry."""

from __future__ import annotations

from koord.controllers.descheduler.framework.outcomes import RoundRecord
from koord.controllers.descheduler.framework.points import PodEviction
from koord.controllers.descheduler.round_history import MOST_OF_ROUND, RoundHistory
from koord.controllers.descheduler.snapshot import ClusterSnapshot
from tests.controllers.descheduler.world import pod

NOTHING = ClusterSnapshot(())


def _record(pods: int) -> RoundRecord:
    record = RoundRecord()
    for number in range(pods):
        record.evicted(pod(f"p{number}"), PodEviction("S", "why"))
    return record


def test_quiet_rounds_push_nothing_out() -> None:
    history = RoundHistory(False, rounds=3)
    history.add(_record(1), NOTHING, 100.0, 1.0)
    for at in range(200, 1200):
        history.add(_record(0), NOTHING, float(at), 1.0)
    quiet, busy = history.newest_first()
    assert (quiet.number, quiet.rounds, quiet.started, quiet.ended) == (2, 1000, 200.0, 1200.0)
    assert (busy.number, busy.counts) == (1, {"evicted": 1})
    assert (history.since, history.rounds) == (100.0, 1001)
    # Another error is another entry; the same one is not.
    for _ in range(2):
        history.add(_record(0), NOTHING, 1300.0, 1.0, "no nodes")
    assert [each.rounds for each in history.newest_first()] == [2, 1000, 1]


def test_rounds_and_outcomes_are_bounded() -> None:
    history = RoundHistory(True, rounds=3, outcomes=5)
    for at in range(10):
        history.add(_record(2), NOTHING, float(at), 1.0)
    assert [each.number for each in history.newest_first()] == [10, 9]
    assert history.since == 8.0
    # One round may have more than all may: it is the last one, and is kept.
    history.add(_record(MOST_OF_ROUND + 3), NOTHING, 11.0, 1.0)
    (only,) = history.newest_first()
    assert (len(only.outcomes), only.omitted) == (MOST_OF_ROUND, 3)
    assert only.counts == {"evicted": MOST_OF_ROUND + 3}
