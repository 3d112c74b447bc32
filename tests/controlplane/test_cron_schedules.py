# SPDX-License-Identifier: Apache-2.0
"""Schedules of CronJobs: when they fire, as the library of kube-controller-manager says it."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from koord.controlplane.cron_schedules import ScheduleError, parse, zone_of

# What that library answered: the next times after one, daylight saving and leap days included.
FIRED = [
    (
        "*/15 * * * *",
        "UTC",
        "2026-01-01T00:07:30Z",
        [
            "2026-01-01T00:15:00Z",
            "2026-01-01T00:30:00Z",
            "2026-01-01T00:45:00Z",
            "2026-01-01T01:00:00Z",
        ],
    ),
    (
        "0 0 * * *",
        "UTC",
        "2026-02-27T12:00:00Z",
        [
            "2026-02-28T00:00:00Z",
            "2026-03-01T00:00:00Z",
            "2026-03-02T00:00:00Z",
            "2026-03-03T00:00:00Z",
        ],
    ),
    (
        "30 2 * * *",
        "America/New_York",
        "2026-03-07T12:00:00Z",
        [
            "2026-03-09T06:30:00Z",
            "2026-03-10T06:30:00Z",
            "2026-03-11T06:30:00Z",
            "2026-03-12T06:30:00Z",
        ],
    ),
    (
        "30 1 * * *",
        "America/New_York",
        "2026-10-31T12:00:00Z",
        [
            "2026-11-01T05:30:00Z",
            "2026-11-01T06:30:00Z",
            "2026-11-02T06:30:00Z",
            "2026-11-03T06:30:00Z",
        ],
    ),
    (
        "0 * * * *",
        "America/New_York",
        "2026-11-01T03:30:00Z",
        [
            "2026-11-01T04:00:00Z",
            "2026-11-01T05:00:00Z",
            "2026-11-01T06:00:00Z",
            "2026-11-01T07:00:00Z",
        ],
    ),
    (
        "15 */6 * * *",
        "Europe/Berlin",
        "2026-03-28T20:00:00Z",
        [
            "2026-03-28T23:15:00Z",
            "2026-03-29T04:15:00Z",
            "2026-03-29T10:15:00Z",
            "2026-03-29T16:15:00Z",
        ],
    ),
    (
        "0 0 * * *",
        "America/Sao_Paulo",
        "2017-10-14T12:00:00Z",
        [
            "2017-10-16T02:00:00Z",
            "2017-10-17T02:00:00Z",
            "2017-10-18T02:00:00Z",
            "2017-10-19T02:00:00Z",
        ],
    ),
    (
        "0 0 13 * 5",
        "UTC",
        "2026-01-01T00:00:00Z",
        [
            "2026-01-02T00:00:00Z",
            "2026-01-09T00:00:00Z",
            "2026-01-13T00:00:00Z",
            "2026-01-16T00:00:00Z",
        ],
    ),
    (
        "0 0 13 * *",
        "UTC",
        "2026-01-01T00:00:00Z",
        [
            "2026-01-13T00:00:00Z",
            "2026-02-13T00:00:00Z",
            "2026-03-13T00:00:00Z",
            "2026-04-13T00:00:00Z",
        ],
    ),
    (
        "0 12 */2 * 1",
        "UTC",
        "2026-01-01T00:00:00Z",
        [
            "2026-01-01T12:00:00Z",
            "2026-01-03T12:00:00Z",
            "2026-01-05T12:00:00Z",
            "2026-01-07T12:00:00Z",
        ],
    ),
    (
        "0 0 29 2 *",
        "UTC",
        "2025-03-01T00:00:00Z",
        [
            "2028-02-29T00:00:00Z",
            "2032-02-29T00:00:00Z",
            "2036-02-29T00:00:00Z",
            "2040-02-29T00:00:00Z",
        ],
    ),
    ("0 0 31 2 *", "UTC", "2025-03-01T00:00:00Z", []),
    (
        "5 4 * * sun",
        "Asia/Kolkata",
        "2026-01-01T00:00:00Z",
        [
            "2026-01-03T22:35:00Z",
            "2026-01-10T22:35:00Z",
            "2026-01-17T22:35:00Z",
            "2026-01-24T22:35:00Z",
        ],
    ),
    (
        "0 0 1 jan,jul *",
        "UTC",
        "2026-01-01T00:00:00Z",
        [
            "2026-07-01T00:00:00Z",
            "2027-01-01T00:00:00Z",
            "2027-07-01T00:00:00Z",
            "2028-01-01T00:00:00Z",
        ],
    ),
    (
        "0,59 23 28-31 * *",
        "UTC",
        "2026-02-28T23:00:00Z",
        [
            "2026-02-28T23:59:00Z",
            "2026-03-28T23:00:00Z",
            "2026-03-28T23:59:00Z",
            "2026-03-29T23:00:00Z",
        ],
    ),
    (
        "0 9-17/4 ? * MON-FRI",
        "Europe/London",
        "2026-10-23T16:00:00Z",
        [
            "2026-10-26T09:00:00Z",
            "2026-10-26T13:00:00Z",
            "2026-10-26T17:00:00Z",
            "2026-10-27T09:00:00Z",
        ],
    ),
    (
        "@weekly",
        "UTC",
        "2026-01-01T00:00:00Z",
        [
            "2026-01-04T00:00:00Z",
            "2026-01-11T00:00:00Z",
            "2026-01-18T00:00:00Z",
            "2026-01-25T00:00:00Z",
        ],
    ),
    (
        "@yearly",
        "UTC",
        "2026-01-01T00:00:00Z",
        [
            "2027-01-01T00:00:00Z",
            "2028-01-01T00:00:00Z",
            "2029-01-01T00:00:00Z",
            "2030-01-01T00:00:00Z",
        ],
    ),
    (
        "@every 1h30m",
        "UTC",
        "2026-01-01T00:00:10Z",
        [
            "2026-01-01T01:30:10Z",
            "2026-01-01T03:00:10Z",
            "2026-01-01T04:30:10Z",
            "2026-01-01T06:00:10Z",
        ],
    ),
    (
        "@every 300ms",
        "UTC",
        "2026-01-01T00:00:10Z",
        [
            "2026-01-01T00:00:11Z",
            "2026-01-01T00:00:12Z",
            "2026-01-01T00:00:13Z",
            "2026-01-01T00:00:14Z",
        ],
    ),
    (
        "* * * * *",
        "Australia/Lord_Howe",
        "2026-10-03T15:28:00Z",
        [
            "2026-10-03T15:29:00Z",
            "2026-10-03T15:30:00Z",
            "2026-10-03T15:31:00Z",
            "2026-10-03T15:32:00Z",
        ],
    ),
    (
        "0 */2 * * *",
        "Australia/Lord_Howe",
        "2026-10-03T12:28:00Z",
        [
            "2026-10-03T13:30:00Z",
            "2026-10-03T17:00:00Z",
            "2026-10-03T19:00:00Z",
            "2026-10-03T21:00:00Z",
        ],
    ),
    (
        "30 0 * * *",
        "Asia/Beirut",
        "2026-03-27T12:00:00Z",
        [
            "2026-03-27T22:30:00Z",
            "2026-03-29T21:30:00Z",
            "2026-03-30T21:30:00Z",
            "2026-03-31T21:30:00Z",
        ],
    ),
]


@pytest.mark.parametrize(("text", "zone", "start", "expected"), FIRED)
def test_a_schedule_fires_when_kubernetes_would(
    text: str, zone: str, start: str, expected: list[str]
) -> None:
    schedule = parse(text, zone_of(zone))
    fired: list[str] = []
    when: float | None = datetime.fromisoformat(start).timestamp()
    while len(fired) < 4 and when is not None:
        when = schedule.after(when)
        if when is not None:
            fired.append(datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    assert fired == expected


def test_what_never_comes_is_found_out_at_once() -> None:
    begun = time.process_time()
    for text in (", * * * *", "* , * * *", "0 0 30 2 *", "0 0 , * ,"):
        assert parse(text).after(1_900_000_000.0) is None
    assert parse("0 0 1 1 *").after(253_402_300_000.0) is None  # the end of the year 9999
    assert time.process_time() - begun < 2


def test_no_zone_of_the_machine_is_taken() -> None:
    for name in ("../etc/passwd", "/etc/localtime", "Europe", "Europe/Atlantis", "x" * 300):
        with pytest.raises(ScheduleError, match="unknown time zone"):
            zone_of(name)
