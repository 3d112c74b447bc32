# SPDX-License-Identifier: Apache-2.0
"""What is too old has a code of its own; what was never there is not found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.states.snapshot import Snapshot, Timestamped
from koord.agent.strategies import readings
from koord.agent.strategies.strategy import Tick
from koord.base.errors import Code, KoordError
from tests.agent.strategies.fakes import FakeReader

NOW_MS = 100_000
SEEN = Snapshot(pods=Timestamped((), 100.0), node=Timestamped(None, 100.0))


def tick(reader: FakeReader, snapshot: Snapshot = SEEN) -> Tick:
    nobody: Any = None  # asks the machine here
    return Tick(now_seconds=100.0, now_ms=NOW_MS, snapshot=snapshot, metrics=reader, machine=nobody)


def test_a_sample_that_is_too_old_is_no_sample_that_is_missing() -> None:
    reader = FakeReader()
    with pytest.raises(KoordError) as missing:
        readings.node_last(tick(reader), MetricKind.NODE_CPU_USAGE)
    assert missing.value.code is Code.NOT_FOUND
    reader.add(MetricKind.NODE_CPU_USAGE, NOW_MS - 2001, 1.5)
    for read in (
        lambda: readings.node_last(tick(reader), MetricKind.NODE_CPU_USAGE),
        lambda: readings.node_average(tick(reader), MetricKind.NODE_CPU_USAGE, 60),
    ):
        with pytest.raises(KoordError) as old:
            read()
        assert old.value.code is Code.TOO_OLD
        kind = MetricKind.NODE_CPU_USAGE
        expected = f"metric {kind}: age: got 'more', expected at most 2 s, to act upon"
        assert str(old.value) == expected
    reader.add(MetricKind.NODE_CPU_USAGE, NOW_MS - 2000, 2.5)
    assert readings.node_last(tick(reader), MetricKind.NODE_CPU_USAGE) == 2.5


def test_pods_that_are_too_old_and_pods_never_seen() -> None:
    reader = FakeReader()
    readings.check_fresh(tick(reader), readings.TO_EVICT)
    stale = replace(SEEN, pods=Timestamped((), 69.0))
    with pytest.raises(KoordError) as old:
        readings.check_fresh(tick(reader, stale), readings.TO_EVICT)
    assert old.value.code is Code.TOO_OLD
    assert str(old.value) == "pods: age: got 'more', expected at most 30 s, to act upon"
    with pytest.raises(KoordError) as missing:
        readings.check_fresh(tick(reader, Snapshot()), readings.TO_EVICT)
    assert missing.value.code is Code.NOT_FOUND


NAMES = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)


@given(NAMES, st.lists(st.tuples(NAMES, st.booleans()), max_size=4))
def test_aligned_rows_are_what_a_look_by_name_gives(
    keys: list[str], reads: list[tuple[list[str], bool]]
) -> None:
    aligned, labels = readings.AlignedRows(keys), [("a",)]
    for names, again in reads:
        # The same object again: whoever reads gives it while the series are the same.
        labels = labels if again else [(name,) for name in names]
        values = np.arange(len(labels)) + 0.5
        by_name = {label[0]: value for label, value in zip(labels, values, strict=True)}
        expected = [by_name.get(key, np.nan) for key in keys]
        np.testing.assert_array_equal(aligned.of(labels, values), expected)
