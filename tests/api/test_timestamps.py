# SPDX-License-Identifier: Apache-2.0
"""Moments as the API writes them, against the standard library's reader."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from koord.api.timestamps import micros_text, seconds_text

ZONES = st.builds(lambda minutes: timezone(timedelta(minutes=minutes)), st.integers(-720, 720))
MOMENTS = st.datetimes(datetime(1970, 1, 2), datetime(9999, 1, 1), timezones=ZONES)


@given(MOMENTS)
def test_a_moment_is_written_in_utc(moment: datetime) -> None:
    assert datetime.fromisoformat(micros_text(moment)) == moment
    assert seconds_text(moment).endswith("Z")
    assert datetime.fromisoformat(seconds_text(moment)) == moment.replace(microsecond=0)


@given(st.integers(0, 1 << 36))
def test_seconds_since_the_epoch(seconds: int) -> None:
    assert datetime.fromisoformat(seconds_text(seconds)) == datetime.fromtimestamp(seconds, UTC)
