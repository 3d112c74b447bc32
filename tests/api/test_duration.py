# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import Duration

SECOND = 1_000_000_000

READ = [
    ("0", 0, "0s"),
    ("-0", 0, "0s"),
    ("10m", 600 * SECOND, "10m0s"),
    ("5m0s", 300 * SECOND, "5m0s"),
    ("24h", 86400 * SECOND, "24h0m0s"),
    ("1h30m", 5400 * SECOND, "1h30m0s"),
    ("1.5h", 5400 * SECOND, "1h30m0s"),
    (".5s", SECOND // 2, "500ms"),
    ("1.s", SECOND, "1s"),
    ("+3s", 3 * SECOND, "3s"),
    ("-1.25s", -SECOND * 5 // 4, "-1.25s"),
    ("100us", 100_000, "100us"),
    ("100µs", 100_000, "100us"),
    ("7ns", 7, "7ns"),
    ("1.5ns", 1, "1ns"),
]


@pytest.mark.parametrize(("text", "nanoseconds", "written"), READ)
def test_reading(text: str, nanoseconds: int, written: str) -> None:
    duration = Duration.parse(text)
    assert duration.nanoseconds == nanoseconds
    assert str(duration) == text
    assert str(Duration(nanoseconds)) == written


@pytest.mark.parametrize(
    "text", ["", "-", "5", "1d", "s", ".s", "1h 30m", "1e3s", "300000h0m", "٣s", "1h-3m", "1_0s"]
)
def test_what_is_no_duration(text: str) -> None:
    if text == "300000h0m":  # 34 years fit; ten times as many do not
        assert Duration.parse(text).seconds == 300000 * 3600
        text = "3000000h"
    with pytest.raises(ValueError, match="expected a duration"):
        Duration.parse(text)


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_what_is_written_reads_back(nanoseconds: int) -> None:
    assert Duration.parse(str(Duration(nanoseconds))).nanoseconds == nanoseconds


@given(st.text("0123456789.hmsnuµ+-", max_size=8))
def test_text_is_read_or_refused(text: str) -> None:
    try:
        duration = Duration.parse(text)
    except ValueError:
        return
    assert Duration.parse(str(duration)) == duration


def test_order_goes_by_length() -> None:
    assert Duration.parse("60s") == Duration.parse("1m")
    assert hash(Duration.parse("60s")) == hash(Duration.parse("1m"))
    assert Duration.of_seconds(90) > Duration.parse("1m")
    assert Duration.of_seconds(90).seconds == 90
