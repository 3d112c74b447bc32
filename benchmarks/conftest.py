# SPDX-License-Identifier: Apache-2.0
"""The ``gate`` fixture and the table printed at the end.

Ours is timed by pytest-benchmark too, so that its calibrated statistics and ``--benchmark-compare``
serve; the ratio goes into ``extra_info`` and is what gates.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.ratio import Ratio, compare

pytest_plugins = ["tests.retries"]

# Under this name the report of a test has a ratio, so that it reaches the table from any worker.
_RATIO = "ratio"

# A neighbour that held the machine through one measurement does not through three.
RETRIES = 2

Gate = Callable[[str, Callable[[], object], Callable[[], object], float], Ratio]


Record = Callable[[str, Ratio, float], None]


@pytest.fixture
def record(record_property: Callable[[str, object], None]) -> Record:
    """Puts a ratio into the table and gates it, for a test that times both sides by itself."""

    def check(name: str, ratio: Ratio, at_least: float) -> None:
        record_property(_RATIO, [name, ratio.ours_seconds, ratio.reference_seconds, at_least])
        assert ratio.times_faster >= at_least, (
            f"{name}: {ratio.times_faster:.2f}x the reference, gate {at_least}x"
        )

    return check


@pytest.fixture
def gate(benchmark, record: Record) -> Gate:
    def check(
        name: str, ours: Callable[[], object], reference: Callable[[], object], at_least: float
    ) -> Ratio:
        """Fails unless ours is at least so many times as fast as the reference."""
        ratio = compare(ours, reference)
        for _ in range(RETRIES):
            if ratio.times_faster >= at_least:
                break
            ratio = ratio.and_again(compare(ours, reference))
        benchmark.extra_info.update(
            name=name, times_faster=ratio.times_faster, reference_seconds=ratio.reference_seconds
        )
        benchmark.pedantic(ours, rounds=5, warmup_rounds=1)
        record(name, ratio, at_least)
        return ratio

    return check


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter) -> None:
    reports = [each for some in terminalreporter.stats.values() for each in some]
    found = [
        value
        for report in reports
        if getattr(report, "when", "") == "call"
        for key, value in report.user_properties
        if key == _RATIO
    ]
    if not found:
        return
    rows = [(name, Ratio(ours, theirs), at_least) for name, ours, theirs, at_least in sorted(found)]
    terminalreporter.section("ratios (reference / ours, same run)")
    width = max(len(name) for name, _, _ in rows)
    for name, ratio, at_least in rows:
        terminalreporter.write_line(
            f"{name:<{width}}  ours {_human(ratio.ours_seconds):>9}  reference "
            f"{_human(ratio.reference_seconds):>9}  {ratio.times_faster:9.2f}x  gate {at_least:g}x"
        )


def _human(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.2f} {unit}"
    return f"{seconds / 1e-9:.0f} ns"
