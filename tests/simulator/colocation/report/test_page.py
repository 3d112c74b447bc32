# SPDX-License-Identifier: Apache-2.0
"""What the report says of known figures."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.simulator.colocation.report import charts, findings, summary
from koord.simulator.colocation.report.page import write_report
from koord.simulator.colocation.results.result import DaySeries
from tests.simulator.colocation.outcomes import outcome, run

if TYPE_CHECKING:
    from pathlib import Path

_VOID = {"meta", "br", "path", "use", "rect", "image", "line", "link"}


class _Balanced(HTMLParser):
    """Fails on an end tag that nothing opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        assert not any(
            name in ("src", "href") and str(value).startswith("http") for name, value in attrs
        )
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.open.pop() == tag


def test_the_document_is_what_scripts_are_promised() -> None:
    said = summary.document(outcome())
    assert json.loads(json.dumps(said)) == said
    assert said["cpu_utilisation_percent"]["with"] > said["cpu_utilisation_percent"]["without"]
    assert said["latency_sensitive_short_pod_minutes_percent"] == {"without": 0.0, "with": 0.7143}
    assert said["batch_core_hours"] == 28.0
    assert said["wasted_core_hours"] == 1.0
    assert (said["suppressions"], said["evictions"], said["seconds"]) == (120, 1, 2.5)


def test_the_page_is_one_whole_file_that_escapes_what_it_was_told(tmp_path: Path) -> None:
    path = write_report(outcome(), tmp_path / "new", "koord simulate colocation --seed <3>")
    text = path.read_text()
    assert "known &lt;figures&gt;" in text
    assert "--seed &lt;3&gt;" in text
    assert "pods that were short most" in text
    parser = _Balanced()
    parser.feed(text)
    assert parser.open == []
    assert parser.seen.count("svg") == 6
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["report.html"]
    assert (
        write_report(outcome(), tmp_path, "koord simulate colocation --seed <3>").read_text()
        == text
    )


def test_a_day_without_shortage_says_so(tmp_path: Path) -> None:
    calm = outcome()._replace(with_=run(14.0, 0.0))
    assert "No latency-sensitive pod was short" in write_report(calm, tmp_path, "").read_text()


def test_rows_compare_both_sides() -> None:
    rows = {row[0]: row[1:] for row in summary.rows(outcome())}
    assert rows["CPU utilisation"] == ("39.1 %", "54.7 %", "1.40x")
    assert rows["batch work done, core-hours"] == ("8", "28", "3.5x")
    assert summary.spread([outcome()])[0][0] == "3"


def test_several_seeds_end_with_their_mean_and_deviation() -> None:
    low = outcome()._replace(seed=4, with_=run(12.0, 0.0))
    rows = summary.spread([outcome(), low])
    assert [row[0] for row in rows] == ["3", "4", "mean", "deviation"]
    without, high = (float(text) for text in rows[0][1:3])
    least = float(rows[1][2])
    assert float(rows[2][2]) == pytest.approx((high + least) / 2, abs=0.01)
    assert float(rows[3][2]) == pytest.approx((high - least) / 2**0.5, abs=0.02)
    assert rows[2][1] == f"{without:.2f}"
    assert rows[3][1] == "0.00"


@given(st.integers(1, 3000), st.integers(0, 9))
def test_thinning_keeps_the_mean_of_whole_stretches(length: int, seed: int) -> None:
    values = np.random.default_rng(seed).random(length)
    found = charts.thin(values)
    assert len(found) <= 480
    size = -(-length // 480)
    expected = [values[at : at + size].mean() for at in range(0, length, size)]
    assert found == pytest.approx(expected)


def test_a_day_that_was_stopped_says_so(tmp_path: Path) -> None:
    whole = outcome()
    assert "partial" not in summary.document(whole)
    assert "Partial result" not in write_report(whole, tmp_path, "koord").read_text()
    hours = whole.scenario.hours
    stopped = whole._replace(requested_hours=24.0)
    assert next(iter(summary.document(stopped))) == "partial"
    assert summary.document(stopped)["partial"] == {"hours": hours, "of_hours": 24.0}
    text = write_report(stopped, tmp_path, "koord").read_text()
    assert f"<b>Partial result:</b> interrupted after {hours:.3g} of 24 hours." in text


def _series(**columns: list[float]) -> DaySeries:
    nothing = dict.fromkeys(DaySeries._fields, np.zeros(4))
    return DaySeries(**{**nothing, **{name: np.array(each) for name, each in columns.items()}})


def test_each_picture_says_in_a_sentence_what_to_see() -> None:
    low, high = _series(cpu_used=[8, 8, 8, 8]), _series(cpu_used=[10, 12, 14, 12])
    said = findings.utilisation({"without": low, "with co-location": high}, 20)
    assert said == "CPU in use: 60.0 % with co-location, 40.0 % without, 1.50 times as much."
    lent = _series(batch_offered_cores=[10, 10, 10, 10], cpu_batch=[9, 8, 9, 8])
    assert (
        findings.offers(lent)
        == "Batch used 85 % of what it was offered: 8 of 10 cores, on average."
    )
    assert findings.offers(low) == "Nothing was offered to batch."
    held = _series(suppressed_machines=[0, 1, 2, 1], evictions=[0, 0, 2, 0])
    said = "Batch was held back in 4 machine-minutes, 10 % of all, and 2 tasks were evicted."
    assert findings.protection(held, 10) == said
    part = _series(suppressed_machines=[0, 0.95, 1.95, 0.95], evictions=[0, 0, 0, 0])
    said = "Batch was held back in 4 machine-minutes, 10 % of all, and no task was evicted."
    assert findings.protection(part, 10) == said, "minutes as the table counts them"
    assert findings.protection(low, 10).endswith("0 % of all, and no task was evicted.")
    shares = {"without": np.full((2, 4), 0.3), "with": np.full((2, 4), 0.6)}
    said = "Four minutes of five a machine is between 60 and 60 % busy with"
    assert findings.machines(shares) == f"{said}, between 30 and 30 % without."


def test_colours_use_their_whole_range() -> None:
    assert charts.scale([np.array([0.0, 31.0]), np.array([58.0, 64.2])]) == (0, 70)
    assert charts.scale([np.array([41.0, 44.0])]) == (40, 50)
    assert charts.scale([np.array([100.0])]) == (90, 100)


def test_counts_have_whole_numbers_and_nothing_has_an_axis_of_its_own() -> None:
    ticks = re.compile(r"<text[^>]*>([^<]*)</text>")
    held = _series(hours=[0, 4, 8, 12], suppressed_machines=[0, 1, 0, 0])
    drawn = ticks.findall(charts.protection(held))
    assert "machines with suppressed batch" in drawn
    assert not [text for text in drawn if "." in text]
    assert "tasks evicted so far" not in drawn
    evicted = held._replace(evictions=np.array([0.0, 0, 3, 0]))
    assert "tasks evicted so far" in ticks.findall(charts.protection(evicted))


def test_bars_end_with_the_longest_shortage() -> None:
    day = outcome()

    def drawn(counts: list[int]) -> set[str]:
        shortage = day.with_.shortage
        padded = np.array(counts + [0] * (len(shortage.shortages_by_length) - len(counts)))
        told = shortage._replace(shortages_by_length=padded)
        picture = charts.shortage(day._replace(with_=day.with_._replace(shortage=told)))
        return set(re.findall(r"<text[^>]*>([^<]*)</text>", picture))

    assert "20" not in drawn([4, 1])
    assert "60+" not in drawn([4, 1])
    assert {"20", "60+"} <= drawn([0, 0, 0, 0, 0, 0, 1])


def test_pictures_take_the_ink_of_their_page() -> None:
    drawn = charts.offers(_series(hours=[0, 1, 2, 3]))
    assert "currentColor" in drawn
    assert not re.search("#000000|#010203|#ffffff|fill: white", drawn)


def test_gpu_hours_stand_where_there_are_gpus(tmp_path: Path) -> None:
    assert "GPU-hours" not in write_report(outcome(), tmp_path, "").read_text()


def test_a_pod_that_was_short_is_not_told_to_have_got_enough(tmp_path: Path) -> None:
    """Short is who got less than 95 %."""
    day = outcome()
    shortage = day.with_.shortage
    worst = tuple(each._replace(worst_grant=0.9496) for each in shortage.worst)
    services = [each._replace(worst_grant=0.9496) for each in shortage.services]
    told = shortage._replace(worst=worst, services=type(shortage.services)(services))
    text = write_report(
        day._replace(with_=day.with_._replace(shortage=told)), tmp_path, ""
    ).read_text()
    assert text.count(">94 %<") == len(worst) + len(services)
    assert ">95 %<" not in text
