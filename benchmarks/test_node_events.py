# SPDX-License-Identifier: Apache-2.0
"""Heartbeats of nodes: what nobody reads is told apart before it is decoded."""

from __future__ import annotations

from benchmarks.conftest import Record
from benchmarks.node_events import measure
from benchmarks.ratio import Ratio

NODES, EVENTS, AT_LEAST = 300, 1500, 2.0


def test_heartbeats_beside_decoding_them(record: Record) -> None:
    ratio = Ratio(float("inf"), float("inf"))
    for _ in range(4):
        ours, decoded = (measure("heartbeats", NODES, EVENTS, apart) for apart in (True, False))
        assert (ours.told, decoded.told) == (0, EVENTS)
        ratio = ratio.and_again(Ratio(ours.seconds, decoded.seconds))
        if ratio.times_faster >= AT_LEAST:
            break
    record("informer: Nodes of 5 KB with new times alone, beside decoding them", ratio, AT_LEAST)


def test_what_is_read_is_told_of() -> None:
    assert measure("cordons", nodes=100, events=300).told == 300
