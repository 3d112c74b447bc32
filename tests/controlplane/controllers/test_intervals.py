# SPDX-License-Identifier: Apache-2.0
"""Work on one key is spread over time, whatever the wall clock does."""

from __future__ import annotations

from koord.controlplane.controllers.base.intervals import KeyInterval


def test_a_key_waits_for_what_is_left_of_its_interval() -> None:
    interval = KeyInterval(15.0)
    assert interval.begin("a", 1000.0) is None
    assert interval.begin("a", 1010.0) == 5.0
    assert interval.begin("b", 1010.0) is None
    assert interval.begin("a", 1015.0) is None
    interval.forget("a")
    assert interval.begin("a", 1016.0) is None


def test_a_clock_that_is_put_back_keeps_nobody_waiting() -> None:
    interval = KeyInterval(15.0)
    assert interval.begin("a", 10_000.0) is None
    assert interval.begin("a", 6_400.0) is None
    assert interval.begin("a", 6_410.0) == 5.0
