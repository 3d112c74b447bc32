# SPDX-License-Identifier: Apache-2.0
"""What is kept of a run, what is told of it, and the report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.simulator.live import notable_events, page, summary
from koord.simulator.live import run_record as records
from koord.simulator.live.initial_config import SETTINGS
from koord.simulator.live.run_record import RunRecord

from .samples import CPUS, MACHINES, eviction, record, sample

CORES = st.lists(st.floats(0, CPUS / 4), min_size=MACHINES, max_size=MACHINES)
SHARES = st.lists(st.sampled_from([0.2, 0.94, 0.96, 1.0]), min_size=MACHINES, max_size=MACHINES)
MINUTES = st.lists(st.tuples(CORES, CORES, CORES, SHARES, st.integers(0, 3)), min_size=1)


@given(MINUTES)
def test_the_series_are_the_samples_added_up(minutes: list[tuple[list[float], ...]]) -> None:
    kept = RunRecord(["a", "b", "c"], [CPUS] * MACHINES)
    told = []
    for minute, (services, batch, offered, held, evicted) in enumerate(minutes):
        now = sample(minute, services=services, batch=batch, offered=offered, held=held)
        told += kept.add(now, [eviction(minute, 2)] * evicted)  # type: ignore[operator]
    series, machines = kept.series(), kept.machines()
    for minute, (services, batch, offered, held, evicted) in enumerate(minutes):
        assert series.hours[minute] == pytest.approx(minute / 60)
        assert series.cpu_services[minute] == pytest.approx(sum(services))
        assert series.cpu_used[minute] == pytest.approx(sum(services) + sum(batch))
        assert series.batch_offered_cores[minute] == pytest.approx(sum(offered))
        assert series.suppressed_machines[minute] == sum(share < 0.95 for share in held)
        assert series.evictions[minute] == evicted
        assert machines.cpu_share[0, minute] == pytest.approx((services[0] + batch[0]) / CPUS)
    assert records.alone(series).cpu_used == pytest.approx(series.cpu_services)
    assert kept.evicted()[2] == sum(minute[4] for minute in minutes)  # type: ignore[misc]
    assert told == list(kept.happenings)
    # Who is held down now is who was told of as suppressed more often than as released.
    assert sum(each.what == "evicted" for each in told) == kept.evicted().sum()


@given(st.lists(SHARES, min_size=1, max_size=20))
def test_every_change_of_suppression_is_told_once(history: list[list[float]]) -> None:
    names, held, before = ["a", "b", "c"], set[str](), None
    for minute, shares in enumerate(history):
        now = sample(minute, held=shares)
        for each in notable_events.of_suppression(before, now, names):
            changed = set(each.text.replace(",", "").split()[: len(names)]) & set(names)
            assert changed
            held = held | changed if each.what == "suppressed" else held - changed
        assert held == {name for name, share in zip(names, shares, strict=True) if share < 0.95}
        before = now


def test_small_moves_of_the_offer_are_not_told() -> None:
    capacity = float(CPUS * MACHINES)
    assert notable_events.of_offer(30.0, sample(offered=[11, 11, 11]), capacity) is None
    told = notable_events.of_offer(30.0, sample(offered=[8, 8, 9]), capacity)
    assert told is not None
    assert told.text == "25 cores offered to batch (-5)"


def test_an_eviction_says_who_where_and_why() -> None:
    told = notable_events.of_eviction(eviction(1, 1), ["a", "b"])
    assert told.text == (
        "train-1-1 evicted from b: batch was left less than 60 % of the CPU that it asks for"
    )
    assert notable_events.why("Unheard") == "Unheard"


def test_many_machines_are_counted_not_listed() -> None:
    names = [f"n{row}" for row in range(9)]
    now = sample()._replace(held=np.full(9, 0.5))
    (told,) = notable_events.of_suppression(None, now, names)
    assert told.text == "n0, n1, n2 and 6 more hold batch down, to 50 % of its wish at the least"


def test_the_figures() -> None:
    figures = summary.document(record(), 7, 9, 58.0)
    json.dumps(figures, allow_nan=False)
    assert figures["hours"] == pytest.approx(1)
    assert figures["evictions"] == {"BECPUEvict": 1}
    assert figures["batch_tasks"] == {"submitted": 9, "finished": 6, "running": 6, "waiting": 2}
    assert figures["suppressed_machine_minutes"] == 20
    used = figures["cpu_utilisation_percent"]
    assert used["services_alone"] == pytest.approx(100 * (5 + 3.05 + 0.5) / CPUS, abs=1e-3)
    batch = figures["batch_core_hours"] * 100 / (CPUS * MACHINES)
    assert used["with_batch"] == pytest.approx(used["services_alone"] + batch, abs=1e-3)
    assert all(len(row) == 2 for row in summary.rows(figures))


def test_nothing_seen_gives_figures_too() -> None:
    figures = summary.document(RunRecord([], []), 0, 0, 0.0)
    assert figures["cpu_utilisation_percent"] == {"services_alone": 0.0, "with_batch": 0.0}


def test_the_report_stands_alone(tmp_path: Path) -> None:
    kept = record()
    figures = summary.document(kept, 7, 9, 58.0)
    path = page.write_report(kept, figures, tmp_path / "deep" / "er", "koord up <now>")
    text = path.read_text(encoding="utf-8")
    assert text.count("<svg") == 4
    assert "koord up &lt;now&gt;" in text
    assert "default/train-1-1" in text
    assert "node-0 holds batch down" in text
    assert text.count('<th class="text">') == 1 + 2 + 5, "sentences begin on the left"
    assert "these by up to 40 %" in text, "why its day evicts and another does not"
    assert str(next(iter(SETTINGS))) in text
    for outside in ('src="http', 'href="http', "@import"):
        assert outside not in text
